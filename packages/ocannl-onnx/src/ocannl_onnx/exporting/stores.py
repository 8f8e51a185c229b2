"""Results of assignments as values of nodes: new arrays where the indices of the left-hand side cover it in order,
otherwise padded, concatenated or scattered ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.ops import Op
from ocannl.ir.precision import Precision, int64
from ocannl_onnx.exporting.grids import Grid, Grids, carrier, transposed
from ocannl_onnx.exporting.loads import Loads, Stored, SymbolValues, folded, radix

SCATTERS = {"add": "add", "mul": "mul", "max": "max", "min": "min"}


class Stores:
    """Writes the operators that place grids in nodes. Arrays have the carrier type."""

    def __init__(self, loads: Loads) -> None:
        self.loads = loads
        self.grids: Grids = loads.grids
        self.builder = loads.builder

    def canonical(self, stored: Stored) -> str:
        """The array with axes in the order of the node."""
        return transposed(self.builder, stored.name, stored.order, range(len(stored.order)))

    def full(self, dims: Sequence[int], value: float, kind: Precision) -> Stored:
        number = self.builder.constant(np.array(value).astype(carrier(kind).numpy))
        name = self.builder.node("Expand", number, self.builder.integers(*dims)) if dims else number
        return Stored(name, tuple(range(len(dims))))

    def direct(self, grid: Grid, indices: Sequence[Affine], dims: Sequence[int]) -> Stored | None:
        """The value of a node whose cells are the iterations of a grid, in order; None if they are not."""
        digits = [radix(index, size) for index, size in zip(indices, dims, strict=True)]
        loops = [sym for axis_loops in digits if axis_loops is not None for sym in axis_loops]
        if None in digits or len(set(loops)) != len(loops) or not set(grid.axes) <= set(loops):
            return None
        if set(grid.axes) != set(loops):
            grid = self.grids.expanded(grid, [*(sym for sym in loops if sym not in grid.axes), *grid.axes])
        owners = {sym: axis for axis, loops in enumerate(digits) for sym in loops or ()}
        order = tuple(dict.fromkeys(owners[sym] for sym in grid.axes))
        units = tuple(axis for axis, loops in enumerate(digits) if not loops)
        merged = [sym for axis in order for sym in digits[axis] or ()]
        if merged != list(grid.axes):  # it is transposed anyway
            order = tuple(sorted(order))
            merged = [sym for axis in order for sym in digits[axis] or ()]
        name = transposed(self.builder, grid.name, grid.axes, merged)
        if len(merged) != len(order):
            name = self.grids.reshaped(name, [dims[axis] for axis in order])
        return self._with_units(Stored(name, order), units)

    def _with_units(self, stored: Stored, units: tuple[int, ...]) -> Stored:
        """A value with axes of size 1 inserted: in their place, if the axes are in the order of the node."""
        if not units:
            return stored
        order = tuple(sorted((*stored.order, *units)))
        positions_of_units = units
        if list(stored.order) != sorted(stored.order):
            order, positions_of_units = (*units, *stored.order), tuple(range(len(units)))
        name = self.builder.node("Unsqueeze", stored.name, self.builder.integers(*positions_of_units))
        return Stored(name, order, stored)

    def padded(
        self, grid: Grid, indices: Sequence[Affine], dims: Sequence[int], outside: float, kind: Precision
    ) -> Stored | None:
        """A node that is `outside` except in a box, the iterations of a grid; None for other indices."""
        box = box_of(indices)
        if box is None:
            return None
        starts, sizes = zip(*box, strict=True) if box else ((), ())
        inner = self.direct(grid, [index - start for index, start in zip(indices, starts, strict=True)], sizes)
        if inner is None or 0 in sizes:
            return None
        ends = [size - start - extent for start, extent, size in zip(starts, sizes, dims, strict=True)]
        if min(starts, default=0) < 0 or min(ends, default=0) < 0:
            return None
        pads = self.builder.integers(*(widths[axis] for widths in (starts, ends) for axis in inner.order))
        value = self.builder.constant(np.array(outside).astype(carrier(kind).numpy))
        return Stored(self.builder.node("Pad", inner.name, pads, value), inner.order)

    def concatenated(
        self, grids: Sequence[Grid], indices: Sequence[Sequence[Affine]], dims: Sequence[int]
    ) -> Stored | None:
        """A node that consists of boxes beside each other along one axis; None for other pieces."""
        boxes = [box_of(part) for part in indices]
        if any(box is None for box in boxes):
            return None
        axes = [n for n in range(len(dims)) if any(box is not None and box[n] != (0, dims[n]) for box in boxes)]
        if len(axes) != 1:
            return None
        (axis,) = axes
        parts, position = [], 0
        for grid, cells, box in zip(grids, indices, boxes, strict=True):
            assert box is not None
            start, extent = box[axis]
            sizes = [extent if n == axis else size for n, size in enumerate(dims)]
            part = self.direct(grid, [i - (start if n == axis else 0) for n, i in enumerate(cells)], sizes)
            if start != position or part is None:
                return None
            position += extent
            parts.append(part)
        if position != dims[axis]:
            return None
        order = parts[0].order
        names = [transposed(self.builder, part.name, part.order, order) for part in parts]
        return Stored(self.builder.node("Concat", *names, axis=order.index(axis)), order)

    def scattered(
        self,
        base: Stored,
        grid: Grid,
        loops: Sequence[Sym],
        indices: Sequence[Affine],
        mask: Grid | None,
        dims: Sequence[int],
        op: Op | None,
        scope: SymbolValues,
    ) -> Stored:
        """The node with values stored or accumulated at computed cells. Iterations that are masked, or out of bounds,
        write a cell behind the last one, which is dropped."""
        name = self.grids.reshaped(self.canonical(base), [prod(dims)])
        size, step = prod(dims), prod(dims)
        address = self.grids.constant(np.array(0), (), int64)
        for index, extent in zip(indices, dims, strict=True):
            step //= extent
            positions = self.loads.index(index, scope)
            scale = self.grids.constant(np.array(step), (), int64)
            address = folded(self.grids, "Add", [address, folded(self.grids, "Mul", [positions, scale])])
        if mask is not None:
            dropped = self.grids.constant(np.array(size), (), int64)
            address = self.grids.elementwise("Where", [mask, address, dropped], int64)
        axes = [sym for sym in loops if sym in grid.axes or sym in address.axes]
        count = prod(sym.extent for sym in axes)
        flat = [
            self.grids.reshaped(self.grids.expanded(operand, axes).name, [count]) for operand in (address, grid)
        ]
        if mask is not None:
            zero = self.builder.constant(np.zeros(1, carrier(grid.kind).numpy))
            name = self.builder.node("Concat", name, zero, axis=0)
        options = {} if op is None else {"reduction": SCATTERS[op.name]}
        name = self.builder.node("ScatterElements", name, *flat, axis=0, **options)
        if mask is not None:
            name = self.builder.node("Slice", name, *(self.builder.integers(n) for n in (0, size, 0)))
        return Stored(self.grids.reshaped(name, dims), tuple(range(len(dims))))


def box_of(indices: Sequence[Affine]) -> list[tuple[int, int]] | None:
    """The first position and the number of positions along each axis, if the indices are consecutive positions."""
    box = []
    for index in indices:
        positions = index - index.const
        extent = prod(sym.extent for sym in index.syms)
        if radix(positions, extent) is None:
            return None
        box.append((index.const, extent))
    return box


def lhs_loops(indices: Sequence[Affine], scope: SymbolValues) -> set[Sym]:
    """The loops that indices depend on."""
    return set().union(*(scope.axes_of(index) for index in indices))
