"""Sums of products as MatMul and Conv, and reductions over windows as pooling.

The loops of a sum of products of two grids are those of both and of the result (batch), of one and of the result (rows,
columns), and of both only (terms). A window is an index `stride*o + dilation*k + offset` of a loop of the result and a
loop that is reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import Apply, Const, Expr, Load, When
from ocannl.ir.ops import ADD, MAX, MUL, Op
from ocannl.ir.precision import Precision, float32, float64, int32, int64
from ocannl_onnx.exporting.grids import Grid, Grids, transposed
from ocannl_onnx.exporting.loads import Stored, SymbolValues, radix

MATMUL_TYPES = (float32, float64, int32, int64)


def sum_of_products(grids: Grids, left: Grid, right: Grid, kept: Collection[Sym], kind: Precision) -> Grid:
    """The sum, over all loops that are not kept, of the products of two grids."""
    left = reduced(grids, left, [sym for sym in left.axes if sym not in kept and sym not in right.axes], ADD)
    right = reduced(grids, right, [sym for sym in right.axes if sym not in kept and sym not in left.axes], ADD)
    terms = [sym for sym in left.axes if sym in right.axes and sym not in kept]
    if not terms:
        return grids.elementwise("Mul", [left, right], kind)
    if _weight(grids, left) < _weight(grids, right):
        left, right = right, left  # parameters are the second operand
    batch = [sym for sym in left.axes if sym in right.axes and sym in kept]
    rows = [sym for sym in left.axes if sym not in right.axes]
    columns = [sym for sym in right.axes if sym not in left.axes]
    if not rows and not columns and batch:
        return reduced(grids, grids.elementwise("Mul", [left, right], kind), terms, ADD)
    if not rows and columns:
        left, right, rows, columns = right, left, columns, rows
    terms = [sym for sym in left.axes if sym in terms]
    # leading axes are broadcast, so that several axes of rows are no obstacle where there is no batch
    sizes = [[sym.extent for sym in group] for group in (batch, rows, terms, columns)]
    first = grids.transposed(left, [*batch, *rows, *terms]).name
    second = grids.transposed(right, [*batch, *terms, *columns]).name
    row_dims = sizes[1] if rows and (not batch or len(rows) == 1) else [prod(sizes[1])]
    if (row_dims, len(terms)) != (sizes[1], 1):
        first = grids.reshaped(first, [*sizes[0], *row_dims, prod(sizes[2])])
    if (len(terms), len(columns)) != (1, 1):
        second = grids.reshaped(second, [*sizes[0], prod(sizes[2]), prod(sizes[3])])
    result = grids.builder.node("MatMul", first, second)
    if row_dims != sizes[1] or len(columns) != 1:
        result = grids.reshaped(result, [*sizes[0], *sizes[1], *sizes[3]])
    return Grid(result, (*batch, *rows, *columns), kind)


def _weight(grids: Grids, grid: Grid) -> tuple[bool, int]:
    return grids.builder.array_of(grid.name) is None, prod(grid.dims)


REDUCTIONS = {"add": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "mul": "ReduceProd"}


def reduced(grids: Grids, grid: Grid, loops: Sequence[Sym], op: Op) -> Grid:
    """A reduction over loops of the grid. Integers are summed in int64, and multiplied by halves: runtimes compute
    ReduceSum and ReduceProd in float64, so that larger results do not wrap."""
    if not loops:
        return grid
    if op is MUL and not grid.kind.is_float and all(sym.extent for sym in loops):
        return _product_of_halves(grids, grid, loops)
    axes = grids.builder.integers(*(n for n, sym in enumerate(grid.axes) if sym in loops))
    source = grid.name if op is not ADD or grid.kind is not int32 else grids.cast(grid.name, int32, int64)
    name = grids.builder.node(REDUCTIONS[op.name], source, axes, keepdims=0)
    grids.builder.terms[name] = prod(sym.extent for sym in loops)
    if source != grid.name:
        name = grids.cast(name, int64, int32)
    return Grid(name, tuple(sym for sym in grid.axes if sym not in loops), grid.kind)


def _product_of_halves(grids: Grids, grid: Grid, loops: Sequence[Sym]) -> Grid:
    """The product over loops that are not empty: half of the elements times the remaining half, until one is left."""
    builder, name, axes = grids.builder, grid.name, list(grid.axes)
    for sym in loops:
        axis, size = axes.index(sym), sym.extent
        while size > 1:
            half = size // 2
            ends = [(0, half), (half, 2 * half), (2 * half, size)][: 2 + size % 2]
            parts = [builder.node("Slice", name, *map(builder.integers, (*pair, axis))) for pair in ends]
            name, size = builder.node("Mul", *parts[:2]), size - half
            if len(parts) == 3:
                name = builder.node("Concat", name, parts[2], axis=axis)
        name = builder.node("Squeeze", name, builder.integers(axis))
        axes.remove(sym)
    return Grid(name, tuple(axes), grid.kind)


# --- windows ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Window:
    """One axis of an operand: the position `stride*output + dilation*kernel + offset` of an axis of `size` cells."""

    output: Sym
    kernel: Sym
    stride: int
    dilation: int
    offset: int
    size: int

    @property
    def last(self) -> int:
        """The largest position."""
        return self.stride * (self.output.extent - 1) + self.dilation * (self.kernel.extent - 1) + self.offset

    @property
    def reach(self) -> int:
        """The cells from the first to the last one of a window."""
        return self.dilation * (self.kernel.extent - 1) + 1

    @property
    def pads(self) -> tuple[int, int]:
        return max(0, -self.offset), max(0, self.last - self.size + 1)

    @property
    def slice(self) -> tuple[int, int]:
        """The cells that windows reach."""
        return max(0, self.offset), min(self.size, self.last + 1)


@dataclass(frozen=True, slots=True)
class _WindowedOperand:
    """A load whose axes are loops and windows, and the value outside."""

    load: Load
    outside: float | None

    @property
    def dims(self) -> tuple[int, ...]:
        return self.load.ref.buf.shape

    def direct(self, axis: int) -> tuple[Sym, ...] | None:
        """The loops over all cells of an axis, in order."""
        digits = radix(self.load.ref.indices[axis], self.dims[axis])
        return None if digits is None else tuple(digits)


def _operand(expr: Expr) -> _WindowedOperand | None:
    match expr:
        case Load():
            return _WindowedOperand(expr, None)
        case When(_, Load() as load, Const(number, _)):
            return _WindowedOperand(load, number)
    return None


def _window(index: Affine, size: int, outputs: Collection[Sym], kernels: Collection[Sym]) -> _Window | None:
    """The window of a loop over outputs and one over kernels; of the latter there may be none."""
    if any(sym.lo or not sym.extent for sym in index.syms) or any(coef < 1 for coef, _ in index.terms):
        return None
    first = [(coef, sym) for coef, sym in index.terms if sym in outputs]
    second = [(coef, sym) for coef, sym in index.terms if sym in kernels]
    if len(first) != 1 or len(first) + len(second) != len(index.terms) or len(second) > 1:
        return None
    (stride, output), (dilation, kernel) = first[0], second[0] if second else (1, Sym("unit", 0, 0))
    return _Window(output, kernel, stride, dilation, index.const, size)


@dataclass(frozen=True, slots=True)
class _WindowedAxes:
    """The axes of an operand by their role, with their numbers: loops over all cells, and windows."""

    direct: dict[int, tuple[Sym, ...]]
    windows: dict[int, _Window]

    @staticmethod
    def of(
        operand: _WindowedOperand,
        outputs: Collection[Sym],
        kernels: Collection[Sym],
        scope: SymbolValues,
        unit: Collection[int] = (),
    ) -> _WindowedAxes | None:
        """The windows of loops over `outputs` and `kernels`; the axes `unit` are windows of one cell."""
        direct: dict[int, tuple[Sym, ...]] = {}
        windows: dict[int, _Window] = {}
        for axis, (index, size) in enumerate(zip(operand.load.ref.indices, operand.dims, strict=True)):
            if not scope.is_static(index):
                return None
            loops, window = operand.direct(axis), _window(index, size, outputs, kernels)
            is_unit = window is not None and len(index.terms) == 1 and loops is not None
            if window is not None and (not is_unit or axis in unit):
                windows[axis] = window
            elif loops is not None:
                direct[axis] = loops
            else:
                return None
        syms = [sym for loops in direct.values() for sym in loops]
        syms += [sym for window in windows.values() for sym in (window.output, window.kernel)]
        return _WindowedAxes(direct, windows) if windows and len(set(syms)) == len(syms) else None

    @property
    def loops(self) -> list[Sym]:
        """The loops over all cells of axes, in order."""
        return [sym for loops in self.direct.values() for sym in loops]

    def in_order(self, loops: Sequence[Sym]) -> list[int] | None:
        """The axes whose loops are these, in this order; None if an axis has loops in between."""
        axes: list[int] = []
        for sym in loops:
            axis = next(axis for axis, loops_of_axis in self.direct.items() if sym in loops_of_axis)
            if axis not in axes:
                axes.append(axis)
        return axes if [sym for axis in axes for sym in self.direct[axis]] == list(loops) else None


class WindowOperators:
    """Writes Conv and pooling. `stored` is the value of the node of a load."""

    def __init__(self, grids: Grids, stored: Callable[[Load], Stored]) -> None:
        self.grids = grids
        self.builder = grids.builder
        self._stored = stored

    def convolution(
        self, expr: Apply, kept: Collection[Sym], scope: SymbolValues, load: Callable[[Expr], Grid]
    ) -> Grid | None:
        """Conv for a sum of products over windows of one operand, None for other sums."""
        for first, second in (expr.args, expr.args[::-1]):
            image = _operand(first)
            if expr.precision is not float32 or image is None or image.load.ref.buf.precision is not float32:
                continue
            weights = load(second)
            outputs = [sym for sym in kept if sym not in weights.axes]
            kernels = [sym for sym in weights.axes if sym not in kept]
            unit = self._spatial_axes(image, kernels)
            axes = _WindowedAxes.of(image, outputs, kernels, scope, unit)
            if axes is not None and len(axes.windows) <= 3 and not image.outside:
                result = self._convolution(image, axes, weights, kept)
                if result is not None:
                    return result
        return None

    def _is_constant(self, image: _WindowedOperand) -> bool:
        return self.builder.array_of(self._stored(image.load).name) is not None

    def _spatial_axes(self, image: _WindowedOperand, terms: Collection[Sym]) -> list[int]:
        """The axes behind that of the channels, if the array is stored as convolutions leave it."""
        order = self._stored(image.load).order
        channels = [axis for axis in order if set(image.direct(axis) or ()) & set(terms)]
        if len(channels) != 1 or len(order) < 3:
            return []
        return list(order[order.index(channels[0]) + 1 :])

    def _convolution(
        self, image: _WindowedOperand, axes: _WindowedAxes, weights: Grid, kept: Collection[Sym]
    ) -> Grid | None:
        windows = list(axes.windows.values())
        kernels, outputs = [w.kernel for w in windows], [w.output for w in windows]
        channels = axes.loops
        units = [sym for sym in kernels if sym not in weights.axes]
        if any(sym.extent != 1 for sym in units) or not set(outputs).isdisjoint(weights.axes):
            return None
        batch = [sym for sym in channels if sym in kept and sym not in weights.axes]
        groups = [sym for sym in channels if sym in kept and sym in weights.axes]
        terms = [sym for sym in channels if sym not in kept]
        features = [sym for sym in weights.axes if sym not in (*kernels, *channels)]
        if not set(terms) <= set(weights.axes) or not set(features) <= set(kept):
            return None
        group, depth, width = (prod(sym.extent for sym in syms) for syms in (groups, terms, features))
        if 0 in (group, depth, width, prod(sym.extent for sym in batch)):
            return None
        is_matrix_product = all(w.kernel.extent == w.stride == 1 for w in windows)
        if is_matrix_product and (groups or self._is_constant(image)):
            return None
        x = self._image(image, axes, batch, [*groups, *terms])
        if x is None:
            return None
        order = [*groups, *features, *terms, *(sym for sym in kernels if sym not in units)]
        w = self.grids.transposed(weights, order).name
        if (len(groups) + len(features), len(terms)) != (1, 1) or units:
            w = self.grids.reshaped(w, [group * width, depth, *(sym.extent for sym in kernels)])
        pads = _pads(windows)
        options: dict[str, Any] = {"group": group} if group > 1 else {}
        if pads:
            options["pads"] = pads
        y = self.builder.node(
            "Conv", x, w, kernel_shape=[sym.extent for sym in kernels], strides=[w.stride for w in windows],
            dilations=[w.dilation for w in windows], **options,
        )  # fmt: skip
        return self._split(y, batch, [*groups, *features], outputs, float32)

    def pooling(self, expr: Expr, op: Op, kept: Collection[Sym], scope: SymbolValues) -> Grid | None:
        """MaxPool or AveragePool for a reduction over windows."""
        image = _operand(expr)
        if image is None or op not in (MAX, ADD) or image.load.ref.buf.precision is not float32:
            return None
        loops = {sym for index in image.load.ref.indices for sym in index.syms}
        axes = _WindowedAxes.of(image, kept, [sym for sym in loops if sym not in kept], scope)
        if axes is None or len(axes.windows) > 3 or not set(axes.loops) <= set(kept):
            return None
        if image.outside is not None and image.outside != {MAX: float("-inf"), ADD: 0.0}[op]:
            return None
        windows = list(axes.windows.values())
        kernel = [w.kernel.extent for w in windows]
        pads = _pads(windows) or [0] * 2 * len(windows)
        if any(pad >= size for pad, size in zip(pads, kernel * 2, strict=True)) or 0 in image.dims:
            return None  # a window outside of the image
        if op is ADD and any(w.dilation != 1 for w in windows):
            return None
        batch, channels = axes.loops[:1], axes.loops[1:]
        x = self._image(image, axes, batch, channels)
        if x is None:
            return None
        options: dict[str, Any] = {"kernel_shape": kernel, "strides": [w.stride for w in windows]}
        is_equal = len(windows) == 2 and len(set(pads)) == 1
        if any(pads) and is_equal and all(w.reach <= w.size for w in windows):
            options["pads"] = pads
        elif any(pads):  # the reference evaluator of ONNX computes other padding than that of images incorrectly
            ends = self.builder.integers(0, 0, *pads[: len(windows)], 0, 0, *pads[len(windows) :])
            x = self.builder.node("Pad", x, ends, self.builder.constant(np.float32(image.outside or 0)))
        if op is MAX:
            y = self.builder.node("MaxPool", x, dilations=[w.dilation for w in windows], **options)
        else:
            y = self.builder.node("AveragePool", x, count_include_pad=1, **options)
        grid = self._split(y, batch, channels, [w.output for w in windows], float32)
        if op is MAX:
            return grid
        count = prod(w.kernel.extent for w in windows)
        return self.grids.elementwise("Mul", [grid, self.grids.constant(np.array(count), (), float32)], float32)

    def _image(
        self, image: _WindowedOperand, axes: _WindowedAxes, batch: Sequence[Sym], channels: Sequence[Sym]
    ) -> str | None:
        """The operand with one axis of the batch, one of channels, and those of windows, cut to the cells that count;
        None if an axis has loops of both."""
        stored = self._stored(image.load)
        first, second = axes.in_order(batch), axes.in_order(channels)
        if first is None or second is None:
            return None
        units = [axis for axis, loops in axes.direct.items() if not loops]
        name = transposed(self.builder, stored.name, stored.order, [*first, *second, *axes.windows, *units])
        if (len(first), len(second)) != (1, 1) or units:
            dims = [w.size for w in axes.windows.values()]
            name = self.grids.reshaped(
                name, [prod(sym.extent for sym in batch), prod(sym.extent for sym in channels), *dims]
            )
        for position, window in enumerate(axes.windows.values(), 2):
            start, stop = window.slice
            if (start, stop) != (0, window.size) and self._is_needed(window):
                ends = (self.builder.integers(end) for end in (start, stop, position))
                name = self.builder.node("Slice", name, *ends)
        return name

    def _is_needed(self, window: _Window) -> bool:
        """Whether more windows fit the axis than the result has."""
        fitting = (window.size + sum(window.pads) - window.reach) // window.stride + 1
        return window.offset > 0 or fitting != window.output.extent

    def _split(
        self, y: str, batch: Sequence[Sym], channels: Sequence[Sym], outputs: Sequence[Sym], kind: Precision
    ) -> Grid:
        axes = (*batch, *channels, *outputs)
        sizes = [[sym.extent for sym in loops] for loops in (batch, channels, outputs)]
        self.builder.dims[y] = (prod(sizes[0]), prod(sizes[1]), *sizes[2])
        if (len(batch), len(channels)) != (1, 1):
            y = self.grids.reshaped(y, [sym.extent for sym in axes])
        return Grid(y, axes, kind)


def _pads(windows: Sequence[_Window]) -> list[int]:
    """The padding before and after each axis: equal, if this adds no window. Empty if there is none."""
    before, after = [w.pads[0] for w in windows], [w.pads[1] for w in windows]
    for n, w in enumerate(windows):
        if before[n] > after[n] and w.size + 2 * before[n] - w.reach < w.stride * w.output.extent:
            after[n] = before[n]
    return [*before, *after] if any(before) or any(after) else []


def product(expr: Expr) -> Apply | None:
    return expr if isinstance(expr, Apply) and expr.op is MUL else None


