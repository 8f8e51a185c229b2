"""Builds the loops of plans in register tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, product, takewhile
from math import prod
from operator import and_

from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.loops import Body, Buf, Const, For, If, Load, Local, Mode, Prefetch, Ref, Stmt, Store, Update, loop
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import neutral_element
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.expression_cost import cost
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.analysis.nests import loads, loops_in_order, split_condition, wrap_in_loops, wrap_with_bounds
from ocannl.opt.schedule.loop_generation.blocked_summation import (
    SummationBlocks,
    nest_levels,
    tile_summation_blocks,
)
from ocannl.opt.schedule.loop_generation.blocking import ReductionBlock, whole_reduction
from ocannl.opt.schedule.loop_generation.cell_emission import emit_cells
from ocannl.opt.schedule.loop_generation.guarded_rows import guarded_regions
from ocannl.opt.schedule.loop_generation.panels import Panel, number_tiles, with_copies
from ocannl.opt.schedule.loop_generation.scalar_loops import build_scalar_loops
from ocannl.opt.schedule.loop_generation.tile_region import TileLoops, TileRegion, TileRows, vector_strips
from ocannl.opt.schedule.plan.copy_plans import copy_plan
from ocannl.opt.schedule.plan.register_tiles import TilePlan, bounds_guards
from ocannl.opt.simplify.simplify import simplify_expr

NO_SYMBOLS: Mapping[Sym, Sym] = {}


def build_tiled_loops(
    group: FusionGroup, plan: TilePlan, names: Namer, tile_numbers: Mapping[Sym, Sym] = NO_SYMBOLS,
    blocks: tuple[ReductionBlock, ...] = (), summation: SummationBlocks | None = None,
) -> Body:  # fmt: skip
    """Builds the loops in the order of the plan, and in each tile:

        local acc: f32[2,1,8]
        unrolled for u in 0..2:
          vectorized for l in 0..8:
            acc[u, 0, l] = 0
        for k in 0..7:
          local x_2: f32[1,8]
          vectorized for l_2 in 0..8:
            x_2[0, l_2] = x[k, 8*j+l_2]
          unrolled for u_2 in 0..2:
            let w_2 = w[2*i+u_2, k]
            vectorized for l_3 in 0..8:
              acc[u_2, 0, l_3] += w_2*x_2[0, l_3]
        unrolled for u_3 in 0..2:
          vectorized for l_4 in 0..8:
            y[2*i+u_3, 8*j+l_4] = acc[u_3, 0, l_4]

    A partial tile at the end of a loop has separate code. The order of summation depends on the vectorized loop: if it
    is a reduction loop, lanes are partial sums until a horizontal reduction. `tile_numbers` are symbols of the group
    that count the tiles along a loop; the innermost loops are repeated for each of the `blocks` of the reduction, whose
    loops are those of `summation`.
    """
    strips: list[For] = []
    strip_ranges: dict[Sym, tuple[Affine, int]] = {}
    if plan.strip is not None:
        sym, size = plan.strip
        strip_sym = Sym(names(sym.name), 0, -(-plan.trip_counts[sym] // size) - 1)
        strips, strip_ranges = [loop(strip_sym, ())], {sym: (Affine.of(strip_sym) * size, size)}
    if plan.panels:
        tile_numbers = {**number_tiles(plan.panels, plan, names), **tile_numbers}
        blocks = blocks or (whole_reduction(group, plan),)
    unblocked = plan.loops[: -plan.blocked_loops] if blocks else plan.loops
    untiled = [sym for sym, _ in takewhile(lambda item: not item[1] and item[0] not in strip_ranges, unblocked)]
    summation = summation or tile_summation_blocks(group, plan, names)
    terms = max((block.count for block in blocks), default=0)
    panels = tuple([Panel.of(ref, plan, terms, tile_numbers, strip_ranges, names) for ref in plan.panels])
    builder = _TileBuilder(group, plan, names, tile_numbers, blocks, panels, strip_ranges, summation)
    body = builder.loops(plan.loops[len(untiled) :], TileRegion((), plan.vector))
    body = wrap_with_bounds([*strips, *loops_in_order(group.loops, untiled)], group.cond, body)
    return _with_locals(body, [panel.buf for panel in panels])


def _with_locals(body: Body, bufs: Sequence[Buf]) -> Body:
    """Declares local arrays inside the outermost loop, of which every thread runs some iterations."""
    declarations = tuple(map(Local, bufs))
    match body:
        case (For() as outermost,) if bufs:
            return (replace(outermost, body=(*declarations, *outermost.body)),)
        case _:
            return (*declarations, *body)


@dataclass(frozen=True, slots=True)
class _TileBuilder:
    group: FusionGroup
    plan: TilePlan
    names: Namer
    tile_numbers: Mapping[Sym, Sym]
    blocks: tuple[ReductionBlock, ...]
    panels: tuple[Panel, ...]
    strip_ranges: Mapping[Sym, tuple[Affine, int]]  # of a strip-mined loop: first iteration and trip count of a strip
    summation: SummationBlocks | None  # of the reduction
    block: ReductionBlock | None = None  # whose loops are built

    # ------------------------------------------------------------------------------------------------------ the regions

    def loops(self, loops: tuple[tuple[Sym, int], ...], region: TileRegion) -> Body:
        """Builds the nested loops around the tile."""
        if not loops:
            return self.tile(region)
        if len(loops) == self.plan.blocked_loops and self.blocks:
            return tuple(chain.from_iterable([self.block_at(block, loops, region) for block in self.blocks]))
        (sym, size), *inner = loops
        fills: Body = ()
        if self.block is not None:
            panels = [panel for panel in self.panels if panel.inner_loops == len(loops)]
            fills = tuple(chain.from_iterable([self.fill(panel, self.block, region) for panel in panels]))

        def tile_at(first: Affine, count: int) -> Body:
            tile_region = region
            if sym in self.tile_numbers:
                number = _tile_number(first - sym.lo, size)
                tile_region = replace(tile_region, values={**tile_region.values, self.tile_numbers[sym]: number})
            if not size:
                tile_region = replace(tile_region, values={**tile_region.values, sym: first})
            elif sym is region.vector:
                tile_region = replace(tile_region, strips=vector_strips(first, count, self.plan.lanes))
            else:
                tile_region = replace(tile_region, rows=(*tile_region.rows, TileRows(sym, first, count)))
            return self.loops(tuple(inner), tile_region)

        return (*fills, *self.tile_loop(sym, size or 1, tile_at))

    def block_at(self, block: ReductionBlock, loops: tuple[tuple[Sym, int], ...], region: TileRegion) -> Body:
        cells = {panel.source: panel.cell(block, self.plan, self.tile_numbers) for panel in self.panels}
        builder = replace(self, group=with_copies(block.group, cells), blocks=(), block=block)
        sym = None
        if block.block_sym is not None:
            sym = Sym(self.names(block.block_sym.name), block.block_sym.lo, block.block_sym.hi)
            region = replace(region, values={**region.values, block.block_sym: Affine.of(sym)})
        body = builder.loops(loops, region)
        return body if sym is None else (loop(sym, body),)

    def fill(self, panel: Panel, block: ReductionBlock, region: TileRegion) -> Body:
        """Builds the loops that copy a part of an operand to its panel."""
        body: Body = ()
        for copy in panel.copies(block, self.plan, self.tile_numbers, region, self.strip_ranges, self.names):
            match copy_plan(copy, self.plan.lanes):
                case TilePlan() as plan:
                    body += build_tiled_loops(copy, plan, self.names)
                case plan:
                    body += build_scalar_loops(copy, plan, self.names)
        return body

    def tile_loop(self, sym: Sym, size: int, tile_at: Callable[[Affine, int], Body]) -> Body:
        """Builds a loop over `tile_at(first, count)` for full tiles, with a partial tile for the remainder."""
        full, remainder = divmod(sym.extent, size)
        if not full:
            return tile_at(Affine((), sym.lo), remainder)
        if full == 1 and not remainder:
            return tile_at(Affine((), sym.lo), size)
        last, (start, trip_count) = full - 1 + bool(remainder), self.strip_ranges.get(sym, (Affine(), 0))
        tile_sym = Sym(self.names(sym.name), 0, trip_count - 1 if trip_count else last)
        number = start + tile_sym
        first = number * size + sym.lo
        body = tile_at(first, size)
        if remainder:
            body = (If(Cond((-number + (full - 1),)), body, tile_at(first, remainder)),)
        tiles = loop(tile_sym, body)
        if not trip_count or (last + 1) % trip_count == 0:
            return (tiles,)
        return (replace(tiles, hi=Bound((*tiles.hi.quotients, (-start + last, 1)))),)

    # --------------------------------------------------------------------------------------------------------- the tile

    def tile(self, region: TileRegion) -> Body:
        body: Body = ()
        accs: dict[Buf, Buf] = {}
        for reduction in self.group.reductions:
            acc = accs[reduction.acc] = local_buffer(self.names("acc"), reduction.acc.precision, region.shape)
            emit = self.vector_over_outputs if region.strips else self.vector_over_reduction
            loops = emit(region, reduction, acc)
            body += (Local(acc), *loops)
        region, epilogue = replace(region, transposed_loop=self.plan.transposed_loop), self.group.epilogue
        rows = prod(row.count for row in region.rows if row.sym is not region.transposed_loop)
        vectors = sum(strip.vectors for strip in region.strips)
        ops = rows * max(1, vectors) * sum(cost(stmt.value).work for stmt in epilogue)
        if not accs or rows == 1 or ops <= machine.MAX_UNROLLED_EPILOGUE_OPS:
            return (*body, *emit_cells(region, epilogue, self.names, accs))
        return (*body, *self.loop_epilogue(region, accs))

    def loop_epilogue(self, region: TileRegion, accs: Mapping[Buf, Buf]) -> Body:
        """Builds the epilogue as a loop over rows. Registers cannot be indexed, so accumulators are spilled first."""
        spilled = {old: local_buffer(self.names(acc.name), acc.precision, acc.shape) for old, acc in accs.items()}
        pairs = [(spilled[old], acc) for old, acc in accs.items()]
        copies = TileLoops(replace(region, transposed_loop=None), self.names).nest(
            lambda cell: tuple([Store(Ref(copy, cell.indices), Load(Ref(acc, cell.indices))) for copy, acc in pairs])
        )
        epilogue = emit_cells(region, self.group.epilogue, self.names, spilled, Mode.SERIAL)
        return (*(Local(copy) for copy in spilled.values()), *copies, *epilogue)

    def vector_over_outputs(self, region: TileRegion, reduction: Reduction, acc: Buf) -> Body:
        """Builds a reduction whose lanes are output cells."""
        accs = {reduction.acc: acc}
        init = emit_cells(region, (Store(reduction.update.ref, reduction.init),), self.names, accs)

        def term(term_region: TileRegion, update: Update, target: Buf) -> Body:
            cells = emit_cells(term_region, (update,), self.names, {reduction.acc: target})
            return (*self.prefetches(term_region, update), *cells)

        return (*init, *self.reduction_loops(region, reduction, acc, region, term))

    def prefetches(self, region: TileRegion, update: Update) -> Body:
        """Builds prefetches of the lines of panels that a later iteration of the innermost reduction loop reads, and of
        the lines of operands that a later tile reads."""
        if not self.plan.prefetched_panels and not self.plan.prefetched:
            return ()
        k = self.plan.reduction_syms[-1]
        panels = {panel.buf for panel in self.panels if panel.source in self.plan.prefetched_panels}
        distances = {
            ref: machine.PANEL_PREFETCH_ITERATIONS * ref.stride(k)
            for ref in loads(update.value) if ref.buf in panels and ref.stride(region.vector) == 1
        }  # fmt: skip
        later = dict(self.plan.prefetched)
        rows = {row.sym: row.first for row in region.rows}
        body: list[Stmt] = []
        for ref in dict.fromkeys(loads(update.value)):
            distance = distances.get(ref, later.get(ref))
            if distance is None:
                continue
            line_vectors = max(1, machine.LINE_BYTES // (self.plan.lanes * ref.buf.precision.nbytes))
            for strip, vector in [(part, n) for part in region.strips for n in range(0, part.vectors, line_vectors)]:
                # the first line of an operand is also the last one of the tile before; panels begin with a line
                end = min(vector + line_vectors, strip.vectors)
                lane = end * strip.lanes - 1 if ref in later else vector * strip.lanes
                values = {**region.values, **rows, region.vector: strip.first + lane}
                cell = ref.substitute(values)
                body.append(Prefetch(cell, distance))
        return tuple(body)

    def vector_over_reduction(self, region: TileRegion, reduction: Reduction, total: Buf) -> Body:
        """Builds a reduction whose lanes are partial sums of one output cell."""
        plan, precision, op, names = self.plan, reduction.acc.precision, reduction.update.op, self.names
        vector, width = plan.vector, plan.vectors * plan.lanes
        partial_region = replace(region, strips=vector_strips(Affine(), width, plan.lanes))
        partial_sums = local_buffer(names("part"), precision, partial_region.shape)
        accs = {reduction.acc: partial_sums}
        neutral = Store(reduction.update.ref, Const(neutral_element(op, precision), precision))
        clear = emit_cells(partial_region, (neutral,), names, accs)

        def term(term_region: TileRegion, update: Update, target: Buf) -> Body:
            def tile_at(first: Affine, count: int) -> Body:
                strips = vector_strips(first, count, plan.lanes)
                return emit_cells(replace(term_region, strips=strips), (update,), names, {reduction.acc: target})

            assert self.summation is not None
            counter, ranges = self.summation.levels[-1][-1], self.strip_ranges
            if counter in self.summation.strips:
                start, trip_count = self.summation.strips[counter]
                ranges = {**ranges, vector: (start.substitute(term_region.values), trip_count)}
            return replace(self, strip_ranges=ranges).tile_loop(vector, width, tile_at)

        loops = self.reduction_loops(region, reduction, partial_sums, partial_region, term)
        init = emit_cells(region, (Store(reduction.update.ref, reduction.init),), names, {reduction.acc: total})
        results = TileLoops(region, names).nest(
            lambda cell: self.horizontal_reduction(reduction, Ref(total, cell.row_indices), partial_sums)
        )
        return (Local(partial_sums), *clear, *loops, *init, *results)

    def horizontal_reduction(self, reduction: Reduction, total: Ref, partial_sums: Buf) -> Body:
        """Combines the partial sums of one cell: all vectors into the first one, then its lanes into the total."""
        plan, update = self.plan, reduction.update

        def combine_lanes(target: Callable[[Affine], Ref], vector: Affine) -> Body:
            lane_sym = Sym(self.names(plan.vector.name), 0, plan.lanes - 1)
            lane = Affine.of(lane_sym)
            value = Load(Ref(partial_sums, (*total.indices, vector, lane)))
            return (loop(lane_sym, (Update(target(lane), update.op, value, update.origin),), mode=Mode.VECTORIZED),)

        into_total = combine_lanes(lambda lane: total, Affine())
        if plan.vectors == 1:
            return into_total
        vector = Sym(self.names(plan.vector.name), 1, plan.vectors - 1)
        into_first = combine_lanes(
            lambda lane: Ref(partial_sums, (*total.indices, Affine(), lane)), Affine.of(vector)
        )
        return (loop(vector, into_first, mode=Mode.UNROLLED), *into_total)

    def reduction_loops(
        self, region: TileRegion, reduction: Reduction, total: Buf, total_region: TileRegion, term: TermBuilder
    ) -> Body:
        """Builds loops with fresh symbols that accumulate the terms whose guard holds into `total`, which has an
        element for each cell of `total_region`.

        Where guards hold in some rows only, as at the border of a padded image, each range of rows that occurs has code
        of its own; rows are emitted one by one if there are many ranges, or if terms outside of guards count.
        """
        assert self.summation is not None
        inner_levels = self.summation.levels[1:]
        sums = [total, *(local_buffer(self.names("part"), total.precision, total.shape) for _ in inner_levels)]
        syms = [sym for level in self.summation.levels for sym in level]
        counter = None if region.strips else syms.pop()  # a loop over tiles that `term` builds
        fresh = {sym: Sym(self.names(sym.name), sym.lo, sym.hi) for sym in syms}
        values = {sym: Affine.of(new) for sym, new in fresh.items()}
        modes = [Mode.SERIAL] * len(self.summation.levels)
        if self.has_unrolled_blocks(reduction):
            modes[0] = Mode.UNROLLED
        levels = [
            [loop(fresh[sym], (), reduction.update.origin, mode=mode) for sym in level if sym is not counter]
            for level, mode in zip(self.summation.levels, modes, strict=True)
        ]
        region = replace(region, values={**region.values, **values})
        cond, update = reduction.cond.substitute(region.values), reduction.update
        blocks_cond = self.summation.cond if counter is None else split_condition(self.summation.cond, [counter])[0]
        bounds = blocks_cond.substitute(region.values)
        guards = bounds_guards(update.value)
        add_block = partial(self.add_block, reduction, sums, total_region)
        if not guards and not any(row.sym in cond.syms for row in region.rows):
            return nest_levels(levels, cond & bounds, term(region, update, sums[-1]), add_block)
        interior = reduce(and_, guards, reduction.cond)
        interior_update = replace(update, value=simplify_expr(update.value, interior))
        interior = interior.substitute(region.values)
        border: Body = ()
        border_regions = None if guards else guarded_regions(region, cond, self.plan.tile_sizes)
        if border_regions is None:
            for row_region in _single_rows(region, {s for guard in (interior, cond) for s in guard.syms}):
                row_values = {row.sym: row.first for row in row_region.rows if row.count == 1}
                border += wrap_in_loops((), cond.substitute(row_values), term(row_region, update, sums[-1]))
        else:
            for row_region in reversed(border_regions):  # of those in which the condition holds, the largest one counts
                body = term(row_region, update, sums[-1])
                border = (If(_all_or_any_row(cond, row_region, min), body, border),)
        terms = If(_all_or_any_row(interior, region, min), term(region, interior_update, sums[-1]), border)
        return nest_levels(levels, _all_or_any_row(cond, region, max) & bounds, (terms,), add_block)

    def has_unrolled_blocks(self, reduction: Reduction) -> bool:
        """Whether the reduction has few blocks, whose number is constant. Unrolled, the first block starts the
        accumulators, and the last adds to registers."""
        assert self.summation is not None
        blocks, *inner_levels = self.summation.levels
        is_bounded = any(sym in reduction.cond.syms for sym in (*reduction.syms, *blocks))
        count = prod(sym.extent for sym in blocks)
        return len(inner_levels) == 1 and not is_bounded and count <= machine.MAX_UNROLLED_BLOCKS

    def add_block(
        self, reduction: Reduction, sums: Sequence[Buf], region: TileRegion, depth: int, block: Body
    ) -> Body:
        """Builds a block with partial sums in `sums[depth + 1]`, and adds them to `sums[depth]`."""
        update, total, partial_sums = reduction.update, sums[depth], sums[depth + 1]
        cell = Ref(local_buffer(self.names("part"), total.precision, ()), ())
        add = replace(update, value=Load(cell))
        return (
            Local(partial_sums),
            *emit_cells(region, (Store(cell, Const(0, total.precision)),), self.names, {cell.buf: partial_sums}),
            *block,
            *emit_cells(region, (add,), self.names, {reduction.acc: total, cell.buf: partial_sums}),
        )


def _tile_number(offset: Affine, size: int) -> Affine:
    """Returns the number of the tile that begins at this offset, a multiple of `size`."""
    return Affine(tuple([(coef // size, sym) for coef, sym in offset.terms]), offset.const // size)


TermBuilder = Callable[[TileRegion, Update, Buf], Body]


def _all_or_any_row(cond: Cond, region: TileRegion, extreme: Callable[[int, int], int]) -> Cond:
    """Returns a condition that implies `cond` in all rows (`min`), or that `cond` in any row implies (`max`)."""

    def extreme_fact(fact: Affine) -> Affine:
        for row in region.rows:
            fact = fact.substitute({row.sym: row.first}) + extreme(0, fact.coef(row.sym) * (row.count - 1))
        return fact

    return Cond(tuple(map(extreme_fact, cond.ge0)), tuple(map(extreme_fact, cond.eq0)))


def _single_rows(region: TileRegion, syms: set[Sym]) -> Iterator[TileRegion]:
    """Splits the region into regions with a single row along each of these symbols."""
    choices = [[row.row(n) for n in range(row.count)] if row.sym in syms else [row] for row in region.rows]
    for rows in product(*choices):
        yield replace(region, rows=rows)
