"""A tile of a nest: which of its cells are rows and which are lanes, and loops over all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Body, Mode, loop
from ocannl.ir.names import Namer


@dataclass(frozen=True, slots=True)
class Rows:
    """So many values of a symbol, from `first` on; the tile has `before` rows in front of these."""

    sym: Sym
    first: Affine
    count: int
    before: int = 0

    def one(self, n: int) -> Rows:
        """The row with this number alone."""
        return Rows(self.sym, self.first + n, 1, self.before + n)


@dataclass(frozen=True, slots=True)
class Strip:
    """Values of the vector symbol from `first` on, as so many vectors of so many lanes; the tile has `before` vectors
    in front of these."""

    first: Affine
    vectors: int
    lanes: int
    before: int = 0


def strips_of(first: Affine, count: int, lanes: int) -> tuple[Strip, ...]:
    """The strips for so many values: whole vectors, and a shorter one of what is left over."""
    vectors, tail = divmod(count, lanes)
    whole = (Strip(first, vectors, lanes),) if vectors else ()
    return (*whole, Strip(first + vectors * lanes, 1, tail, vectors)) if tail else whole


@dataclass(frozen=True, slots=True)
class Region:
    """`vector` is the symbol that strips are values of; without strips the tile has no lanes. `known` are the values of
    other symbols, the same in all cells. The rows of `across` make a plane together with the lanes."""

    rows: tuple[Rows, ...]
    vector: Sym
    strips: tuple[Strip, ...] = ()
    known: Mapping[Sym, Affine] = field(default_factory=dict)
    across: Sym | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of storage for one number in each cell: rows, vectors, lanes."""
        rows = tuple([row.count for row in self.rows])
        return (*rows, sum(strip.vectors for strip in self.strips), self.strips[0].lanes) if self.strips else rows


@dataclass(frozen=True, slots=True)
class Spot:
    """Any cell: where it lies among the rows, and among vectors and lanes; what the nest's symbols are there."""

    rows: tuple[Affine, ...]
    wide: tuple[Affine, ...]
    values: dict[Sym, Affine]

    @property
    def at(self) -> tuple[Affine, ...]:
        return self.rows + self.wide


Counter = tuple[Affine, Mode]


class Grid:
    """Loops over all cells of a region: unrolled ones over rows and vectors, and lanes. Their symbols are new."""

    __slots__ = ("across", "mode", "rows", "spots")

    def __init__(self, region: Region, names: Namer, mode: Mode = Mode.UNROLLED) -> None:
        self.mode = mode  # of loops over rows

        def count(like: Sym, many: int) -> Affine:
            return Affine.of(Sym(names(like.name), 0, many - 1)) if many > 1 else Affine()

        def at(rows: tuple[Affine, ...]) -> dict[Sym, Affine]:
            return {row.sym: row.first + at for row, at in zip(region.rows, rows, strict=True)}

        def placed(rows: tuple[Affine, ...]) -> tuple[Affine, ...]:
            return tuple([at + row.before for row, at in zip(region.rows, rows, strict=True)])

        self.rows = tuple([count(row.sym, row.count) for row in region.rows])
        planes = (n for n, row in enumerate(region.rows) if row.sym is region.across and region.strips)
        self.across = next(planes, None)
        self.spots: list[tuple[tuple[Counter, ...], Spot]] = []  # each with loops of its own
        for strip in region.strips:
            v, lane = count(region.vector, strip.vectors), count(region.vector, strip.lanes)
            value, rows = strip.first + v * strip.lanes + lane, self.rows
            plane: tuple[Counter, ...] = ()
            if self.across is not None:
                row = count(region.rows[self.across].sym, region.rows[self.across].count)
                rows, plane = (*rows[: self.across], row, *rows[self.across + 1 :]), ((row, Mode.LANES),)
            wide = (v + strip.before, lane)
            spot = Spot(placed(rows), wide, {**region.known, **at(rows), region.vector: value})
            self.spots.append((((v, Mode.UNROLLED), *plane, (lane, Mode.LANES)), spot))
        if not region.strips:
            self.spots.append(((), Spot(placed(self.rows), (), {**region.known, **at(self.rows)})))

    def nest(self, make: Callable[[Spot], Body], before: Callable[[int], Body] = lambda depth: ()) -> Body:
        """`make` of every cell; `before`, given a number of rows' loops, stands inside these and before the next."""
        body: Body = ()
        for counters, spot in self.spots:
            body += counted(counters, make(spot))
        body = (*before(len(self.rows)), *body)
        for depth in range(len(self.rows) - 1, -1, -1):
            row = self.rows[depth] if depth != self.across else Affine()
            body = (*before(depth), *counted(((row, self.mode),), body))
        return body


def counted(counters: tuple[Counter, ...], body: Body) -> Body:
    """`body` in loops over the counters that are symbols."""
    for counter, mode in reversed(counters):
        for sym in counter.syms:
            body = (loop(sym, body, mode=mode),)
    return body
