"""Operand packing and cache blocking (Goto and van de Geijn 2008)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import prod

from ocannl.ir.accesses import alias_class, always_in_bounds
from ocannl.ir.affine import Sym
from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import Buf, Ref, When
from ocannl.ir.projections import is_injective
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import loads
from ocannl.opt.schedule.plan.access_cost import copy_cycles, line_cycles, tile_runs
from ocannl.opt.schedule.plan.register_tiles import TilePlan


def packable_operands(group: FusionGroup, plan: TilePlan) -> Iterator[Ref]:
    """Yields the operands that are always in bounds, whatever the guards, and that the group does not write; equal for
    all orders of the loops."""
    if not group.reductions or plan.vector not in plan.tile_sizes or not group.cond.is_true:
        return
    (reduction,) = group.reductions
    value, syms = reduction.update.value, (*group.syms, *reduction.syms)
    written = {alias_class(ref.buf) for ref in group.writes}
    guarded = {ref for node in walk(value) if isinstance(node, When) for ref in loads(node)}
    for ref in dict.fromkeys(loads(value)):
        indexing = set(ref.syms)
        ref_syms = tuple([sym for sym in syms if sym in indexing])
        if ref in guarded or alias_class(ref.buf) in written or not always_in_bounds(ref):
            continue
        varies_in_tile = any(sym in ref_syms for sym in plan.tile_sizes)
        if reduction.cond.is_true and varies_in_tile and is_injective(ref.indices, ref_syms):
            yield ref


def with_packed_weights(group: FusionGroup, plan: TilePlan, cpu: Cpu, weights: Collection[Buf]) -> TilePlan:
    """Returns the plan with whole copies of those weights that tiles would read in several runs from beyond the
    first-level cache, or from panels, which are copied in every call."""
    packed = [
        ref for ref in packable_operands(group, plan)
        if ref.buf in weights and ref.buf.nbytes > cpu.l1.size_bytes and tile_runs(ref, plan).count > 1
    ]  # fmt: skip
    return replace(
        plan,
        packed_operands=tuple(packed),
        panels=tuple([ref for ref in plan.panels if ref not in packed]),
        prefetched=tuple([(ref, distance) for ref, distance in plan.prefetched if ref not in packed]),
        prefetched_panels=tuple([ref for ref in plan.prefetched_panels if ref not in packed]),
    )


def can_block(group: FusionGroup, plan: TilePlan) -> bool:
    """Whether the reduction can be split into blocks: vectors lie along outputs, all of which are written."""
    over_outputs = plan.reduction_syms and plan.vector not in plan.reduction_syms
    return bool(group.reductions and over_outputs and len(plan.tile_sizes) > 1 and group.cond.is_true)


def with_cache_blocks(
    group: FusionGroup, plan: TilePlan, cpu: Cpu, blocked_loops: int, packable: Collection[Ref]
) -> TilePlan:
    """Returns the plan with cache blocks around its innermost `blocked_loops` loops.

    Operands in `packable` that several tiles of a block read from scattered lines are copied to panels. The outermost
    reduction loop is blocked so that what the tiles of a block share stays in the private cache; it is not blocked if
    blocks had less than `MIN_REDUCTION_PER_BLOCK` terms or were shared by less than `MIN_OPERAND_REUSE` tiles. The
    order of summation does not change.
    """
    if not can_block(group, plan):
        return plan
    plan = replace(plan, blocked_loops=blocked_loops, panels=(), k_block=0)
    (reduction,) = group.reductions
    shared = [ref for ref in dict.fromkeys(loads(reduction.update.value)) if panel_loops(ref, plan)]
    panels = tuple([ref for ref in shared if ref in packable and _is_panel_profitable(ref, plan, cpu)])
    k, *inner_syms = plan.reduction_syms
    limit = min(cpu.l2.size_bytes // machine.BLOCK_CACHE_DIVISOR, machine.MAX_PANEL_BYTES)
    bytes_per_iteration = sum(_block_bytes(ref, plan, inner_syms) for ref in shared if ref.stride(k))
    k_block = limit // max(1, bytes_per_iteration)
    if k.extent <= k_block:
        return replace(plan, panels=panels)
    count = -(-k.extent // k_block) if k_block else k.extent
    is_long = k_block * prod(sym.extent for sym in inner_syms) >= machine.MIN_REDUCTION_PER_BLOCK
    reuse = prod(block_trip_counts(plan).values())
    if not is_long or count < 2 or reuse < machine.MIN_OPERAND_REUSE:
        panel_bytes = sum(_block_bytes(ref, plan, plan.reduction_syms) for ref in panels)
        return replace(plan, panels=panels) if panel_bytes <= machine.MAX_PANEL_BYTES else plan
    return replace(plan, panels=panels, k_block=-(-k.extent // count))


def block_trip_counts(plan: TilePlan) -> dict[Sym, int]:
    """Returns the trip counts of the loops inside a cache block, outermost first."""
    trip_counts = plan.trip_counts
    if plan.strip is not None:
        trip_counts[plan.strip[0]] = plan.strip[1]
    return {sym: trip_counts[sym] for sym, _ in plan.loops[-plan.blocked_loops :]}


def panel_loops(ref: Ref, plan: TilePlan) -> int:
    """Returns the number of loops inside a cache block that share a panel of the operand: the outermost one on which
    it does not depend, and the loops inside; 0 if it depends on all of them."""
    loops = list(block_trip_counts(plan))
    independent = [number for number, sym in enumerate(loops) if not ref.stride(sym)]
    return len(loops) - independent[0] if independent else 0


def _block_bytes(ref: Ref, plan: TilePlan, reduction_syms: list[Sym] | tuple[Sym, ...]) -> int:
    """Returns the size of the part of the operand that the loops which share its panel read."""
    sizes, shared = plan.tile_sizes, panel_loops(ref, plan)
    counts = list(block_trip_counts(plan).items())[-shared:]
    cells = prod(size for sym, size in sizes.items() if ref.stride(sym))
    tiles = prod(count for sym, count in counts if ref.stride(sym))
    return cells * tiles * prod(sym.extent for sym in reduction_syms if ref.stride(sym)) * ref.buf.precision.nbytes


def _is_panel_profitable(ref: Ref, plan: TilePlan, cpu: Cpu) -> bool:
    """Whether the misses that a panel avoids cost more than the copy."""
    shared = panel_loops(ref, plan)
    reuse = prod(count for sym, count in list(block_trip_counts(plan).items())[-shared:] if not ref.stride(sym))
    return reuse * line_cycles(ref, plan, cpu) > copy_cycles(ref, plan, cpu)
