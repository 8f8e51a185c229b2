"""What operations are called in PyTorch, and where the two are compared.

The tables of families of operations are beside this one, in the folder `operations`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from torch_row import (
    BINARY,
    FILLED,
    FLOATS,
    IDS,
    INFINITE,
    INTEGERS,
    MATRIX,
    NUMBERS,
    PADDED,
    SAME,
    SQUARE,
    TERNARY,
    UNARY,
    VECTOR,
    F,
    Row,
    Shapes,
    torch,
)  # fmt: skip

import ocannl as oc


def space(f: Callable[..., Any], *, to: tuple[int, int] | None = None, **settings: Any) -> Callable[..., Any]:
    """A function on windows: channels come first there; of a kernel `to` says where its last axes go."""

    def call(x: Any, *kernel: Any) -> Any:
        return f(x.movedim(-1, 0), *(k.movedim((-2, -1), to) for k in kernel), **settings).movedim(0, -1)

    return call


def conv(name: str, shapes: tuple[Shapes, ...], theirs: dict[str, Any] | None = None, **settings: Any) -> Row:
    kernels_to = (0, 1) if "transpose" in name else (1, 0)
    function = space(getattr(F, name), to=kernels_to, **(theirs or settings))
    called = " ".join([name, *settings])
    return Row(called, partial(getattr(oc, name), **settings), function, shapes, "float32 float64", but=(1e15,))


def depthwise(dimensions: int, shapes: Shapes) -> Row:
    """Each channel is a group; channels come last."""
    name = f"depthwise_conv{dimensions}d"
    settings = {"stride": 2, "padding": 1}

    def function(x: Any, kernel: Any) -> Any:
        convolution, groups = getattr(F, f"conv{dimensions}d"), x.shape[-1]
        y = convolution(x.movedim(-1, 0)[None], kernel.movedim(-1, 0)[:, None], **settings, groups=groups)
        return y[0].movedim(0, -1)

    ours = partial(getattr(oc, name), **settings, multiplier=2)
    return Row(name, ours, function, (shapes,), "float32 float64", but=(1e15,))


def pool(name: str, shape: tuple[int, ...], theirs: dict[str, Any] | None = None, **settings: Any) -> Row:
    function = space(getattr(F, name), kernel_size=3, **(theirs or settings))
    called, ours = " ".join([name, *settings]), partial(getattr(oc, name), window=3, **settings)
    return Row(called, ours, function, ((shape,),), "float32 float64", ties=False)


def attended(q, k, v, **settings):
    """Attention of operands `batch, position, head, size`."""
    q, k, v = (oc.einsum("bthd => bt|hd", x) for x in (q, k, v))
    return oc.einsum("bt|hd => bthd", oc.scaled_dot_product_attention(q, k, v, **settings))


def torch_attended(q, k, v, **settings):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, **settings).transpose(1, 2)


POSITIVE = {"low": 0.3}
ZERO_ROWS: tuple[Shapes, ...] = (((0, 3),),)
ROWS = (
    # of each cell
    Row("id", oc.id, torch.clone, UNARY, NUMBERS),
    Row("neg", oc.neg, torch.neg, UNARY, NUMBERS),
    Row("abs", oc.abs, torch.abs, UNARY, NUMBERS),
    Row("sign", oc.sign, torch.sign, UNARY, NUMBERS, smooth=False, but=(np.nan,)),
    Row("relu", oc.relu, torch.relu, UNARY, NUMBERS),
    Row("sat01", oc.sat01, lambda x: torch.clamp(x, 0, 1), UNARY, NUMBERS, but=(0, 1)),
    Row("not_", oc.not_, torch.logical_not, UNARY, NUMBERS, smooth=False),
    Row("isnan", oc.isnan, torch.isnan, UNARY, NUMBERS, smooth=False),
    Row("isinf", oc.isinf, torch.isinf, UNARY, NUMBERS, smooth=False),
    Row("isfinite", oc.isfinite, torch.isfinite, UNARY, NUMBERS, smooth=False),
    Row("trunc", oc.trunc, torch.trunc, UNARY, smooth=False),
    Row("floor", oc.floor, torch.floor, UNARY, NUMBERS, smooth=False),
    Row("ceil", oc.ceil, torch.ceil, UNARY, NUMBERS, smooth=False),
    Row("round", lambda x: x.round(), torch.round, UNARY, NUMBERS, smooth=False),
    Row("exp", oc.exp, torch.exp, UNARY),
    Row("exp2", oc.exp2, torch.exp2, UNARY),
    Row("expm1", oc.expm1, torch.expm1, UNARY),
    Row("log", oc.log, torch.log, UNARY, **POSITIVE),
    Row("log2", oc.log2, torch.log2, UNARY, **POSITIVE),
    Row("log1p", oc.log1p, torch.log1p, UNARY, low=-0.5),
    Row("sin", oc.sin, torch.sin, UNARY),
    Row("cos", oc.cos, torch.cos, UNARY),
    Row("tanh", oc.tanh, torch.tanh, UNARY),
    Row("sqrt", oc.sqrt, torch.sqrt, UNARY, **POSITIVE),
    Row("recip", oc.recip, torch.reciprocal, UNARY, **POSITIVE),
    Row("recip_sqrt", oc.recip_sqrt, torch.rsqrt, UNARY, **POSITIVE),
    Row("sigmoid", oc.sigmoid, torch.sigmoid, UNARY),
    Row("silu", oc.silu, F.silu, UNARY),
    Row("gelu", oc.gelu, lambda x: F.gelu(x, approximate="tanh"), UNARY),
    Row("softplus", oc.softplus, F.softplus, UNARY),
    Row("leaky_relu", oc.leaky_relu, F.leaky_relu, UNARY),
    Row("elu", lambda x: oc.elu(x, alpha=0.7), lambda x: F.elu(x, alpha=0.7), UNARY),
    Row("clip", lambda x: oc.clip(x, -1, 1), lambda x: torch.clamp(x, -1, 1), UNARY, NUMBERS, but=(-1, 1)),
    Row("clip by tensors", oc.clip, torch.clamp, (((3, 4), (3, 4), (4,)), ((2, 0), (2, 0), ())), but=None),
    Row("stop_gradient", lambda x: x * oc.stop_gradient(x), lambda x: x * x.detach(), UNARY),
    Row("cast", lambda x: oc.cast(x, "float64"), lambda x: x.to(torch.float64), UNARY, NUMBERS),
    Row("astype", lambda x: x.astype("int32"), lambda x: x.to(torch.int32), UNARY, NUMBERS, smooth=False, but=None),
    # of two and three
    Row("add", oc.add, torch.add, BINARY, NUMBERS),
    Row("sub", oc.sub, torch.sub, BINARY, NUMBERS),
    Row("mul", oc.mul, torch.mul, BINARY, NUMBERS),
    Row("div", oc.div, torch.div, BINARY, NUMBERS, low=0.3),
    Row("pow", oc.pow, torch.pow, BINARY, low=0.3),
    Row("pow of integers", lambda x: x**3, lambda x: x**3, UNARY, NUMBERS),
    Row("pow to a half", lambda x: x**0.5, lambda x: x**0.5, UNARY, low=0.3, but=(-np.inf, 0)),
    Row("pow of two", lambda x: 2.0**x, lambda x: 2.0**x, UNARY),
    Row("mod", oc.mod, torch.remainder, BINARY, NUMBERS, low=0.3),
    Row("maximum", oc.maximum, torch.maximum, BINARY, NUMBERS),
    Row("minimum", oc.minimum, torch.minimum, BINARY, NUMBERS),
    Row("maximum of ties", lambda x, y: oc.maximum(x, x) * y, lambda x, y: torch.maximum(x, x) * y, BINARY),
    Row("logaddexp", oc.logaddexp, torch.logaddexp, BINARY),
    Row("lt", oc.lt, torch.lt, BINARY, NUMBERS, smooth=False),
    Row("le", oc.le, torch.le, BINARY, NUMBERS, smooth=False),
    Row("gt", oc.gt, torch.gt, BINARY, NUMBERS, smooth=False),
    Row("ge", oc.ge, torch.ge, BINARY, NUMBERS, smooth=False),
    Row("eq", oc.eq, torch.eq, BINARY, NUMBERS, smooth=False),
    Row("ne", oc.ne, torch.ne, BINARY, NUMBERS, smooth=False),
    Row("and_", oc.and_, torch.logical_and, BINARY, NUMBERS, smooth=False),
    Row("or_", oc.or_, torch.logical_or, BINARY, NUMBERS, smooth=False),
    Row("bitwise_and", oc.bitwise_and, torch.bitwise_and, BINARY, INTEGERS),
    Row("bitwise_or", oc.bitwise_or, torch.bitwise_or, BINARY, INTEGERS),
    Row("bitwise_xor", oc.bitwise_xor, torch.bitwise_xor, BINARY, INTEGERS),
    Row("left_shift", oc.left_shift, torch.bitwise_left_shift, BINARY, INTEGERS, low=0),
    Row("right_shift", lambda x, y: oc.right_shift(x - 9, y), lambda x, y: torch.bitwise_right_shift(x - 9, y), BINARY,
        INTEGERS, low=0),
    Row("relu_gate", oc.relu_gate, lambda x, y: torch.ops.aten.threshold_backward(y, x, 0), SAME, but=(np.nan,)),
    Row("sat01_gate", oc.sat01_gate, lambda x, y: torch.ops.aten.hardtanh_backward(y, x, 0, 1), SAME,
        but=(np.nan,)),
    Row("where", lambda x, y: oc.where(x > y, x, y * y), lambda x, y: torch.where(x > y, x, y * y), BINARY, NUMBERS),
    Row("fma", oc.fma, lambda x, y, z: torch.addcmul(z, x, y), TERNARY, NUMBERS),
    # reductions
    Row("sum", lambda x: x.sum(), torch.sum, UNARY, FLOATS),
    Row("sum of rows", lambda x: x.sum("ij => i"), lambda x: x.sum(1, dtype=x.dtype), MATRIX, NUMBERS),
    Row("mean", lambda x: x.mean(), torch.mean, UNARY),
    Row("mean of columns", lambda x: x.mean("ij => j"), lambda x: x.mean(0), MATRIX),
    Row("max", lambda x: x.max(), torch.amax, UNARY[:3], NUMBERS),
    Row("max of rows", lambda x: x.max("ij => i"), lambda x: x.amax(1), FILLED + ZERO_ROWS, NUMBERS),
    Row("max of ties", lambda x: oc.sat01(x).max("ij => j"), lambda x: torch.clamp(x, 0, 1).amax(0), FILLED,
        but=(0, 1)),
    Row("min", lambda x: x.min(), torch.amin, UNARY[:3], NUMBERS),
    Row("min of rows", lambda x: x.min("ij => i"), lambda x: x.amin(1), FILLED + ZERO_ROWS, NUMBERS),
    Row("prod", lambda x: x.prod(), torch.prod, UNARY, but=INFINITE),
    Row("prod of rows", lambda x: x.prod("ij => i"), lambda x: x.prod(1, dtype=x.dtype), MATRIX, NUMBERS,
        but=INFINITE),
    Row("prod with zeros", lambda x: oc.relu(x).prod("ij => i"), lambda x: torch.relu(x).prod(1), MATRIX,
        but=INFINITE),
    Row("any", lambda x: x.any("ij => i"), lambda x: x.any(1), MATRIX, NUMBERS, smooth=False),
    Row("all", lambda x: x.all("ij => i"), lambda x: x.all(1), MATRIX, NUMBERS, smooth=False),
    Row("count_nonzero", lambda x: x.count_nonzero("ij => i"), lambda x: x.count_nonzero(1), MATRIX, NUMBERS,
        smooth=False),
    Row("var", lambda x: x.var("ij => i"), lambda x: x.var(1, correction=0), MATRIX),
    Row("var of a sample", lambda x: x.var("ij => i", sample=True), lambda x: x.var(1), MATRIX),
    Row("std", lambda x: x.std("ij => j"), lambda x: x.std(0, correction=0), MATRIX),
    Row("norm", lambda x: x.norm("ij => j"), lambda x: torch.linalg.vector_norm(x, dim=0), MATRIX),
    Row("norm 1", lambda x: x.norm(ord=1), lambda x: torch.linalg.vector_norm(x, 1), UNARY),
    Row("norm inf", lambda x: x.norm(ord=np.inf), lambda x: torch.linalg.vector_norm(x, float("inf")), UNARY[:3]),
    Row("argmax", lambda x: x.argmax("ij => i"), lambda x: x.argmax(1), FILLED, NUMBERS, smooth=False),
    Row("argmin", lambda x: x.argmin("ij => i"), lambda x: x.argmin(1), FILLED, NUMBERS, smooth=False),
    Row("softmax", lambda x: x.softmax("ij => i"), lambda x: torch.softmax(x, 1), MATRIX),
    Row("log_softmax", lambda x: x.log_softmax("ij => j"), lambda x: torch.log_softmax(x, 0), MATRIX),
    Row("logsumexp", lambda x: x.logsumexp("ij => i"), lambda x: torch.logsumexp(x, 1), MATRIX),
    Row("cross_entropy", lambda x, p: oc.cross_entropy(x, oc.softmax(p)),
        lambda x, p: F.cross_entropy(x, torch.softmax(p, 0)), (((4,), (4,)), ((1,), (1,))), but=(1e15,)),
    Row("cross_entropy of classes", lambda x: oc.cross_entropy(oc.einsum("ij => i|j", x), oc.tensor(IDS, batch_axes=1)),
        lambda x: F.cross_entropy(x, torch.tensor(IDS), reduction="none"), (((3, 5),),)),
    Row("mean cross_entropy of some classes",
        lambda x: oc.cross_entropy(oc.einsum("ij => i|j", x), oc.tensor(PADDED, batch_axes=1), ignore=-100).mean(),
        lambda x: F.cross_entropy(x, torch.tensor(PADDED), ignore_index=-100), (((4, 5),),)),
    Row("squared_error", oc.squared_error, lambda x, y: F.mse_loss(x, y, reduction="none"), SAME, but=INFINITE),
    Row("absolute_error", oc.absolute_error, lambda x, y: F.l1_loss(x, y, reduction="none"), SAME, but=INFINITE),
    Row("huber", lambda x, y: oc.huber(x, y, delta=0.7),
        lambda x, y: F.huber_loss(x, y, reduction="none", delta=0.7), SAME, but=INFINITE),
    Row("binary_cross_entropy", oc.binary_cross_entropy,
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"), SAME, but=INFINITE),
    # along an axis
    Row("cumsum", lambda x: x.cumsum("ij => i"), lambda x: x.cumsum(1, dtype=x.dtype), MATRIX, NUMBERS),
    Row("cumprod", lambda x: x.cumprod("ij => j"), lambda x: x.cumprod(0, dtype=x.dtype), MATRIX, NUMBERS,
        but=INFINITE),
    Row("cumprod with zeros", lambda x: oc.relu(x).cumprod("ij => i"), lambda x: torch.relu(x).cumprod(1), MATRIX,
        but=INFINITE),
    Row("cummax", lambda x: oc.cummax(x, "ij => i"), lambda x: x.cummax(1).values, MATRIX, NUMBERS, ties=False),
    Row("cummin", lambda x: oc.cummin(x, "ij => i"), lambda x: x.cummin(1).values, MATRIX, NUMBERS, ties=False),
    Row("flip", lambda x: oc.flip(x, "ij => j"), lambda x: x.flip(0), MATRIX, NUMBERS),
    Row("roll", lambda x: oc.roll(x, 2, "ij => i"), lambda x: x.roll(2, 1), MATRIX, NUMBERS),
    # cells picked, and laid elsewhere
    Row("take", lambda x: x.take(IDS), lambda x: x[torch.tensor(IDS)], (((4, 2),), ((4, 0),), ((9, 1),)), NUMBERS),
    Row("pick", lambda x: oc.pick(oc.einsum("ij => i|j", x), oc.tensor(IDS, batch_axes=1)),
        lambda x: x.gather(1, torch.tensor(IDS)[:, None])[:, 0], (((3, 4),),), NUMBERS),
    Row("one_hot", lambda x: oc.one_hot(x, 6, dtype="int64"), lambda x: F.one_hot(x.long(), 6), UNARY, INTEGERS, low=0),
    Row("arange", lambda: oc.arange(5), lambda: torch.arange(5.0), smooth=False),
    Row("full", lambda: oc.full(2.5, o=[2, 3]), lambda: torch.full((2, 3), 2.5), smooth=False),
    Row("iota", lambda: oc.iota(5), lambda: torch.arange(5, dtype=torch.int32), smooth=False),
    Row("concat", lambda x, y: oc.concat("i, k; j, k => i^j, k", x, y), lambda x, y: torch.cat([x, y]),
        (((3, 2), (2, 2)), ((1, 3), (4, 3)), ((3, 0), (2, 0)), ((0, 2), (3, 2)), ((0, 2), (0, 2))), NUMBERS),
    Row("stack", lambda x, y: oc.stack([x, y]), lambda x, y: torch.stack([x, y]), SAME, NUMBERS),
    Row("block", lambda x, y: oc.block([[x, y], [y, x]]),
        lambda x, y: torch.stack([torch.stack([x, y]), torch.stack([y, x])]), SAME, NUMBERS),
    Row("T", lambda x: oc.einsum("ij => j->i", x).T, lambda x: x.T, MATRIX, NUMBERS),
    Row("slice", lambda x: oc.einsum("ij => i|j", x)[2], lambda x: x[2], (((3, 5),), ((4, 0),)), NUMBERS),
    # matrices
    Row("matmul", lambda x, y: oc.einsum("ij => j->i", x) @ y, torch.matmul,
        (((3, 4), (4,)), ((5, 1), (1,)), ((0, 3), (3,)), ((3, 0), (0,))), NUMBERS),
    Row("einsum", lambda x, y: oc.einsum("ij; jk => ik", x, y), lambda x, y: torch.einsum("ij,jk->ik", x, y),
        (((3, 4), (4, 2)), ((1, 1), (1, 3)), ((2, 0), (0, 3)), ((0, 2), (2, 3))), NUMBERS),
    Row("scaled_dot_product_attention", lambda *x: attended(*x, causal=True),
        lambda *x: torch_attended(*x, is_causal=True), (((2, 4, 2, 3),) * 3,), but=None),
    Row("scaled_dot_product_attention of other positions", lambda *x: attended(*x, scale=0.3),
        lambda *x: torch_attended(*x, scale=0.3), (((2, 4, 2, 3), (2, 5, 2, 3), (2, 5, 2, 4)),), but=None),
    Row("einsum of a batch", lambda x, y: oc.einsum("bij; bjk => bik", x, y), torch.bmm,
        (((2, 3, 4), (2, 4, 3)), ((0, 3, 2), (0, 2, 3)))),
    Row("einsum of three", lambda x, y, z: oc.einsum("bi;oij;bj => bo", x, y, z),
        lambda x, y, z: F.bilinear(x, z, y), (((2, 3), (4, 3, 5), (2, 5)),)),
    Row("einsum of a diagonal", lambda x: oc.einsum("i => ii", x), torch.diag, VECTOR, NUMBERS),
    Row("dot", oc.dot, torch.dot, (((4,), (4,)), ((1,), (1,)), ((0,), (0,))), NUMBERS),
    Row("outer", oc.outer, torch.outer, (((3,), (4,)), ((1,), (5,)), ((0,), (2,))), NUMBERS),
    Row("diag", oc.diag, torch.diag, VECTOR, NUMBERS),
    Row("diagonal", oc.diagonal, torch.diagonal, SQUARE, NUMBERS),
    Row("trace", oc.trace, lambda x: torch.trace(x).to(x.dtype), SQUARE, "float32 float64 int32 int64"),
    Row("triu", lambda x: oc.triu(x, 1), lambda x: torch.triu(x, 1), MATRIX, NUMBERS),
    Row("tril", lambda x: oc.tril(x, -1), lambda x: torch.tril(x, -1), MATRIX, NUMBERS),
    # windows: channels come last here, and first there
    conv("conv1d", (((9, 2), (3, 2, 4)), ((1, 1), (1, 1, 1))), stride=2, dilation=2),
    conv("conv2d", (((5, 6, 4), (3, 2, 2, 6)),), groups=2),
    conv("conv2d", (((5, 4, 2), (3, 3, 2, 1)),), padding="same"),
    conv("conv3d", (((3, 4, 5, 2), (2, 2, 3, 2, 3)),)),
    conv("conv1d", (((8, 2), (3, 2, 4)),), stride=3, padding=0),
    conv("conv2d", (((8, 7, 2), (3, 3, 2, 3)),), stride=2, padding=1),
    conv("conv2d", (((6, 7, 2), (3, 2, 2, 3)),), stride=(2, 3), padding=(2, 0), dilation=(1, 2)),
    conv("conv3d", (((3, 4, 5, 2), (3, 3, 3, 2, 3)),), padding=1),
    conv("conv_transpose1d", (((4, 2), (3, 2, 4)),), stride=3, padding=1, output_padding=2),
    conv("conv_transpose2d", (((3, 4, 2), (3, 3, 2, 2)),), stride=2, padding=(1, 0), output_padding=(1, 0)),
    depthwise(1, ((5, 3), (3, 6))), depthwise(2, ((5, 4, 3), (3, 2, 6))), depthwise(3, ((5, 4, 6, 2), (3, 2, 3, 4))),
    conv("conv_transpose1d", (((4, 2), (3, 2, 4)), ((1, 1), (1, 1, 1))), stride=2, dilation=2),
    conv("conv_transpose2d", (((3, 4, 2), (3, 2, 2, 5)),), stride=2),
    conv("conv_transpose3d", (((2, 3, 2, 2), (2, 2, 1, 2, 3)),)),
    pool("max_pool1d", (7, 2), stride=2),
    pool("max_pool2d", (7, 5, 2), stride=2),
    pool("max_pool2d", (6, 4, 2), {"stride": 2, "padding": 1}, stride=2, padding="same"),
    pool("max_pool2d", (7, 6, 2), stride=2, padding=1, ceil_mode=True),
    pool("max_pool3d", (3, 6, 3, 1)),
    pool("avg_pool1d", (7, 2), stride=2),
    pool("avg_pool2d", (6, 4, 2), {"stride": 2, "padding": 1}, stride=2, padding="same"),
    pool("avg_pool1d", (8, 2), stride=2, padding=1, ceil_mode=True),
    pool("avg_pool2d", (7, 6, 2), stride=(2, 3), padding=(1, 0), count_include_pad=False),
    pool("avg_pool2d", (6, 9, 2), stride=2, padding=1, ceil_mode=True, count_include_pad=False),
    pool("avg_pool3d", (3, 6, 3, 1)),
    pool("avg_pool3d", (4, 6, 3, 1), stride=2, padding=1, ceil_mode=True),
)  # fmt: skip

MISSING = {
    "PyTorch draws other numbers, from another generator": """
        bernoulli dropout normal randint uniform threefry4x32 threefry4x32_12 threefry4x32_20""",
    "PyTorch has no such operation": "fst snd",
}
