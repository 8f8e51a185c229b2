"""Every public name of this layer, in one place."""

from ocannl.base.errors import CodeError
from ocannl.ir.tnode import Placement
from ocannl.lang import graph
from ocannl.lang.along import argmax, argmin, cummax, cummin, cumprod, cumsum, flip, roll
from ocannl.lang.ambient import no_grad
from ocannl.lang.blocks import Block, op
from ocannl.lang.capture import Dim
from ocannl.lang.casts import cast
from ocannl.lang.cd import assign, cd, comment
from ocannl.lang.checker import infer, shape_of
from ocannl.lang.code import Code, seq
from ocannl.lang.defop import defop
from ocannl.lang.dtypes import use_precision
from ocannl.lang.initializers import arange, full, init, kaiming, xavier
from ocannl.lang.iota import iota
from ocannl.lang.joining import block, concat, stack
from ocannl.lang.leaves import from_file, node, param, placeholder, tensor
from ocannl.lang.literals import batch
from ocannl.lang.matrices import diag, diagonal, dot, outer, trace, tril, triu
from ocannl.lang.operations import (
    PRIMITIVES,
    einsum,
    gelu,
    matmul,
    maximum,
    minimum,
    sigmoid,
    silu,
    stop_gradient,
)
from ocannl.lang.picking import one_hot, pick, take
from ocannl.lang.pointwise import (
    ceil,
    clip,
    elu,
    expm1,
    floor,
    isfinite,
    isinf,
    isnan,
    leaky_relu,
    log1p,
    logaddexp,
    sign,
    softplus,
)
from ocannl.lang.reductions import count_nonzero, norm, prod, std, var
from ocannl.lang.sampling import bernoulli, dropout, normal, randint, uniform
from ocannl.lang.softmax import cross_entropy, log_softmax, logsumexp, softmax
from ocannl.lang.symbols import Symbol, symbol
from ocannl.lang.tensor import Tensor
from ocannl.lang.threefry import threefry4x32
from ocannl.lang.windows import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)


def forward(*tensors: Tensor) -> Code:
    """The code that computes all the tensors; what they share is computed once."""
    return graph.forward(*(_tensor(t, "oc.forward") for t in tensors))


def _tensor(t: object, what: str) -> Tensor:
    if not isinstance(t, Tensor):
        raise CodeError(f"{what} takes tensors, not {t!r}")
    return t


def keep(t: Tensor) -> Tensor:
    """Asks, for good, that every routine that computes `t` keeps its value in the context."""
    _tensor(t, "oc.keep").node.requested.settle(Placement.KEPT, "oc.keep")
    return t


def virtual(t: Tensor) -> Tensor:
    """Asks, for good, that no routine keeps the value of `t`: it lives inside calls, if at all."""
    _tensor(t, "oc.virtual").node.requested.settle(Placement.TEMPORARY, "oc.virtual")
    return t


__all__ = [
    "Block",
    "Code",
    "Dim",
    "PRIMITIVES",
    "Symbol",
    "Tensor",
    "arange",
    "argmax",
    "argmin",
    "assign",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch",
    "bernoulli",
    "block",
    "cast",
    "cd",
    "ceil",
    "clip",
    "comment",
    "concat",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "count_nonzero",
    "cross_entropy",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "defop",
    "diag",
    "diagonal",
    "dot",
    "dropout",
    "einsum",
    "elu",
    "expm1",
    "flip",
    "floor",
    "forward",
    "from_file",
    "full",
    "gelu",
    "infer",
    "init",
    "iota",
    "isfinite",
    "isinf",
    "isnan",
    "kaiming",
    "keep",
    "leaky_relu",
    "log1p",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "matmul",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "maximum",
    "minimum",
    "no_grad",
    "node",
    "norm",
    "normal",
    "one_hot",
    "op",
    "outer",
    "param",
    "pick",
    "placeholder",
    "prod",
    "randint",
    "roll",
    "seq",
    "shape_of",
    "sigmoid",
    "sign",
    "silu",
    "softmax",
    "softplus",
    "stack",
    "std",
    "stop_gradient",
    "symbol",
    "take",
    "tensor",
    "threefry4x32",
    "trace",
    "tril",
    "triu",
    "uniform",
    "use_precision",
    "var",
    "virtual",
    "xavier",
]
