"""Panels: copies of the parts of operands that one cache block reads, in local memory and in access order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.loops import Body, Buf, Expr, Load, Ref, Store, loop
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.fusion_group import FusionGroup, local_buffer
from ocannl.opt.analysis.substitution import map_expr
from ocannl.opt.schedule.loop_generation.blocking import ReductionBlock
from ocannl.opt.schedule.loop_generation.tile_region import TileRegion
from ocannl.opt.schedule.plan.register_tiles import TilePlan

StripRanges = Mapping[Sym, tuple[Affine, int]]
"""Of a strip-mined loop: the first iteration and the trip count of a strip."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The part of an operand that a cache block reads.

    The axes of its buffer are the loops inside the block, the reduction loops, and the cells of a tile. `counters` are
    the indices of the first axes: the number of the tile, or of the iteration of a loop around tiles.
    """

    source: Ref
    buf: Buf
    counters: tuple[Affine, ...]
    reduction: tuple[Sym, ...]
    tiled: tuple[Sym, ...]
    block_loops: tuple[tuple[Sym, int], ...]  # loops inside the block that the operand depends on

    @staticmethod
    def of(
        source: Ref, plan: TilePlan, terms: int, tile_numbers: Mapping[Sym, Sym], strips: StripRanges, names: Namer
    ) -> Panel:
        """Returns the panel of an operand for blocks of up to `terms` iterations of the outermost reduction loop."""
        syms, tile_sizes = set(source.syms), plan.tile_sizes
        block_loops = tuple([item for item in plan.loops[-plan.blocked_loops :] if item[0] in syms])
        tiled, reduction = (
            tuple([sym for sym in loops if sym in syms]) for loops in (tuple(tile_sizes), plan.reduction_syms)
        )

        def counter(sym: Sym, size: int) -> Affine:
            number = Affine.of(tile_numbers[sym]) if size else Affine.of(sym) - sym.lo
            return number - strips[sym][0] if sym in strips else number

        trip_counts = plan.trip_counts | {sym: count for sym, (_, count) in strips.items()}
        shape = (
            *(trip_counts[sym] for sym, _ in block_loops),
            *(terms if sym is plan.reduction_syms[0] else sym.extent for sym in reduction),
            *(min(tile_sizes[sym], sym.extent) for sym in tiled),
        )
        buf = local_buffer(names(f"{source.buf.name}_panel"), source.buf.precision, shape)
        return Panel(source, buf, tuple([counter(*item) for item in block_loops]), reduction, tiled, block_loops)

    def cell(self, block: ReductionBlock, plan: TilePlan, tile_numbers: Mapping[Sym, Sym]) -> Ref:
        """Returns the cell of the panel that holds the source cell."""
        terms = [Affine.of(sym) - (block.first if sym is plan.reduction_syms[0] else sym.lo) for sym in self.reduction]
        cells = [
            Affine.of(sym) - sym.lo - Affine.of(tile_numbers[sym]) * plan.tile_sizes[sym] for sym in self.tiled
        ]
        return Ref(self.buf, (*self.counters, *terms, *cells))

    def copy(
        self, block: ReductionBlock, plan: TilePlan, tile_numbers: Mapping[Sym, Sym], region: TileRegion, names: Namer
    ) -> FusionGroup:
        """Returns a group that copies the cells of the tile `region`."""
        ranges = {sym: (Affine((), sym.lo), sym.extent) for sym in self.reduction}
        ranges |= {row.sym: (row.first, row.count) for row in region.rows}
        if plan.reduction_syms[0] in ranges:
            ranges[plan.reduction_syms[0]] = block.first, block.count
        if region.strips:
            count = sum(strip.vectors * strip.lanes for strip in region.strips)
            ranges[region.vector] = region.strips[0].first, count
        order = (*self.reduction, *self.tiled)
        fresh = {sym: Sym(names(sym.name), 0, ranges[sym][1] - 1) for sym in order}
        values = {**region.values, **{sym: ranges[sym][0] + Affine.of(fresh[sym]) for sym in order}}

        def at(ref: Ref) -> Ref:
            return Ref(ref.buf, tuple([index.substitute(values).substitute(region.values) for index in ref.indices]))

        source, target = at(self.source), at(self.cell(block, plan, tile_numbers))
        loops = tuple([loop(fresh[sym], ()) for sym in order])
        return FusionGroup(loops, TRUE, (), (Store(target, Load(source)),))


def number_tiles(operands: Sequence[Ref], plan: TilePlan, names: Namer) -> dict[Sym, Sym]:
    """Returns symbols that count the tiles along the loops that the operands depend on."""
    indexing = {sym for ref in operands for sym in ref.syms}
    return {
        sym: Sym(names(sym.name), 0, plan.trip_counts[sym] - 1) for sym in plan.tile_sizes if sym in indexing
    }


def with_panels(group: FusionGroup, cells: Mapping[Ref, Ref]) -> FusionGroup:
    """Returns the group with the loads of operands replaced by loads from their panels."""

    def leaf(node: Expr) -> Expr:
        return Load(cells.get(node.ref, node.ref)) if isinstance(node, Load) else node

    (reduction,) = group.reductions
    update = replace(reduction.update, value=map_expr(reduction.update.value, leaf))
    return replace(group, reductions=(replace(reduction, update=update),))
