"""Orders of the last axis of arrays. NaN is greater than all numbers, and indices of equal cells ascend.

Rows are processed in blocks, on the threads of the host call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

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
        keys = _keys(rows[block], descending).astype(np.int64)
        keys <<= 32
        keys |= np.arange(rows.shape[-1])
        keys.sort(axis=-1)
        order[block] = keys  # the low bits

    for_each_block(write, *rows.shape)
    return order.reshape(cells.shape)


def _stable_order_of_wide_cells(cells: Array, descending: bool) -> Array:
    """Descending orders are ascending orders of the reversed array, so that indices of equal cells ascend."""
    order = np.argsort(cells[..., ::-1] if descending else cells, axis=-1, kind="stable").astype(np.int32)
    return cells.shape[-1] - 1 - order[..., ::-1] if descending else order


def _keys(cells: Array, descending: bool) -> Array:
    """Integers in the order of the cells."""
    keys = _ordinals(cells)
    return ~keys if descending else keys


def _ordinals(cells: Array) -> Array:
    """Integers with a sign, of 32 or 64 bits, in the order of the cells; equal cells have equal integers."""
    signed = np.dtype(f"i{max(4, cells.dtype.itemsize)}")
    if cells.dtype.kind != "f":
        is_unsigned = cells.dtype.kind == "u" and cells.dtype.itemsize >= 4
        return cells.view(signed) ^ signed.type(np.iinfo(signed).min) if is_unsigned else cells.astype(signed)
    is_nan = np.isnan(cells)
    numbers = np.where(is_nan, cells.dtype.type(np.nan), cells) if is_nan.any() else cells
    bits: Array = (numbers + cells.dtype.type(0)).view(signed)  # -0.0 becomes 0.0
    ordinals = bits >> (8 * signed.itemsize - 1)
    ordinals &= np.iinfo(signed).max
    ordinals ^= bits
    return ordinals


# --- the first cells of the order ------------------------------------------------------------------------------------


_SHORT_AXIS = 256  # cells that NumPy sorts faster than it searches groups
_MIN_GROUP = 4
_TEMPORARIES = 4  # arrays of the keys of a block, which stay in the cache together


def group_size(size: int, k: int) -> int | None:
    """How many cells a group of an axis has if its first `k` cells are searched in groups: the search reads one extreme
    of each group and the cells of `k` groups. None if sorting is as fast."""
    group = 1 << round(math.log2(size / k) / 2) if 0 < k < size else 0
    return group if group >= _MIN_GROUP and size > _SHORT_AXIS else None


@dataclass(frozen=True)
class FirstOfGroups:
    """The indices of the first `k` cells of the stable order along an axis, given the extremes of groups of consecutive
    cells. They are in the first `k` groups of the stable order of extremes: each of these has a cell that precedes all
    cells of the other groups."""

    number: int
    k: int
    descending: bool
    group: int

    def __call__(self, array: Array, extremes: Array) -> Array:
        size, stride, k = array.shape[self.number], math.prod(array.shape[self.number + 1 :]), self.k
        cells, offsets, extremes = np.ravel(array), np.arange(self.group), np.moveaxis(extremes, self.number, -1)
        full, rest = divmod(size, self.group)
        rows = extremes.reshape(-1, full)
        ids = np.empty((len(rows), k), np.int32)

        def keys_of(rows: Array, groups: Array) -> Array:
            """Those of the cells of a group in each row."""
            starts = rows + rows // stride * (stride * (size - 1)) + groups * (self.group * stride)
            keys = _keys(comparable(_read(cells, starts, self.group, stride)), self.descending)
            if rest:
                is_outside = (groups == full)[:, None] & (offsets >= rest)
                keys[is_outside] = np.iinfo(keys.dtype).max  # after equal keys, whose indices are smaller
            return keys

        def search(block: slice) -> None:
            best, numbers = comparable(rows[block]), np.arange(len(rows))[block]
            is_nan = np.isnan(best) if best.dtype.kind == "f" and not self.descending else None
            best = _keys(best, self.descending)
            if is_nan is not None and is_nan.any():  # the extreme of a group with NaN is its smallest number, if any
                row, group = np.nonzero(is_nan)
                best[is_nan] = keys_of(numbers[row], group).min(-1)
            if rest:
                best = np.append(best, keys_of(numbers, np.full(len(numbers), full)).min(-1, keepdims=True), axis=-1)
            row, group = np.divmod(_first(best, k), best.shape[-1])
            keys = keys_of(numbers[row], group)
            first = _first(keys.reshape(len(numbers), -1), k)
            order = np.argsort(np.ravel(keys)[first].reshape(-1, k), axis=-1, kind="stable")
            order += np.arange(0, len(first), k)[:, None]
            ids[block] = (group[first // self.group] * self.group + first % self.group)[order]

        for_each_block(search, len(rows), _TEMPORARIES * (full + k * self.group))
        return np.moveaxis(ids.reshape(*extremes.shape[:-1], k), -1, self.number)


def _read(cells: Array, starts: Array, count: int, stride: int) -> Array:
    """So many cells from each start on; any value for those after the end of the array."""
    if stride > 1:
        return cells.take(starts[:, None] + np.arange(count) * stride, mode="clip")
    if len(cells) % count == 0 and not (starts % count).any():
        return cells.reshape(-1, count).take(starts // count, axis=0)
    last = len(cells) - count
    bits = cells.view(f"u{cells.dtype.itemsize}")  # NumPy cannot view float8_e5m2 with other strides
    windows = sliding_window_view(bits, count)[np.minimum(starts, last)].view(cells.dtype)  # copies runs of cells
    is_late = starts > last
    if is_late.any():
        windows[is_late] = cells.take(starts[is_late, None] + np.arange(count), mode="clip")
    return windows


def _first(keys: Array, k: int) -> Array:
    """The flat indices of the first `k` keys of the stable order of each row, in ascending order."""
    bound = np.partition(keys, k - 1, axis=-1)[:, k - 1 : k]
    is_first = keys <= bound
    indices = np.flatnonzero(is_first)
    if len(indices) > len(keys) * k:  # of the keys that equal the bound, only the first ones
        numbers = np.cumsum(keys == bound, axis=-1)
        surplus = np.count_nonzero(is_first, axis=-1) - k
        is_first &= (keys < bound) | (numbers <= (numbers[:, -1] - surplus)[:, None])
        indices = np.flatnonzero(is_first)
    return indices


# --- cells at positions of the order ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class OfRanks:
    """The indices of the cells at some positions of the stable order; 0 where the axis has no cells."""

    ranks: tuple[int, ...]

    def __call__(self, cells: Array) -> Array:
        size, ranks = cells.shape[-1], sorted(set(self.ranks))
        rows = cells.reshape(math.prod(cells.shape[:-1]), size)
        ids = np.zeros((len(rows), len(self.ranks)), np.int32)

        def write(block: slice) -> None:
            values = dict(zip(ranks, _cells_of_ranks(rows[block], ranks), strict=True))
            for n, rank in enumerate(self.ranks):
                ids[block, n] = _positions(rows[block], values[rank][:, None], rank)

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
