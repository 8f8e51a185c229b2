"""Evaluates a `Comp` with NumPy, by index grids and scatters: the oracle of `lower`, with which it shares no code.

Floats are computed in `np.longdouble` (80 bits on x86), so that long sums are accurate for results in float64, too;
conversions and assignments round them. Integers are computed in their type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.assign import (
    Assign,
    Call,
    Comp,
    Conditional,
    Convert,
    Index,
    LabeledBlock,
    Loop,
    Number,
    Piece,
    Read,
    Seq,
    Value,
    nodes,
)
from ocannl.ir.host_call import DeferredArray, HostCall
from ocannl.ir.ops import Domain, Op
from ocannl.ir.precision import Family, Precision, float32, int32, int64, promote, uint32, uint64
from ocannl.ir.tnode import TNode

Array = np.ndarray[Any, Any]
Arrays = Mapping[TNode, Array]


@dataclass(frozen=True)
class Typed:
    """Values over a grid; `kind` is None for weak values, and `span` is their range then."""

    array: Array
    kind: Precision | None
    span: tuple[float, float] = (0, 0)
    is_index: bool = False


def evaluate(
    code: Comp, arrays: Arrays, symbols: Mapping[Sym, int] | None = None, merged: Arrays | None = None
) -> dict[TNode, Array]:
    """The values of all nodes after running the code. Nodes not in `arrays` start as NaN or the largest integer."""
    state = {n: np.array(arrays[n], n.precision.numpy) if n in arrays else unset(n) for n in nodes(code)}
    with np.errstate(all="ignore"):
        _execute(code, state, dict(symbols or {}), merged or {})
    return state


def _execute(code: Comp, state: dict[TNode, Array], symbols: dict[Sym, int], merged: Arrays) -> None:
    """Executes the code on `state`."""
    match code:
        case Seq(items):
            for item in items:
                _execute(item, state, symbols, merged)
        case LabeledBlock(_, body):
            _execute(body, state, symbols, merged)
        case Loop(sym, body):
            for number in range(sym.lo, sym.hi + 1):
                _execute(body, state, {**symbols, sym: number}, merged)
        case Conditional(condition, body):
            if _Grid(Piece((), (), condition), symbols, state, merged).value(condition).array.item():
                _execute(body, state, symbols, merged)
        case HostCall():
            for node, value in code.results(code.function(*code.arguments(state.__getitem__))):
                array = value.array() if isinstance(value, DeferredArray) else value
                state[node] = array.astype(node.precision.numpy)
        case Assign():
            state[code.lhs] = _run(code, state, symbols, merged)


def unset(node: TNode) -> Array:
    kind = node.precision
    if kind.family is Family.BOOL or kind.is_float:
        return np.full(node.dims, np.nan).astype(kind.numpy)
    return np.full(node.dims, np.iinfo(kind.numpy).max, kind.numpy)


def _run(assign: Assign, state: Arrays, symbols: Mapping[Sym, int], merged: Arrays) -> Array:
    lhs, op = assign.lhs, assign.accum
    kind = lhs.precision if op is None else _computing(op, lhs.precision)
    is_integer = not lhs.precision.is_float and lhs.precision.family is not Family.BOOL
    cell_kind = lhs.precision if is_integer else kind  # intermediate results of integers wrap
    cells = state[lhs].astype(_dtype(cell_kind))
    if assign.clear:
        cells[...] = _fitting(0 if op is None or op.neutral is None else op.neutral, cell_kind)
    for piece in assign.pieces:
        grid = _Grid(piece, symbols, state, merged)
        chosen = grid.chosen
        value = _as(grid.value(piece.value), kind)
        at = tuple(np.broadcast_to(grid.index(a), grid.shape)[chosen] for a in piece.indices)
        _scatter(op, cells, at, np.broadcast_to(value, grid.shape)[chosen], kind)
    return cells.astype(lhs.precision.numpy)


def _scatter(op: Op | None, cells: Array, at: tuple[Array, ...], values: Array, kind: Precision) -> None:
    """Accumulates the values of each cell, in the order of the grid."""
    if op is None:
        if len(values):
            cells[at] = values if at else values[-1]
    elif op.name in ("add", "sub", "mul", "max", "min"):
        ufunc = np.subtract if op.ufunc is None else op.ufunc
        if at:
            ufunc.at(cells, at, values)
        else:
            for v in values:
                cells[()] = ufunc(cells[()], v)
    else:
        for n, v in enumerate(values):
            cell = tuple(int(a[n]) for a in at)
            cells[cell] = np.asarray(op.numpy(np.asarray(cells[cell], _dtype(kind)), v)).astype(cells.dtype)


class _Grid:
    """The iterations of one piece: an open grid, one axis per loop."""

    def __init__(self, piece: Piece, symbols: Mapping[Sym, int], state: Arrays, merged: Arrays) -> None:
        self.shape = tuple(s.extent for s in piece.loops)
        open_grid = np.ix_(*(np.arange(s.lo, s.hi + 1) for s in piece.loops)) if piece.loops else ()
        self.syms: dict[Sym, Array] = dict(zip(piece.loops, open_grid, strict=True))
        self.syms |= {s: np.asarray(v) for s, v in symbols.items()}
        self.chosen = np.broadcast_to(self.holds(piece.when), self.shape)
        self.state = state
        self.merged = merged
        for pick in piece.indirect:
            picked = self.value(pick.value).array.astype(np.int64)
            self.chosen = self.chosen & (picked >= pick.sym.lo) & (picked <= pick.sym.hi)
            self.syms[pick.sym] = np.clip(picked, pick.sym.lo, max(pick.sym.lo, pick.sym.hi))

    def index(self, index: Affine) -> Array:
        return np.asarray(sum((c * self.syms[s] for c, s in index.terms), np.asarray(index.const)))

    def holds(self, cond: Cond) -> Array:
        facts = [self.index(a) >= 0 for a in cond.ge0] + [self.index(a) == 0 for a in cond.eq0]
        return np.asarray(np.logical_and.reduce(np.broadcast_arrays(True, *facts)) if facts else True)

    def value(self, value: Value) -> Typed:
        match value:
            case Read(node, at, outside, merge):
                array = (self.merged if merge else self.state)[node]
                dtype = _dtype(node.precision)
                where = [self.index(a) for a in at]
                inside = np.asarray(True)
                for index, size in zip(where, array.shape, strict=True):
                    inside = inside & (index >= 0) & (index < size)
                if outside is None and not np.all(inside | ~self.chosen):
                    raise IndexError(f"`{node.label}` is read outside")
                outside_value = np.asarray(_fitting(outside or 0, node.precision), dtype)
                if array.size == 0:
                    return Typed(np.full(inside.shape, outside_value), node.precision)
                nearest = tuple(np.clip(index, 0, size - 1) for index, size in zip(where, array.shape, strict=True))
                return Typed(np.where(inside, array[nearest].astype(dtype), outside_value), node.precision)
            case Number(number):
                return Typed(np.asarray(number), None, (number, number))
            case Index(index):
                span = (0, 0) if any(s.extent == 0 for s in index.syms) else index.range()
                return Typed(self.index(index), None, span, is_index=True)
            case Convert(inner, precision):
                return Typed(_as(self.value(inner), precision, exactly=True), precision)
            case Call(op, args):
                operands = [self.value(a) for a in args]
                kind = _common(op, operands[1:] if op.name == "where" else operands)
                arguments = [_as(o, kind) for o in operands]
                if op.name == "where":
                    arguments[0] = operands[0].array.astype(float) != 0
                return Typed(np.asarray(op.numpy(*arguments)), kind)


def _dtype(kind: Precision) -> np.dtype[Any]:
    """The NumPy type in which values of a type are computed."""
    return np.dtype(np.longdouble) if kind.is_float else kind.numpy


def _as(typed: Typed, kind: Precision, exactly: bool = False) -> Array:
    rounded = typed.array.astype(kind.numpy) if exactly else typed.array
    return np.asarray(rounded.astype(_dtype(kind)))


def _holds(kind: Precision, typed: Typed) -> bool:
    if kind.is_float:
        return True
    if typed.kind is None and not all(float(x).is_integer() for x in typed.span):
        return False
    low, high = (0, 1) if kind.family is Family.BOOL else (np.iinfo(kind.numpy).min, np.iinfo(kind.numpy).max)
    return bool(low <= typed.span[0] and typed.span[1] <= high)


def _common(op: Op, operands: Sequence[Typed]) -> Precision:
    """The common type of operands."""
    weak = [o for o in operands if o.kind is None]
    kind: Precision | None = None
    for o in operands:
        if o.kind is not None:
            kind = o.kind if kind is None else promote(kind, o.kind)
    if kind is None:
        is_integer = all(float(o.span[0]).is_integer() for o in weak)
        kind = int32 if is_integer and any(o.is_index for o in weak) else float32
    for o in weak:
        if not _holds(kind, o):
            kind = promote(kind, next((p for p in (int32, int64, uint64) if _holds(p, o)), float32))
    return _computing(op, kind)


def _computing(op: Op, kind: Precision) -> Precision:
    counts = kind.family is Family.BOOL and op.name not in (
        "id", "not", "max", "min", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "where", "fst", "snd",
    )  # fmt: skip
    if op.domain is Domain.WORD:
        return uint32
    if not kind.is_float and op.domain is Domain.FLOAT:
        return float32
    return int32 if counts else kind.arithmetic


def _fitting(number: float, kind: Precision) -> float | int | bool:
    """The number clipped to the range of a type."""
    if kind.is_float:
        return float(number)
    if kind.family is Family.BOOL:
        return bool(number > 0) if np.isinf(number) else bool(number)
    limits = np.iinfo(kind.numpy)
    return int(min(max(number, limits.min), limits.max))
