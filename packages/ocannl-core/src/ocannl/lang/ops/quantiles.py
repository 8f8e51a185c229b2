"""Order statistics along one axis: quantiles, medians and the k-th smallest cells, selected from the sorted axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ocannl.base.errors import CodeError, DataError, ShapeError
from ocannl.infer.logic import einsum
from ocannl.infer.spec import Spec
from ocannl.ir.assign import Number
from ocannl.ir.ops import ADD
from ocannl.ir.precision import float32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.literals import is_bool, is_number
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.along_axis import rename_axis, single_axis
from ocannl.lang.ops.ordering import axis_number, cells_of_ranks

Method = Literal["linear", "lower", "higher", "nearest", "midpoint"]
WeightedRanks = list[tuple[int, float]]
"""Positions of a sorted axis and their weights."""


@composite
def quantile(
    x: object, q: float | Sequence[float], spec: str | None = None, *, method: Method = "linear", **names: Any
) -> Tensor:
    """The quantile `q`, from 0 to 1, along one axis: the axis that the spec removes, or the only output axis.

        oc.quantile(x, 0.9, "...|t,c => ...|c")           # of t
        oc.quantile(x, [0.25, 0.75], "...|t,c => ...|c")  # two quantiles in place of t

    A quantile between two cells is interpolated by `method`: `linear`, `lower`, `higher`, `nearest` or `midpoint`.

    Shapes: those of the spec, or `..b..|..i..->n => ..b..|..i..->`; for a sequence `q` the axis remains, with the size
            of the sequence.
    Grad:   `g` times the weights of the interpolation, to the cells that it reads.
    NaN:    if any cell is NaN, and for an axis of size 0.
    Raises: DataError unless `q` are numbers from 0 to 1; CodeError for another method, and unless the spec removes
            exactly one axis; ShapeError.
    Source: NumPy and PyTorch `quantile`.
    """
    if not isinstance(method, str) or method not in _METHODS:
        raise CodeError(f"oc.quantile: method={method!r} is not one of {', '.join(map(repr, _METHODS))}"[:200])
    is_sequence = isinstance(q, Sequence | np.ndarray) and np.ndim(q) == 1
    listed: list[Any] = list(q) if is_sequence else [q]  # type: ignore[arg-type]
    if not all(is_number(p) and 0 <= p <= 1 for p in listed):
        raise DataError(f"oc.quantile: a quantile is a number from 0 to 1, not {q!r}"[:200])

    def weighted_ranks(size: int) -> list[WeightedRanks]:
        return [_METHODS[method](float(p) * max(0, size - 1)) for p in listed]

    terms = len(_METHODS[method](0.0))
    return _selected(x, spec, names, "quantile", weighted_ranks, terms, len(listed) if is_sequence else None)


@composite
def median(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The median along one axis, the mean of the two middle cells of an axis of even size: the axis that the spec
    removes, or the only output axis.

        oc.median(x, "...|t,c => ...|c")  # of t

    Shapes: those of the spec, or `..b..|..i..->n => ..b..|..i..->`.
    Grad:   `g` to the middle cell, or half of it to each of the two middle cells.
    NaN:    if any cell is NaN, and for an axis of size 0.
    Raises: CodeError unless the spec removes exactly one axis; ShapeError.
    Source: NumPy `median`; PyTorch `median` is the lower of two middle cells, `oc.quantile(x, 0.5, method="lower")`.
    """
    return _selected(x, spec, names, "median", lambda size: [_linear(0.5 * max(0, size - 1))], 2, None)


@composite
def kthvalue(x: object, k: int, spec: str | None = None, **names: Any) -> Tensor:
    """The `k`-th smallest cell along one axis, counted from 1: the axis that the spec removes, or the only output axis.

        oc.kthvalue(x, 2, "...|t,c => ...|c")  # of t

    NaN is greater than all numbers.

    Shapes: those of the spec, or `..b..|..i..->n => ..b..|..i..->`.
    Grad:   `g`, to this cell.
    Raises: DataError unless `k` is a positive integer; CodeError unless the spec removes exactly one axis; ShapeError
            if the axis has fewer cells.
    Source: PyTorch `kthvalue`, whose indices are those of `oc.argsort`.
    """
    if is_bool(k) or not isinstance(k, int | np.integer) or k < 1:
        raise DataError(f"oc.kthvalue: `k` is a positive integer, not {k!r}"[:200])

    def weighted_ranks(size: int) -> list[WeightedRanks]:
        if size < k:
            raise ShapeError(f"`kthvalue`: k is {k}, but the axis has {size} cells")
        return [[(int(k) - 1, 1.0)]]

    return _selected(x, spec, names, "kthvalue", weighted_ranks, 1, None)


def _selected(
    x: object, spec: str | None, names: dict[str, Any], title: str,
    weighted_ranks: Callable[[int], list[WeightedRanks]], terms: int, count: int | None,
) -> Tensor:  # fmt: skip
    """Weighted sums of `terms` cells of the sorted axis, for each size of the axis: one in place of the axis, or
    `count`."""
    axes, axis = single_axis(x, spec, names, title)
    operand, selected, new = axes.logic.spec.operands[0], f"{axis}'", f"{axis}''"  # no user can write such names
    checks_nan = title != "kthvalue"

    def ranks(size: int) -> list[int]:
        """Of all terms, and of the last cell, which is NaN if any is."""
        return [rank for weighted in weighted_ranks(size) for rank, _ in weighted] + [size - 1] * checks_nan

    cells = cells_of_ranks(axes, axis, title, ranks, terms * (count or 1) + checks_nan)

    def weights() -> list[tuple[dict[str, Term], float]]:
        """The indices of the cells and the results, with the weights that are not 0."""
        size = axes.x.dims[axis_number(axes, axis)]
        listed = [(n, weight) for n, weighted in enumerate(weighted_ranks(size)) for _, weight in weighted]
        return [
            ({selected: Term(Number(at)), **({} if count is None else {new: Term(Number(n))})}, weight)
            for at, (n, weight) in enumerate(listed)
            if weight and size
        ]

    def forward(s: Slots) -> None:
        size, result = axes.x.dims[axis_number(axes, axis)], s.result()
        result.write(None, True, 0.0 if size else math.nan, {})
        value = s.stored(s.operands[0])
        for at, weight in weights():
            result.write(ADD, False, value if weight == 1 else value * weight, at)
        if size and checks_nan and axes.x.typing.is_float:
            last = {selected: Term(Number(cells.dims[axis_number(axes, axis)] - 1))}
            result.write(ADD, False, term("where", term("eq", value, value), 0.0, value), last)

    def gradient(s: Slots) -> None:
        for at, weight in weights():
            s.operand_gradient(1).write(ADD, False, s.gradient() * weight, at)

    result = axes.logic.spec.result if count is None else rename_axis(operand, axis, new)
    logic = einsum(Spec((rename_axis(operand, axis, selected),), result))
    min_precision = None if title == "kthvalue" else float32
    operation = Operation(
        title, logic, forward, gradient, result_type=ResultType(min_precision=min_precision),
        sizes=axes.sizes if count is None else {**axes.sizes, new: count},
    )  # fmt: skip
    return apply(operation, [cells])


# --- interpolation: the cells around a fractional index, with their weights ------------------------------------------


def _linear(index: float) -> WeightedRanks:
    low, high = math.floor(index), math.ceil(index)
    return [(low, 1.0 if low == high else high - index), (high, index - low)]


def _midpoint(index: float) -> WeightedRanks:
    low, high = math.floor(index), math.ceil(index)
    return [(low, 1.0 if low == high else 0.5), (high, 0.5 * (high - low))]


_METHODS: dict[str, Callable[[float], WeightedRanks]] = {
    "linear": _linear,
    "lower": lambda index: [(math.floor(index), 1.0)],
    "higher": lambda index: [(math.ceil(index), 1.0)],
    "nearest": lambda index: [(round(index), 1.0)],
    "midpoint": _midpoint,
}

REGISTRY.update(quantile=quantile, median=median, kthvalue=kthvalue)
