"""The first cells of the stable order along one axis, in rounds: loops whose lanes are the cells of other axes.

    for c:
      key[c, j] = value(x[c, j]) - spacing(value) * c
    last[j] = infinity
    for r in 0..k:
      best[j] = max over c of (key[c, j] if key[c, j] < last[j] else -infinity)
      ids[r, j] = the index c of best[j]
      last[j] = best[j]

Keys are float64, with 29 more bits than values have: the index of a cell is in these bits, so that all keys of an axis
differ, and those of equal cells descend. The rounds are a sequential form; the parallel form is a search of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import (
    Assign,
    Call,
    Comp,
    Convert,
    Index,
    Loop,
    Number,
    Origin,
    ParallelForm,
    Piece,
    Read,
    Seq,
    Value,
)
from ocannl.ir.ops import BY_NAME, MAX, Op
from ocannl.ir.precision import float32, float64, int32
from ocannl.ir.tnode import TNode, temporary_of
from ocannl.lang.core.group_extremes import GroupExtremes
from ocannl.lang.core.host_calls import SlotHostCall
from ocannl.lang.core.sequential_scans import MIN_ROW, RowLoops, divide_into_rows, iteration

MIN_SIZE_OF_LANES = 128  # cells along the axis, to be the lanes of vectors
MAX_SIZE = 1024  # cells along the axis
MAX_COMPARISONS = 1 << 13  # of each cell of the other axes, in all rounds
MAX_KEYS = 1 << 13  # of the loops over a row, to stay in the caches
MAX_KEY_BYTES = 1 << 28  # of all keys

_INFINITY = 2.0**128  # values of infinite cells and of NaN, greater than those of numbers
_NAN = 2.0**129
_LEAST_SPECIAL = 2.0**128 * (1 - 2.0**-25)
_RELATIVE_SPACING, _SPACING_OF_ZERO = 2.0**-51, 2.0**-1000  # of the keys of equal cells


def are_rounds_fast(source: TNode, axis: int, k: int) -> bool:
    """Whether rounds select `k` cells along an axis faster than searches and sorts of arrays, and their keys fit."""
    size, kind = source.dims[axis], source.precision
    is_narrow = kind.nbytes <= (float32.nbytes if kind.is_float else 2)
    is_short = size <= MAX_SIZE and size * k <= MAX_COMPARISONS
    return is_narrow and is_short and prod(source.dims) * float64.nbytes <= MAX_KEY_BYTES


@dataclass(frozen=True, slots=True)
class SelectionRounds:
    """`target <- the indices of the first cells of source` along an axis of both; `search` are equivalent statements.
    NaN is greater than all numbers."""

    target: TNode
    source: TNode
    axis: int
    descending: bool
    search: tuple[SlotHostCall | GroupExtremes, ...]

    def elaborate(self, origin: Origin) -> ParallelForm:
        search = tuple([statement.elaborate(origin) for statement in self.search])
        return ParallelForm(search, sequential=self._rounds(origin))

    @property
    def keys_axis(self) -> int:
        """The axis of the keys: the last one if the lanes of vectors are cells along the axis, else the first."""
        dims, axis = self.source.dims, self.axis
        return len(dims) - 1 if prod(dims[axis + 1 :]) < MIN_ROW and dims[axis] >= MIN_SIZE_OF_LANES else 0

    def _rounds(self, origin: Origin) -> Comp:
        size = self.source.dims[self.axis]
        cells = tuple([Sym(f"i{n}", 0, extent - 1) for n, extent in enumerate(self.source.dims) if n != self.axis])
        dims = tuple([sym.extent for sym in cells])
        keys = temporary_of(self.target, "keys", (*dims[: self.keys_axis], size, *dims[self.keys_axis :]), float64)
        best, last = (temporary_of(self.target, name, dims, float64) for name in ("best", "last"))
        rows = divide_into_rows((), cells, max(1, MAX_KEYS // (size * MIN_ROW)) * MIN_ROW)
        return Seq(tuple([_Rounds(self, row, cells, keys, best, last, origin).code() for row in rows]))


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The code of the rows of one size."""

    selection: SelectionRounds
    rows: RowLoops
    cells: tuple[Sym, ...]
    keys: TNode
    best: TNode
    last: TNode
    origin: Origin

    def code(self) -> Comp:
        selection, at = self.selection, tuple(map(Affine.of, self.cells))
        cell = Sym("cell", 0, selection.source.dims[selection.axis] - 1)
        key, best, last = self._at(self.keys, selection.keys_axis, cell), Read(self.best, at), Read(self.last, at)
        source = self._at(selection.source, selection.axis, cell)
        is_left = _call("lt", key, last)
        candidate = _call("where", is_left, key, Number(float("-inf")))
        number = iteration("round", selection.target.dims[selection.axis])
        private = (self.keys, self.best, self.last)
        round_ = Seq((
            self._assign(best, None, Number(float("-inf"))),
            self._assign(best, MAX, candidate, cell),
            self._assign(self._at(selection.target, selection.axis, number), None, _index_of(best)),
            self._assign(last, None, best),
        ))  # fmt: skip
        body = (
            self._assign(key, None, _key(source, cell, selection.descending), cell),
            self._assign(last, None, Number(float("inf"))),
            Loop(number, round_, private, (selection.target,)),
        )
        return self.rows.in_loops(body, private, (selection.target,))

    def _at(self, node: TNode, axis: int, sym: Sym) -> Read:
        """A cell of a node that has the axis in addition to those of the cells."""
        at = tuple(map(Affine.of, self.cells))
        return Read(node, (*at[:axis], Affine.of(sym), *at[axis:]))

    def _assign(self, cell: Read, accum: Op | None, value: Value, *loops: Sym) -> Assign:
        piece = Piece((*loops, *self.rows.cells), cell.indices, Convert(value, cell.node.precision))
        return Assign(cell.node, accum, False, (piece,), self.origin)


def _key(cell: Value, index: Sym, descending: bool) -> Value:
    """The key of a cell, given its index. Keys descend in the order of the selection."""
    value: Value = Convert(cell, float64)
    if not descending:
        value = _call("neg", value)
    clipped = _call("max", _call("min", value, Number(_INFINITY)), Number(-_INFINITY))
    value = _call("where", _call("ne", value, value), Number(_NAN if descending else -_NAN), clipped)
    return _call("sub", value, _call("mul", _spacing(value), Convert(Index(Affine.of(index)), float64)))


def _index_of(key: Value) -> Value:
    """The index of a key: the difference between its value and the key, in units of the spacing."""
    magnitude = _call("abs", key)
    infinity, nan = (Convert(Number(value), float64) for value in (_INFINITY, _NAN))
    special = _call("where", _call("lt", magnitude, Number(1.5 * _INFINITY)), infinity, nan)
    signed = _call("where", _call("lt", key, Number(0.0)), _call("neg", special), special)
    nearest = Convert(Convert(key, float32), float64)
    value = _call("where", _call("lt", magnitude, Number(_LEAST_SPECIAL)), nearest, signed)
    index = _call("div", _call("sub", value, key), _spacing(value))
    return Convert(_call("add", index, Number(0.5)), int32)


def _spacing(value: Value) -> Value:
    """The difference of the keys of equal cells whose indices are consecutive."""
    return _call("fma", _call("abs", value), Number(_RELATIVE_SPACING), Number(_SPACING_OF_ZERO))


def _call(name: str, *args: Value) -> Call:
    return Call(BY_NAME[name], args)
