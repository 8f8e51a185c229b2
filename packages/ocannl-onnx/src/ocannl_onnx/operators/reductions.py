"""Reductions, softmax, cumulative sums, arg-reductions and sorting."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import along, padded, positions_along, reduced, reshaped, sliced
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value

Reduce = Callable[[oc.Tensor, str], oc.Tensor]


def total(x: oc.Tensor, spec: str) -> oc.Tensor:
    return x.sum(spec)


def mean(x: oc.Tensor, spec: str) -> oc.Tensor:
    return x.mean(spec)


def largest(x: oc.Tensor, spec: str) -> oc.Tensor:
    return x.max(spec)


REDUCTIONS: dict[str, tuple[str, Reduce]] = {
    "ReduceSum": ("x.sum(spec)", total),
    "ReduceMean": ("x.mean(spec)", mean),
    "ReduceMax": ("x.max(spec)", largest),
    "ReduceMin": ("x.min(spec)", lambda x, spec: x.min(spec)),
    "ReduceProd": ("x.prod(spec)", lambda x, spec: x.prod(spec)),
    "ReduceL1": ("oc.abs(x).sum(spec)", lambda x, spec: oc.abs(x).sum(spec)),
    "ReduceL2": ("oc.sqrt((x * x).sum(spec))", lambda x, spec: oc.sqrt((x * x).sum(spec))),
    "ReduceLogSum": ("oc.log(x.sum(spec))", lambda x, spec: oc.log(x.sum(spec))),
    "ReduceLogSumExp": ("oc.logsumexp(x, spec)", lambda x, spec: logsumexp(x, spec)),
    "ReduceSumSquare": ("(x * x).sum(spec)", lambda x, spec: (x * x).sum(spec)),
}


def logsumexp(x: oc.Tensor, spec: str) -> oc.Tensor:
    top = oc.stop_gradient(x.max(spec))
    kept = x.max(_kept(spec))
    finite = oc.where(oc.isfinite(kept), oc.stop_gradient(kept), 0)
    return oc.log(oc.exp(x - finite).sum(spec)) + oc.where(oc.isfinite(top), top, 0)


def _kept(spec: str) -> str:
    """The spec whose result keeps the reduced axes, with size 1."""
    operand, _, result = spec.partition("=>")
    names = [name.strip() for name in result.split(",")]
    axes = [name.strip() for name in operand.split(",") if name.strip()]
    return f"{operand}=> {', '.join(name if name in names else '0' for name in axes)},"


def _reduction(reduce: Reduce) -> Callable[[NodeCall], oc.Tensor]:
    def build(call: NodeCall) -> oc.Tensor:
        x = call.tensor(0)
        axes = call.axes()
        if not axes:
            if call.attribute("noop_with_empty_axes", 0):
                return _noop(call, x)
            axes = list(range(len(x.dims)))
        return reduced(x, axes, reduce, keep=bool(call.attribute("keepdims", 1)))

    return build


def _noop(call: NodeCall, x: oc.Tensor) -> oc.Tensor:
    """The reduction over no axes: each cell by itself."""
    match call.node.operator:
        case "ReduceL1" | "ReduceL2":
            return oc.abs(x)
        case "ReduceLogSum":
            return oc.log(x)
        case "ReduceSumSquare":
            return x * x
        case _:
            return x


for name, (spelling, reduce) in REDUCTIONS.items():
    operator(name, spelling=spelling)(_reduction(reduce))


def _along(call: NodeCall, x: oc.Tensor, default: int) -> tuple[oc.Tensor, str]:
    """The operand and the spec of a softmax; before version 13 it is over all axes from `axis` on, merged."""
    if call.version >= 13:
        return x, along(len(x.dims), call.axis(-1))
    axis = call.axis(default)
    return reshaped(x, (math.prod(x.dims[:axis]), math.prod(x.dims[axis:]))), along(2, 1)


SOFTMAX: dict[str, tuple[str, Callable[[oc.Tensor, str], oc.Tensor]]] = {
    "Softmax": ("oc.softmax(x, spec)", oc.softmax),
    "LogSoftmax": ("oc.log_softmax(x, spec)", oc.log_softmax),
    "Hardmax": ("oc.eq of positions and oc.argmax(x, spec)", lambda x, spec: _hardmax(x, spec)),
}


def _hardmax(x: oc.Tensor, spec: str) -> oc.Tensor:
    names, _, kept = (part.strip(" ,") for part in spec.partition("=>"))
    axes, result = names.split(", "), kept.split(", ")
    axis = next(n for n, name in enumerate(axes) if name not in result)
    ids = oc.argmax(x, spec)
    dims = [1 if n == axis else size for n, size in enumerate(x.dims)]
    positions = positions_along(axis, x.dims[axis], len(x.dims))
    return oc.cast(oc.eq(reshaped(ids, dims), positions), x.dtype)


def _softmax(function: Callable[[oc.Tensor, str], oc.Tensor]) -> Callable[[NodeCall], oc.Tensor]:
    def build(call: NodeCall) -> oc.Tensor:
        x = call.tensor(0)
        operand, spec = _along(call, x, 1)
        return reshaped(function(operand, spec), x.dims)

    return build


for name, (spelling, softmax) in SOFTMAX.items():
    operator(name, spelling=spelling)(_softmax(softmax))


def _argument(name: str) -> Callable[[NodeCall], Value]:
    def build(call: NodeCall) -> Value:
        x, axis = call.tensor(0), call.axis(0)
        spec = along(len(x.dims), axis)
        search = getattr(oc, name)
        if call.attribute("select_last_index", 0):
            ids = x.dims[axis] - 1 - search(oc.flip(x, spec), spec)
        else:
            ids = search(x, spec)
        dims = [1 if n == axis else size for n, size in enumerate(x.dims)]
        ids = oc.cast(ids, oc.int64)
        return reshaped(ids, dims) if call.attribute("keepdims", 1) else ids

    return build


operator("ArgMax", spelling="oc.argmax(x, spec)")(_argument("argmax"))
operator("ArgMin", spelling="oc.argmin(x, spec)")(_argument("argmin"))


def _scan(function: Callable[[oc.Tensor, str], oc.Tensor], neutral: float) -> Callable[[NodeCall], oc.Tensor]:
    def build(call: NodeCall) -> oc.Tensor:
        x = call.tensor(0)
        axis = call.position(int(call.constant(1).reshape(())), len(x.dims))
        spec = along(len(x.dims), axis)
        x = oc.flip(x, spec) if call.attribute("reverse", 0) else x
        if call.attribute("exclusive", 0):
            x = padded(sliced(x, axis, 0, x.dims[axis] - 1), axis, 1, 0, neutral)
        x = function(x, spec)
        return oc.flip(x, spec) if call.attribute("reverse", 0) else x

    return build


operator("CumSum", spelling="oc.cumsum(x, spec)")(_scan(oc.cumsum, 0.0))
operator("CumProd", spelling="oc.cumprod(x, spec)")(_scan(oc.cumprod, 1.0))


@operator("TopK", spelling="oc.topk(x, k, spec, largest=)")
def top_k(call: NodeCall) -> tuple[Value, Value]:
    x, axis = call.tensor(0), call.axis(-1)
    k = call.attribute("k") if call.version < 10 else int(np.asarray(call.constant(1)).reshape(-1)[0])
    values, ids = oc.topk(x, k, along(len(x.dims), axis), largest=bool(call.attribute("largest", 1)))
    return values, oc.cast(ids, oc.int64)
