"""Blocked summation: bounds the number of additions that a term of a long reduction takes part in.

The error of a sum is at most this number times the unit roundoff, times the sum of the terms' absolute values (Higham
1993). One accumulator adds each of n terms in turn, which makes n - 1 additions. If a second accumulator adds up the
partial sums of blocks of b terms, a term takes part in b + n / b additions, and with more levels in still fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, prod

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import AccessMode, Body, For, Load, Store
from ocannl.ir.name_mangling import Namer
from ocannl.ir.pair_dots import factors_of_dot
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, is_rounded_sum, may_combine_parts
from ocannl.opt.analysis.nests import loads, split_condition, wrap_with_bounds
from ocannl.opt.schedule.plan.register_tiles import TilePlan, reads_rows_once

TripCounts = tuple[int, ...]
"""The trip count of each loop of a reduction within a block; 0 for loops outside of the block and inside it."""


@dataclass(frozen=True, slots=True)
class SummationBlocks:
    """The loops of a reduction by level, outermost first; the accumulator of a level adds up those of the next level.

    Attributes:
        levels: The loops of the reduction, each in its innermost level, and new loops over their strips.
        cond: Restricts loops to their strips.
        strips: The first iteration and the trip count of the innermost strip of each strip-mined loop.
        unit: Iterations of the outermost reduction loop per iteration of the outermost loop of `levels`.
    """

    levels: tuple[tuple[Sym, ...], ...]
    cond: Cond = TRUE
    strips: Mapping[Sym, tuple[Affine, int]] = field(default_factory=dict)
    unit: int = 1


def max_additions(group: FusionGroup, reduction: Reduction) -> int:
    """Returns the number of additions that a term may take part in. Results that are stored in arrays of the caller are
    the last sums of their terms. A reduction that starts from a cell which it overwrites is a step of a longer sum, and
    a short sum of cells of a temporary may be the second stage of a split reduction: the additions of both are added to
    those of other reductions."""
    limit = machine.MAX_ADDITIONS_PER_TERM
    stored = [stmt for stmt in group.epilogue if isinstance(stmt, Store)]
    if len(stored) == len(group.writes) and all(stmt.ref.buf.access is not AccessMode.TEMP for stmt in stored):
        limit = machine.MAX_ADDITIONS_PER_RESULT_TERM
    if isinstance(reduction.init, Load) and reduction.init.ref in group.writes:
        limit = machine.MAX_ADDITIONS_PER_STEP
    if may_combine_parts(reduction):
        limit = min(limit, machine.MAX_ADDITIONS_PER_PART)
    has_pairs = reduction.acc.precision.is_float and factors_of_dot(reduction.update.value) is not None
    return limit // 2 if has_pairs else limit  # instructions add the products of a pair one after the other


def runs_across_long_rows(group: FusionGroup, plan: TilePlan) -> bool:
    """Whether the reduction runs across rows of a large array, each longer than a tile, and reads each cell once."""
    if len(plan.reduction_syms) != 1:
        return False
    (reduction,), (k,) = group.reductions, plan.reduction_syms
    syms = [sym for sym in (*group.syms, k) if sym.extent > 1]
    if prod(sym.extent for sym in syms) < machine.MIN_SPLIT_ITERATIONS:
        return False
    return plan.vector.extent > machine.STREAM_ROW_ELEMENTS and any(
        reads_rows_once(ref, plan, k, syms) for ref in loads(reduction.update.value)
    )


def summation_blocks(
    reduction: Reduction, loops: Sequence[Sym], limit: int, names: Namer, min_size: int = 0
) -> SummationBlocks:
    """Divides the loops of a reduction, outermost first, if rounding errors depend on the number of additions."""
    is_rounded = is_rounded_sum(reduction.update)
    return divide_loops(loops, limit, names, min_size) if is_rounded else SummationBlocks((tuple(loops),))


def divide_loops(loops: Sequence[Sym], limit: int, names: Namer, min_size: int = 0) -> SummationBlocks:
    """Divides loops, outermost first, into blocks such that a term takes part in about `limit` additions at most; a
    single long loop into blocks of about `min_size` iterations, if this suffices."""
    extents = tuple([sym.extent for sym in loops])
    sizes = short_block_sizes(extents, limit, min_size) or block_sizes(extents, limit)
    if len(sizes) < 2:
        return SummationBlocks((tuple(loops),))
    levels: list[list[Sym]] = [[] for _ in sizes]
    facts: list[Affine] = []
    strips: dict[Sym, tuple[Affine, int]] = {}
    unit = 1
    for n, sym in enumerate(loops):
        depths = [depth for depth, trip_counts in enumerate(sizes) if trip_counts[n]]
        inner, iterations = sym, 1
        levels[depths[-1]].append(sym)
        for depth, inner_depth in zip(depths[-2::-1], depths[:0:-1], strict=True):
            size = sizes[inner_depth][n]
            iterations *= size
            strip = Sym(names(f"{sym.name}_block"), 0, ceil(sym.extent / iterations) - 1)
            first = Affine.of(strip) * size + inner.lo
            facts += [Affine.of(inner) - first, first + (size - 1) - inner]
            strips.setdefault(sym, (Affine.of(strip) * size, size))
            levels[depth].append(strip)
            inner = strip
        unit = iterations if not n else unit
    return SummationBlocks(tuple(map(tuple, levels)), Cond(tuple(facts)), strips, unit)


def tile_summation_blocks(group: FusionGroup, plan: TilePlan, names: Namer) -> SummationBlocks | None:
    """Returns the blocks of the group's reduction; None if there is no reduction. If lanes are partial sums, the
    innermost loop is replaced by a counter of its tiles."""
    if not group.reductions:
        return None
    (reduction,) = group.reductions
    limit = max_additions(group, reduction)
    if plan.vector not in plan.reduction_syms:
        min_size = machine.STREAMED_ROWS if runs_across_long_rows(group, plan) else 0
        return summation_blocks(reduction, plan.reduction_syms, limit, names, min_size)
    tiles = Sym(plan.vector.name, 0, ceil(plan.vector.extent / (plan.vectors * plan.lanes)) - 1)
    limit -= plan.vectors + plan.lanes.bit_length()  # additions of vectors and, pairwise, of lanes
    return summation_blocks(reduction, (*plan.reduction_syms[:-1], tiles), limit, names)


@lru_cache(maxsize=1 << 12)
def block_sizes(extents: tuple[int, ...], limit: int) -> tuple[TripCounts, ...]:
    """Returns the trip counts of nested loops within the blocks of each level, outermost first.

    A term takes part in at most `limit` additions, if this is possible at all. Blocks of the innermost level are long,
    because the addition of partial sums costs time, and there are few levels.
    """
    terms = prod(extents)
    if terms <= max(1, limit + 1):
        return (extents,)
    for levels in range(2, terms.bit_length()):
        for size in range(limit, limit // 2, -1):
            outer_size = (limit - (size - 1)) // (levels - 1) + 1
            sizes = _divide(extents, size, outer_size) if outer_size > 1 else ()
            if 0 < len(sizes) <= levels and additions_per_term(sizes) <= limit:
                return sizes
    return _divide(extents, 2, 2)


def short_block_sizes(extents: tuple[int, ...], limit: int, min_size: int) -> tuple[TripCounts, ...]:
    """Returns the trip counts of a long loop in the shortest blocks of `min_size` to twice as many iterations in which
    terms take part in no more additions than in those of `block_sizes`; otherwise nothing."""
    if not min_size or len(extents) > 1 or extents[0] <= 4 * min_size:
        return ()
    limit = additions_per_term(block_sizes(extents, limit))
    candidates = [((ceil(extents[0] / size),), (size,)) for size in range(min_size, 2 * min_size + 1)]
    return next((sizes for sizes in candidates if additions_per_term(sizes) <= limit), ())


def additions_per_term(sizes: Sequence[TripCounts]) -> int:
    return sum(prod(filter(None, trip_counts)) - 1 for trip_counts in sizes)


def _divide(extents: tuple[int, ...], inner_size: int, outer_size: int) -> tuple[TripCounts, ...]:
    """Divides loops into blocks of up to `inner_size` iterations, and these into blocks of up to `outer_size`."""
    remaining: dict[int, int] = dict(enumerate(extents))
    levels: list[TripCounts] = []
    room = inner_size
    while remaining:
        trip_counts = [0] * len(extents)
        for n in sorted(remaining, reverse=True):
            if remaining[n] <= room:
                trip_counts[n] = remaining.pop(n)
                room //= trip_counts[n]
                continue
            if room > 1:
                blocks = ceil(remaining[n] / room)
                trip_counts[n] = ceil(remaining[n] / blocks)
                remaining[n] = ceil(remaining[n] / trip_counts[n])
            break
        levels.append(tuple(trip_counts))
        room = outer_size
    return tuple(reversed(levels))


def nest_levels(
    levels: Sequence[Sequence[For]], cond: Cond, body: Body, add_block: Callable[[int, Body], Body], depth: int = 0
) -> Body:
    """Builds the loops of all levels around `body`. `add_block(depth, block)` builds the statements that execute a
    block of level `depth + 1` and add its partial sums to those of level `depth`."""
    if depth == len(levels) - 1:
        return wrap_with_bounds(levels[depth], cond, body)
    inner_syms = [loop.sym for level in levels[depth + 1 :] for loop in level]
    outer_cond, inner_cond = split_condition(cond, inner_syms)
    block = nest_levels(levels, inner_cond, body, add_block, depth + 1)
    return wrap_with_bounds(levels[depth], outer_cond, add_block(depth, block))
