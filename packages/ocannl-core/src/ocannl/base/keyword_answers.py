"""Keywords that users of NumPy, PyTorch, JAX and Keras expect, and what to write here instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ocannl.base.spelling import Names, rows

SIZES = ("batch", "input", "output", "b", "i", "o", "shape", "dtype", "label")
"""The keywords of functions that take `**sizes`."""

PARAMETERS: Names = {
    **rows("dim", "axis"), **rows("name", "label"), **rows("type", "dtype"),
    **rows("size sizes out outputs o", "output"), "i": "input", "b": "batch",
    **rows("shape out_features units features", "output width"),
    **rows("hidden_size embedding_dim embed_dim d_model", "width"), **rows("filters out_channels", "channels"),
    **rows("num_embeddings vocab_size input_dim", "count"), **rows("num_heads n_heads nhead", "heads"),
    **rows("num_layers n_layers", "layers"), **rows("depth", "layers n"), "num_classes": "n classes",
    **rows("kernel_size pool_size", "window"), **rows("strides", "stride"), **rows("pad", "padding"),
    **rows("normalized_shape", "axes"), "num_groups": "groups",
    **rows("bias use_bias center elementwise_affine", "affine"), "scale": "affine std",
    **rows("kernel_initializer weight_init initializer", "init"), "init_method": "init",
    **rows("lr step_size eta", "learning_rate rate initial peak"), "lr_decay": "learning_rate_decay",
    **rows("beta1 beta2 beta_1 beta_2 b1 b2", "betas"), "epsilon": "eps", "wd": "weight_decay", "rho": "alpha",
    **rows("negative_slope", "slope"), **rows("p prob drop drop_rate dropout", "rate"),
    **rows("min minval a_min lower", "low"), **rows("max maxval a_max upper", "high"),
    "loc": "mean", **rows("stddev sigma", "std"), **rows("seed rng random_state", "shuffle key seed"),
    **rows("diagonal", "k"), **rows("fill_value constant_values", "value"),
    **rows("labels y_true targets y", "target"), **rows("input y_pred predictions preds", "logits prediction x"),
    "ignore_index": "ignore", "pos_weight": "positive_weight", "is_causal": "causal", "attn_mask": "mask",
    **rows("drop_last drop_remainder", "partial"), **rows("num_workers prefetch_factor buffer_size", "prefetch"),
    **rows("collate_fn transform transforms map_fn", "map"), **rows("optim update", "optimizer"),
    **rows("verbose progress progress_bar", "show"), **rows("dataloader loader batches train_loader", "data"),
    "backends": "backend", **rows("num_threads n_threads num_workers", "threads"),
    **rows("feed_dict inputs feed", "feeds"), "scale_factor": "scale", "init_scale": "initial",
}  # fmt: skip
"""The parameters that a keyword stands for. The first that a function has is named."""

VALUES: Names = {
    "output": "[3], or batch= and input= for these rows", "input": "[...]", "batch": "[...]", "betas": "(0.9, 0.999)",
    "partial": '"drop"',
}  # fmt: skip
"""Values that show how some parameters are given."""

_NOT_NEEDED = "it is not needed: routines are compiled and fused, and `prefetch=` computes batches ahead"
KEYWORDS: Names = {
    "reduction": "a loss has a value for each sample: write .mean() or .sum()",
    **rows("dim axis keepdim keepdims dims axes", 'axes are named in a spec, such as x.sum("...|a,b => ...|a")'),
    **rows("out inplace", "an operation returns its result: write y = ..."),
    **rows("requires_grad trainable", "write grad=True in oc.tensor, or oc.param"),
    "device": "values live in a context: oc.Context(\"llvm\", device=0)",
    "kernel_size": "write window= in pooling; a convolution takes the kernel itself",
    "bias": "write `+` and a parameter: oc.conv2d(x, kernel) + b",
    **rows("activation nonlinearity", "apply it to the result, as in oc.relu(...)"),
    **rows("in_features in_channels input_size input_shape num_features", "sizes of operands are inferred"),
    **rows("data_format channels_last", "channels are the last axis of an image"),
    **rows("batch_first time_major", "batch axes are in the row before `|`, as in batch, time|features"),
    **rows("from_logits", "the operand is logits; probabilities are oc.log(p)"),
    **rows("training train", "code of t.forward is for evaluation; an application of a block takes training="),
    **rows("correction ddof unbiased", "the divisor is the number of cells, n; write y * (n / (n - 1))"),
    **rows("kernel_regularizer regularizer weight_regularizer",
           "write weight_decay= in the optimizer, or add to the loss"),
    "dtype": "write x.astype(oc.float32), or `with oc.use_precision(...)` for the parameters of a layer",
    **rows("pin_memory foreach fused capturable non_blocking worker_init_fn persistent_workers", _NOT_NEEDED),
    **rows("lr_decay decay", "a schedule decays the rate, as in learning_rate=train.exponential_decay(...)"),
    **rows("amsgrad dampening maximize", "it is not provided; an update with @oc.cd computes it"),
    **rows("clipnorm global_clipnorm max_grad_norm",
                  "code that precedes the update clips: oc.seq(train.clip_grad_norm(loss, 1.0), train.adam(loss))"),
    **rows("clipvalue", "code that precedes the update clips: oc.seq(train.clip_grad_value(loss, 1.0), ...)"),
    **rows("feed_dict feeds", "write oc.evaluate(t, {x: array})"),
}  # fmt: skip
"""Answers to keywords that stand for no parameter."""

MISFITS: Names = {"loss": "it has its parameters, `loss.params`, and `params=` chooses among them"}
"""What to write for a parameter, by its name, that has an argument of another type."""


POSITIONS: Names = {
    "routine": "operands are set before, as in ctx[x] = array, and symbols by name",
    "code": "it is run by ctx.run(code)", "oc.arange": "write start + step * oc.arange(n)",
}  # fmt: skip
"""What to write instead of a call with arguments that do not fit, by the function."""


def unknown_keyword(title: str, given: Iterable[str], parameters: Iterable[str]) -> str:
    """The problem of the first keyword that a function does not take, or an empty text."""
    names = list(parameters)
    name = next((name for name in given if name not in names), None)
    return "" if name is None else f"{title} has no argument `{name}=`: {keyword_answer(name, names)}"


def keyword_answer(name: str, parameters: Iterable[str]) -> str:
    """What to write instead of a keyword that a function with these parameters does not take."""
    names = list(parameters)
    for parameter in PARAMETERS.get(name, "").split():
        if parameter in names:
            return f"write {parameter}={VALUES.get(parameter, '')}"
    if name in KEYWORDS:
        return KEYWORDS[name]
    close = difflib.get_close_matches(name, names, 1, 0.5) or [n for n in names if n.startswith(name)][:1]
    if close:
        return f"did you mean `{close[0]}=`?"
    return f"its keywords are {', '.join(f'{n}=' for n in names) or 'none'}"
