"""The first cells of the stable order along one axis, in rounds: loops whose lanes are the cells `j` of other axes, in
rows of a block.

    for block, row:
      for c:
        key[c, j] = value(x[c, j]) - spacing(value) * c
      last[j] = infinity
      for r in 0..k:
        best[j] = max over c of (key[c, j] if key[c, j] < last[j] else -infinity)
        ids[r, j] = the index c of best[j]
        last[j] = best[j]

Keys are float64, with 29 more bits than values have: the index of a cell is in these bits, so that all keys of an axis
differ, and those of equal cells descend. The keys of a block stay in the caches; threads share its rows. The rounds are
a sequential form; the parallel form is a search of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import (
    Assign,
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
    call,
)
from ocannl.ir.ops import MAX, Op
from ocannl.ir.precision import float32, float64, int32
from ocannl.ir.tnode import TNode, temporary_of
from ocannl.lang.core.group_extremes import GroupExtremes
from ocannl.lang.core.host_calls import SlotHostCall
from ocannl.lang.core.sequential_scans import MIN_ROW, RowLoops, divide_into_rows, iteration

MIN_SIZE_OF_LANES = 128  # cells along the axis, to be the lanes of vectors
MAX_SIZE = 1024  # cells along the axis
MAX_COMPARISONS = 1 << 13  # of each cell of the other axes, in all rounds
MAX_ROW_KEYS, MAX_BLOCK_KEYS = 1 << 13, 1 << 17  # to stay in the first cache, and in the second

_INFINITY = 2.0**128  # values of infinite cells and of NaN, greater than those of numbers
_NAN = 2.0**129
_MAX_FINITE_KEY = 2.0**128 * (1 - 2.0**-25)  # half a spacing of float32 above its largest number
_NAN_THRESHOLD = 1.5 * _INFINITY
_RELATIVE_SPACING, _SPACING_OF_ZERO = 2.0**-51, 2.0**-1000  # of the keys of equal cells


def are_rounds_fast(source: TNode, axis: int, k: int) -> bool:
    """Whether rounds select `k` cells along an axis faster than searches and sorts of arrays."""
    size, kind = source.dims[axis], source.precision
    is_narrow = kind.nbytes <= (float32.nbytes if kind.is_float else 2)
    return is_narrow and size <= MAX_SIZE and size * k <= MAX_COMPARISONS


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
    def is_along_lanes(self) -> bool:
        """Whether the lanes of vectors are cells along the axis."""
        dims, axis = self.source.dims, self.axis
        return prod(dims[axis + 1 :]) < MIN_ROW and dims[axis] >= MIN_SIZE_OF_LANES

    def _rounds(self, origin: Origin) -> Comp:
        size = self.source.dims[self.axis]
        cells = tuple([Sym(f"i{n}", 0, extent - 1) for n, extent in enumerate(self.source.dims) if n != self.axis])
        code: list[Comp] = []
        for block in divide_into_rows((), cells, _row_size(MAX_BLOCK_KEYS, size)):
            rounds = _Rounds(self, block, cells, origin)
            rows = divide_into_rows((), block.cells, _row_size(MAX_ROW_KEYS, size))
            body = [row.in_loops(rounds.code(row.cells), rounds.private, (self.target,)) for row in rows]
            code.append(block.in_loops(body, rounds.private, (self.target,)))
        return Seq(tuple(code))


def _row_size(keys: int, size: int) -> int:
    """The number of rows of `size` keys each, in whole vectors."""
    return max(1, keys // (size * MIN_ROW)) * MIN_ROW


class _Rounds:
    """The code of the rows of a block."""

    def __init__(self, selection: SelectionRounds, block: RowLoops, cells: tuple[Sym, ...], origin: Origin) -> None:
        self.selection, self.origin = selection, origin
        self.cells = tuple([block.values.get(sym, Affine.of(sym)) for sym in cells])
        self.block_cells = tuple(map(Affine.of, block.cells))
        dims = tuple([sym.extent for sym in block.cells])
        self.is_last_axis = selection.is_along_lanes
        size = selection.source.dims[selection.axis]
        self.keys = self._node("keys", (*dims, size) if self.is_last_axis else (size, *dims))
        self.best, self.last = self._node("best", dims), self._node("last", dims)

    @property
    def private(self) -> tuple[TNode, ...]:
        return self.keys, self.best, self.last

    def code(self, loops: tuple[Sym, ...]) -> list[Comp]:
        """The rounds of a row, of which `loops` are the cells."""
        selection, axis = self.selection, self.selection.axis
        cell = Sym("cell", 0, selection.source.dims[axis] - 1)
        number = iteration("round", selection.target.dims[axis])
        at = (*self.block_cells, Affine.of(cell)) if self.is_last_axis else (Affine.of(cell), *self.block_cells)
        key, best, last = (
            Read(node, indices)
            for node, indices in ((self.keys, at), (self.best, self.block_cells), (self.last, self.block_cells))
        )
        source = Read(selection.source, (*self.cells[:axis], Affine.of(cell), *self.cells[axis:]))
        index = Read(selection.target, (*self.cells[:axis], Affine.of(number), *self.cells[axis:]))
        candidate = call("where", call("lt", key, last), key, Number(float("-inf")))
        body = (
            self._assign(best, None, Number(float("-inf")), loops),
            self._assign(best, MAX, candidate, (cell, *loops)),
            self._assign(index, None, _index_of(best), loops),
            self._assign(last, None, best, loops),
        )
        return [
            self._assign(key, None, _key(source, cell, selection.descending), (cell, *loops)),
            self._assign(last, None, Number(float("inf")), loops),
            Loop(number, Seq(body), self.private, (selection.target,)),
        ]

    def _node(self, name: str, dims: tuple[int, ...]) -> TNode:
        return temporary_of(self.selection.target, name, dims, float64)

    def _assign(self, cell: Read, accum: Op | None, value: Value, loops: tuple[Sym, ...]) -> Assign:
        piece = Piece(loops, cell.indices, Convert(value, cell.node.precision))
        return Assign(cell.node, accum, False, (piece,), self.origin)


def _key(cell: Value, index: Sym, descending: bool) -> Value:
    """The key of a cell, given its index. Keys descend in the order of the selection."""
    value: Value = Convert(cell, float64)
    if not descending:
        value = call("neg", value)
    clipped = call("max", call("min", value, Number(_INFINITY)), Number(-_INFINITY))
    value = call("where", call("ne", value, value), Number(_NAN if descending else -_NAN), clipped)
    return call("sub", value, call("mul", _spacing(value), Convert(Index(Affine.of(index)), float64)))


def _index_of(key: Value) -> Value:
    """The index of a key: the difference between its value and the key, in units of the spacing."""
    magnitude = call("abs", key)
    infinity, nan = (Convert(Number(value), float64) for value in (_INFINITY, _NAN))
    special = call("where", call("lt", magnitude, Number(_NAN_THRESHOLD)), infinity, nan)
    signed = call("where", call("lt", key, Number(0.0)), call("neg", special), special)
    nearest = Convert(Convert(key, float32), float64)
    value = call("where", call("lt", magnitude, Number(_MAX_FINITE_KEY)), nearest, signed)
    index = call("div", call("sub", value, key), _spacing(value))
    return Convert(call("add", index, Number(0.5)), int32)


def _spacing(value: Value) -> Value:
    """The difference of the keys of equal cells whose indices are consecutive."""
    return call("fma", call("abs", value), Number(_RELATIVE_SPACING), Number(_SPACING_OF_ZERO))
