"""Matrix products and einsum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import axis_names, full, positions_along, row
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value


def matmul(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
    """`numpy.matmul`: the product of the last two axes, with the axes before broadcast."""
    if 0 in (*x.dims, *y.dims):
        return full(0, np.matmul(np.empty(x.dims), np.empty(y.dims)).shape, x.dtype)
    if len(x.dims) == 1 and len(y.dims) == 1:
        return oc.einsum("k,; k, => ", x, y)
    batch = np.broadcast_shapes(x.dims[:-2], y.dims[:-2])
    names = axis_names(len(batch))
    spec_x = row([*_batch_row(x.dims[:-2], batch, names), "m", "k"]) if len(x.dims) > 1 else "k,"
    spec_y = row([*_batch_row(y.dims[:-2], batch, names), "k", "n"]) if len(y.dims) > 1 else "k,"
    result = [*names, *(["m"] if len(x.dims) > 1 else []), *(["n"] if len(y.dims) > 1 else [])]
    used = f"{spec_x} {spec_y}"
    kept = [name if f"{name}," in used else "0" for name in result]  # axes of size 1 in both operands
    return oc.einsum(f"{spec_x}; {spec_y} => {row(kept)}", x, y)


def _batch_row(dims: Sequence[int], batch: Sequence[int], names: Sequence[str]) -> list[str]:
    """The names of the batch axes of an operand, `0` where it is broadcast."""
    return ["0" if size == 1 else name for size, name in zip(dims, names[len(batch) - len(dims) :], strict=True)]


@operator("MatMul", spelling='oc.einsum("...,m,k; ...,k,n => ...,m,n", x, y)')
def matmul_(call: NodeCall) -> Value:
    return matmul(call.tensor(0), call.tensor(1))


@operator("Gemm", spelling='alpha * oc.einsum("m,k; k,n => m,n", a, b) + beta * c')
def gemm(call: NodeCall) -> Value:
    a, b = call.tensor(0), call.tensor(1)
    spec_a = "k,m" if call.attribute("transA", 0) else "m,k"
    spec_b = "n,k" if call.attribute("transB", 0) else "k,n"
    y = oc.einsum(f"{spec_a}; {spec_b} => m,n", a, b)
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    y = y if alpha == 1 else y * alpha
    c = call.optional(2)
    if c is None or beta == 0:
        return y
    return y + (c if beta == 1 else c * beta)


@operator("Einsum", spelling="oc.einsum")
def einsum(call: NodeCall) -> Value:
    equation = call.attribute("equation").replace(" ", "")
    operands = call.tensors()
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    call.require(len(terms) == len(operands), f"{len(terms)} terms for {len(operands)} operands")
    extra = max((len(x.dims) - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True)
                 if "..." in t), default=0)  # fmt: skip
    names = [f"dots{n}" for n in range(extra)]
    if not arrow:
        letters = sorted({c for c in left if c.isalpha()})
        right = ("..." if "..." in left else "") + "".join(c for c in letters if left.count(c) == 1)
    sizes: dict[str, int] = {}
    rows = []
    for term, x in zip(terms, operands, strict=True):
        axes = _named(term, names[extra - (len(x.dims) - len(term.replace("...", ""))) :] if "..." in term else [])
        call.require(len(axes) == len(x.dims), f"the term {term!r} for {len(x.dims)} axes")
        for axis, size in zip(axes, x.dims, strict=True):
            sizes[axis] = max(size, sizes.get(axis, 1))
        rows.append(axes)
    result = _named(right, names)
    if 0 in sizes.values():
        return full(0, [sizes[axis] for axis in result], operands[0].dtype)
    diagonals = [_diagonal(axes, x) for axes, x in zip(rows, operands, strict=True)]
    specs = [
        row(["0" if size == 1 else axis for axis, size in zip(axes, x.dims, strict=True)])
        for axes, x in diagonals
    ]
    target = row(["0" if sizes[axis] == 1 else axis for axis in result])
    return oc.einsum(f"{'; '.join(specs)} => {target}", *(x for _, x in diagonals))


def _named(term: str, dots: Sequence[str]) -> list[str]:
    before, ellipsis, after = term.partition("...")
    return [f"x{c}" if c.islower() else f"y{c}" for c in before] + (list(dots) if ellipsis else []) + [
        f"x{c}" if c.islower() else f"y{c}" for c in after
    ]


def _diagonal(axes: Sequence[str], x: oc.Tensor) -> tuple[list[str], oc.Tensor]:
    """An operand without repeated axes, of which it takes the diagonal."""
    unique = list(dict.fromkeys(axes))
    if len(unique) == len(axes):
        return list(axes), x
    for axis in unique:
        positions = [n for n, name in enumerate(axes) if name == axis]
        for n in positions[1:]:
            ids = [positions_along(m, x.dims[m], len(x.dims)) for m in (positions[0], n)]
            x = oc.where(oc.eq(*ids), x, 0)
    names = [axis if axes.index(axis) == n else f"{axis}_{n}" for n, axis in enumerate(axes)]
    return unique, oc.einsum(f"{row(names)} => {row(unique)}", x)


@operator("Det", spelling="oc.linalg.det(x)")
def det(call: NodeCall) -> Value:
    return oc.linalg.det(call.tensor(0))
