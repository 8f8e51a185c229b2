"""Groups in register tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, product, takewhile
from math import prod
from operator import and_

from ocannl.ir.index import Affine, Bound, Cond, Sym
from ocannl.ir.loops import Body, Buf, For, If, Load, Local, Mode, Num, Ref, Store, Update, loop
from ocannl.ir.names import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.cost import cost
from ocannl.opt.fold import fold_expr
from ocannl.opt.group import Group, Sum, scratch
from ocannl.opt.nest import around, clipped, in_order
from ocannl.opt.plan.tiled import Tiled, guards
from ocannl.opt.realize.blocked import Block
from ocannl.opt.realize.plain import neutral
from ocannl.opt.realize.region import Grid, Region, Rows, strips_of
from ocannl.opt.realize.shared import in_cells

NONE: Mapping[Sym, Sym] = {}


def realize_tiled(
    group: Group, plan: Tiled, names: Namer, numbers: Mapping[Sym, Sym] = NONE, blocks: tuple[Block, ...] = ()
) -> Body:
    """The loops in the order of the plan, and in each tile:

        local acc: f32[2,1,8] reg
        for u in 0..2 unrolled:
          for l in 0..8 lanes:
            acc[u, 0, l] = 0
        for k in 0..7:
          local x_2: f32[1,8] reg
          for l_2 in 0..8 lanes:
            x_2[0, l_2] = x[k, 8*j+l_2]
          for u_2 in 0..2 unrolled:
            let w_2 = w[2*i+u_2, k]
            for l_3 in 0..8 lanes:
              acc[u_2, 0, l_3] += w_2*x_2[0, l_3]
        for u_3 in 0..2 unrolled:
          for l_4 in 0..8 lanes:
            y[2*i+u_3, 8*j+l_4] = acc[u_3, 0, l_4]

    The last tile along a loop may have fewer cells, and has code of its own then. The order of summation depends on
    which loop the vectors lie along: along a summed one, each lane has a part of the sum until the end. `numbers` are
    symbols by which the group calls the tiles along a loop; the innermost loops are there once for each of the
    `blocks` of the sum.
    """
    stretches: list[For] = []
    starts: dict[Sym, tuple[Affine, int]] = {}
    if plan.stretch is not None:
        sym, many = plan.stretch
        turn = Sym(names(sym.name), 0, -(-plan.turns[sym] // many) - 1)
        stretches, starts = [loop(turn, ())], {sym: (Affine.of(turn) * many, many)}
    before = plan.loops[: -plan.inside] if blocks else plan.loops
    whole = [sym for sym, _ in takewhile(lambda each: not each[1] and each[0] not in starts, before)]
    realizer = _Realizer(group, plan, names, numbers, blocks, starts)
    rest = realizer.loops(plan.loops[len(whole) :], Region((), plan.vector))
    return clipped([*stretches, *in_order(group.loops, whole)], group.cond, rest)


@dataclass(frozen=True, slots=True)
class _Realizer:
    group: Group
    plan: Tiled
    names: Namer
    numbers: Mapping[Sym, Sym]
    blocks: tuple[Block, ...]
    starts: Mapping[Sym, tuple[Affine, int]]  # of stretches: their first turn, and how many they have

    # ------------------------------------------------------------------------------------------------------ the regions

    def loops(self, loops: tuple[tuple[Sym, int], ...], region: Region) -> Body:
        """These loops, one inside the other, and in them the tile."""
        if not loops:
            return self.tile(region)
        if len(loops) == self.plan.inside and self.blocks:
            return tuple(chain.from_iterable([self.block(each, loops, region) for each in self.blocks]))
        (sym, size), *rest = loops

        def part(first: Affine, count: int) -> Body:
            here = region
            if sym in self.numbers:
                here = replace(here, known={**here.known, self.numbers[sym]: _number(first - sym.lo, size)})
            if not size:
                here = replace(here, known={**here.known, sym: first})
            elif sym is region.vector:
                here = replace(here, strips=strips_of(first, count, self.plan.lanes))
            else:
                here = replace(here, rows=(*here.rows, Rows(sym, first, count)))
            return self.loops(tuple(rest), here)

        return self.turns(sym, size or 1, part)

    def block(self, each: Block, loops: tuple[tuple[Sym, int], ...], region: Region) -> Body:
        inner = replace(self, group=each.group, blocks=())
        if each.turn is None:
            return inner.loops(loops, region)
        turn = Sym(self.names(each.turn.name), each.turn.lo, each.turn.hi)
        known = {**region.known, each.turn: Affine.of(turn)}
        return (loop(turn, inner.loops(loops, replace(region, known=known))),)

    def turns(self, sym: Sym, size: int, part: Callable[[Affine, int], Body]) -> Body:
        """`part(first, count)` for so many values of the symbol at a time, and for the fewer ones at the end."""
        whole, left = divmod(sym.extent, size)
        if not whole:
            return part(Affine((), sym.lo), left)
        if whole == 1 and not left:
            return part(Affine((), sym.lo), size)
        last, (start, many) = whole - 1 + bool(left), self.starts.get(sym, (Affine(), 0))
        turn = Sym(self.names(sym.name), 0, many - 1 if many else last)
        number = start + turn
        first = number * size + sym.lo
        body = part(first, size)
        if left:
            body = (If(Cond((-number + (whole - 1),)), body, part(first, left)),)
        made = loop(turn, body)
        if not many or (last + 1) % many == 0:
            return (made,)
        return (replace(made, hi=Bound((*made.hi.of, (-start + last, 1)))),)

    # --------------------------------------------------------------------------------------------------------- the tile

    def tile(self, region: Region) -> Body:
        body: Body = ()
        cells: dict[Buf, Buf] = {}
        for each in self.group.sums:
            acc = cells[each.acc] = scratch(self.names("acc"), each.acc.precision, region.shape)
            feed = self.columns(region, each, acc) if region.strips else self.parts(region, each, acc)
            body += (Local(acc), *feed)
        region, tail = replace(region, across=self.plan.across), self.group.tail
        rows = prod(row.count for row in region.rows if row.sym is not region.across)
        vectors = sum(strip.vectors for strip in region.strips)
        long = rows * max(1, vectors) * sum(cost(stmt.value).work for stmt in tail) > machine.MAX_UNROLLED_EPILOGUE_OPS
        if not cells or rows == 1 or not long:
            return (*body, *in_cells(region, tail, self.names, cells))
        return (*body, *self.rolled(region, cells))

    def rolled(self, region: Region, cells: Mapping[Buf, Buf]) -> Body:
        """The tail, its text once for all rows: registers have no numbers, so sums are in memory then."""
        kept = {acc: scratch(self.names(cell.name), cell.precision, cell.shape) for acc, cell in cells.items()}
        pairs = [(kept[acc], cell) for acc, cell in cells.items()]
        copies = Grid(replace(region, across=None), self.names).nest(
            lambda spot: tuple([Store(Ref(copy, spot.at), Load(Ref(cell, spot.at))) for copy, cell in pairs])
        )
        tail = in_cells(region, self.group.tail, self.names, kept, Mode.SERIAL)
        return (*(Local(copy) for copy in kept.values()), *copies, *tail)

    def columns(self, region: Region, each: Sum, acc: Buf) -> Body:
        """Each lane has the sum of a cell."""
        cells = {each.acc: acc}
        begin = in_cells(region, (Store(each.update.ref, each.start),), self.names, cells)

        def feed(inside: Region, update: Update) -> Body:
            return in_cells(inside, (update,), self.names, cells)

        return (*begin, *self.fed(region, each, self.plan.reduced, feed))

    def parts(self, region: Region, each: Sum, total: Buf) -> Body:
        """Each lane has a part of the sum of a cell."""
        plan, kind, op, names = self.plan, each.acc.precision, each.update.op, self.names
        vector, many = plan.vector, plan.vectors * plan.lanes
        wide = replace(region, strips=strips_of(Affine(), many, plan.lanes))
        acc = scratch(names("part"), kind, wide.shape)
        cells = {each.acc: acc}
        begin = in_cells(wide, (Store(each.update.ref, Num(neutral(op, kind), kind)),), names, cells)

        def feed(inside: Region, update: Update) -> Body:
            def part(first: Affine, count: int) -> Body:
                some = replace(inside, strips=strips_of(first, count, plan.lanes))
                return in_cells(some, (update,), names, cells)

            return self.turns(vector, many, part)

        fed = self.fed(region, each, plan.reduced[:-1], feed)
        start = in_cells(region, (Store(each.update.ref, each.start),), names, {each.acc: total})
        folds = Grid(region, names).nest(lambda spot: self.folds(each, Ref(total, spot.rows), acc))
        return (Local(acc), *begin, *fed, *start, *folds)

    def folds(self, each: Sum, total: Ref, acc: Buf) -> Body:
        """The parts of one sum together: all vectors into the first one, and its lanes into the total."""
        plan, update = self.plan, each.update

        def lanes(to: Callable[[Affine], Ref], vector: Affine) -> Body:
            lane = Sym(self.names(plan.vector.name), 0, plan.lanes - 1)
            at = Affine.of(lane)
            part = Load(Ref(acc, (*total.at, vector, at)))
            return (loop(lane, (Update(to(at), update.op, part, update.origin),), mode=Mode.LANES),)

        whole = lanes(lambda lane: total, Affine())
        if plan.vectors == 1:
            return whole
        other = Sym(self.names(plan.vector.name), 1, plan.vectors - 1)
        first = lanes(lambda lane: Ref(acc, (*total.at, Affine(), lane)), Affine.of(other))
        return (loop(other, first, mode=Mode.UNROLLED), *whole)

    def fed(self, region: Region, each: Sum, reduced: tuple[Sym, ...], feed: Feed) -> Body:
        """Loops, with symbols of their own, that feed the accumulators wherever the guard lets them.

        Where guards let some rows through and not others, as at the rim of a padded image, these come one by one.
        """
        new = {sym: Sym(self.names(sym.name), sym.lo, sym.hi) for sym in reduced}
        known = {sym: Affine.of(its) for sym, its in new.items()}
        loops = [loop(sym, (), each.update.origin) for sym in new.values()]
        region = replace(region, known={**region.known, **known})
        cond, update = each.cond.substitute(region.known), each.update
        inner = [guard for guard in guards(update.value) if any(row.sym in guard.syms for row in region.rows)]
        if not inner and not any(row.sym in cond.syms for row in region.rows):
            return clipped(loops, cond, feed(region, update))
        clear = reduce(and_, inner, each.cond)
        simple = replace(update, value=fold_expr(update.value, clear))
        clear = clear.substitute(region.known)
        rim: Body = ()
        for row in _single(region, {s for guard in (clear, cond) for s in guard.syms}):
            values = {single.sym: single.first for single in row.rows if single.count == 1}
            rim += around((), cond.substitute(values), feed(row, update))
        most = If(_extreme(clear, region, min), feed(region, simple), rim)
        return clipped(loops, _extreme(cond, region, max), (most,))


def _number(first: Affine, size: int) -> Affine:
    """Of the tile that begins so far from the first one."""
    return Affine(tuple([(coef // size, sym) for coef, sym in first.terms]), first.const // size)


Feed = Callable[[Region, Update], Body]


def _extreme(cond: Cond, region: Region, which: Callable[[int, int], int]) -> Cond:
    """What holds in all rows where this is the smallest that is asked of one, and in any where it is the largest."""

    def fact(fact: Affine) -> Affine:
        for row in region.rows:
            fact = fact.substitute({row.sym: row.first}) + which(0, fact.coef(row.sym) * (row.count - 1))
        return fact

    return Cond(tuple(map(fact, cond.ge0)), tuple(map(fact, cond.eq0)))


def _single(region: Region, syms: set[Sym]) -> Iterator[Region]:
    """The region in parts that each have a single row along these symbols."""
    choices = [[row.one(n) for n in range(row.count)] if row.sym in syms else [row] for row in region.rows]
    for rows in product(*choices):
        yield replace(region, rows=rows)
