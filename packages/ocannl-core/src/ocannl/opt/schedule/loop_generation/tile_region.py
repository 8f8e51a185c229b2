"""Tile regions: the rows and vectors of a register tile, and loops over their cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import Body, Mode, loop
from ocannl.ir.name_mangling import Namer


@dataclass(frozen=True, slots=True)
class TileRows:
    """`count` consecutive values of a symbol, starting at `first`; `offset` is their position among the tile's rows."""

    sym: Sym
    first: Affine
    count: int
    offset: int = 0

    def row(self, n: int) -> TileRows:
        """Returns the single row with number `n`."""
        return self.part(n, n + 1)

    def part(self, first: int, end: int) -> TileRows:
        """Returns the rows with numbers from `first` to `end`, exclusive."""
        return TileRows(self.sym, self.first + first, end - first, self.offset + first)


@dataclass(frozen=True, slots=True)
class VectorStrip:
    """Consecutive values of the vector symbol, starting at `first`, in vectors of equal length; `offset` is the
    position among the tile's vectors."""

    first: Affine
    vectors: int
    lanes: int
    offset: int = 0


def vector_strips(first: Affine, count: int, lanes: int) -> tuple[VectorStrip, ...]:
    """Splits `count` values into full vectors and a shorter vector for the remainder."""
    vectors, remainder = divmod(count, lanes)
    full = (VectorStrip(first, vectors, lanes),) if vectors else ()
    return (*full, VectorStrip(first + vectors * lanes, 1, remainder, vectors)) if remainder else full


@dataclass(frozen=True, slots=True)
class TileRegion:
    """The cells of a tile: the product of its rows and of the strips of the symbol `vector`.

    Without strips the cells are scalars. `values` are the values of further symbols, equal in all cells. The rows of
    `transposed_loop` are transposed with the lanes in registers.
    """

    rows: tuple[TileRows, ...]
    vector: Sym
    strips: tuple[VectorStrip, ...] = ()
    values: Mapping[Sym, Affine] = field(default_factory=dict)
    transposed_loop: Sym | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a buffer with one element per cell: rows, vectors, lanes."""
        rows = tuple([row.count for row in self.rows])
        return (*rows, sum(strip.vectors for strip in self.strips), self.strips[0].lanes) if self.strips else rows


@dataclass(frozen=True, slots=True)
class TileCell:
    """A symbolic cell: its row, vector and lane indices, and the values of the group's symbols."""

    row_indices: tuple[Affine, ...]
    lane_indices: tuple[Affine, ...]
    values: dict[Sym, Affine]

    @property
    def indices(self) -> tuple[Affine, ...]:
        return self.row_indices + self.lane_indices


CounterLoop = tuple[Affine, Mode]


class TileLoops:
    """Loops with fresh symbols over all cells of a region: over rows, then unrolled over vectors, then over lanes."""

    __slots__ = ("cells", "mode", "rows", "transposed_row")

    def __init__(self, region: TileRegion, names: Namer, mode: Mode = Mode.UNROLLED) -> None:
        self.mode = mode  # of loops over rows

        def counter(like: Sym, count: int) -> Affine:
            return Affine.of(Sym(names(like.name), 0, count - 1)) if count > 1 else Affine()

        def row_values(counters: tuple[Affine, ...]) -> dict[Sym, Affine]:
            return {row.sym: row.first + n for row, n in zip(region.rows, counters, strict=True)}

        def row_indices(counters: tuple[Affine, ...]) -> tuple[Affine, ...]:
            return tuple([n + row.offset for row, n in zip(region.rows, counters, strict=True)])

        self.rows = tuple([counter(row.sym, row.count) for row in region.rows])
        transposed = (n for n, row in enumerate(region.rows) if row.sym is region.transposed_loop and region.strips)
        self.transposed_row = next(transposed, None)
        self.cells: list[tuple[tuple[CounterLoop, ...], TileCell]] = []  # with their loops inside the rows
        for strip in region.strips:
            v, lane = counter(region.vector, strip.vectors), counter(region.vector, strip.lanes)
            value, rows = strip.first + v * strip.lanes + lane, self.rows
            row_loop: tuple[CounterLoop, ...] = ()
            if self.transposed_row is not None:
                n = self.transposed_row
                row = counter(region.rows[n].sym, region.rows[n].count)
                rows, row_loop = (*rows[:n], row, *rows[n + 1 :]), ((row, Mode.VECTORIZED),)
            lane_indices = (v + strip.offset, lane)
            values = {**region.values, **row_values(rows), region.vector: value}
            cell = TileCell(row_indices(rows), lane_indices, values)
            self.cells.append((((v, Mode.UNROLLED), *row_loop, (lane, Mode.VECTORIZED)), cell))
        if not region.strips:
            self.cells.append(((), TileCell(row_indices(self.rows), (), {**region.values, **row_values(self.rows)})))

    def nest(self, make: Callable[[TileCell], Body], prologue: Callable[[int], Body] = lambda depth: ()) -> Body:
        """Builds the loops around `make(cell)`; `prologue(depth)` precedes the next loop inside `depth` row loops."""
        body: Body = ()
        for counters, cell in self.cells:
            body += wrap_in_counters(counters, make(cell))
        body = (*prologue(len(self.rows)), *body)
        for depth in range(len(self.rows) - 1, -1, -1):
            row = self.rows[depth] if depth != self.transposed_row else Affine()
            body = (*prologue(depth), *wrap_in_counters(((row, self.mode),), body))
        return body


def wrap_in_counters(counters: tuple[CounterLoop, ...], body: Body) -> Body:
    """Wraps `body` in loops over the counters that are not constant."""
    for counter, mode in reversed(counters):
        for sym in counter.syms:
            body = (loop(sym, body, mode=mode),)
    return body
