"""Linear maps along one axis, given by a sparse matrix that is known when the operation is applied.

    y[t] = sum over k of weight[t, k] * x[start[t] + k]

Each target reads a window of adjacent sources (a banded matrix). The gradient is the transposed matrix, which has the
same form: each source reads the window of the targets that use it, so neither direction scatters. A weight of exactly 0
excludes its source, also one that is NaN or infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ocannl.infer.logic import einsum
from ocannl.infer.spec import Label, Spec
from ocannl.ir.ops import ADD
from ocannl.ir.precision import Precision, float32, promote
from ocannl.ir.tnode import Role
from ocannl.lang.core.leaf import LeafName, leaf
from ocannl.lang.core.leaf_constructors import NO_AXES, embed
from ocannl.lang.core.literals import HostArray
from ocannl.lang.core.operation import Operation, ResultType, Slots, contraction
from ocannl.lang.core.symbolic_terms import Hole, ShiftedRead, Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.selected_axes import SelectedAxes, axis_vector

Array = np.ndarray[Any, Any]

MAX_UNROLLED_TAPS = 32
"""Matrices with wider windows are stored densely."""


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """A banded matrix: row `t` has `weights[t]` in the columns from `start[t]`; it has `columns` columns."""

    start: Array
    weights: Array
    columns: int

    @property
    def taps(self) -> int:
        return int(self.weights.shape[1])

    @property
    def is_selection(self) -> bool:
        """Whether each target is one source."""
        return self.taps == 1 and bool((self.weights == 1).all())

    def transposed(self) -> Band:
        """The matrix with rows and columns exchanged."""
        rows = len(self.start)
        targets, taps = np.nonzero(self.weights)
        sources = self.start[targets] + taps
        first, last = np.full(self.columns, rows), np.full(self.columns, -1)
        np.minimum.at(first, sources, targets)
        np.maximum.at(last, sources, targets)
        width = max(int((last - first).max(initial=0)) + 1, 1)
        start = np.clip(np.minimum(first, rows - width), 0, None)
        weights = np.zeros((self.columns, width))
        weights[sources, targets - start[sources]] = self.weights[targets, taps]
        return Band(start, weights, rows)


def band(start: Array, weights: Array, columns: int) -> Band:
    """The banded matrix of windows that may extend beyond the columns, where their weights must be 0 or are added to
    those of the nearest column."""
    rows, taps = weights.shape
    sources = start[:, None] + np.arange(taps)
    inside = np.clip(sources, 0, columns - 1)
    width = min(taps, columns)
    new_start = np.clip(inside[:, 0], 0, columns - width)
    merged = np.zeros((rows, width))
    np.add.at(merged, (np.arange(rows)[:, None], np.clip(inside - new_start[:, None], 0, width - 1)), weights)
    return Band(new_start, merged, columns)


def map_axis(axes: SelectedAxes, name: str, matrix: Band) -> Tensor:
    """Applies a matrix along an axis of the selected tensor. A selection preserves the type of integers."""
    back = matrix.transposed()
    if max(matrix.taps, back.taps) > MAX_UNROLLED_TAPS:
        return _map_densely(axes, name, matrix)
    kind, weight_kind = _types(axes.x, matrix)
    targets, sources = axis_vector(f"{name}'"), axis_vector(name)  # no user can write such a name
    taps, back_taps = _weights(axes.x, matrix), _weights(axes.x, back)
    shapes = (
        axes.shape, targets, sources, sources, targets, *[targets] * len(taps), *[sources] * len(back_taps),
    )  # fmt: skip
    result = axes.renamed({name: (Label(f"{name}'"),)})
    split = FIRST_WEIGHT + len(taps)

    def forward(s: Slots) -> None:
        x, start, _, source, _ = s.operands[:FIRST_WEIGHT]
        window = _window(x, 4, s.operands[FIRST_WEIGHT:split], matrix)
        s.result().write(ADD, True, term("where", term("eq", start, source), window, 0))

    def gradient(s: Slots) -> None:
        _, _, start, _, target = s.operands[:FIRST_WEIGHT]
        window = _window(s.gradient(), 5, s.operands[split:], back)
        s.operand_gradient(1).write(ADD, False, term("where", term("eq", start, target), window, 0))

    weak = frozenset(range(1, FIRST_WEIGHT if weight_kind is None else len(shapes)))
    operation = Operation(
        axes.title, einsum(Spec(shapes, result)), forward, gradient, reduce=ADD,
        result_type=ResultType(kind, weak_operands=weak),
    )  # fmt: skip
    starts = [index_constant(m.start) for m in (matrix, back)]
    return apply(operation, [axes.x, *starts, indices(), indices(), *taps, *back_taps])


FIRST_WEIGHT = 5  # operands before the weights: x, starts of both directions, sources, targets


def _window(x: Term, along: int, weights: tuple[Term, ...], matrix: Band) -> Term:
    """The weighted sum of the cells of `x` from the index along operand `along`."""
    cells = [x if k == 0 else _shifted(x, along, k) for k in range(matrix.taps)]
    if matrix.is_selection:
        return cells[0]
    has_zeros = (matrix.weights == 0).any(0)
    products = (
        term("where", term("ne", w, 0), cell * w, 0) if zeros else cell * w
        for cell, w, zeros in zip(cells, weights, has_zeros, strict=True)
    )
    return reduce(lambda a, b: a + b, products)


def _shifted(x: Term, along: int, shift: int) -> Term:
    assert isinstance(x.tree, Hole)
    return Term(ShiftedRead(x.tree, along, shift, 0.0))


def _types(x: Tensor, matrix: Band) -> tuple[Precision | None, Precision | None]:
    """The type of the result, and of the weights; None: inferred."""
    current = x.typing.current
    if matrix.is_selection:
        return (None, float32) if current.is_float else (current, float32)
    if not current.is_float:
        return float32, float32
    return None, None if x.typing.is_open else promote(current, float32)


def _weights(x: Tensor, matrix: Band) -> list[Tensor]:
    """The weights of each tap, as constants."""
    if matrix.is_selection:
        return []
    kind = None if x.typing.is_open else promote(x.typing.current if x.typing.is_float else float32, float32)
    return [_constant("weights", matrix.weights[:, k], kind) for k in range(matrix.taps)]


def _constant(label: str, values: Array, kind: Precision | None) -> Tensor:
    values = np.ascontiguousarray(values if kind is None else values.astype(kind.numpy))
    rows = {**NO_AXES, "output": list(values.shape)}
    return leaf(LeafName(label, is_named=False), Role.DATA, kind, rows, contents=HostArray(values))


def index_constant(values: Array) -> Tensor:
    return embed(np.ascontiguousarray(values, dtype=np.int32))


def _map_densely(axes: SelectedAxes, name: str, matrix: Band) -> Tensor:
    """As `map_axis`, by a contraction with the whole matrix."""
    kind, weight_kind = _types(axes.x, matrix)
    dense = np.zeros((len(matrix.start), matrix.columns))
    dense[np.arange(len(dense))[:, None], matrix.start[:, None] + np.arange(matrix.taps)] = matrix.weights
    target, has_zeros = f"{name}'", not dense.all()
    spec = Spec((axes.shape, axis_vector(target, name)), axes.renamed({name: (Label(target),)}))

    def combine(v: Term, weight: Term) -> Term:
        return term("where", term("ne", weight, 0), v * weight, 0) if has_zeros else v * weight

    result_type = ResultType(kind, weak_operands=frozenset() if weight_kind is None else frozenset({1}))
    operation = contraction(axes.title, einsum(spec), combine, ADD, result_type=result_type)
    return apply(operation, [axes.x, _constant("weights", dense, weight_kind)])


def select_along(axes: SelectedAxes, name: str, sources: Array) -> Tensor:
    """The cells of an axis at constant indices; an index out of bounds gives 0. Preserves the type."""
    spec = Spec((axes.shape, axis_vector(f"{name}'"), axis_vector(name)), axes.renamed({name: (Label(f"{name}'"),)}))

    def combine(v: Term, wanted: Term, source: Term) -> Term:
        return term("where", term("eq", wanted, source), v, 0)

    kind = None if axes.x.typing.is_float else axes.x.typing.current
    result_type = ResultType(kind, weak_operands=frozenset({1, 2}))
    operation = contraction(axes.title, einsum(spec), combine, ADD, result_type=result_type)
    return apply(operation, [axes.x, index_constant(sources), indices()])
