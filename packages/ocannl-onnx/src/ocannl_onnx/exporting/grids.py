"""Grids: values over loops, as arrays of ONNX whose axes are loops in any order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.precision import Family, Precision, bool_, int32, int64, uint32, uint64
from ocannl_onnx.element_types import element_type_of
from ocannl_onnx.exporting.graph_builder import OnnxBuilder

Array = np.ndarray[Any, Any]


class NoForm(Exception):
    """A statement that operators of ONNX do not express, with the reason."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A value in each iteration of `axes`: axis n of the array `name` is a loop. `kind` is the type of its elements in
    ocannl; the array has the type `carrier(kind)`."""

    name: str
    axes: tuple[Sym, ...]
    kind: Precision

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(sym.extent for sym in self.axes)


def carrier(kind: Precision) -> Precision:
    """The type in which operators compute: runtimes implement arithmetic for few types. Narrow integers are computed
    in wider ones and wrapped; unsigned numbers of 64 bits are represented by signed ones with equal bits."""
    if kind.family is Family.FLOAT:
        return kind.arithmetic
    if kind in (uint32, uint64, int64):
        return int64
    return bool_ if kind is bool_ else int32


def require_order(operation: str, kind: Precision) -> None:
    """Raises: NoForm for uint64: the signed numbers that represent it have another order."""
    if kind is uint64:
        raise NoForm(f"`{operation}` of numbers of type uint64")


class Grids:
    """Writes operators that change types and axes of grids."""

    def __init__(self, builder: OnnxBuilder) -> None:
        self.builder = builder

    # --- types ---

    def cast(self, name: str, source: Precision, target: Precision) -> str:
        """Converts an array between types of storage."""
        if source is target:
            return name
        array = None if name.startswith("#parameter") else self.builder.array_of(name)
        if array is not None and source.numpy.kind in "biu" and target.numpy.kind in "biuf":
            return self.builder.constant(array.astype(target.numpy))
        return self.builder.node("Cast", name, to=element_type_of(target), **_wraps(target))

    def from_storage(self, name: str, kind: Precision) -> str:
        widened = self.cast(name, kind, carrier(kind))
        self.builder.widened[widened, kind] = name
        return widened

    def to_storage(self, grid: Grid) -> str:
        narrow = self.builder.widened.get((grid.name, grid.kind))
        return self.cast(grid.name, carrier(grid.kind), grid.kind) if narrow is None else narrow

    def wrapped(self, grid: Grid) -> Grid:
        """A grid whose elements are reduced to the range of their type, after arithmetic in the carrier."""
        if grid.kind.is_float or carrier(grid.kind) is grid.kind or grid.kind is uint64:
            return grid
        return Grid(self.from_storage(self.to_storage(grid), grid.kind), grid.axes, grid.kind)

    def converted(self, grid: Grid, kind: Precision) -> Grid:
        """`Cast` of loop programs: to bool is `!= 0`, from floats truncates, between integers wraps."""
        if grid.kind is kind:
            return grid
        source, target = carrier(grid.kind), carrier(kind)
        name = grid.name
        if grid.kind is uint64 and (kind.is_float or kind is bool_):
            name, source = self.cast(name, int64, uint64), uint64
        is_narrowing = kind is not target and kind is not bool_
        if is_narrowing and (kind.is_float or not grid.kind.is_float or kind is uint64):
            name, source = self.cast(name, source, kind), kind
        if source is kind:
            return Grid(self.from_storage(name, kind), grid.axes, kind)
        return Grid(self.cast(name, source, target), grid.axes, kind)

    # --- constants ---

    def constant(self, array: Array, axes: Sequence[Sym], kind: Precision) -> Grid:
        """A grid of known elements."""
        content = np.asarray(array).astype(carrier(kind).numpy)
        return Grid(self.builder.constant(content), tuple(axes), kind)

    def index(self, index: Affine) -> Grid:
        """The values of an index of loops alone."""
        axes, array = static_index(index)
        return self.constant(array, axes, int64)

    # --- axes ---

    def transposed(self, grid: Grid, axes: Sequence[Sym]) -> Grid:
        return Grid(transposed(self.builder, grid.name, grid.axes, axes), tuple(axes), grid.kind)

    def reshaped(self, name: str, dims: Sequence[int]) -> str:
        return reshaped(self.builder, name, dims)

    def aligned(self, grid: Grid, axes: Sequence[Sym]) -> str:
        """The array broadcast to `axes`: with size 1 along loops that the grid does not have, without leading ones."""
        order = [sym for sym in axes if sym in grid.axes]
        name = self.transposed(grid, order).name
        if not order:
            return name
        present = list(axes)[list(axes).index(order[0]) :]
        absent = [n for n, sym in enumerate(present) if sym not in grid.axes]
        return self.builder.node("Unsqueeze", name, self.builder.integers(*absent)) if absent else name

    def expanded(self, grid: Grid, axes: Sequence[Sym]) -> Grid:
        """The grid over `axes`, which include its own."""
        absent = [sym for sym in axes if sym not in grid.axes]
        if absent and all(sym.extent == 1 for sym in absent):
            name = self.transposed(grid, [sym for sym in axes if sym in grid.axes]).name
            positions = self.builder.integers(*(list(axes).index(sym) for sym in absent))
            return Grid(self.builder.node("Unsqueeze", name, positions), tuple(axes), grid.kind)
        name = self.aligned(grid, axes)
        if absent:
            name = self.builder.node("Expand", name, self.builder.integers(*(sym.extent for sym in axes)))
        return Grid(name, tuple(axes), grid.kind)

    def elementwise(self, operator: str, operands: Sequence[Grid], kind: Precision, **attributes: Any) -> Grid:
        """An operator with broadcasting."""
        axes = common_axes(operands)
        names = [self.aligned(operand, axes) for operand in operands]
        return Grid(self.builder.node(operator, *names, **attributes), axes, kind)


def where(grids: Grids, condition: Grid, if_true: Grid, if_false: Grid) -> Grid:
    """One of two grids, cell by cell; runtimes have no such operator on truth values."""
    if if_true.kind is not bool_:
        return grids.elementwise("Where", [condition, if_true, if_false], if_true.kind)
    chosen = grids.elementwise("And", [condition, if_true], bool_)
    remaining = grids.elementwise("And", [grids.elementwise("Not", [condition], bool_), if_false], bool_)
    return grids.elementwise("Or", [chosen, remaining], bool_)


def _wraps(target: Precision) -> dict[str, int]:
    return {"saturate": 0} if target.name.startswith("float8") else {}


def common_axes(operands: Iterable[Grid]) -> tuple[Sym, ...]:
    """The loops of all operands, in the order of the largest one; loops that it lacks come first."""
    grids = sorted(operands, key=lambda grid: (-prod(grid.dims), -len(grid.axes)))
    axes: tuple[Sym, ...] = ()
    for grid in grids:
        axes = (*(sym for sym in grid.axes if sym not in axes), *axes)
    return axes


def static_index(index: Affine) -> tuple[tuple[Sym, ...], Array]:
    """The loops of an index, and its values over them."""
    axes = index.syms
    value = np.full((), index.const, np.int64)
    for position, (coef, sym) in enumerate(index.terms):
        steps = coef * np.arange(sym.lo, sym.hi + 1, dtype=np.int64)
        value = value + steps.reshape(-1, *(1,) * (len(axes) - position - 1))
    return axes, np.broadcast_to(value, tuple(sym.extent for sym in axes))


def transposed(builder: OnnxBuilder, name: str, source: Sequence[Any], target: Sequence[Any]) -> str:
    """An array with axes `source` in the order `target`."""
    order = [list(source).index(axis) for axis in target]
    if order == list(range(len(order))):
        return name
    result = builder.node("Transpose", name, perm=order)
    if name in builder.dims:
        builder.dims[result] = tuple(builder.dims[name][axis] for axis in order)
    return result


def reshaped(builder: OnnxBuilder, name: str, dims: Sequence[int]) -> str:
    """An array with other axes; of an array that was reshaped before, it is the original that is reshaped."""
    origin = builder.reshaped_from.get(name, name)
    if builder.dims.get(origin) == tuple(dims):
        return origin
    result = _reshape(builder, origin, dims)
    builder.reshaped_from[result], builder.dims[result] = origin, tuple(dims)
    return result


def _reshape(builder: OnnxBuilder, name: str, dims: Sequence[int]) -> str:
    attributes = {"allowzero": 1} if 0 in dims else {}
    return builder.node("Reshape", name, builder.integers(*dims), **attributes)

