"""Runs a loop program nest by nest on index grids.

Every open loop is an axis of the arrays that its statements compute with: a value has one axis per open loop, in order
of nesting, of size one where it does not depend on it. Loops that may not be opened are loops of Python.

    for i in 0..5:                    axes i, k
      for k in 0..3:                  add.reduce(w[i, k] * x[1, k], axis=1), added to y[i, 1]
        y[i] += w[i, k] * x[k]

An access by affine indices is a strided view of its buffer. Where a condition leaves out points of the grid, the others
are gathered. Long loops are opened a stretch at a time, so that no array has more than `LIMIT` elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ocannl.backend.reference import numbers
from ocannl.backend.reference.analysis import Analysis
from ocannl.base.errors import BackendError, VerifyError
from ocannl.ir.index import Affine, Cond, Sym
from ocannl.ir.loops import (
    Access,
    Apply,
    Body,
    Buf,
    Cast,
    Expr,
    For,
    Idx,
    If,
    Let,
    Load,
    Local,
    Num,
    Pick,
    Ref,
    Store,
    Update,
    Var,
    When,
    row_major,
)
from ocannl.ir.touch import told

Array = np.ndarray[Any, Any]
LIMIT = 4_000_000  # elements of one temporary


@dataclass(frozen=True, slots=True)
class Storage:
    """The memory of a buffer, with strides in elements. A local one has a cell for every point of the grid where it was
    declared: `grid` holds their strides."""

    flat: Array
    raw: Array  # the same, as bytes
    strides: tuple[int, ...]
    grid: tuple[int, ...] = ()

    @staticmethod
    def of(flat: Array, strides: tuple[int, ...], grid: tuple[int, ...] = ()) -> Storage:
        return Storage(flat, flat.view(np.uint8), strides, grid)


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A stretch of an open loop: `start`, `start + step`, ..., `count` of them."""

    sym: Sym
    start: int
    count: int
    step: int

    @property
    def last(self) -> int:
        return self.start + self.step * (self.count - 1)


@dataclass(frozen=True, slots=True)
class Site:
    """Where an access goes on the grid of the moment."""

    storage: Storage
    inside: bool  # that no point of the grid leaves the array
    named: tuple[bool, ...]  # for each axis of the grid, whether different points may mean different cells


@dataclass(slots=True)
class Grid:
    """One run of one program."""

    analysis: Analysis
    storages: dict[Buf, Storage]
    fixed: dict[Sym, int]
    axes: list[Axis] = field(default_factory=list)
    values: dict[str, tuple[Array, int]] = field(default_factory=dict)  # of `Let`, with the number of axes then open
    picked: dict[Sym, tuple[Array, int]] = field(default_factory=dict)  # likewise
    mask: Array | None = None  # the points of the grid where statements act; None: all
    is_cancelled: Callable[[], bool] = bool

    def run(self, body: Body) -> None:
        if self.is_cancelled():
            raise BackendError("cancelled")
        for stmt in body:
            match stmt:
                case For():
                    self._for(stmt)
                case If(cond, then, orelse):
                    self._if(cond, then, orelse)
                case Store(ref, value):
                    self._store(ref, self.value(value))
                case Update(ref, op, value):
                    self._update(ref, op, self.value(value))
                case Pick(sym, value, inner):
                    self._pick(sym, self.value(value), inner)
                case Let(name, value):
                    self.values[name] = (np.array(self.value(value)), len(self.axes))  # what it is now
                case Local(buf, fill):
                    self._local(buf, fill)

    # ------------------------------------------------------------------------------------------------- statements

    def _for(self, nest: For) -> None:
        lo, hi, beyond = self._range(nest)
        if self.analysis.may_open(nest):
            others = self.analysis.span(nest)
            for axis in self.axes:
                others *= axis.count
            stretch = nest.step * max(1, LIMIT // max(1, others))
            for start in range(lo, hi, stretch):
                end = min(hi, start + stretch)
                self._enter(nest, Axis(nest.sym, start, -(-(end - start) // nest.step), nest.step), beyond)
            return
        for number in range(lo, hi, nest.step):
            self.fixed[nest.sym] = number
            self._where(beyond, nest.body)
        self.fixed.pop(nest.sym, None)

    def _enter(self, nest: For, axis: Axis, beyond: Cond) -> None:
        mask = self.mask
        self.axes.append(axis)
        if mask is not None:
            self.mask = mask[..., None]
        self._where(beyond, nest.body)
        self.axes.pop()
        self.mask = mask

    def _range(self, nest: For) -> tuple[int, int, Cond]:
        """Limits that hold for the whole grid, and what holds beyond that at each of its points."""
        beyond: list[Affine] = []
        low, high = [], []
        for index, div in nest.lo.of:
            least, most = self._extremes(index)
            low.append(-(-least // div))
            if least != most:
                beyond.append(Affine.of(nest.sym) * div - index)
        for index, div in nest.hi.of:
            least, most = self._extremes(index)
            high.append(most // div + 1)
            if least != most:
                beyond.append(index - Affine.of(nest.sym) * div)
        return max(low), min(high), Cond(tuple(beyond))

    def _where(self, cond: Cond, body: Body) -> None:
        """The statements, at the points where the condition holds."""
        mask = self.mask
        chosen = self._holds(cond)
        if chosen is not False:
            self.mask = self._and(mask, chosen)
            self.run(body)
            self.mask = mask

    def _pick(self, sym: Sym, value: Array, body: Body) -> None:
        """The statements, at the points where the value is in the range of the symbol."""
        mask, inside = self.mask, (value >= sym.lo) & (value <= sym.hi)
        self.picked[sym] = np.clip(value, sym.lo, sym.hi), len(self.axes)
        self.mask = self._and(mask, inside)
        self.run(body)
        self.mask = mask
        del self.picked[sym]

    def _if(self, cond: Cond, then: Body, orelse: Body) -> None:
        self._where(cond, then)
        if orelse:
            mask = self.mask
            chosen = self._holds(cond)
            if chosen is not True:
                self.mask = mask if chosen is False else self._and(mask, ~chosen)
                self.run(orelse)
                self.mask = mask

    def _local(self, buf: Buf, fill: float | None) -> None:
        grid = tuple(a.count for a in self.axes)
        content = np.empty(prod((*grid, *buf.shape)), buf.precision.numpy)
        if fill is None:
            content.view(np.uint8)[...] = 0xFF  # NaN, or a number that nobody expects
        else:
            content[...] = numbers.constant(fill, buf.precision)
        strides = row_major((*grid, *buf.shape))
        self.storages[buf] = Storage.of(content, strides[len(grid) :], strides[: len(grid)])

    def _store(self, ref: Ref, value: Array) -> None:
        site = self._site(ref)
        if site.inside:
            np.copyto(self._view(ref, site), value, where=True if self.mask is None else self.mask)
            return
        cells, points = self._cells(ref, site)
        site.storage.flat[cells] = self._picked(value, points)

    def _update(self, ref: Ref, op: Any, value: Array) -> None:
        site = self._site(ref)
        precision = ref.buf.precision
        own = len(site.storage.grid)
        known = {*self.fixed, *(a.sym for a in self.axes[:own])}
        kept = {a.sym for a, named in zip(self.axes[own:], site.named[own:], strict=True) if named and a.count > 1}
        if not site.inside or not kept <= told(ref.at, known):
            cells, points = self._cells(ref, site)
            numbers.scatter(op, site.storage.flat, cells, self._picked(value, points), precision)
            return
        if self.mask is not None:
            value = np.where(self.mask, value, numbers.neutral(op, precision))
        summed = tuple(n for n, (a, named) in enumerate(zip(self.axes, site.named, strict=True)) if not named)
        view = self._view(ref, site)
        value = value.reshape((1,) * len(self.axes)) if value.ndim == 0 else value
        full = tuple(self.axes[n].count if n in summed else size for n, size in enumerate(value.shape))
        total = numbers.reduce(op, np.broadcast_to(value, full), summed, precision)
        met: Array | bool = True  # `and` makes a truth value of what it meets, even with its neutral element
        if self.mask is not None:
            met = np.asarray(np.broadcast_to(self.mask, full).any(summed, keepdims=True))
        np.copyto(view, numbers.accumulate(op, view, total, precision), where=met)

    # -------------------------------------------------------------------------------------------------- accesses

    def _site(self, ref: Ref) -> Site:
        storage = self.storages[ref.buf]
        inside = True
        for index, size in zip(ref.at, ref.buf.shape, strict=True):
            least, most = self._extremes(index)
            inside = inside and least >= 0 and most < size
        if not inside and self.mask is None:
            self._refuse(ref)
        syms = {s for index in ref.at for s in index.syms}
        inside = inside and syms.isdisjoint(self.picked)
        own = len(storage.grid)
        return Site(storage, inside, tuple(n < own or a.sym in syms for n, a in enumerate(self.axes)))

    def _refuse(self, ref: Ref) -> None:
        at = ", ".join(map(str, ref.at))
        name = self.analysis.proc.name
        raise VerifyError(f"program `{name}` leaves array `{ref.buf.name}` of sizes {ref.buf.shape} at [{at}]")

    def _view(self, ref: Ref, site: Site) -> Array:
        """The cells of the grid's points, which are all inside."""
        storage, first = site.storage, 0
        steps = [*storage.grid, *[0] * (len(self.axes) - len(storage.grid))]  # from point to point, in elements
        for index, stride in zip(ref.at, storage.strides, strict=True):
            first += stride * index.const
            for coef, sym in index.terms:
                number = self.fixed.get(sym)
                if number is None:
                    n = self._axis(sym)
                    steps[n] += stride * coef * self.axes[n].step
                    number = self.axes[n].start
                first += stride * coef * number
        size = storage.flat.itemsize
        shape = tuple(a.count if named else 1 for a, named in zip(self.axes, site.named, strict=True))
        strides = tuple(size * step if n > 1 else 0 for step, n in zip(steps, shape, strict=True))
        return np.ndarray(shape, storage.flat.dtype, storage.raw, size * first, strides)

    def _load(self, ref: Ref) -> Array:
        site = self._site(ref)
        if site.inside:
            return self._view(ref, site)
        assert self.mask is not None
        flat = site.storage.flat
        cells = self._gathered(ref, site, self.mask)
        return np.asarray(flat[cells]) if flat.size else np.zeros(cells.shape, flat.dtype)

    def _gathered(self, ref: Ref, site: Site, points: Array) -> Array:
        """The cells of those points; elsewhere, any."""
        cells: Array = np.zeros((1,) * len(self.axes), np.int64)
        for n, stride in enumerate(site.storage.grid):
            cells = cells + self._line(n, np.arange(self.axes[n].count) * stride)
        for index, size, stride in zip(ref.at, ref.buf.shape, site.storage.strides, strict=True):
            place = self._index(index)
            outside = (place < 0) | (place >= size)
            if np.any(points & outside):
                self._refuse(ref)
            cells = cells + stride * np.where(outside, 0, place)
        return cells

    def _cells(self, ref: Ref, site: Site) -> tuple[Array, Array]:
        """The cells that the points of the grid write, and those points: a mask of the full grid."""
        full = tuple(a.count for a in self.axes)
        points = np.ones(full, bool) if self.mask is None else np.broadcast_to(self.mask, full)
        return np.broadcast_to(self._gathered(ref, site, points), full)[points], points

    def _picked(self, value: Array, points: Array) -> Array:
        return np.asarray(np.broadcast_to(value, points.shape)[points])

    # --------------------------------------------------------------------------------------------- values, conditions

    def value(self, expr: Expr) -> Array:
        """What an expression is at every point of the grid."""
        match expr:
            case Load(ref):
                return self._load(ref)
            case Num(value, precision):
                return numbers.constant(value, precision)
            case Apply(op, args):
                return numbers.compute(op, expr.precision, [self.value(a) for a in args])
            case Cast(inner, precision):
                return numbers.convert(self.value(inner), precision)
            case Idx(index, precision):
                return numbers.convert(self._index(index), precision)
            case Var(name):
                found, depth = self.values[name]
                return found.reshape(found.shape + (1,) * (len(self.axes) - depth)) if found.ndim else found
            case When(cond, then, orelse):
                return self._when(cond, then, orelse)

    def _when(self, cond: Cond, then: Expr, orelse: Expr) -> Array:
        chosen = self._holds(cond)
        if chosen is True or chosen is False:
            return self.value(then if chosen else orelse)
        mask = self.mask
        self.mask = self._and(mask, chosen)
        a = self.value(then)
        self.mask = self._and(mask, ~chosen)
        b = self.value(orelse)
        self.mask = mask
        return np.where(chosen, a, b)

    def _axis(self, sym: Sym) -> int:
        return next(n for n, axis in enumerate(self.axes) if axis.sym is sym)

    def _line(self, n: int, numbers_along: Array) -> Array:
        """Numbers along one axis of the grid."""
        return numbers_along.reshape((1,) * n + (-1,) + (1,) * (len(self.axes) - n - 1))

    def _index(self, index: Affine) -> Array:
        total: Array = np.full((1,) * len(self.axes), index.const, np.int64)
        for coef, sym in index.terms:
            if sym in self.picked:
                found, depth = self.picked[sym]
                total = total + coef * found.reshape(found.shape + (1,) * (len(self.axes) - depth))
                continue
            number = self.fixed.get(sym)
            if number is None:
                n = self._axis(sym)
                axis = self.axes[n]
                total = total + self._line(n, coef * (axis.start + axis.step * np.arange(axis.count)))
            else:
                total = total + coef * number
        return total

    def _extremes(self, index: Affine) -> tuple[int, int]:
        """Smallest and largest value on the grid."""
        least = most = index.const
        for coef, sym in index.terms:
            number = self.fixed.get(sym)
            if sym in self.picked:
                first, last = coef * sym.lo, coef * sym.hi
            elif number is not None:
                first = last = coef * number
            else:
                axis = self.axes[self._axis(sym)]
                first, last = coef * axis.start, coef * axis.last
            least += min(first, last)
            most += max(first, last)
        return least, most

    def _holds(self, cond: Cond) -> Array | bool:
        """Whether a condition holds: one answer for the grid if there is one, else an answer for every point."""
        answer: Array | None = None
        for index, wanted in [*((a, False) for a in cond.ge0), *((a, True) for a in cond.eq0)]:
            least, most = self._extremes(index)
            if most < 0 or (wanted and least > 0):
                return False
            if least == most or (least >= 0 and not wanted):
                continue
            number = self._index(index)
            answer = self._and(answer, number == 0 if wanted else number >= 0)
        return True if answer is None else answer

    @staticmethod
    def _and(one: Array | None, other: Array | bool) -> Any:
        if other is True:
            return one
        return other if one is None else one & other


def entry(
    analysis: Analysis,
    buffers: Mapping[Buf, Array],
    syms: Sequence[Sym],
    is_cancelled: Callable[[], bool] = bool,
) -> Callable[..., None]:
    """The program bound to memory."""

    def run(*values: int) -> None:
        storages = {buf: Storage.of(flat, buf.strides) for buf, flat in buffers.items()}
        for buf, storage in storages.items():
            if buf.access is Access.TEMP:
                storage.raw[...] = 0xFF  # what temporaries hold before they are written: NaN
        grid = Grid(analysis, storages, dict(zip(syms, values, strict=True)), is_cancelled=is_cancelled)
        with np.errstate(all="ignore"):
            grid.run(analysis.proc.body)

    return run
