"""Searches: positions in sorted sequences, and positions of nonzero cells.

`searchsorted` is a binary search of all numbers in parallel, with log2 n + 1 steps for a sequence of n numbers.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ocannl.base.errors import CodeError, DataError, ShapeError
from ocannl.base.row_blocks import for_each_block, threads_for
from ocannl.infer.logic import einsum
from ocannl.infer.parse import parse
from ocannl.ir.ops import ADD
from ocannl.ir.precision import int32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.host_calls import host_call
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_number
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.index_tensors import check_count
from ocannl.lang.ops.indexed_rows import BATCH, OUTPUT, axis_count, has_axes

Array = np.ndarray[Any, Any]


@composite
def searchsorted(sequence: object, x: object, side: Literal["left", "right"] = "left") -> Tensor:
    """The int32 number of elements of the sorted vector `sequence` that are less than each cell of `x`; with
    `side="right"`, not greater.

        oc.searchsorted(np.array([1.0, 2.0, 4.0]), x)

    Inserting the cell at this position keeps the order; NaN is greater than all numbers. `sequence` must be in
    ascending order, else the result is unspecified.

    Shapes: `n; ...|..s.. => ...|..s..`; a sequence with a batch row is searched separately for each cell of this row.
    Grad:   none.
    Raises: CodeError for another `side`; ShapeError.
    Source: NumPy and PyTorch `searchsorted`.
    """
    if side not in ("left", "right"):
        raise CodeError(f"oc.searchsorted: side={side!r} is not 'left' or 'right'"[:200])
    ordered, values = embed(sequence), embed(x)
    batch = "...|" if has_axes(ordered, BATCH) else ""

    def forward(s: Slots) -> None:
        position, (element, value) = s.result(), s.operands
        precedes = _is_less(element, value) if side == "left" else ~_is_less(value, element)
        position.write(None, True, 0, {})
        size = ordered.dims[-1]
        step = 1 << size.bit_length() >> 1
        while step:
            position.write(ADD, False, term("where", precedes, step, 0), {"n": s.value + (step - 1)})
            step >>= 1

    logic = einsum(parse(f"{batch}n; ...|..s.. => ...|..s.."))
    return apply(Operation("searchsorted", logic, forward, None, result_type=ResultType(int32)), [ordered, values])


def _is_less(a: Term, b: Term) -> Term:
    """`a < b`, where NaN is greater than all numbers."""
    return (a < b) | (term("ne", b, b) & term("eq", a, a))


@composite
def digitize(x: object, bins: object, right: bool = False) -> Tensor:
    """The int32 number of the interval of each cell of `x`: `i` where `bins[i-1] <= x < bins[i]`; with `right`, where
    `bins[i-1] < x <= bins[i]`.

        oc.digitize(x, np.array([0.0, 1.0, 2.0]))

    `bins` must be in ascending order. The interval below all of `bins` has number 0.

    Shapes: those of `x`; `bins` is a vector.
    Grad:   none.
    Raises: ShapeError.
    Source: NumPy `digitize`, PyTorch `bucketize`.
    """
    return searchsorted(bins, x, "left" if right else "right")


@composite
def nonzero(x: object, size: int, fill: int = -1) -> Tensor:
    """The int32 index tuples of the first `size` nonzero cells of the output row, in row-major order.

        oc.nonzero(x > 0, size=10)

    Missing tuples consist of `fill`. The default value is out of range, so `oc.gather_nd` yields zeros for it, and
    `oc.scatter_nd` updates nothing. NaN is nonzero. The tuples are computed by NumPy, in a host call.

    Shapes: `...|..s.. => ...|n, k`, for a row of k axes.
    Grad:   none.
    Raises: DataError unless `size` is a nonnegative integer; ShapeError while the number of axes is unknown.
    Source: NumPy `argwhere`, PyTorch `nonzero`, JAX `nonzero(x, size=n)`.
    """
    values = embed(x)
    check_count(size, "nonzero")
    rank = axis_count(values, OUTPUT)
    if rank is None:
        fix = f"give `{values.label}` output=[...]"
        raise ShapeError(f"`nonzero`: the number of output axes of `{values.label}` is unknown\n  fix    {fix}")

    def tuples(array: Array) -> Array:
        batch = array.shape[: array.ndim - rank]
        indices = np.full((*batch, size, rank), fill, np.int32)
        for cell in np.ndindex(batch):
            _write_nonzero(array[cell], indices[cell])
        return indices

    def forward(s: Slots) -> None:
        s.result().write(None, True, host_call(tuples, s.operands[0], name="nonzero"))

    logic = einsum(parse("...|..s.. => ...|n, k"))
    sizes = {"n": int(size), "k": rank}
    operation = Operation("nonzero", logic, forward, None, result_type=ResultType(int32), sizes=sizes)
    return apply(operation, [values])


def _write_nonzero(array: Array, tuples: Array) -> None:
    """Writes the index tuples of the first nonzero cells. Several threads first count these in all blocks; a single one
    stops when it has found enough."""
    cells = array.reshape(-1)
    if threads_for(cells.size) == 1:
        written = 0
        for start in range(0, cells.size, _BLOCK_CELLS):
            positions = np.flatnonzero(cells[start : start + _BLOCK_CELLS] != 0)[: len(tuples) - written] + start
            _write_tuples(positions, array.shape, tuples[written : written + len(positions)])
            written += len(positions)
            if written == len(tuples):
                break
        return
    counts: dict[int, int] = {}

    def count(block: slice) -> None:
        counts[block.start] = int(np.count_nonzero(cells[block] != 0))

    def write(block: slice) -> None:
        rows = tuples[firsts[block.start] :][: counts[block.start]]
        if rows.size:
            _write_tuples(np.flatnonzero(cells[block] != 0)[: len(rows)] + block.start, array.shape, rows)

    for_each_block(count, cells.size, 1)
    starts = sorted(counts)
    totals = np.cumsum([0, *(counts[start] for start in starts)])
    firsts = dict(zip(starts, totals[:-1].tolist(), strict=True))
    for_each_block(write, cells.size, 1)


_BLOCK_CELLS = 1 << 16


def _write_tuples(positions: Array, shape: tuple[int, ...], rows: Array) -> None:
    """Writes the indices along all axes of cells at positions in the flattened array."""
    for axis in range(len(shape) - 1, 0, -1):
        quotients = positions // shape[axis]
        rows[:, axis] = positions - quotients * shape[axis]
        positions = quotients
    rows[:, :1] = positions[:, None]  # a scalar has no index


@composite
def unique(x: object, size: int, fill: float | None = None) -> Tensor:
    """The first `size` distinct values of the output row, in ascending order.

        ids = oc.unique(x, size=10)
        positions = oc.searchsorted(ids, x)  # of each cell among the distinct values

    Missing values are `fill`, by default the greatest value, which keeps the order; the default for no cells is 0. NaN
    is greater than all numbers and equal to itself. The values are computed by NumPy, in a host call: O(n log n) for n
    cells.

    Shapes: `...|..s.. => ...|n`.
    Grad:   none.
    Raises: DataError unless `size` is a nonnegative integer and `fill` a number; ShapeError.
    Source: NumPy `unique`, JAX `unique(x, size=n)`.
    """
    values = embed(x)
    check_count(size, "unique")
    if fill is not None and not is_number(fill):
        raise DataError(f"oc.unique: `fill` is a number, not {fill!r}"[:200])

    def forward(s: Slots) -> None:
        batch = len(values.shape.batch)

        def distinct(array: Array) -> Array:
            values_kept = np.empty((*array.shape[:batch], size), array.dtype)
            for cell in np.ndindex(array.shape[:batch]):
                first = np.unique(array[cell])
                missing = fill if fill is not None else first[-1] if len(first) else 0
                values_kept[cell] = missing
                values_kept[cell][: len(first)] = first[:size]
            return values_kept

        s.result().write(None, True, host_call(distinct, s.operands[0], name="unique"))

    logic = einsum(parse("...|..s.. => ...|n"))
    result_type = ResultType(None if values.typing.is_float else values.typing.current)
    operation = Operation("unique", logic, forward, None, result_type=result_type, sizes={"n": int(size)})
    return apply(operation, [values])


REGISTRY.update(searchsorted=searchsorted, digitize=digitize, nonzero=nonzero, unique=unique)
