"""Names that users expect on models, optimizers, data and training loops, and what to write here instead."""

from __future__ import annotations

from ocannl.base.spelling import CONTEXT_ANSWER, Names, rows

_RUN_UPDATE = (
    "write step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss))), and step() for each batch"
)
_ZERO = "train.grad_update(loss) sets gradients to zero before it adds to them"
_FIT = "write train.fit(net, loss=oc.cross_entropy, optimizer=train.adam, data=train.batches(...))"
_SAVE = "write oc.save(path, ctx, net)"
_LOAD = "write oc.load(path, ctx, net)"
_BATCHES = "write train.batches(source, size, shuffle=0), with inputs={x: ..., t: ...} for placeholders"
_SCALE = "write train.fit(..., scale=train.LossScale()), or oc.seq of scale.step(loss, train.adam(loss))"
_AVERAGES = "write average = train.EMA(loss), average.update after the optimizer, and `with average.swapped(ctx):`"
_NOT_PROVIDED = "it is not provided; write train.adam, or an update with @oc.cd"

BLOCK: Names = {
    **rows("parameters named_parameters trainable_variables trainable_weights weights variables get_weights",
            "write net.params, a mapping from paths to tensors"),
    **rows("buffers named_buffers", "write net.states, a mapping from paths to tensors"),
    **rows("state_dict save save_pretrained", _SAVE), **rows("load_state_dict load restore", _LOAD),
    **rows("load_weights set_weights from_pretrained", "write oc.load_weights(path, net)"),
    **rows("train eval training", "code of train.grad_update is for training, and t.forward for evaluation;"
            " net(x, training=False) decides for this application"),
    "zero_grad": _ZERO, **rows("forward call", "a block is called: net(x)"),
    "predict": "write ctx.compile(net(x).forward), or oc.evaluate(net(x), {x: array})",
    **rows("to cuda cpu device", CONTEXT_ANSWER),
    **rows("half float double bfloat16", "give parameters a type: oc.param(\"w\", dtype=oc.bfloat16)"),
    **rows("children modules named_modules layers", "write net.params: its paths contain the names of blocks"),
    "summary": "write oc.show_shapes(net(x))", "fit": _FIT, "compile": _RUN_UPDATE,
    "register_buffer": "write oc.state(name, init) in the function of the block",
    **rows("register_parameter add_weight", "write oc.param(name, init) in the function of the block"),
    **rows("apply", "a block is called: net(x); code that changes parameters is written with @oc.cd"),
    "init": "a block is called, net(x); ctx.init(net(x)) initializes its parameters",
    **rows("weight kernel", 'write net.params["w"]'), "bias": 'write net.params["b"]',
    **rows("requires_grad_ freeze trainable", "write train.adam(loss, params=...) for what is trained"),
    **rows("num_parameters count_params",
            "write sum(math.prod(p.dims) for p in net.params.values())"),
}  # fmt: skip

CODE: Names = {
    **rows("step run execute apply apply_gradients minimize update forward eval compile", _RUN_UPDATE),
    "zero_grad": _ZERO,
    **rows("state_dict save load_state_dict load",
            "a routine has the state of its optimizer: oc.save(path, ctx, step), oc.load(path, ctx, step)"),
    **rows("param_groups add_param_group", "write groups=[{...}] in the call of the optimizer"),
    **rows("lr learning_rate", "give the optimizer a schedule or a placeholder, as in train.sgd(loss, rate)"),
    "init": "ctx.init(loss) initializes parameters; the state of an optimizer begins at zero",
}

BATCHES: Names = {
    "batch_size": "write data.size", "dataset": "write data.source",
    **rows("shuffle batch next", _BATCHES), "to": "arrays are uploaded by train.fit, or by ctx[x] = array",
    **rows("take skip repeat", "slice the source, or write epochs="),
    "collate_fn": "write map= in train.batches",
}  # fmt: skip

FITTED: Names = {
    **rows("history", "write fitted.losses, and fitted.watched for the metrics of each epoch"),
    **rows("metrics", "write fitted.watched, the metrics of each epoch"),
}

EMA: Names = {
    **rows("shadow", "write average.averages"),
    **rows("apply apply_shadow average_parameters store restore copy_to swap module",
            "write `with average.swapped(ctx):`"),
}  # fmt: skip

LOSS_SCALE: Names = rows("scale unscale_ update", "write oc.seq of scale.step(loss, train.adam(loss))")

PLATEAU: Names = rows("get_last_lr lr get_lr", "write ctx[plateau.rate]")

TRAIN: Names = {
    "SGD": "write train.sgd(loss, 0.1)", "Adam": "write train.adam(loss)", "AdamW": "write train.adamw(loss)",
    **rows("optim optimizers Optimizer", "write train.sgd(loss, 0.1) or train.adam(loss)"),
    "NAdam": "write train.nadam(loss)", "RMSprop": "write train.rmsprop(loss)", "Adagrad": "write train.adagrad(loss)",
    "Lion": "write train.lion(loss)", "LAMB": "write train.lamb(loss)", "Muon": "write train.muon(loss)",
    **rows("adadelta adamax radam adafactor Adadelta Adamax RAdam Adafactor lbfgs LBFGS", _NOT_PROVIDED),
    # schedules
    "lr_scheduler": "write train.cosine_decay or train.linear_decay as the learning rate",
    **rows("CosineAnnealingLR CosineDecay cosine_annealing cosine_decay_schedule cosine_schedule",
            "write train.cosine_decay(rate, steps) as the learning rate"),
    **rows("warmup_cosine_decay_schedule CosineAnnealingWarmRestarts",
            "write train.cosine_decay(rate, steps, warmup=100), or train.join(schedules, boundaries)"),
    **rows("ExponentialLR exponential_schedule", "write train.exponential_decay(rate, steps, final=1e-4)"),
    **rows("StepLR", "write train.step_decay(rate, every=1000)"),
    **rows("MultiStepLR piecewise_constant piecewise_constant_schedule",
            "write train.step_decay(rate, every=[1000, 2000])"),
    **rows("LinearLR linear_schedule get_linear_schedule_with_warmup", "write train.linear_decay(rate, steps)"),
    **rows("PolynomialLR polynomial_schedule", "write train.polynomial_decay(rate, steps)"),
    **rows("LambdaLR LearningRateScheduler",
            "an optimizer takes a function of the step: train.sgd(loss, lambda step: ...)"),
    **rows("ReduceLROnPlateau reduce_on_plateau", "write train.ReduceOnPlateau(0.1)"),
    **rows("OneCycleLR onecycle cosine_onecycle_schedule", "write train.one_cycle(peak, steps)"),
    **rows("SequentialLR join_schedules", "write train.join(schedules, boundaries)"),
    # steps
    **rows("clip_grad_norm_ clip_gradients clip_by_global_norm", "write train.clip_grad_norm(loss, 1.0)"),
    **rows("clip_grad_value_ clip", "write train.clip_grad_value(loss, 1.0)"),
    **rows("MultiSteps apply_every gradient_accumulation", "write train.accumulate(loss, update, steps)"),
    **rows("ExponentialMovingAverage AveragedModel ema swa_utils polyak_average", _AVERAGES),
    **rows("backward zero_grad value_and_grad grad", "write train.grad_update(loss)"),
    **rows("train_step apply_gradients minimize", _RUN_UPDATE),
    **rows("Trainer train Model", _FIT),
    **rows("GradScaler amp autocast DynamicScale", _SCALE),
    **rows("DistributedDataParallel DDP pmap strategy", "write train.DataParallel(contexts, loss, update)"),
    # data
    **rows("DataLoader Dataset TensorDataset dataloader data loader", _BATCHES),
    # callbacks and metrics
    **rows("EarlyStop early_stopping", "write train.fit(..., callbacks=[train.EarlyStopping()])"),
    **rows("ModelCheckpoint Checkpoint checkpoint", "write train.fit(..., checkpoint=train.Checkpoints(path))"),
    **rows("TensorBoard SummaryWriter", "write train.TensorBoardLog(folder)"),
    **rows("CSVLogger csv_logger", "write train.CsvLog(path)"),
    **rows("Callback callback", "a callback is a function of a train.EpochResult: callbacks=[function]"),
    **rows("Accuracy", "write train.accuracy(logits, targets)"), "f1": "write train.f1_score",
    **rows("auc AUC auroc", "write train.roc_auc"),
    **rows("mse MSELoss mse_loss", "write oc.squared_error(y, t)"),
    **rows("cross_entropy CrossEntropyLoss losses", "write oc.cross_entropy(logits, t): losses are operations"),
    **rows("save save_checkpoint", _SAVE), **rows("load load_checkpoint restore", _LOAD),
}  # fmt: skip

NN: Names = {
    **rows("Linear Dense dense", "write nn.linear(width=10)"),
    **rows("MLP Sequential sequential", "write nn.mlp(widths=[128, 10]), or a function with @oc.op that calls layers"),
    **rows("Embedding Embed embed", "write nn.embedding(count=1000, width=64)"),
    **rows("Dropout", "write nn.dropout(rate=0.5)"),
    **rows("LayerNorm LayerNormalization", "write nn.layer_norm()"), **rows("RMSNorm", "write nn.rms_norm()"),
    **rows("BatchNorm BatchNorm1d BatchNorm2d BatchNorm3d BatchNormalization", "write nn.batch_norm()"),
    **rows("GroupNorm", "write nn.group_norm(groups=8)"), **rows("InstanceNorm2d", "write nn.instance_norm()"),
    **rows("Conv Conv2D Conv2d", "write nn.conv2d(channels=64, window=3)"),
    **rows("ConvTranspose ConvTranspose2d Conv2DTranspose", "write nn.conv_transpose2d(channels=64, window=2)"),
    **rows("DepthwiseConv2D", "write nn.depthwise_conv2d(window=3)"),
    **rows("SeparableConv2D separable_conv2d",
            "write nn.depthwise_conv2d(window=3), then nn.conv2d(channels=64, window=1)"),
    **rows("MaxPool2d MaxPool2D max_pool2d max_pool", "pooling is a function: write oc.max_pool2d(x, 2)"),
    **rows("AvgPool2d avg_pool2d avg_pool AdaptiveAvgPool2d",
           "pooling is a function: write oc.avg_pool2d(x, 2) or oc.adaptive_avg_pool2d(x, 7)"),
    **rows("GlobalAveragePooling2D", "write nn.global_avg_pool(x)"),
    **rows("resnet18 ResNet18 ResNet", "write nn.resnet(layers=18)"), **rows("vgg16 VGG", "write nn.vgg(layers=16)"),
    **rows("LeNet", "write nn.lenet()"), **rows("UNet", "write nn.unet(classes=2)"),
    **rows("Module Layer Model", "write a function decorated with @oc.op: its oc.param are the parameters"),
    "init": "write an initial value, as in oc.param(\"w\", oc.kaiming()), or init= of a layer",
    "utils": "write train.clip_grad_norm(loss, 1.0)",
    **rows("TransformerEncoder TransformerDecoder", "write nn.encoder(layers=6, heads=8, inner=2048), or nn.decoder"),
    **rows("TransformerEncoderLayer", "write nn.encoder_layer(heads=8, inner=2048)"),
    **rows("ReLU GELU SiLU Tanh Sigmoid Softmax Flatten functional",
            "activations are functions, such as oc.relu(x), and a dense layer takes all output axes"),
    **rows("CrossEntropyLoss BCEWithLogitsLoss cross_entropy",
            "losses are functions, such as oc.cross_entropy(x, target)"),
    **rows("MSELoss mse_loss", "losses are functions: write oc.squared_error(x, target)"),
    **rows("LSTM GRU RNN", "write nn.lstm(width=64), nn.gru(width=64) or nn.rnn(width=64)"),
    **rows("MultiheadAttention MultiHeadAttention multi_head_attention multihead_attention",
            "write nn.attention(heads=8)"),
}  # fmt: skip
