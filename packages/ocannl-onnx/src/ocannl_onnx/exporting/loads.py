"""Reads of nodes with affine indices, as operators on axes: slices, padding, gathers, transposed and reshaped arrays.

    x[b, 2*oh+kh-1, c]      Pad, then Gather of the positions 2*oh+kh along one axis
    x[4*i+j]                Reshape to the axes i, j
    x[i, i]                 Gather from the flattened array
    table[v], v computed    Gather
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.precision import Precision, bool_, int64
from ocannl_onnx.exporting.grids import (
    Array,
    Grid,
    Grids,
    carrier,
    common_axes,
    reshaped,
    static_index,
    transposed,
    where,
)


@dataclass(frozen=True, slots=True)
class Stored:
    """The value of a node: axis n of the array `name`, of the type of the node, is its axis `order[n]`. `inner` is the
    value without axes of size 1, if it was computed before these were inserted."""

    name: str
    order: tuple[int, ...]
    inner: Stored | None = None


@dataclass(slots=True)
class SymbolValues:
    """The values of symbols that are not loops: computed positions, steps of loops around, and static symbols. Computed
    positions are clipped to the range of their symbols."""

    computed: Mapping[Sym, Grid] = field(default_factory=dict)

    def is_static(self, index: Affine) -> bool:
        return all(sym.kind is SymKind.LOOP and sym not in self.computed for sym in index.syms)

    def axes_of(self, index: Affine) -> set[Sym]:
        axes: set[Sym] = set()
        for sym in index.syms:
            axes.update(self.computed[sym].axes if sym in self.computed else (sym,))
        return axes


class Loads:
    """Writes the operators that read nodes."""

    def __init__(self, grids: Grids) -> None:
        self.grids = grids
        self.builder = grids.builder

    def index(self, index: Affine, scope: SymbolValues) -> Grid:
        """The values of an index."""
        fixed = [(coef, sym) for coef, sym in index.terms if sym not in scope.computed]
        total = self.grids.index(Affine.sum(fixed, index.const))
        is_zero = not fixed and not index.const
        for coef, sym in index.terms:
            if sym in scope.computed:
                term = scope.computed[sym]
                if coef != 1:
                    scale = self.grids.constant(np.array(coef), (), int64)
                    term = self.grids.elementwise("Mul", [term, scale], int64)
                total = term if is_zero else self.grids.elementwise("Add", [total, term], int64)
                is_zero = False
        return total

    def load(
        self,
        stored: Stored,
        kind: Precision,
        dims: Sequence[int],
        indices: Sequence[Affine],
        outside: float | None,
        scope: SymbolValues,
    ) -> Grid:
        """The cells at `indices`, or the number `outside` where these are out of bounds."""
        reader = _ReadWriter(self, kind, tuple(dims), tuple(indices), outside, scope)
        return reader.read(stored)


@dataclass(slots=True)
class _ReadWriter:
    """One read. `layout` are the axes of the current array: loops, and numbers of axes of the node."""

    loads: Loads
    kind: Precision
    dims: tuple[int, ...]
    indices: tuple[Affine, ...]
    outside: float | None
    scope: SymbolValues
    layout: list[Sym | int] = field(default_factory=list)
    masks: list[Grid] = field(default_factory=list)

    def read(self, stored: Stored) -> Grid:
        grids = self.loads.grids
        if stored.inner is not None:
            units = set(stored.order) - set(stored.inner.order)
            if all(self.indices[n] == Affine() for n in units):
                stored = stored.inner
        name = grids.from_storage(stored.name, self.kind)
        self.layout = list(stored.order)
        axes = [self.scope.axes_of(index) for index in self.indices]
        absent = set(range(len(axes))) - set(stored.order)
        shared = [n for n in range(len(axes)) if self._is_shared(n)]
        if 0 in self.dims:
            return self._outside_everywhere(axes)
        name, offsets, sizes = self._padded(name, [n for n in range(len(axes)) if n not in shared])
        for n, index in enumerate(self.indices):
            if n not in shared and n not in absent:
                name = self._along(name, n, index + offsets[n], sizes[n])
        if shared:
            name = self._flat(name, shared)
        grid = Grid(name, tuple(self.layout), self.kind)  # type: ignore[arg-type]
        for mask in self.masks:
            grid = where(grids, mask, grid, self._outside_number())
        return grid

    def _outside_number(self) -> Grid:
        return self.loads.grids.constant(np.array(self.outside or 0), (), self.kind)

    def _outside_everywhere(self, axes: Sequence[set[Sym]]) -> Grid:
        loops = sorted(set().union(*axes), key=lambda sym: sym.name)
        return self.loads.grids.expanded(self._outside_number(), loops)

    def _padded(self, name: str, axes: Sequence[int]) -> tuple[str, list[int], list[int]]:
        """Pads axes with static indices so that all reads are inside; offsets of positions, and the new sizes."""
        low, high = [0] * len(self.dims), [0] * len(self.dims)
        for n in axes:
            index, size = self.indices[n], self.dims[n]
            if self.scope.is_static(index) and all(sym.extent for sym in index.syms):
                first, last = index.range()
                low[n], high[n] = max(0, -first), max(0, last - size + 1)
        sizes = [size + before + after for size, before, after in zip(self.dims, low, high, strict=True)]
        if any(low) or any(high):
            builder = self.loads.builder
            pads = [before[n] for before in (low, high) for n in self.layout]  # type: ignore[index]
            value = builder.constant(np.array(self.outside or 0).astype(carrier(self.kind).numpy))
            name = builder.node("Pad", name, builder.integers(*pads), value)
        return name, low, sizes

    def _along(self, name: str, n: int, index: Affine, size: int) -> str:
        """Replaces axis `n` of the node by the loops of its index."""
        builder, at = self.loads.builder, self.layout.index(n)
        if not self.scope.is_static(index):
            positions = self._bounded(self.loads.index(index, self.scope), index, size)
            self.layout[at : at + 1] = positions.axes
            return builder.node("Gather", name, positions.name, axis=at)
        digits = radix(index, size)
        self.layout[at : at + 1] = digits if digits is not None else index.syms
        if not index.terms:
            return self._selected(name, at, index.const, size)
        if digits is not None:
            if len(digits) == 1:
                return name
            return reshaped(builder, name, [self._size_of(axis) for axis in self.layout])
        if len(index.terms) == 1:
            return self._sliced(name, at, index)
        _, positions_array = static_index(index)
        return builder.node("Gather", name, builder.constant(positions_array), axis=at)

    def _size_of(self, axis: Sym | int) -> int:
        if isinstance(axis, Sym):
            return axis.extent
        index, size = self.indices[axis], self.dims[axis]
        if not self.scope.is_static(index) or self._is_shared(axis):
            return size
        first, last = index.range()
        return size + max(0, -first) + max(0, last - size + 1)

    def _is_shared(self, axis: int) -> bool:
        loops = self.scope.axes_of(self.indices[axis])
        return any(loops & self.scope.axes_of(index) for n, index in enumerate(self.indices) if n != axis)

    def _selected(self, name: str, at: int, position: int, size: int) -> str:
        builder = self.loads.builder
        if size == 1:
            return builder.node("Squeeze", name, builder.integers(at))
        return builder.node("Gather", name, builder.constant(np.array(position, np.int64)), axis=at)

    def _sliced(self, name: str, at: int, index: Affine) -> str:
        builder, ((coef, sym),) = self.loads.builder, index.terms
        first, last = index.const + coef * sym.lo, index.const + coef * sym.hi
        stop = last + (1 if coef > 0 else -1)
        ends = (stop if stop >= 0 else -(1 << 31), at, coef)
        return builder.node("Slice", name, builder.integers(first), *(builder.integers(end) for end in ends))

    def _bounded(self, positions: Grid, index: Affine, size: int) -> Grid:
        """Positions clipped to an axis; where they are out of bounds, the value is `outside`."""
        grids = self.loads.grids
        if all(sym.extent for sym in index.syms):
            low, high = index.range()
            if low >= 0 and high < size:
                return positions
        if self.outside is not None:
            self.masks.append(inside(grids, positions, 0, size - 1))
        return clipped(grids, positions, 0, size - 1)

    def _flat(self, name: str, shared: Sequence[int]) -> str:
        """Replaces axes that share loops by these, with positions in the flattened axes."""
        grids, builder = self.loads.grids, self.loads.builder
        remaining = [axis for axis in self.layout if axis not in shared]
        name = transposed(builder, name, self.layout, [*shared, *remaining])
        size = prod(self.dims[n] for n in shared)
        name = reshaped(builder, name, [size, *(self._size_of(axis) for axis in remaining)])
        address, step = None, size
        for n in shared:
            step //= self.dims[n]
            positions = self._bounded(self.loads.index(self.indices[n], self.scope), self.indices[n], self.dims[n])
            if step != 1:
                scale = grids.constant(np.array(step), (), int64)
                positions = folded(grids, "Mul", [positions, scale])
            address = positions if address is None else folded(grids, "Add", [address, positions])
        assert address is not None
        self.layout = [*address.axes, *remaining]
        return builder.node("Gather", name, address.name, axis=0)


def folded(grids: Grids, operator: str, operands: Sequence[Grid]) -> Grid:
    """A sum or product of positions, computed now if these are constants."""
    arrays = [grids.builder.array_of(operand.name) for operand in operands]
    if any(array is None for array in arrays):
        return grids.elementwise(operator, operands, int64)
    axes = common_axes(operands)
    views = [_over(grids, operand, axes) for operand in operands]
    function = {"Mul": np.multiply, "Add": np.add}[operator]
    return grids.constant(function(*views), axes, int64)


def _over(grids: Grids, constant: Grid, axes: Sequence[Sym]) -> Array:
    """The elements of a constant, with axes of size 1 along the loops that it does not have."""
    array = grids.builder.constants.arrays[constant.name]
    order = [constant.axes.index(sym) for sym in axes if sym in constant.axes]
    return array.transpose(order).reshape([sym.extent if sym in constant.axes else 1 for sym in axes])


def radix(index: Affine, size: int) -> list[Sym] | None:
    """The loops whose values are the digits of the index, if their iterations are all positions of an axis in order."""
    if index.const or any(sym.lo for sym in index.syms):
        return None
    terms = [(coef, sym) for coef, sym in index.terms if sym.extent != 1]
    units = [sym for _, sym in index.terms if sym.extent == 1]
    step, digits = 1, []
    for coef, sym in sorted(terms, key=lambda term: term[0]):
        if coef != step:
            return None
        step *= sym.extent
        digits.append(sym)
    return [*units, *reversed(digits)] if step == size else None


def inside(grids: Grids, positions: Grid, low: int, high: int) -> Grid:
    """Whether positions are in a range."""
    low_limit, high_limit = (grids.constant(np.array(limit), (), int64) for limit in (low, high))
    above = grids.elementwise("GreaterOrEqual", [positions, low_limit], bool_)
    return grids.elementwise("And", [above, grids.elementwise("LessOrEqual", [positions, high_limit], bool_)], bool_)


def clipped(grids: Grids, positions: Grid, low: int, high: int) -> Grid:
    """Positions limited to a range."""
    limits = (grids.builder.constant(np.array(limit, np.int64)) for limit in (low, high))
    return Grid(grids.builder.node("Clip", positions.name, *limits), positions.axes, int64)
