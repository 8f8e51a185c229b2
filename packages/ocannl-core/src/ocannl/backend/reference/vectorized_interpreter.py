"""Vectorizing interpreter: executes a loop program on index grids.

Every vectorized loop is an axis of the arrays of its statements: a value has one axis per open loop, in nesting order,
of size one where it is invariant. Loops with loop-carried dependences run as Python loops.

    for i in 0..5:                    axes i, k
      for k in 0..3:                  add.reduce(w[i, k] * x[1, k], axis=1), added to y[i, 1]
        y[i] += w[i, k] * x[k]

An access with affine indices is a strided view of its buffer; under a mask that excludes out-of-bounds points it is a
gather. Long loops are strip-mined, so that no array has more than `MAX_TEMPORARY_ELEMENTS` elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ocannl.backend.reference import arithmetic
from ocannl.backend.reference.vectorization import Analysis
from ocannl.base.errors import BackendError, VerifyError
from ocannl.ir.accesses import determined_symbols
from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    Ref,
    Store,
    Update,
    Var,
    When,
    row_major,
)
from ocannl.ir.ops import neutral_element

Array = np.ndarray[Any, Any]
MAX_TEMPORARY_ELEMENTS = 4_000_000


@dataclass(frozen=True, slots=True)
class Storage:
    """The memory of a buffer, with strides in elements. A local buffer has one copy per grid point of its declaration
    (array expansion); `grid` holds their strides."""

    flat: Array
    raw: Array  # a byte view of `flat`
    strides: tuple[int, ...]
    grid: tuple[int, ...] = ()

    @staticmethod
    def of(flat: Array, strides: tuple[int, ...], grid: tuple[int, ...] = ()) -> Storage:
        return Storage(flat, flat.view(np.uint8), strides, grid)


@dataclass(frozen=True, slots=True, eq=False)
class GridAxis:
    """A strip of a vectorized loop: the `count` iterations `start`, `start + step`, ..."""

    sym: Sym
    start: int
    count: int
    step: int

    @property
    def last(self) -> int:
        return self.start + self.step * (self.count - 1)


@dataclass(frozen=True, slots=True)
class AccessSite:
    """The storage of an access on the current grid."""

    storage: Storage
    inside: bool  # all grid points are in bounds
    varies: tuple[bool, ...]  # per grid axis: whether the accessed cell may depend on it


@dataclass(slots=True)
class GridInterpreter:
    """One execution of a program."""

    analysis: Analysis
    storages: dict[Buf, Storage]
    fixed: dict[Sym, int]
    axes: list[GridAxis] = field(default_factory=list)
    values: dict[str, tuple[Array, int]] = field(default_factory=dict)  # of `Let`, with the grid depth of the binding
    indirect: dict[Sym, tuple[Array, int]] = field(default_factory=dict)  # values of indirect indices, likewise
    mask: Array | None = None  # the active grid points; None: all
    is_cancelled: Callable[[], bool] = bool

    def run(self, body: Body) -> None:
        if self.is_cancelled():
            raise BackendError("cancelled")
        for stmt in body:
            match stmt:
                case For():
                    self._for(stmt)
                case If(cond, if_body, else_body):
                    self._if(cond, if_body, else_body)
                case Store(ref, value):
                    self._store(ref, self.value(value))
                case Update(ref, op, value):
                    self._update(ref, op, self.value(value))
                case BindIndex(sym, value, inner):
                    self._pick(sym, self.value(value), inner)
                case Let(name, value):
                    self.values[name] = (np.array(self.value(value)), len(self.axes))  # a copy: memory may change
                case Local(buf, fill):
                    self._local(buf, fill)

    # ------------------------------------------------------------------------------------------------- statements

    def _for(self, nest: For) -> None:
        lo, hi, guard = self._loop_range(nest)
        if self.analysis.can_vectorize(nest):
            grid_size = self.analysis.span(nest)
            for axis in self.axes:
                grid_size *= axis.count
            block = nest.step * max(1, MAX_TEMPORARY_ELEMENTS // max(1, grid_size))
            for start in range(lo, hi, block):
                end = min(hi, start + block)
                self._run_block(nest, GridAxis(nest.sym, start, -(-(end - start) // nest.step), nest.step), guard)
            return
        for number in range(lo, hi, nest.step):
            self.fixed[nest.sym] = number
            self._run_where(guard, nest.body)
        self.fixed.pop(nest.sym, None)

    def _run_block(self, nest: For, axis: GridAxis, guard: Cond) -> None:
        mask = self.mask
        self.axes.append(axis)
        if mask is not None:
            self.mask = mask[..., None]
        self._run_where(guard, nest.body)
        self.axes.pop()
        self.mask = mask

    def _loop_range(self, nest: For) -> tuple[int, int, Cond]:
        """Returns bounds valid for the whole grid, and the guard that narrows them at each grid point."""
        guard: list[Affine] = []
        lower_limits, upper_limits = [], []
        for index, div in nest.lo.quotients:
            low, high = self._bounds(index)
            lower_limits.append(-(-low // div))
            if low != high:
                guard.append(Affine.of(nest.sym) * div - index)
        for index, div in nest.hi.quotients:
            low, high = self._bounds(index)
            upper_limits.append(high // div + 1)
            if low != high:
                guard.append(index - Affine.of(nest.sym) * div)
        return max(lower_limits), min(upper_limits), Cond(tuple(guard))

    def _run_where(self, cond: Cond, body: Body) -> None:
        """Executes the body at the grid points where the condition holds."""
        mask = self.mask
        holds = self._evaluate_condition(cond)
        if holds is not False:
            self.mask = self._conjunction(mask, holds)
            self.run(body)
            self.mask = mask

    def _pick(self, sym: Sym, value: Array, body: Body) -> None:
        """Executes the body at the grid points where the value is within the bounds of the symbol."""
        mask, in_range = self.mask, (value >= sym.lo) & (value <= sym.hi)
        self.indirect[sym] = np.clip(value, sym.lo, sym.hi), len(self.axes)
        self.mask = self._conjunction(mask, in_range)
        self.run(body)
        self.mask = mask
        del self.indirect[sym]

    def _if(self, cond: Cond, if_body: Body, else_body: Body) -> None:
        self._run_where(cond, if_body)
        if else_body:
            mask = self.mask
            holds_mask = self._evaluate_condition(cond)
            if holds_mask is not True:
                self.mask = mask if holds_mask is False else self._conjunction(mask, ~holds_mask)
                self.run(else_body)
                self.mask = mask

    def _local(self, buf: Buf, fill: float | None) -> None:
        grid = tuple(a.count for a in self.axes)
        cells = np.empty(prod((*grid, *buf.shape)), buf.precision.numpy)
        if fill is None:
            cells.view(np.uint8)[...] = 0xFF  # poison: NaN, or an implausible integer
        else:
            cells[...] = arithmetic.constant(fill, buf.precision)
        strides = row_major((*grid, *buf.shape))
        self.storages[buf] = Storage.of(cells, strides[len(grid) :], strides[: len(grid)])

    def _store(self, ref: Ref, value: Array) -> None:
        site = self._site(ref)
        if site.inside:
            np.copyto(self._view(ref, site), value, where=True if self.mask is None else self.mask)
            return
        cells, points = self._written_cells(ref, site)
        site.storage.flat[cells] = self._selected(value, points)

    def _update(self, ref: Ref, op: Any, value: Array) -> None:
        site = self._site(ref)
        precision = ref.buf.precision
        local_axes = len(site.storage.grid)
        outer_syms = {*self.fixed, *(a.sym for a in self.axes[:local_axes])}
        written_syms = {
            axis.sym for axis, varies in zip(self.axes[local_axes:], site.varies[local_axes:], strict=True)
            if varies and axis.count > 1
        }  # fmt: skip
        if not site.inside or not written_syms <= determined_symbols(ref.indices, outer_syms):
            cells, points = self._written_cells(ref, site)
            arithmetic.scatter(op, site.storage.flat, cells, self._selected(value, points), precision)
            return
        if self.mask is not None:
            value = np.where(self.mask, value, arithmetic.constant(neutral_element(op, precision), precision))
        summed = tuple(n for n, (a, varies) in enumerate(zip(self.axes, site.varies, strict=True)) if not varies)
        view = self._view(ref, site)
        value = value.reshape((1,) * len(self.axes)) if value.ndim == 0 else value
        full = tuple(self.axes[n].count if n in summed else size for n, size in enumerate(value.shape))
        total = arithmetic.reduce(op, np.broadcast_to(value, full), summed, precision)
        reached: Array | bool = True  # `and` normalizes a cell to a truth value, even with its neutral element
        if self.mask is not None:
            reached = np.asarray(np.broadcast_to(self.mask, full).any(summed, keepdims=True))
        np.copyto(view, arithmetic.accumulate(op, view, total, precision), where=reached)

    # -------------------------------------------------------------------------------------------------- accesses

    def _site(self, ref: Ref) -> AccessSite:
        storage = self.storages[ref.buf]
        inside = True
        for index, size in zip(ref.indices, ref.buf.shape, strict=True):
            low, high = self._bounds(index)
            inside = inside and low >= 0 and high < size
        if not inside and self.mask is None:
            self._raise_out_of_bounds(ref)
        syms = set(ref.syms)
        inside = inside and syms.isdisjoint(self.indirect)
        local_axes = len(storage.grid)
        return AccessSite(storage, inside, tuple(n < local_axes or a.sym in syms for n, a in enumerate(self.axes)))

    def _raise_out_of_bounds(self, ref: Ref) -> None:
        at = ", ".join(map(str, ref.indices))
        name = self.analysis.proc.name
        raise VerifyError(f"program `{name}` leaves array `{ref.buf.name}` of sizes {ref.buf.shape} at [{at}]")

    def _view(self, ref: Ref, site: AccessSite) -> Array:
        """Returns a strided view of the accessed cells; all grid points must be in bounds."""
        storage, offset = site.storage, 0
        steps = [*storage.grid, *[0] * (len(self.axes) - len(storage.grid))]  # strides of the grid axes, in elements
        for index, stride in zip(ref.indices, storage.strides, strict=True):
            offset += stride * index.const
            for coef, sym in index.terms:
                number = self.fixed.get(sym)
                if number is None:
                    position = self._axis(sym)
                    steps[position] += stride * coef * self.axes[position].step
                    number = self.axes[position].start
                offset += stride * coef * number
        size = storage.flat.itemsize
        shape = tuple(a.count if varies else 1 for a, varies in zip(self.axes, site.varies, strict=True))
        strides = tuple(size * step if extent > 1 else 0 for step, extent in zip(steps, shape, strict=True))
        return np.ndarray(shape, storage.flat.dtype, storage.raw, size * offset, strides)

    def _load(self, ref: Ref) -> Array:
        site = self._site(ref)
        if site.inside:
            return self._view(ref, site)
        assert self.mask is not None
        flat = site.storage.flat
        cells = self._flat_indices(ref, site, self.mask)
        return np.asarray(flat[cells]) if flat.size else np.zeros(cells.shape, flat.dtype)

    def _flat_indices(self, ref: Ref, site: AccessSite, points: Array) -> Array:
        """Returns the flat cell index at each of the points, and an arbitrary valid index elsewhere."""
        cells: Array = np.zeros((1,) * len(self.axes), np.int64)
        for n, stride in enumerate(site.storage.grid):
            cells = cells + self._along_axis(n, np.arange(self.axes[n].count) * stride)
        for index, size, stride in zip(ref.indices, ref.buf.shape, site.storage.strides, strict=True):
            position = self._index(index)
            outside = (position < 0) | (position >= size)
            if np.any(points & outside):
                self._raise_out_of_bounds(ref)
            cells = cells + stride * np.where(outside, 0, position)
        return cells

    def _written_cells(self, ref: Ref, site: AccessSite) -> tuple[Array, Array]:
        """Returns the flat indices of the written cells, and the full mask of the grid points that write them."""
        full = tuple(a.count for a in self.axes)
        points = np.ones(full, bool) if self.mask is None else np.broadcast_to(self.mask, full)
        return np.broadcast_to(self._flat_indices(ref, site, points), full)[points], points

    def _selected(self, value: Array, points: Array) -> Array:
        return np.asarray(np.broadcast_to(value, points.shape)[points])

    # --------------------------------------------------------------------------------------------- values, conditions

    def value(self, expr: Expr) -> Array:
        """Evaluates an expression at every grid point."""
        match expr:
            case Load(ref):
                return self._load(ref)
            case Const(value, precision):
                return arithmetic.constant(value, precision)
            case Apply(op, args):
                return arithmetic.compute(op, expr.precision, [self.value(a) for a in args])
            case Cast(inner, precision):
                return arithmetic.convert(self.value(inner), precision)
            case IndexValue(index, precision):
                return arithmetic.convert(self._index(index), precision)
            case Var(name):
                array, depth = self.values[name]
                return array.reshape(array.shape + (1,) * (len(self.axes) - depth)) if array.ndim else array
            case When(cond, if_value, else_value):
                return self._when(cond, if_value, else_value)

    def _when(self, cond: Cond, if_value: Expr, else_value: Expr) -> Array:
        holds = self._evaluate_condition(cond)
        if holds is True or holds is False:
            return self.value(if_value if holds else else_value)
        mask = self.mask
        self.mask = self._conjunction(mask, holds)
        a = self.value(if_value)
        self.mask = self._conjunction(mask, ~holds)
        b = self.value(else_value)
        self.mask = mask
        return np.where(holds, a, b)

    def _axis(self, sym: Sym) -> int:
        return next(n for n, axis in enumerate(self.axes) if axis.sym is sym)

    def _along_axis(self, n: int, values: Array) -> Array:
        """Reshapes a vector so that it extends along grid axis `n`."""
        return values.reshape((1,) * n + (-1,) + (1,) * (len(self.axes) - n - 1))

    def _index(self, index: Affine) -> Array:
        total: Array = np.full((1,) * len(self.axes), index.const, np.int64)
        for coef, sym in index.terms:
            if sym in self.indirect:
                values, depth = self.indirect[sym]
                total = total + coef * values.reshape(values.shape + (1,) * (len(self.axes) - depth))
                continue
            number = self.fixed.get(sym)
            if number is None:
                n = self._axis(sym)
                axis = self.axes[n]
                total = total + self._along_axis(n, coef * (axis.start + axis.step * np.arange(axis.count)))
            else:
                total = total + coef * number
        return total

    def _bounds(self, index: Affine) -> tuple[int, int]:
        """Returns the minimum and maximum of an index over the grid (interval analysis)."""
        low = high = index.const
        for coef, sym in index.terms:
            number = self.fixed.get(sym)
            if sym in self.indirect:
                first, last = coef * sym.lo, coef * sym.hi
            elif number is not None:
                first = last = coef * number
            else:
                axis = self.axes[self._axis(sym)]
                first, last = coef * axis.start, coef * axis.last
            low += min(first, last)
            high += max(first, last)
        return low, high

    def _evaluate_condition(self, cond: Cond) -> Array | bool:
        """Evaluates a condition: a bool if it is uniform over the grid, otherwise a mask."""
        result: Array | None = None
        for index, is_equality in [*((a, False) for a in cond.ge0), *((a, True) for a in cond.eq0)]:
            low, high = self._bounds(index)
            if high < 0 or (is_equality and low > 0):
                return False
            if low == high or (low >= 0 and not is_equality):
                continue
            number = self._index(index)
            result = self._conjunction(result, number == 0 if is_equality else number >= 0)
        return True if result is None else result

    @staticmethod
    def _conjunction(left: Array | None, right: Array | bool) -> Any:
        if right is True:
            return left
        return right if left is None else left & right


def bind(
    analysis: Analysis,
    buffers: Mapping[Buf, Array],
    syms: Sequence[Sym],
    is_cancelled: Callable[[], bool] = bool,
) -> Callable[..., None]:
    """Returns an entry that executes the program on the memory of `buffers`."""

    def run(*values: int) -> None:
        storages = {buf: Storage.of(flat, buf.strides) for buf, flat in buffers.items()}
        for buf, storage in storages.items():
            if buf.access is AccessMode.TEMP:
                storage.raw[...] = 0xFF  # poison: NaN
        static_values = dict(zip(syms, values, strict=True))
        interpreter = GridInterpreter(analysis, storages, static_values, is_cancelled=is_cancelled)
        with np.errstate(all="ignore"):
            interpreter.run(analysis.proc.body)

    return run
