"""Nests in register tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ocannl.ir.index import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import Body, Expr, If, Load, Local, Mode, Num, Ref, Stmt, Store, Update, loop
from ocannl.ir.names import Namer
from ocannl.opt.fold import fold_expr
from ocannl.opt.nest import Nest
from ocannl.opt.plan.tiled import Tiled
from ocannl.opt.realize.plain import around, loops_of, neutral, split
from ocannl.opt.realize.region import Grid, Region, Rows, Spot, local, strips_of
from ocannl.opt.realize.shared import in_cells
from ocannl.opt.substitute import substitute


def realize_tiled(nest: Nest, plan: Tiled, names: Namer) -> Body:
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
    which loop the vectors lie along: along a summed one, each lane has a part of the sum until the end.
    """
    return _Realizer(nest, plan, names).body()


class _Realizer:
    __slots__ = ("each", "leaf", "names", "nest", "plan", "some")

    def __init__(self, nest: Nest, plan: Tiled, names: Namer) -> None:
        self.nest, self.plan, self.names, self.leaf = nest, plan, names, nest.leaf
        self.some, self.each = split(nest.cond, plan.reduced)

    def body(self) -> Body:
        outer = self.some if self.nest.start is None else TRUE  # with a start, every cell is written
        tiles = self.tiles(self.plan.tiles, Region((), self.plan.vector))
        return around(loops_of(self.nest, self.plan.outer), outer, tiles)

    # ------------------------------------------------------------------------------------------------------ the regions

    def tiles(self, tiles: tuple[tuple[Sym, int], ...], region: Region) -> Body:
        """Loops over the tiles, one inside the other."""
        if not tiles:
            return self.tile(region)
        (sym, size), *rest = tiles

        def part(first: Affine, count: int) -> Body:
            if sym is region.vector:
                return self.tiles(tuple(rest), replace(region, strips=strips_of(first, count, self.plan.lanes)))
            return self.tiles(tuple(rest), replace(region, rows=(*region.rows, Rows(sym, first, count))))

        return self.turns(sym, size, part)

    def turns(self, sym: Sym, size: int, part: Callable[[Affine, int], Body]) -> Body:
        """`part(first, count)` for so many values of the symbol at a time, and for the fewer ones at the end."""
        whole, left = divmod(sym.extent, size)
        if not whole:
            return part(Affine((), sym.lo), left)
        if whole == 1 and not left:
            return part(Affine((), sym.lo), size)
        turn = Sym(self.names(sym.name), 0, whole - 1 + bool(left))
        full = part(Affine(((size, turn),), sym.lo), size)
        if left:
            is_full = Cond((Affine(((-1, turn),), whole - 1),))
            full = (If(is_full, full, part(Affine((), sym.lo + whole * size), left)),)
        return (loop(turn, full, self.leaf.origin),)

    # --------------------------------------------------------------------------------------------------------- the tile

    def tile(self, region: Region) -> Body:
        if not self.plan.reduced:
            return self.step(region, lambda spot, value: self.written(spot, value))
        return self.columns(region) if region.strips else self.sums(region)

    def step(self, region: Region, make: Callable[[Spot, Expr], Stmt]) -> Body:
        return in_cells(region, self.leaf.value, make, self.names)

    def written(self, spot: Spot, value: Expr) -> Stmt:
        """The nest's own statement."""
        leaf = self.leaf
        ref = Ref(leaf.ref.buf, tuple([at.substitute(spot.values) for at in leaf.ref.at]))
        if isinstance(leaf, Update) and not self.plan.reduced:
            return Update(ref, leaf.op, value, leaf.origin)
        return Store(ref, value, leaf.origin)

    def start(self, spot: Spot) -> Expr:
        start = Load(self.leaf.ref) if self.nest.start is None else self.nest.start
        return fold_expr(substitute(start, spot.values), TRUE)

    def columns(self, region: Region) -> Body:
        """Each lane has the sum of a cell."""
        leaf = self.leaf
        assert isinstance(leaf, Update)
        acc = local(self.names("acc"), leaf.ref.buf.precision, region.shape)
        begin = self.cells(region, lambda spot: (Store(Ref(acc, spot.at), self.start(spot)),))

        def feed(inside: Region) -> Body:
            return self.step(inside, lambda spot, value: Update(Ref(acc, spot.at), leaf.op, value, leaf.origin))

        end = self.cells(region, lambda spot: (self.written(spot, Load(Ref(acc, spot.at))),))
        return (Local(acc), *begin, *self.fed(region, self.plan.reduced, feed), *end)

    def sums(self, region: Region) -> Body:
        """Each lane has a part of the sum of a cell."""
        leaf, plan, kind = self.leaf, self.plan, self.leaf.ref.buf.precision
        assert isinstance(leaf, Update)
        op, vector = leaf.op, plan.vector
        parts = replace(region, strips=strips_of(Affine(), plan.vectors * plan.lanes, plan.lanes))
        acc = local(self.names("acc"), kind, parts.shape)
        begin = self.cells(parts, lambda spot: (Store(Ref(acc, spot.at), Num(neutral(op, kind), kind)),))
        total = local(self.names("total"), kind, region.shape)

        def feed(inside: Region) -> Body:
            def part(first: Affine, count: int) -> Body:
                some = replace(inside, strips=strips_of(first, count, plan.lanes))
                return self.step(some, lambda spot, value: Update(Ref(acc, spot.at), op, value, leaf.origin))

            return self.turns(vector, plan.vectors * plan.lanes, part)

        def fold(spot: Spot) -> Body:
            mine = Ref(total, spot.rows)
            if plan.vectors > 1:
                other, lane = Sym(self.names(vector.name), 1, plan.vectors - 1), self.lane()
                first, more = (Ref(acc, (*spot.rows, Affine.of(v), Affine.of(lane))) for v in (0, other))
                add = loop(lane, (Update(first, op, Load(more), leaf.origin),), mode=Mode.LANES)
                together: Body = (loop(other, (add,), mode=Mode.UNROLLED),)
            else:
                together = ()
            lane = self.lane()
            each = Load(Ref(acc, (*spot.rows, Affine(), Affine.of(lane))))
            whole = loop(lane, (Update(mine, op, each, leaf.origin),), mode=Mode.LANES)
            return (Store(mine, self.start(spot)), *together, whole, self.written(spot, Load(mine)))

        fed = self.fed(region, plan.reduced[:-1], feed)
        return (Local(acc), Local(total), *begin, *fed, *self.cells(region, fold))

    def lane(self) -> Sym:
        return Sym(self.names(self.plan.vector.name), 0, self.plan.lanes - 1)

    def cells(self, region: Region, make: Callable[[Spot], Body]) -> Body:
        return Grid(region, self.names).nest(make)

    def fed(self, region: Region, reduced: tuple[Sym, ...], feed: Callable[[Region], Body]) -> Body:
        """Loops, with symbols of their own, that feed the accumulators, unless the guard says that nothing is added."""
        new = {sym: Sym(self.names(sym.name), sym.lo, sym.hi) for sym in reduced}
        known = {sym: Affine.of(its) for sym, its in new.items()}
        loops = [loop(sym, (), self.leaf.origin) for sym in new.values()]
        inside = around(loops, self.each.substitute(known), feed(replace(region, known=known)))
        return inside if self.nest.start is None or self.some.is_true else (If(self.some, inside),)
