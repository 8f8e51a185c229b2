"""Panels: copies of the parts of operands that one cache block reads, in local memory and in access order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import Buf, Expr, Load, Ref, Store, loop
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.fusion_group import FusionGroup, local_buffer
from ocannl.opt.analysis.substitution import map_expr
from ocannl.opt.schedule.loop_generation.blocking import ReductionBlock
from ocannl.opt.schedule.loop_generation.tile_region import TileRegion
from ocannl.opt.schedule.plan.packing import panel_loops
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
    inner_loops: int  # the number of innermost loops that share the panel
    block_loops: tuple[tuple[Sym, int], ...]  # those that the operand depends on

    @staticmethod
    def of(
        source: Ref, plan: TilePlan, terms: int, tile_numbers: Mapping[Sym, Sym], strips: StripRanges, names: Namer
    ) -> Panel:
        """Returns the panel of an operand for blocks of up to `terms` iterations of the outermost reduction loop."""
        syms, tile_sizes, inner_loops = set(source.syms), plan.tile_sizes, panel_loops(source, plan)
        block_loops = tuple([item for item in plan.loops[-inner_loops:] if item[0] in syms])
        tile_loops = sorted(tile_sizes, key=lambda sym: sym is plan.vector)  # lanes are contiguous
        tiled, reduction = (
            tuple([sym for sym in loops if sym in syms]) for loops in (tile_loops, plan.reduction_syms)
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
        counters = tuple([counter(*item) for item in block_loops])
        return Panel(source, buf, counters, reduction, tiled, inner_loops, block_loops)

    def cell(self, block: ReductionBlock, plan: TilePlan, tile_numbers: Mapping[Sym, Sym]) -> Ref:
        """Returns the cell of the panel that holds the source cell."""
        terms = [Affine.of(sym) - (block.first if sym is plan.reduction_syms[0] else sym.lo) for sym in self.reduction]
        cells = [
            Affine.of(sym) - sym.lo - Affine.of(tile_numbers[sym]) * plan.tile_sizes[sym] for sym in self.tiled
        ]
        return Ref(self.buf, (*self.counters, *terms, *cells))

    def copies(
        self, block: ReductionBlock, plan: TilePlan, tile_numbers: Mapping[Sym, Sym], region: TileRegion,
        strips: StripRanges, names: Namer,
    ) -> list[FusionGroup]:  # fmt: skip
        """Returns groups that copy the cells which the block reads: one for all full tiles, and others for the
        remainders. Along loops outside of the block, `region` is the current tile."""
        fixed = {row.sym: _Range.of_cells(row.sym, row.first, row.count) for row in region.rows}
        if region.strips:
            cells = sum(strip.vectors * strip.lanes for strip in region.strips)
            fixed[region.vector] = _Range.of_cells(region.vector, region.strips[0].first, cells)
        for sym in self.reduction:
            is_blocked = sym is plan.reduction_syms[0]
            first, count = (block.first, block.count) if is_blocked else (Affine((), sym.lo), sym.extent)
            fixed[sym] = _Range.of_cells(sym, first, count)
        inside = [sym for sym, _ in self.block_loops]
        axes = [[fixed[sym]] for sym in (*self.reduction, *self.tiled) if sym not in inside]
        axes += [_ranges(sym, size, strips) for sym, size in self.block_loops]
        return [self._copy(ranges, block, plan, tile_numbers, region, names) for ranges in product(*axes)]

    def _copy(
        self, ranges: tuple[_Range, ...], block: ReductionBlock, plan: TilePlan, tile_numbers: Mapping[Sym, Sym],
        region: TileRegion, names: Namer,
    ) -> FusionGroup:  # fmt: skip
        values, cond = dict(region.values), TRUE
        syms: list[Sym] = []
        for part in ranges:
            tile, cell = (Sym(names(part.sym.name), 0, count - 1) for count in (part.tiles, part.cells))
            number = part.first + (Affine.of(tile) if part.tiles > 1 else 0)
            values[part.sym] = number * part.size + (Affine.of(cell) if part.cells > 1 else 0) + part.offset
            if part.sym in tile_numbers and part.is_counted:
                values[tile_numbers[part.sym]] = number
            cond &= Cond(tuple([bound.substitute({part.sym: number}) for bound in part.bounds]))
            syms += [sym for sym in (tile, cell) if sym.extent > 1]

        def at(ref: Ref) -> Ref:
            return ref.substitute(values).substitute(region.values)

        source, target = at(self.source), at(self.cell(block, plan, tile_numbers))
        loops = sorted(syms, key=lambda sym: -abs(source.stride(sym)))  # in the order of the source's addresses
        return FusionGroup(
            tuple([loop(sym, ()) for sym in loops]), cond, (), (Store(target, Load(source)),)
        )


@dataclass(frozen=True, slots=True)
class _Range:
    """Iterations of a loop that are copied: `tiles` tiles from number `first` on, each with `cells` iterations.

    `bounds`, which are not negative, restrict the number of a tile; there, the symbol stands for it.
    """

    sym: Sym
    first: Affine
    tiles: int
    size: int  # of a full tile
    cells: int
    offset: Affine
    bounds: tuple[Affine, ...] = ()
    is_counted: bool = True

    @staticmethod
    def of_cells(sym: Sym, first: Affine, count: int) -> _Range:
        return _Range(sym, Affine(), 1, 0, count, first, is_counted=False)


def _ranges(sym: Sym, size: int, strips: StripRanges) -> list[_Range]:
    """Returns the full tiles, and the partial tile, of a loop inside the block, or of a strip of it."""
    full, remainder = divmod(sym.extent, size or 1)
    start, count = strips.get(sym, (Affine(), full))
    number, lo = Affine.of(sym), Affine((), sym.lo)
    is_cut = sym in strips and -(-(full + bool(remainder)) // count) * count > full
    bounds: tuple[Affine, ...]
    ranges: list[_Range] = []
    if full:
        bounds = (-number + (full - 1),) if is_cut else ()
        ranges.append(_Range(sym, start, count, size or 1, size or 1, lo, bounds))
    if remainder:
        bounds = (-start + full, start + (count - 1) - full) if sym in strips else ()
        ranges.append(_Range(sym, Affine((), full), 1, size, remainder, lo, bounds))
    return ranges


def number_tiles(operands: Sequence[Ref], plan: TilePlan, names: Namer) -> dict[Sym, Sym]:
    """Returns symbols that count the tiles along the loops that the operands depend on."""
    indexing = {sym for ref in operands for sym in ref.syms}
    return {
        sym: Sym(names(sym.name), 0, plan.trip_counts[sym] - 1) for sym in plan.tile_sizes if sym in indexing
    }


def with_copies(group: FusionGroup, cells: Mapping[Ref, Ref]) -> FusionGroup:
    """Returns the group with the loads of operands replaced by loads from copies."""

    def leaf(node: Expr) -> Expr:
        return Load(cells.get(node.ref, node.ref)) if isinstance(node, Load) else node

    (reduction,) = group.reductions
    update = replace(reduction.update, value=map_expr(reduction.update.value, leaf))
    return replace(group, reductions=(replace(reduction, update=update),))
