"""Register tiles: so many rows of so many vectors at a time, chosen by what the processor would do for them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from math import prod

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import Cond, Sym
from ocannl.ir.loops import Buf, Cast, Expr, Idx, Load, Ref, Var, When
from ocannl.ir.projections import is_injective
from ocannl.ir.touch import is_there
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.cost import cost
from ocannl.opt.group import Group
from ocannl.opt.nest import loads
from ocannl.opt.plan.model import Shape, Strides, Tile, alike, best
from ocannl.opt.plan.plain import REORDERED, along


@dataclass(frozen=True, slots=True)
class Tiled:
    """Loops in this order: `loops`, with the number of iterations of each that are in a tile, 0 for those around tiles;
    `reduced`. `vector`, one of the tiles or the last of `reduced`, has its iterations in vectors of `lanes`, `vectors`
    of them at a time. `across` is a loop of tiles along which cells lie side by side that lie apart along the vectors.
    `panels` are operands that are copied first, so that a tile goes straight through its part of them. So many values
    of the first of `reduced` as `block` says are summed in all tiles of the innermost `inside` loops before others are;
    0: all of them. `stretch` is one of `loops`, and how many turns of it there are in each turn of all others."""

    loops: tuple[tuple[Sym, int], ...]
    reduced: tuple[Sym, ...]
    vector: Sym
    lanes: int
    vectors: int
    across: Sym | None = None
    panels: tuple[Ref, ...] = ()
    block: int = 0
    inside: int = 1
    stretch: tuple[Sym, int] | None = None

    @property
    def outer(self) -> tuple[Sym, ...]:
        return tuple([sym for sym, size in self.loops if not size])

    @property
    def tiles(self) -> dict[Sym, int]:
        return {sym: size for sym, size in self.loops if size}

    @property
    def turns(self) -> dict[Sym, int]:
        """Of the loops around the reduced ones, without stretches."""
        return {sym: -(-sym.extent // (size or 1)) for sym, size in self.loops}

    @property
    def is_prepared(self) -> bool:
        """Whether it needs arrays of its own."""
        return bool(self.panels or self.block)


def tiled(group: Group, capabilities: Capabilities, shared: bool = False) -> Tiled | None:
    """The cheapest tile; None where there is nothing to have in lanes. If threads share the outermost loop, what they
    wait for each other counts, too."""
    subject = subject_of(group, capabilities)
    tile = best(subject.shape()) if subject is not None else None
    if subject is None or tile is None:
        return None
    first = in_tiles(group, subject, tile)
    if not (shared and first.turns) or tile.cycles < machine.MIN_PARALLEL_TILE_CYCLES:
        return first
    rows = machine.MIN_L2_TILE_ROWS
    high = [each for each in alike(subject.shape(), tile) if each.tiles and each.tiles[0][1] >= rows]
    some = [(tile.cycles, first), *((each.cycles, in_tiles(group, subject, each)) for each in high)]
    return min(some, key=lambda each: each[0] * (1 + machine.IMBALANCE_WEIGHT * idle(each[1])))[1]


def idle(plan: Tiled) -> float:
    """How much longer than it would if all had the same the busiest of several threads takes, each with so many
    iterations of the outermost loop."""
    sym, turns = next(iter(plan.turns.items()))
    exact = sym.extent / plan.tiles.get(sym, 1)
    counts = machine.BALANCED_THREADS
    return sum(-(-turns // threads) * threads / exact - 1 for threads in counts) / len(counts)


def in_tiles(group: Group, subject: Subject, tile: Tile) -> Tiled:
    """The group in such tiles."""
    kept, reduced, lanes = group.syms, group.sums[0].syms if group.sums else (), subject.numbers.lanes
    syms = kept + reduced
    vector = syms[tile.vector]
    tiles = [(syms[n], size) for n, size in tile.tiles]
    if vector in reduced:
        reduced = (*(s for s in reduced if s is not vector), vector)
    else:
        reduced = along(reduced, [ref for ref in subject.terms if not ref.stride(vector)])
        tiles = _ordered(subject, [*tiles, (vector, tile.vectors * lanes)], reduced)
    outer = [(s, 0) for s in kept if all(s is not of for of, _ in tiles)]
    across = None if tile.across is None else syms[tile.across]
    return Tiled((*outer, *tiles), reduced, vector, lanes, tile.vectors, across)


def _ordered(subject: Subject, tiles: list[tuple[Sym, int]], reduced: tuple[Sym, ...]) -> list[tuple[Sym, int]]:
    """The tile loops, outermost first: the inner one goes through all its operands again for every tile of the outer
    one, which is fast while these are near."""

    def far(outer: tuple[Sym, int], inner: tuple[Sym, int]) -> int:
        again = [ref for ref in subject.terms if ref.stride(inner[0]) and not ref.stride(outer[0])]
        syms = (*reduced, inner[0])
        size = sum(prod(s.extent for s in syms if ref.stride(s)) * ref.buf.precision.nbytes for ref in again)
        return size * -(-outer[0].extent // outer[1]) if size > subject.near_bytes else 0

    if len(tiles) < 2:
        return tiles
    row, column = tiles
    return tiles if far(row, column) <= far(column, row) else [column, row]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a plan depends on: the group in numbers, but for strides; and the cells that these are of."""

    syms: tuple[Sym, ...]
    terms: tuple[Ref, ...]
    others: tuple[Ref, ...]
    writes: tuple[Ref, ...]
    numbers: Shape
    near_bytes: int  # of operands that stay in a cache of the core
    known: dict[tuple[int, Strides], Strides] = field(default_factory=dict, compare=False)  # of cells, by orders

    def shape(self, orders: Mapping[Buf, Strides] | None = None, without: Container[Buf] = ()) -> Shape:
        """The group in numbers, as if arrays had other strides, or it did not touch some of them."""
        terms, others, writes = (
            tuple([self.strides(ref, orders) for ref in refs if ref.buf not in without])
            for refs in (self.terms, self.others, self.writes)
        )
        n = self.numbers
        return Shape(
            n.kept, n.reduced, n.rows, n.wide, terms, others, writes, n.work, n.after, n.lanes, n.registers
        )  # fmt: skip

    def strides(self, ref: Ref, orders: Mapping[Buf, Strides] | None) -> Strides:
        steps = ref.buf.strides if orders is None else orders.get(ref.buf, ref.buf.strides)
        if (id(ref), steps) not in self.known:
            self.known[id(ref), steps] = _strides(ref, self.syms, steps)
        return self.known[id(ref), steps]


def subject_of(group: Group, capabilities: Capabilities) -> Subject | None:
    """None where iterations cannot lie side by side."""
    kept = group.syms
    if not capabilities.vector_bytes or len(group.sums) > 1:
        return None
    if not all(is_injective(ref.at, kept) for ref in group.writes):
        return None
    if any(each.update.op not in REORDERED for each in group.sums):
        return None
    syms = kept + tuple([sym for each in group.sums for sym in each.syms])
    inner = [cond for each in group.sums for cond in (each.cond, *guards(each.update.value))]
    outer = [group.cond, *(cond for value in group.values for cond in guards(value) if cond not in inner)]
    fixed = {s for cond in outer for s in cond.syms} | {s for cond in inner for fact in cond.eq0 for s in fact.syms}
    ragged = {s for cond in inner for s in cond.syms}  # guards of terms may let some rows through, and not others
    width = max([4, *(ref.buf.precision.nbytes for ref in group.writes)])
    for value in group.values:
        for node in walk(value):
            if isinstance(node, Load | Cast) and _differs(node, syms):
                width = max(width, node.precision.nbytes)
    terms = _terms(group)
    others = [ref for ref in dict.fromkeys(group.reads) if ref not in terms] if group.sums else []
    heavy = [each.update.value for each in group.sums] or [stmt.value for stmt in group.tail]
    light = [stmt.value for stmt in group.tail] if group.sums else []
    numbers = Shape(
        kept=tuple([s.extent for s in kept]),
        reduced=tuple([s.extent for s in syms[len(kept) :]]),
        rows=tuple([s not in fixed for s in kept]),
        wide=tuple([s not in fixed and s not in ragged for s in syms]),
        terms=(),
        others=(),
        writes=(),
        work=max(1, sum(map(_work, heavy))),
        after=sum(map(_work, light)),
        lanes=capabilities.vector_bytes // width,
        registers=capabilities.vector_registers,
    )
    near = capabilities.caches.core_bytes // machine.OPERAND_CACHE_DIVISOR
    return Subject(syms, tuple(terms), tuple(others), tuple(group.writes), numbers, near)


def _differs(value: Expr, syms: tuple[Sym, ...]) -> bool:
    """Whether lanes may have different values of it."""
    return any(
        any(s in syms for at in node.ref.at for s in at.syms) if isinstance(node, Load) else isinstance(node, Idx | Var)
        for node in walk(value)
    )


def guards(value: Expr) -> list[Cond]:
    """What decides which cells are read, where not all are there to be read."""
    whens = (node for node in walk(value) if isinstance(node, When))
    return [when.cond for when in whens if not all(map(is_there, loads(when)))]


def _terms(group: Group) -> list[Ref]:
    """The distinct cells that a term of the sum reads; without a sum, the whole group."""
    refs = [ref for each in group.sums for ref in loads(each.update.value)] if group.sums else group.reads
    return list(dict.fromkeys(refs))


def _strides(ref: Ref, syms: tuple[Sym, ...], steps: Strides) -> Strides:
    found = dict.fromkeys(syms, 0)
    for place, step in zip(ref.at, steps, strict=True):
        for coef, sym in place.terms:
            if sym in found:
                found[sym] += coef * step
    return tuple(found.values())


def _work(value: Expr) -> int:
    return cost(value).work - max(0, len(loads(value)) - 1)
