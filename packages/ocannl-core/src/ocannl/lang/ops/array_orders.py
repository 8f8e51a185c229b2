"""Orders of the last axis of arrays. NaN is greater than all numbers, and indices of equal cells ascend.

Rows are processed in blocks, on the threads of the host call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.base.row_blocks import for_each_block

Array = np.ndarray[Any, Any]
ArrayFunction = Callable[[Array], Array]


def comparable(cells: Array) -> Array:
    """The array in a type that NumPy orders natively."""
    return cells if cells.dtype.kind in "biu" or cells.dtype in (np.float32, np.float64) else cells.astype(np.float32)


def in_order(cells: Array, descending: bool) -> Array:
    ascending = np.array(cells, order="C").reshape(-1, cells.shape[-1] or 1)
    for_each_block(lambda block: ascending[block].sort(axis=-1), *ascending.shape)
    ascending = ascending.reshape(cells.shape)
    return ascending[..., ::-1] if descending else ascending


def stable_order(cells: Array, descending: bool) -> Array:
    """The indices of a stable sort. Types of at most 32 bits are sorted as numbers of 64 bits: a cell, and its index as
    the low bits. All of these numbers differ, so that a sort which is not stable, but faster, has the same result."""
    if cells.dtype.itemsize > 4 or cells.size == 0:
        return _stable_order_of_wide_cells(cells, descending)
    rows = cells.reshape(-1, cells.shape[-1])
    order = np.empty(rows.shape, np.int32)

    def write(block: slice) -> None:
        keys = _keys(rows[block], np.arange(rows.shape[-1]), descending)
        keys.sort(axis=-1)
        order[block] = keys  # the low bits

    for_each_block(write, *rows.shape)
    return order.reshape(cells.shape)


def _stable_order_of_wide_cells(cells: Array, descending: bool) -> Array:
    """Descending orders are ascending orders of the reversed array, so that indices of equal cells ascend."""
    order = np.argsort(cells[..., ::-1] if descending else cells, axis=-1, kind="stable").astype(np.int32)
    return cells.shape[-1] - 1 - order[..., ::-1] if descending else order


def _keys(cells: Array, indices: Array, descending: bool) -> Array:
    """Integers in the order of the cells, with their indices as the low bits."""
    keys = _ordinals(cells).astype(np.int64)
    if descending:
        np.invert(keys, out=keys)
    keys <<= 32
    keys |= indices
    return keys


def _ordinals(cells: Array) -> Array:
    """Integers of 32 bits with a sign, or less, in the order of the cells; equal cells have equal integers."""
    if cells.dtype == np.uint32:
        return (cells ^ np.uint32(1 << 31)).view(np.int32)
    if cells.dtype.kind != "f":
        return cells
    bits = (np.where(np.isnan(cells), np.float32(np.nan), cells) + np.float32(0)).view(np.int32)  # -0.0 becomes 0.0
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def first_in_order(cells: Array, k: int, descending: bool) -> Array:
    """The first `k` indices of the stable order, in blocks of rows."""
    size, groups = cells.shape[-1], _GROUPS_PER_SELECTED_CELL * k
    max_sorted = groups - 1 if cells.dtype.itemsize > 4 else max(_SHORT_ROW, 2 * groups)
    if k == 0 or cells.size == 0 or size <= max_sorted:
        return stable_order(cells, descending)[..., :k]
    rows = cells.reshape(-1, size)
    ids = np.empty((len(rows), k), np.int32)

    def write(block: slice) -> None:
        ids[block] = _first_of_rows(rows[block], k, descending)

    for_each_block(write, *rows.shape)
    return ids.reshape(*cells.shape[:-1], k)


_GROUPS_PER_SELECTED_CELL = 8
_CELLS_PER_GROUP = 16
_MAX_GROUPS = 256  # of a long row, unless `k` needs more: with few groups, NumPy's loops over them are short
_MAX_PADDING = 4  # cells of a table of candidates, for each candidate; rows with many ties have many
_SHORT_ROW = 256  # cells that NumPy sorts faster than it finds candidates


def _first_of_rows(rows: Array, k: int, descending: bool) -> Array:
    """Sorts candidates only. Each row is divided into groups: the k-th of the extremes of groups is not after the k-th
    cell, so cells after this bound are no candidates."""
    size = rows.shape[-1]
    groups = max(_GROUPS_PER_SELECTED_CELL * k, min(_MAX_GROUPS, size // _CELLS_PER_GROUP))
    grouped = rows[:, : size // groups * groups].reshape(len(rows), -1, groups)
    extremes = grouped.max(1) if descending else np.fmin.reduce(grouped, axis=1)
    rank = groups - k if descending else k - 1
    bound = np.partition(extremes, rank, axis=-1)[:, rank : rank + 1]
    row, column = np.divmod(np.flatnonzero(~(rows < bound) if descending else ~(rows > bound)), size)
    values, starts = rows[row, column], np.searchsorted(row, np.arange(len(rows) + 1))
    width = int(np.diff(starts).max())
    if values.dtype.itemsize <= 4 and len(rows) * width <= _MAX_PADDING * len(values):
        table = np.full((len(rows), width), np.iinfo(np.int64).max)
        table[row, np.arange(len(row)) - starts[row]] = _keys(values, column, descending)
        table.sort(axis=-1)
        return table[:, :k].astype(np.int32)  # the low bits
    if descending:  # as in `_stable_order_of_wide_cells`
        order = len(row) - 1 - np.lexsort((values[::-1], -row[::-1]))[::-1]
    else:
        order = np.lexsort((values, row))
    first: Array = column[order[starts[:-1, None] + np.arange(k)]]
    return first


@dataclass(frozen=True)
class OfRanks:
    """The indices of the cells at some positions of the stable order; 0 where the axis has no cells."""

    ranks: tuple[int, ...]

    def __call__(self, cells: Array) -> Array:
        size, ranks = cells.shape[-1], sorted(set(self.ranks))
        rows = cells.reshape(math.prod(cells.shape[:-1]), size)
        ids = np.zeros((len(rows), len(self.ranks)), np.int32)

        def write(block: slice) -> None:
            found = dict(zip(ranks, _cells_of_ranks(rows[block], ranks), strict=True))
            for n, rank in enumerate(self.ranks):
                ids[block, n] = _positions(rows[block], found[rank][:, None], rank)

        if cells.size:
            for_each_block(write, *rows.shape)
        return ids.reshape(*cells.shape[:-1], len(self.ranks))


def _cells_of_ranks(rows: Array, ranks: list[int]) -> list[Array]:
    """For each of the ascending ranks, the cell of each row. NumPy selects the cells of one rank in half the time that
    it sorts rows; the next cell and the last one are extremes of those after it."""
    first, last = ranks[0], rows.shape[-1] - 1
    if not {first, first + 1, last}.issuperset(ranks):
        ordered = np.sort(rows, axis=-1)
        return [ordered[:, rank] for rank in ranks]
    ordered = np.partition(rows, first, axis=-1)
    after = ordered[:, first + 1 :]
    return [
        ordered[:, first] if rank == first else after.max(-1) if rank == last else np.fmin.reduce(after, axis=-1)
        for rank in ranks
    ]


def _positions(rows: Array, cells: Array, rank: int) -> Array:
    """The index of the cell at a position of the stable order of each row, given its value."""
    matches = rows == cells
    has_nan = rows.dtype.kind == "f" and np.isnan(cells).any()
    if has_nan:
        matches |= np.isnan(rows) & np.isnan(cells)
    row, column = np.divmod(np.flatnonzero(matches), rows.shape[-1])
    number: Array | int = 0  # of the cell among those that match
    if len(row) > len(rows):
        less = rows < cells
        if has_nan:
            less |= ~np.isnan(rows) & np.isnan(cells)
        number = rank - np.count_nonzero(less, axis=-1)
    positions: Array = column[np.searchsorted(row, np.arange(len(rows))) + number]
    return positions
