"""What users of other libraries type by habit works, or is answered in one line with the right spelling."""

from __future__ import annotations

import math
import re
import traceback

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.base import keyword_answers, spelling, training_names
from ocannl.base.config import SEED

WORKS = {
    # creation
    "oc.tensor(a)": (2, 3), "oc.tensor([1.0, 2.0])": (2,), "oc.tensor(2.0)": (),
    "oc.tensor(a, dtype='float64')": (2, 3), "oc.tensor(a, dtype=np.float32)": (2, 3),
    "oc.tensor(a, dtype=float)": (2, 3), "oc.tensor(range(3))": (3,),
    # operators and functions
    "x + 1": (2, 3), "1 - x": (2, 3), "x + a": (2, 3), "a + x": (2, 3), "np.float64(2) * x": (2, 3), "-x": (2, 3),
    "abs(x)": (2, 3), "x ** 2": (2, 3), "2 ** x": (2, 3), "x / 3": (2, 3), "x > 0": (2, 3), "+x": (2, 3),
    "oc.relu(x)": (2, 3), "x.relu()": (2, 3), "x.tanh()": (2, 3), "x.sigmoid()": (2, 3), "x.exp().log()": (2, 3),
    "oc.maximum(x, 0)": (2, 3), "oc.where(x > 0, x, 0)": (2, 3), "oc.softmax(x)": (2, 3), "x.softmax()": (2, 3),
    "oc.clip(x, 0, 1)": (2, 3), "x.clip(0, 1)": (2, 3), "x.sum()": (), "x.mean()": (), "x.max()": (), "x.min()": (),
    "x.std()": (), "x.var()": (), "x.prod()": (), "oc.stack([x, x])": (2, 2, 3), "oc.outer(v, v)": (3, 3),
    "oc.dot(v, v)": (), "oc.one_hot(ids, 4)": (2, 4), "x.astype('float64')": (2, 3), "oc.cumsum(v)": (3,),
    "oc.dropout(x, 0.5, key='d')": (2, 3), "round(x)": (2, 3),
    "oc.conv2d(img, oc.param(o=[3, 3, 1, 2]), padding=1)": (4, 4, 2),
    "oc.conv2d(img, oc.param(o=[3, 3, 1, 2]), padding=[1, 1])": (4, 4, 2),
    # functions of NumPy
    "np.add(x, 1)": (2, 3), "np.maximum(x, 0)": (2, 3), "np.exp(x)": (2, 3), "np.arctan(w)": (3,),
}  # fmt: skip

ANSWERED: dict[str, str] = {
    # reductions and softmax over an axis
    "x.sum(dim=1)": "x.sum(", "x.sum(axis=1)": "x.sum(", "x.mean(1)": "spec", "x.mean(dim=-1)": "x.mean(",
    "x.sum(axis=(0, 1))": "x.sum(", "x.sum(keepdims=True)": "spec", "x.sum(keepdim=True)": "spec",
    "x.max(axis=0)": "x.max(", "x.argmax(dim=1)": "argmax(", "x.softmax(dim=-1)": "softmax(",
    "oc.softmax(x, axis=-1)": "softmax(", "oc.softmax(x, -1)": "spec", "oc.log_softmax(x, dim=1)": "log_softmax(",
    "oc.logsumexp(x, axis=1)": "logsumexp(", "oc.cumsum(x, dim=0)": "cumsum(", "oc.flip(x, axis=0)": "flip(",
    "oc.stack([x, x], dim=0)": "axis=", "oc.stack([x, x], axis=0)": "axis=",
    "oc.concat([x, x], axis=0)": "oc.concat(\"", "oc.norm(x, dim=1)": "norm(", "x.std(axis=0)": "x.std(",
    "x.sum('i,j=>i', axis=1)": "axis", "x.mean(dim=1, keepdim=True)": 'x.mean("...|a,b => ...|a")',
    "x.softmax(axis=-1)": 'x.softmax("...|a,b => ...|a")',
    # layers by the keywords and classes of other libraries
    "nn.linear(x, units=4)": "width=", "nn.linear(x, out_features=4)": "width=", "nn.lstm(x, hidden_size=4)": "width=",
    "nn.lstm(x, width=3, num_layers=2)": "layers=", "nn.embedding(ids, num_embeddings=4, width=3)": "count=",
    "nn.embedding(ids, count=4, embedding_dim=3)": "width=", "nn.conv2d(img, filters=4, window=3)": "channels=",
    "nn.conv2d(img, channels=4, kernel_size=3)": "window=", "nn.attention(x, num_heads=2)": "heads=",
    "nn.layer_norm(x, normalized_shape=3)": "axes=", "nn.LSTM(3, 4)": "nn.lstm(", "nn.GRU(3, 4)": "nn.gru(",
    "nn.MultiheadAttention(3, 1)": "nn.attention(", "nn.multi_head_attention(3, 1)": "nn.attention(",
    "oc.separable_conv2d(x, x)": "oc.depthwise_conv2d", "nn.separable_conv2d(3, 3)": "nn.depthwise_conv2d",
    "nn.mse_loss(x, x)": "oc.squared_error", "oc.mse(x, x)": "squared_error",
    "nn.dropout(x, p=0.5)": "rate=",
    # methods of tensors
    "x.reshape(6)": "einsum", "x.reshape(-1, 2)": "einsum", "x.view(6)": "einsum", "x.permute(1, 0)": "einsum",
    "x.transpose(0, 1)": "einsum", "x.swapaxes(0, 1)": "einsum", "x.flatten()": "einsum", "x.ravel()": "einsum",
    "x.squeeze()": "einsum", "x.unsqueeze(0)": "einsum", "x.expand(2, 2, 3)": "einsum", "x.repeat(2)": "oc.repeat",
    "x.backward()": "train.grad_update", "x.item()": ".numpy()", "x.tolist()": ".numpy()",
    "x.detach()": "stop_gradient", "x.cpu()": ".numpy()", "x.cuda()": "oc.Context(", "x.to('cuda')": "astype",
    "x.float()": "astype(oc.float32)", "x.half()": "astype(oc.float16)", "x.double()": "astype(oc.float64)",
    "x.long()": "astype(oc.int64)", "x.int()": "astype(oc.int32)", "x.bool()": "astype(oc.bool)",
    "x.type(oc.float32)": "astype", "x.size()": ".dims", "x.size(0)": ".dims", "x.ndim": "len(t.dims)",
    "x.dim()": "len(t.dims)", "x.numel()": "math.prod", "x.data": "t.value", "x.requires_grad": "has_gradient",
    "x.requires_grad_()": "grad=True", "x.zero_()": "oc.cd", "x.add_(1)": "oc.cd", "x.clamp(0, 1)": "clip",
    "x.pow(2)": "**", "x.add(1)": "+", "x.mul(2)": "*", "x.sub(1)": "-", "x.div(2)": "/", "x.matmul(x)": "@",
    "x.mm(x)": "@", "x.bmm(x)": "@", "x.dot(v)": "oc.dot", "x.eq(0)": "oc.eq", "x.t()": ".T",
    "x.masked_fill(x > 0, 0)": "oc.where", "x.gather(0, ids)": "take_along_axis", "x.index_select(0, ids)": "take",
    "x.clone()": "no copy", "x.copy()": "no copy", "x.contiguous()": "no copy", "x.argsort()": "oc.argsort",
    "w.grad.zero_()": "zero_grads", "x.device": "Context", "x.is_cuda": "Context", "x.name": "t.label",
    "x.gradient": "t.grad", "x.parameters()": "t.params",
    "x.at": "oc.index_update", "x.split(2)": "oc.split", "x.chunk(2)": "oc.chunk", "x.block_until_ready()": ".numpy()",
    # names of the module
    "oc.zeros(3)": "oc.full(0.0", "oc.ones((2, 3))": "oc.full(1.0", "oc.zeros_like(x)": "oc.full(0.0",
    "oc.full_like(x, 2)": "oc.full", "oc.empty(3)": "oc.full", "oc.rand(3)": "oc.uniform", "oc.randn(3)": "oc.normal",
    "oc.array(a)": "oc.tensor", "oc.asarray(a)": "oc.tensor", "oc.from_numpy(a)": "oc.tensor",
    "oc.linspace(0, 1)": "oc.init", "oc.eye(3)": "oc.diag", "oc.Tensor(a)": "oc.tensor", "oc.Parameter(a)": "oc.param",
    "oc.Variable(a)": "oc.param", "oc.cat([x, x])": "oc.concat", "oc.concatenate([x, x])": "oc.concat",
    "oc.fori_loop(0, 3, f, x)": "oc.scan(", "oc.switch(n, [f, g])": "oc.cond(", "oc.LSTM(3, 4)": "oc.scan(",
    "oc.layer_norm(x)": "nn.layer_norm",
    "oc.mm(x, x)": "@", "oc.bmm(x, x)": "@", "oc.sum(x)": ".sum(", "oc.mean(x)": ".mean(",
    "oc.max(x)": ".max(", "oc.transpose(x)": ".T", "oc.reshape(x, 6)": "einsum", "oc.squeeze(x)": "einsum",
    "oc.permute(x)": "einsum", "oc.sqare(x)": "square", "oc.clamp(x, 0, 1)": "oc.clip", "oc.power(x, 2)": "oc.pow",
    "oc.Linear": "nn.linear", "oc.LayerNorm": "nn.layer_norm", "nn.Linear": "nn.linear", "nn.linera": "linear",
    "nn.Sequential": "nn.mlp", "nn.ReLU": "oc.relu", "nn.linear(x, width='a')": "integer",
    "nn.batch_norm(x, bias=False)": "affine=", "nn.layer_norm(x, elementwise_affine=False)": "affine=",
    "oc.optim": "train",
    "oc.grad(f)": ".grad", "oc.jit(f)": "compile", "oc.vmap(f)": "batch",
    "oc.manual_seed(1)": "seed", "oc.device('cuda')": "Context", "oc.cuda": "Context",
    "oc.float": "oc.float32", "oc.half": "oc.float16", "oc.long": "oc.int64", "oc.double": "oc.float64",
    "oc.int": "oc.int32", "oc.mse_loss(x, x)": "squared_error", "oc.nll_loss(x, ids)": "cross_entropy",
    "oc.linear(x, w)": "@", "oc.rel(x)": "relu", "oc.concatt": "concat", "oc.save('m', 1)": "'what'",
    "oc.load('m')": "'ctx'", "oc.Module": "oc.op", "oc.batch_norm(x)": "nn.batch_norm",
    "oc.embedding(ids)": "nn.embedding",
    "oc.gather(x, ids)": "take", "oc.multiply(x, x)": "oc.mul", "oc.arctan(x)": "oc.atan",
    "oc.negative(x)": "oc.neg", "oc.logical_and(x, x)": "oc.and_", "oc.equal(x, x)": "oc.eq",
    "train.SGD(loss)": "train.sgd", "train.Adam(loss)": "train.adam", "train.RMSprop": "train.rmsprop",
    "train.lr_scheduler": "cosine_decay", "train.clip_grad_norm_": "clip_grad_norm(",
    # keywords
    "train.sgd(loss, lr=0.1)": "learning_rate", "train.adam(loss, lr=0.1)": "learning_rate",
    "train.sgd(loss, 0.1, moment=0.9)": "momentum", "train.adam(loss, epsilon=1e-8)": "eps",
    "train.sgd(loss)": "learning_rate", "train.adam(loss, beta1=0.9)": "betas", "oc.param('w', ouput=[3])": "output",
    "oc.param('w', size=[3])": "output", "oc.param('w', out=[3])": "output",
    "oc.placeholder('p', outputs=[3])": "output", "oc.placeholder(name='p')": "label", "oc.node(o=[3])": "output",
    "oc.tensor(a, requires_grad=True)": "grad", "oc.tensor(a, device='cuda')": "Context",
    "oc.tensor(a, dtyp='float32')": "dtype", "oc.relu(x, out=x)": "result", "oc.relu(x, inplace=True)": "result",
    "oc.conv2d(img, k, kernel_size=3)": "kernel", "oc.conv2d(img, k, strides=2)": "stride",
    "oc.conv2d(img, k, bias=True)": "`+`", "oc.max_pool2d(img, kernel_size=2)": "window",
    "oc.leaky_relu(x, negative_slope=0.1)": "slope", "oc.dropout(x, p=0.5)": "rate", "oc.relu()": "x",
    "oc.relu(x, x)": "relu", "oc.relu(y=x)": "relu", "oc.clip(x, min=0, max=1)": "low", "oc.uniform(minval=0)": "low",
    "oc.normal(loc=0.0)": "mean", "oc.full(1.0, shape=(2, 3))": "32|784->128", "oc.full(1.0, size=[3])": "output",
    "oc.where(x > 0)": "where", "oc.Context(device='cuda')": "device", "oc.Context('torch')": "torch",
    "oc.Context(backends='c')": "backend", "oc.Context('numpy').compile(x)": ".forward",
    "oc.Context('numpy').to('cpu')": "oc.Context(", "oc.Context('numpy').sync()": "synchronize",
    "oc.Context('numpy').compile(loss.forward).run()": "routine()",
    # indices, conversions, nodes
    "x.shape[0]": "dims[0]", "x.shape[:2]": "dims[:2]", "len(x.shape)": "len(t.dims)", "tuple(x.shape)": "t.dims",
    "x[:, 0]": "oc.einsum", "x[0, 1]": "oc.einsum", "x[1:]": "oc.concat", "x[None]": "oc.einsum",
    "x[...]": "oc.einsum", "x[x > 0]": "oc.where", "x[[0, 1]]": "take", "x[ids]": "take", "x[0]": "batch axis",
    "x[1.5]": "int", "x['a']": "int", "float(x)": ".numpy()", "int(x)": ".numpy()", "bool(x)": "oc.where",
    "len(x)": ".dims", "x == 0": "oc.eq", "x and 1": "oc.where", "f'{x:.2f}'": ".numpy()", "x // 2": "oc.floor",
    "divmod(x, 2)": "oc.floor", "x << 1": "left_shift", "x >> 1": "right_shift", "x ^ 1": "bitwise_xor",
    "math.sqrt(x)": ".numpy()", "w.value * 2": "tensor", "2 + w.value": "tensor", "x.value.merge": "t.merge",
    "w.value.__setitem__(..., x)": "write the tensor", "w.value[0]": "write the tensor",
    "w.value.numpy()": "t.numpy()", "w.grad.numpy()": "train.grad_update", "x + [1, 2, 3]": "oc.tensor",
    "x + 'a'": "operand", "x + None": "operand", "x @ None": "operand", "loss.forward(x)": "positional",
    "x.shape.foo": "foo", "oc.foo": "foo", "train.foo": "foo",
    # assignments, iteration and calls
    "[row for row in x]": "x.numpy()", "sum(x)": "x.numpy()", "1 in x": "oc.eq", "dict(x)": "x.numpy()",
    "exec('a, b = x')": "x[0]", "exec('x.label = 3')": "with_label", "exec('x.shape = (6,)')": "output=",
    "exec('x.dims = (6,)')": "output=", "exec('x.value = a')": "ctx[t] = array", "exec('x.T = 3')": "computed",
    "exec('x.dtype = float')": "astype", "exec('net.params = {}')": "ctx[p]",
    "ctx(x)": "eval(ctx)", "ctx(net, x)": "eval(ctx)", "ctx.compile(opt)['loss']": "ctx[t]",
    "exec('oc.seed = 1')": "oc.settings(seed=1)", "exec('oc.backend = \"c\"')": "OCANNL_BACKEND",
    "exec('oc.foo = 1')": "no attribute", "exec('ctx.seed = 1')": "ctx.init(t, seed=1)",
    "exec('ctx.threads = 4')": "threads=2", "exec('plateau.lr = 1')": "plateau.rate", "exec('average.foo = 1')": "foo",
    "exec('oc.compile(net).foo = 1')": "foo", "exec('train.EarlyStopping().foo = 1')": "foo",
    "oc.compile(net)(foo=1)": "compiled_function has no argument",
    "oc.leaky_relu(x, slope='a')": "is a number, not 'a'",
    "oc.sigmoid_focal_loss(x, 1, alpha='a')": "`alpha` of oc.sigmoid_focal_loss is a number or None",
    # comparisons that would be False
    "x.shape == (2, 3)": "t.dims == (2, 3)", "[2, 3] != x.shape": "t.dims == (2, 3)",
    "x.shape == '2,3'": "str(t.shape)",
    "x.shape.output == (2, 3)": "axis.size == 2", "x.shape.output[0] != 3": "axis.size == 3",
    # tuples and names as arguments
    "oc.param('w', (3, 4))": "output=[3, 4]", "oc.param((3, 4))": "output=[3, 4]", "oc.param('w', (3,))": "output=[3]",
    "oc.param('w', (3, 4), dtype='float64')": "output=[3, 4]", "oc.param('w', shape=(3, 4))": "output=[3, 4]",
    "oc.param('w', shape=[3, 4])": "output=[3, 4]", "oc.placeholder(shape=(2, 3))": "output=[2, 3]",
    "oc.full(0.0, shape=(3, 4))": "output=[3, 4]", "oc.uniform(shape=(3,))": "output=[3]",
    "oc.param('w', 'zeros', o=[3])": "oc.kaiming()", "oc.param('w', init='glorot_uniform')": "oc.kaiming()",
    "oc.cross_entropy(x, ids, reduction='mean')": ".mean()",
    # attributes of arrays, and names of other modules
    "x.mT": "x.T", "x.mH": "x.T", "x.H": "x.T", "x.adjoint()": "x.T", "x.real": "real numbers",
    "x.imag": "real numbers", "x.conj()": "real numbers", "x.stride()": "t.numpy()", "x.strides": "t.numpy()",
    "x.storage()": "t.numpy()", "x.nbytes": "t.numpy()", "x.itemsize": "t.numpy()", "x.flat": "t.numpy()",
    "x.layout": "t.numpy()", "x.is_contiguous()": "t.numpy()", "x.base": "t.numpy()", "x.nelement()": "math.prod",
    "x.element_size()": "nbytes", "x.is_leaf": "operation", "oc.pi": "math.pi", "oc.inf": "math.inf",
    "oc.nan": "math.nan", "oc.newaxis": "einsum", "oc.inv(x)": "oc.linalg.inv", "oc.svd(x)": "oc.linalg.svd",
    "oc.solve(x, x)": "oc.linalg.solve", "oc.det(x)": "oc.linalg.det", "oc.Input(shape=(3,))": "oc.placeholder",
    "oc.config": "oc.settings", "oc.diff(v)": "oc.concat", "oc.tensordot(x, x, axes=1)": "einsum",
    "oc.custom_vjp(f)": "oc.defop", "oc.custom_gradient": "oc.defop", "oc.set_printoptions()": "np.set_printoptions",
    "oc.use_deterministic_algorithms(True)": "deterministic", "oc.distributions.Normal(0, 1)": "oc.normal",
    # once raw exceptions
    "oc.conv2d(img, k, padding='SAME')": "padding", "train.sgd(1.0, 0.1)": "loss", "train.adam({})": "loss",
    "train.sgd(loss, 'fast')": "learning rate", "train.sgd(loss, 0.1, momentum='a')": "momentum",
    "train.sgd(loss, 0.1, params=3)": "params", "train.adam(loss, betas=0.9)": "betas",
    "train.fit(1, 2, 3, 4)": "batches", "train.EMA(loss).swapped(loss)": "context",
    "train.cosine_decay('a', 2)": "initial", "oc.arange(2**40)": "2**31", "oc.iota(2**40)": "2**31",
    "oc.arange('a')": "arange", "x.projections": "no operation", "oc.stack(x, a)": "list", "oc.stack(3)": "list",
    "loss.find(['w'])": "path", "oc.Context('numpy', threads=10**5)": "threads",
    "oc.Context('numpy', threads='a')": "threads", "oc.from_file('a\\0b', 'float32')": "cannot be read",
    "oc.show_shapes(3)": "tensor", "oc.default_context(3)": "backend", "oc.symbol(3, 0, 1)": "name",
    "oc.Dim(3)": "must be a string", "oc.transfer(x, 1, 2)": "Context", "oc.settings(optimise=3)": "optimi",
    "oc.use_backend(3)": "backend", "oc.dropout(x, 'a')": "rate", "oc.tril(x, 'a')": "diagonal", "oc.seq(3)": "code",
    "oc.uniform('a')": "low", "oc.randint('a', 'b')": "low", "oc.evaluate(3)": "tensor",
    "oc.max_pool2d(img, 'a')": "window", "oc.conv2d(img, k, groups='a')": "groups",
    "oc.conv2d(img, k, stride=0)": "stride", "oc.one_hot(ids, 'a')": "n", "oc.param('w', o=3)": "[3]",
    "oc.param('w', o=['a'])": "size", "oc.param(a, a)": "label", "oc.full('a')": "number",
    # models, optimizers, data and training loops
    "net.parameters()": "net.params", "net.trainable_variables": "net.params", "net.buffers()": "net.states",
    "net.state_dict()": "oc.save(path, ctx, net)", "net.load_state_dict({})": "oc.load(path, ctx, net)",
    "net.load_weights('f')": "oc.load_weights(path, net)", "net.train()": "training=False", "net.eval()": "training=",
    "net.zero_grad()": "train.grad_update", "net.forward(x)": "net(x)", "net.predict(x)": "oc.evaluate(net(x)",
    "net.to('cuda')": "oc.Context(", "net.half()": "dtype=", "net.modules()": "net.params",
    "net.summary()": "oc.show_shapes", "net.fit(x, x)": "train.fit(", "net.compile('adam')": "ctx.compile(",
    "net.register_buffer('b', x)": "oc.state(", "net.apply(f)": "net(x)", "net.init(1, x)": "ctx.init(",
    "net.weight": "net.params[", "net.bias": "net.params[", "net.requires_grad_(False)": "params=",
    "net.count_params()": "net.params.values()", "opt.step()": "ctx.compile(", "opt.zero_grad()": "train.grad_update",
    "opt.state_dict()": "oc.save(path, ctx, step)", "opt.param_groups": "groups=", "opt.lr": "schedule",
    "opt.minimize(loss)": "ctx.compile(", "opt.apply_gradients([])": "ctx.compile(", "opt.init(x)": "ctx.init(",
    "loss.zero_grad()": "train.grad_update", "loss.minimize()": "train.fit(", "loss.grad_fn": "t.operation",
    "w.assign(a)": "ctx[t] = array", "w.set_value(a)": "ctx[t] = array", "w.trainable": "has_gradient",
    "setattr(w, 'data', a)": "ctx[t]", "w.register_hook(f)": "keep=", "data.batch_size": "data.size",
    "data.dataset": "data.source", "data.shuffle()": "shuffle=0", "data.repeat()": "epochs=",
    "train.DataLoader(a, batch_size=2)": "train.batches(", "train.Dataset": "train.batches(",
    "train.batches({'d': a}, 2, drop_last=True)": 'partial="drop"', "train.batches(a, batch_size=2)": "size=",
    "train.batches({'d': a}, 2, num_workers=4)": "prefetch=", "train.batches({'d': a}, 2, collate_fn=f)": "map=",
    "train.batches({'d': a}, 2, pin_memory=True)": "not needed", "train.batches({'d': a}, 2, seed=1)": "shuffle=",
    "train.batches({'d': a}, 2, shuffle=True)": "shuffle=0", "train.batches({'d': a}, 2, shuffle=False)": "None",
    "train.fit(ctx, loss, opt, n, shuffle=True)": "shuffle=0", "train.fit(ctx, loss, opt, n, num_epochs=2)": "epochs=",
    "train.fit(ctx, loss, opt, n, validation_data=n)": "validation=",
    "train.fit(ctx, loss, opt, n, verbose=1)": "show=",
    "train.fit(ctx, loss, opt, dataloader=n)": "data=", "train.fit(net, abs, update=opt)": "optimizer=",
    "train.fit(ctx, loss, 'adam', n)": "Code or a function",
    "train.adam(loss.params)": "params=", "train.adam([w], 0.1)": "params=",
    "train.adam(loss, amsgrad=True)": "@oc.cd",
    "train.adam(loss, fused=True)": "not needed", "train.adam(loss, parameters=[w])": "params=",
    "train.adam(loss, clipnorm=1.0)": "clip_grad_norm", "train.adam(loss, decay=0.1)": "exponential_decay",
    "train.rmsprop(loss, rho=0.9)": "alpha=", "train.adagrad(loss, lr_decay=0.1)": "learning_rate_decay=",
    "train.sgd(loss, 0.1, dampening=0.1)": "@oc.cd", "train.optimizers": "train.sgd", "train.StepLR": "step_decay",
    "train.MultiStepLR": "step_decay", "train.CosineAnnealingLR": "cosine_decay", "train.LambdaLR": "lambda step",
    "train.ExponentialLR": "exponential_decay", "train.GradScaler": "LossScale", "train.ModelCheckpoint": "checkpoint=",
    "train.CSVLogger": "CsvLog", "train.SummaryWriter": "TensorBoardLog", "train.Callback": "callbacks=",
    "train.Trainer": "train.fit(", "train.f1": "f1_score", "train.mse": "oc.squared_error", "train.save": "oc.save(",
    "train.cross_entropy": "oc.cross_entropy", "train.DDP": "DataParallel",
    "train.clip_by_global_norm": "clip_grad_norm",
    "oc.inference_mode()": "oc.no_grad()", "oc.set_grad_enabled(False)": "oc.no_grad()", "oc.eval()": "training=False",
    "oc.remat(f)": "oc.recompute", "oc.Buffer(a)": "oc.state", "oc.set_default_dtype('float64')": "dtype=",
    "oc.set_num_threads(2)": "threads=", "oc.set_seed(1)": "seed=1", "oc.DataLoader": "train.batches(",
    "oc.autocast('cuda')": "LossScale", "oc.lax": "oc.scan", "oc.numpy": "oc.exp", "oc.tree_map(f, w)": "loss.params",
    "oc.ReLU()": "oc.relu", "oc.Conv2d(3, 4, 3)": "oc.conv2d", "oc.MaxPool2d(2)": "oc.max_pool2d",
    "oc.Dropout(0.5)": "oc.dropout", "oc.BatchNorm2d(3)": "oc.state", "oc.MultiheadAttention(8, 2)": "nn.attention",
    "oc.CrossEntropyLoss()": "oc.cross_entropy", "oc.MSELoss()": "squared_error", "oc.ModuleList([])": "for n in",
    "oc.functional": "oc.relu", "oc.F": "oc.relu", "oc.rearrange(x, 'a b -> b a')": "einsum",
    "oc.save_model('m', net)": "oc.save(", "oc.load_model('m')": "oc.load(", "oc.is_tensor(x)": "isinstance",
    "ctx.backward(loss)": "grad_update", "ctx.fit(loss)": "train.fit(", "ctx.train(loss)": "train.fit(",
    "ctx.step()": "ctx.compile(", "ctx.save('m')": "oc.save(", "ctx.load('m')": "oc.load(", "ctx.item(loss)": "ctx[t]",
    "ctx.parameters()": "loss.params", "ctx.feed(w, a)": "ctx[t] = array", "ctx.no_grad()": "oc.no_grad()",
    "average.shadow": "averages", "average.apply()": "swapped(ctx)", "scale.scale(loss)": "scale.step(",
    "plateau.get_last_lr()": "plateau.rate",
    # functions of NumPy, data types as functions, deletions, and operations that a class does not have
    "np.frexp(x)": "x.numpy()", "np.floor_divide(x, 2)": "oc.floor(x / y)", "np.fmax(x, 0)": "oc.maximum",
    "np.add(x, 1, where=False)": "oc.add(",
    "np.add.reduce(x)": "x.numpy()", "np.multiply(a, 2, out=x)": "a + x", "exec('a += x')": "a + x",
    "oc.float32(3)": "dtype=oc.float32", "oc.float32.itemsize": "nbytes", "x.dtype.is_floating_point": "is_float",
    "exec('del x.label')": "with_label", "exec('del x.T')": "computed", "exec('del x.reshape')": "einsum",
    "exec('del ctx[w]')": "memory", "x.shape + (1,)": "t.dims", "(1,) + x.shape": "t.dims", "net[0]": "net.params",
    "list(net)": "net.params", "net + net": "calls", "net | net": "calls", "opt[0]": "print", "list(opt)": "print",
    "opt + opt": "oc.seq(", "opt(ctx)": "ctx.run(code)", "ctx.compile(opt)(x)": "ctx[x] = array",
    "oc.linalg.eig(x)": "eigh", "oc.linalg.cond(x)": "svdvals", "oc.linalg.foo": "foo", "oc.fft.foo": "foo",
    "oc.fft.fftfreq(3)": "np.fft.fftfreq", "x.set(a)": "ctx[t] = array", "data.to('cuda')": "uploaded",
    # keywords that stand for a parameter of one function and not of another
    "nn.linear(x, outputs=3)": "width=", "nn.linear(in_features=3, width=4)": "inferred",
    "nn.linear(x, width=3, kernel_initializer='zeros')": "init=", "nn.linear(x, width=3, dtype='float16')":
    "use_precision", "oc.dropout(x, 0.5, seed=1)": "key=", "train.cosine_decay(lr=0.1, steps=9)": "initial=",
    "oc.normal(scale=2.0)": "std=", "oc.normal(minval=0)": "oc.normal has no", "oc.max_pool2d(img, pool_size=2)":
    "window=", "oc.cross_entropy(x, labels=ids)": "target=", "oc.cross_entropy(x, ids, from_logits=True)": "logits",
    "oc.softplus(x, beta=2)": "x=", "x.var(ddof=1)": "divisor", "x.mean(dtype='float64')": "astype",
    "oc.tril(x, diagonal=1)": "k=", "loss.eval(feed_dict={})": "oc.evaluate", "oc.linalg.svd(x, u=1)": "oc.linalg.svd",
    # arguments in positions
    "oc.full((2, 3), 1.0)": "output=[2, 3]", "oc.uniform(0, 1, (2, 3))": "output=[2, 3]",
    "oc.placeholder('x', [2, 3])": "output=[2, 3]", "oc.arange(0, 3)": "start + step", "oc.tensor(a, 'float64')":
    "(data, *, ", "nn.mlp(x, [3, 4])": "activation=relu", "oc.minimum(x)": "oc.minimum takes",
    # names of the module in nn and train, and names that are near to nothing
    "nn.relu(x)": "oc.relu", "nn.flatten(x)": "einsum", "nn.Parameter(a)": "oc.param", "nn.init.zeros_(w)":
    "oc.kaiming()", "train.relu": "oc.relu", "oc.devices()": "oc.backends()", "oc.finfo(oc.float32)": "np.finfo",
}  # fmt: skip


def scope() -> dict[str, object]:
    a, w = np.ones((2, 3), "float32"), oc.param("w", o=[3])
    loss, net = (w * w).sum(), oc.op(lambda x, *, width: x * oc.param("w", o=[width]))(width=3, label="net")
    return {
        "oc": oc, "nn": nn, "train": train, "np": np, "math": math, "a": a, "x": oc.tensor(a), "w": w,
        "v": oc.tensor(np.ones(3, "float32")), "loss": loss, "ids": oc.tensor(np.array([0, 1])),
        "p": oc.placeholder("p", o=[2, 3]), "f": abs,
        "img": oc.tensor(np.ones((4, 4, 1), "float32")), "k": oc.param("k", o=[3, 3]), "net": net,
        "opt": train.adam(loss), "ctx": oc.Context("numpy"), "n": oc.symbol("n", 0, 1),
        "data": train.batches({"d": a}, 2), "average": train.EMA(loss), "scale": train.LossScale(),
        "plateau": train.ReduceOnPlateau(0.1),
    }  # fmt: skip


def test_data_types_are_those_of_numpy():
    assert np.zeros(3, oc.bfloat16).dtype == oc.bfloat16
    assert np.ones(3).astype(oc.float32).dtype == np.float32


def test_operators_of_arrays_with_a_tensor_build_a_tensor():
    s = scope()
    x, a = s["x"], 2 * s["a"]
    for expression, value in {
        "a - x": 1.0, "a / x": 2.0, "a ** x": 2.0, "a % x": 0.0, "a > x": 1.0, "a <= x": 0.0, "np.float64(3) * x": 3.0,
    }.items():  # fmt: skip
        result = eval(expression, {"a": a, "x": x, "np": np})
        assert isinstance(result, oc.Tensor)
        np.testing.assert_array_equal(result.numpy(), np.full((2, 3), value))


def test_symbols_equal_no_number_of_numpy():
    n = oc.symbol("n", 0, 4)
    assert (n == np.float16(1.0)) is (np.float64(1.0) == n) is False
    assert (n != np.float16(1.0)) is (np.float64(1.0) != n) is True


def test_settings_that_are_never_entered_warn():
    for statement, variable in {
        "oc.settings(seed=1)": "SEED", "oc.use_backend('numpy')": "BACKEND", "oc.use_precision('float16')": "PRECISION",
    }.items():  # fmt: skip
        message = f"{statement} has no effect by itself: write `with {statement}:`, or set OCANNL_{variable}"
        with pytest.warns(RuntimeWarning, match=f"^{re.escape(message)}$") as caught:
            exec(statement, {"oc": oc})
        assert caught[0].filename == "<string>"


def test_settings_decorate_functions():
    @oc.settings(seed=7)
    def seed(depth):
        return seed(depth - 1) if depth else SEED.get()

    assert seed(3) == seed(0) == 7 != SEED.get()


def test_size_of_the_table():
    assert len(WORKS) + len(ANSWERED) >= 150


@pytest.mark.parametrize("expression", WORKS)
def test_habit_works(expression):
    assert eval(expression, scope()).dims == WORKS[expression]


@pytest.mark.parametrize("expression", ANSWERED)
def test_habit_is_answered(expression):
    with pytest.raises(oc.OcannlError) as caught:
        eval(expression, scope())
    message = str(caught.value)
    assert ANSWERED[expression] in message
    assert len(message.splitlines()[0]) < 400


def tables():
    """The tables of names, with an object that does not have these names."""
    objects = scope()
    return [
        (oc, spelling.MODULE), (objects["x"], spelling.TENSOR), (objects["ctx"], spelling.CONTEXT),
        (objects["x"].shape, spelling.SHAPE), (objects["x"].value, spelling.NODE),
        (objects["ctx"].compile(objects["opt"]), spelling.ROUTINE), (train, training_names.TRAIN),
        (nn, training_names.NN),
        (objects["net"], training_names.BLOCK), (objects["opt"], training_names.CODE),
        (objects["data"], training_names.BATCHES), (objects["average"], training_names.EMA),
        (objects["scale"], training_names.LOSS_SCALE), (objects["plateau"], training_names.PLATEAU),
        (train.Fitted([], [], None, 0, 0, None, None), training_names.FITTED),
    ]  # fmt: skip


def test_answers_point_to_what_exists():
    objects = scope()
    objects |= {"t": objects["x"], "fitted": train.Fitted([], [], None, 0, 0, None, None)}
    objects["net"](objects["v"])
    others = (keyword_answers.KEYWORDS, keyword_answers.POSITIONS, spelling.PRECISION, spelling.LINALG, spelling.FFT)
    answers = [text for table in (*(table for _, table in tables()), *others) for text in table.values()]
    owners = "oc|nn|train|t|x|ctx|loss|net|data|average|scale|plateau|fitted"
    names = {match for text in answers for match in re.findall(rf"\b({owners})\.([A-Za-z_]\w*)", text)}
    assert len(names) > 100
    assert [f"{owner}.{name}" for owner, name in sorted(names) if not hasattr(objects[owner], name)] == []


def test_names_of_the_tables_do_not_exist():
    for owner, table in tables():
        assert [name for name in table if hasattr(owner, name)] == []


def test_errors_are_those_that_python_users_catch():
    x = scope()["x"]
    assert not hasattr(x, "reshape")
    assert not hasattr(oc, "zeros")
    assert not hasattr(x.value, "merge")
    assert getattr(x, "item", None) is None
    with pytest.raises(TypeError):
        oc.param("w", ouput=[3])
    with pytest.raises(AttributeError):
        x.permute(1, 0)


def test_python_suggests_the_nearest_attribute_among_those_that_exist():
    x = scope()["x"]
    assert set(dir(x)) >= {"relu", "label", "T", "__add__"}
    assert not set(dir(x)) & set(spelling.TENSOR)
    for name in ("reluu", "lable"):
        with pytest.raises(AttributeError) as caught:
            getattr(x, name)
        assert (caught.value.obj, caught.value.name) == (x, name)  # from which Python finds the nearest name in dir(x)


def test_values_that_look_like_a_shape():
    """A tuple of floating-point numbers, a list, and a tuple beside a given row are values."""
    assert oc.param("w", (3.0, 4.0)).shape.input[0].size == 2
    assert oc.param("w", [3, 4]).dims == (2,)
    assert oc.param("w", (3, 4), i=[2], o=[]).dims == (2,)
    assert oc.param("w", [(1, 2), (3, 4)]).dims == (2, 2)
    assert oc.tensor((3, 4)).dims == (2,)
    difference = oc.concat("a^b => b", oc.tensor([1.0, 4.0, 9.0]), a=1) - oc.concat(
        "b^a => b", oc.tensor([1.0, 4.0, 9.0]), a=1
    )
    np.testing.assert_array_equal(difference.numpy(), [3.0, 5.0])


def test_error_of_a_function_of_the_user_stays():
    def broken(step):
        return step.left_out + {}

    with pytest.raises(AttributeError, match="left_out"):
        train.sgd(scope()["loss"], broken)
    with pytest.raises(ZeroDivisionError):
        train.sgd(scope()["loss"], lambda step: 1 / 0)


def test_traceback_of_an_answer_ends_at_the_users_frame():
    for call in (
        lambda: oc.param("w", ouput=[3]), lambda: scope()["x"].item(), lambda: train.adam({}, lr=1),
        lambda: oc.zerros(3), lambda: nn.Linear, lambda: train.SGD, lambda: scope()["x"].shape.batches,
        lambda: oc.Context("numpy").backward(), lambda: setattr(oc, "seed", 1),
        lambda: setattr(oc.Context("numpy"), "seed", 1), lambda: scope()["x"].shape == (2, 3),
    ):  # fmt: skip
        with pytest.raises(oc.CodeError) as caught:
            call()
        assert {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)} == {__file__}


def test_advised_specs_compute_what_they_stand_for():
    a = np.arange(6.0).reshape(2, 3)
    x = oc.tensor(a)
    for spec, expected in {
        "...|a,b => ...|(a b)": a.reshape(6), "...|a,b => ...|b,a": a.T, "...|i,0 => ...|i": a[:, 0],
    }.items():  # fmt: skip
        np.testing.assert_array_equal(oc.einsum(spec, x).numpy(), expected)
    v = oc.tensor(a[0])
    np.testing.assert_array_equal(oc.einsum("...|a => ...|a,0", v).numpy(), a[0][:, None])
    np.testing.assert_array_equal(oc.einsum("...|i => ...|0,i", v).numpy(), a[0][None])
    np.testing.assert_array_equal(oc.einsum("...|a => ...|b,a", v, b=2).numpy(), np.tile(a[0], (2, 1)))
    np.testing.assert_array_equal(oc.concat("a^b => b", v, a=1).numpy(), a[0][1:])
    spec = "...|..a..,c => ...|..a..,0"
    normalized = (x - x.mean(spec)) * oc.recip_sqrt(x.var(spec) + 1e-5)
    expected = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(normalized.numpy(), expected, rtol=1e-12)
    answers = str([spelling.TENSOR, spelling.MODULE])
    assert all(spec in answers for spec in ("(a b)", "...|b,a", "...|a,0", "a^b => b"))


def test_code_from_a_recorder_answers_like_other_code():
    code = train.clip_grad_norm(scope()["loss"], 1.0)
    with pytest.raises(oc.ArgumentError, match="function="):
        code(1, function=abs)
