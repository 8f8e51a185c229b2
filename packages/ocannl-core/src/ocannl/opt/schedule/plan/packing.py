"""Operand packing and cache blocking (Goto and van de Geijn 2008)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, prod

from ocannl.ir.accesses import alias_class, always_in_bounds
from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import Ref, When
from ocannl.ir.projections import is_injective
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import loads
from ocannl.opt.schedule.plan.register_tiles import TilePlan


def add_packing_and_blocking(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> TilePlan:
    """Packs operands that would thrash the private cache, because strided lines collide in few sets, and blocks the
    reduction where reused operands exceed this cache. Neither changes the order of summation."""
    packed = tuple([ref for ref in packable_operands(group, plan) if _is_packing_profitable(ref, plan, cpu)])
    return replace(add_cache_blocking(group, plan, cpu), packed_operands=packed)


def packable_operands(group: FusionGroup, plan: TilePlan) -> Iterator[Ref]:
    """Yields the operands that are always in bounds, whatever the guards, and that the group does not write."""
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


def can_block(group: FusionGroup, plan: TilePlan) -> bool:
    """Whether the reduction can be split into blocks: vectors lie along outputs, all of which are written."""
    over_outputs = plan.reduction_syms and plan.vector not in plan.reduction_syms
    return bool(group.reductions and over_outputs and len(plan.tile_sizes) > 1 and group.cond.is_true)


def add_cache_blocking(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> TilePlan:
    """Blocks the outermost reduction loop so that operands reused by the inner tile loops stay in the private cache.

    Returns the plan unchanged unless blocks have at least `MIN_REDUCTION_PER_BLOCK` terms, their operands are reused by
    at least `MIN_OPERAND_REUSE` tiles, and there are at least two blocks.
    """
    if not can_block(group, plan):
        return plan
    k, *inner_syms = plan.reduction_syms
    (reduction,) = group.reductions
    tile_sizes, trip_counts = plan.tile_sizes, plan.trip_counts
    loops = list(trip_counts)
    reused = [ref for ref in dict.fromkeys(loads(reduction.update.value)) if ref.stride(k)]
    blocked_loops = 0
    for sym in reversed(loops[1:]):
        invariant = [ref for ref in reused if not ref.stride(sym)]
        if not invariant:
            break
        reused, blocked_loops = invariant, blocked_loops + 1

    def bytes_per_iteration(ref: Ref) -> int:
        cells = prod(tile_sizes[sym] for sym in tile_sizes if ref.stride(sym))
        return cells * prod(sym.extent for sym in inner_syms if ref.stride(sym)) * ref.buf.precision.nbytes

    k_block = cpu.l2.size_bytes // machine.BLOCK_CACHE_DIVISOR // max(1, sum(map(bytes_per_iteration, reused)))
    is_long = k_block * prod(sym.extent for sym in inner_syms) >= machine.MIN_REDUCTION_PER_BLOCK
    reuse = prod(trip_counts[sym] for sym in loops[len(loops) - blocked_loops :])
    if not blocked_loops or not is_long or reuse < machine.MIN_OPERAND_REUSE or k.extent < 2 * k_block:
        return plan
    return replace(plan, k_block=-(-k.extent // -(-k.extent // k_block)), blocked_loops=blocked_loops)


def _is_packing_profitable(ref: Ref, plan: TilePlan, cpu: Cpu) -> bool:
    """Whether the cache misses that packing avoids cost more than the copy."""
    ref_syms = [sym for sym in plan.tile_sizes if ref.stride(sym)]
    if len(ref_syms) != 1 or ref.stride(ref_syms[0]) != 1:
        return False
    (sym,), last, nbytes = ref_syms, [*plan.tile_sizes][-1], ref.buf.precision.nbytes
    size = plan.tile_sizes[sym]
    rows = prod(k.extent for k in plan.reduction_syms if ref.stride(k))
    span = sym.extent if sym is last else size  # elements of a row that are read before the tile's part is reused
    set_period_bytes = cpu.l2.size_bytes // cpu.l2.associativity
    distance = gcd(set_period_bytes, *(ref.stride(k) * nbytes for k in plan.reduction_syms))
    if rows * max(distance, span * nbytes) <= cpu.l2.size_bytes:
        return False
    reuse = prod(count for loop, count in plan.trip_counts.items() if loop is not sym and not ref.stride(loop))
    lines = -(-size * nbytes // machine.LINE_BYTES)
    return machine.PRIVATE_MISS_LINE_CYCLES * (reuse - 1) * lines > machine.COPY_ELEMENT_CYCLES * size
