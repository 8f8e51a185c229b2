"""Operand packing: copies of operands into buffers that tiles read contiguously, in access order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.loops import AccessMode, Body, Buf, Load, MemorySpace, Ref, Store, loop, row_major
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.schedule.loop_generation.blocked_summation import tile_summation_blocks
from ocannl.opt.schedule.loop_generation.blocking import BlockedReduction, block_reduction
from ocannl.opt.schedule.loop_generation.panels import number_tiles, with_copies
from ocannl.opt.schedule.loop_generation.tiled_loops import build_tiled_loops
from ocannl.opt.schedule.plan.register_tiles import TilePlan


@dataclass(frozen=True, slots=True)
class PackedGroup:
    """A scheduled group that needs buffers: the groups in `copies` fill packed operands before `body` runs."""

    bufs: tuple[Buf, ...]
    copies: tuple[FusionGroup, ...]
    body: Body


NO_SOURCES: Mapping[Buf, Buf] = MappingProxyType({})


def pack_operands(
    group: FusionGroup,
    plan: TilePlan,
    names: Namer,
    sums_space: MemorySpace = MemorySpace.ARENA,
    sources: Mapping[Buf, Buf] = NO_SOURCES,
) -> PackedGroup:
    """Builds the group, with blocks if planned, and copies of its packed operands; here `w` for tiles of 8 columns:

        for i in 0..3:                        for t in 0..2:
          for n in 0..2 tiles:                  for k in 0..7:
            for k in 0..7:           ==>          for c in 0..8:
              .. w[k, 8*n+c]                        w_2[t, k, c] = w[k, 8*t+c]
                                              for i in 0..3:
                                                for n in 0..2 tiles:
                                                  for k in 0..7:
                                                    .. w_2[n, k, c]

    The axes of a packed operand are its outer loops, its tiles, its reduction loops, and the cells of a tile. Partial
    tiles have the size of full ones. Partial sums that blocks of the reduction store are in the memory `sums_space`.
    An operand that is a copy of another array is packed from its source in `sources`.
    """
    tile_sizes, operands = plan.tile_sizes, [_PackedOperand.of(ref, plan, names) for ref in plan.packed_operands]
    tile_numbers = number_tiles(plan.packed_operands, plan, names)
    packed = with_copies(group, {operand.source: operand.ref(tile_sizes, tile_numbers) for operand in operands})
    copies = [copy for operand in operands for copy in operand.copies(tile_sizes, names, sources)]
    summation = tile_summation_blocks(packed, plan, names)
    blocked = BlockedReduction((), ())
    if plan.k_block and summation is not None:
        blocked = block_reduction(packed, plan, summation, names, sums_space)
    body = build_tiled_loops(packed, plan, names, tile_numbers, blocked.blocks, summation)
    return PackedGroup((*(operand.buf for operand in operands), *blocked.bufs), tuple(copies), body)


@dataclass(frozen=True, slots=True)
class _PackedOperand:
    """An operand with its buffer, and the loops that it depends on by their role in the plan."""

    source: Ref
    buf: Buf
    outer: tuple[Sym, ...]
    tiled: tuple[Sym, ...]
    reduction: tuple[Sym, ...]

    @staticmethod
    def of(source: Ref, plan: TilePlan, names: Namer) -> _PackedOperand:
        tile_sizes, indexing = plan.tile_sizes, set(source.syms)
        outer, tiled, reduction = (
            tuple([sym for sym in syms if sym in indexing])
            for syms in (plan.outer_syms, tuple(tile_sizes), plan.reduction_syms)
        )
        shape = (
            *(sym.extent for sym in outer),
            *(-(-sym.extent // tile_sizes[sym]) for sym in tiled),
            *(sym.extent for sym in reduction),
            *(tile_sizes[sym] for sym in tiled),
        )
        name, precision = names(source.buf.name), source.buf.precision
        buf = Buf(name, precision, shape, row_major(shape), MemorySpace.ARENA, AccessMode.TEMP)
        return _PackedOperand(source, buf, outer, tiled, reduction)

    def ref(self, tile_sizes: Mapping[Sym, int], tile_numbers: Mapping[Sym, Sym]) -> Ref:
        """Returns the packed cell of the source cell; `tile_numbers` are the symbols that count tiles."""
        cells = [Affine.of(sym) - sym.lo - Affine.of(tile_numbers[sym]) * tile_sizes[sym] for sym in self.tiled]
        tiles = [Affine.of(tile_numbers[sym]) for sym in self.tiled]
        outer, reduction = ([Affine.of(sym) - sym.lo for sym in syms] for syms in (self.outer, self.reduction))
        return Ref(self.buf, (*outer, *tiles, *reduction, *cells))

    def copies(self, tile_sizes: Mapping[Sym, int], names: Namer, sources: Mapping[Buf, Buf]) -> list[FusionGroup]:
        """Returns a copy for all full tiles, and further copies for the remainders along each loop."""
        ranges = product(*(_tile_ranges(sym, tile_sizes[sym]) for sym in self.tiled))
        source = sources.get(self.source.buf, self.source.buf)
        return [self.copy(source, tile_ranges, names) for tile_ranges in ranges]

    def copy(self, from_buf: Buf, tile_ranges: tuple[_TileRange, ...], names: Namer) -> FusionGroup:
        def counter(like: Sym, count: int) -> Sym:
            return Sym(names(like.name), 0, count - 1)

        outer, reduction = ([counter(sym, sym.extent) for sym in syms] for syms in (self.outer, self.reduction))
        tile_syms = [counter(tiles.sym, tiles.count) for tiles in tile_ranges]
        cells = [counter(tiles.sym, tiles.cells) for tiles in tile_ranges]
        values = {
            old: Affine.of(new) + old.lo
            for old, new in zip((*self.outer, *self.reduction), (*outer, *reduction), strict=True)
        }
        numbers = [Affine.of(sym) + tiles.first for sym, tiles in zip(tile_syms, tile_ranges, strict=True)]
        for tiles, number, cell in zip(tile_ranges, numbers, cells, strict=True):
            values[tiles.sym] = number * tiles.size + cell + tiles.sym.lo
        source = Ref(from_buf, tuple([index.substitute(values) for index in self.source.indices]))
        target = Ref(self.buf, (*map(Affine.of, outer), *numbers, *map(Affine.of, (*reduction, *cells))))
        loops = tuple([loop(sym, ()) for sym in (*outer, *tile_syms, *reduction, *cells)])
        return FusionGroup(loops, TRUE, (), (Store(target, Load(source)),))


@dataclass(frozen=True, slots=True)
class _TileRange:
    """`count` consecutive tiles along a loop, starting at tile number `first`, of which `cells` cells are used."""

    sym: Sym
    size: int  # of a full tile
    first: int
    count: int
    cells: int


def _tile_ranges(sym: Sym, size: int) -> list[_TileRange]:
    """Splits a loop into full tiles and a partial tile; empty ranges are omitted."""
    full, remainder = divmod(sym.extent, size)
    ranges = _TileRange(sym, size, 0, full, size), _TileRange(sym, size, full, 1, remainder)
    return [tiles for tiles in ranges if tiles.count and tiles.cells]
