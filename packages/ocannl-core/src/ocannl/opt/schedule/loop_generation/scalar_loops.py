"""Builds the loops of scalar plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import Apply, Body, Buf, Const, Expr, If, Load, Local, Ref, Store, Update, loop
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import Op, neutral_element
from ocannl.opt.analysis.conditions import simplify_condition
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.analysis.nests import loops_in_order, split_condition, wrap_with_bounds
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.schedule.loop_generation.blocked_summation import (
    SummationBlocks,
    max_additions,
    nest_levels,
    summation_blocks,
)
from ocannl.opt.schedule.plan.scalar_plans import ReductionPlan, ScalarPlan
from ocannl.opt.simplify.simplify import simplify_expr


def build_scalar_loops(group: FusionGroup, plan: ScalarPlan, names: Namer) -> Body:
    """Builds the loops in the order of the plan:

        for i in 0..5:                        for i in 0..5:
          for k in 0..7:                        local acc: f32
            y[i] += w[i, k]            ==>      acc = y[i]
                                                for k in 0..7:
                                                  acc += w[i, k]
                                                y[i] = acc

    The order of summation depends only on the plan and on extents. With a single accumulator it is the order of the
    loops, up to `summation_blocks` of long sums.
    """
    reductions = [
        _build_reduction(group, reduction, reduction_plan, names)
        for reduction, reduction_plan in zip(group.reductions, plan.reductions, strict=True)
    ]
    body = (*chain.from_iterable(reductions), *group.epilogue)
    return wrap_with_bounds(loops_in_order(group.loops, plan.order), group.cond, body)


def _build_reduction(group: FusionGroup, reduction: Reduction, plan: ReductionPlan, names: Namer) -> Body:
    """Builds the initialized accumulator and the reduction loops."""
    limit, update, op = max_additions(group, reduction), reduction.update, reduction.update.op
    if plan.accumulators == 1:
        blocks = summation_blocks(reduction, plan.order, limit, names)
        sums = _Accumulators.of_levels(reduction.acc, (), blocks, names)
        step: Body = (replace(update, ref=sums.cells(-1)[0]),)
        return (*initialize_accumulator(reduction), *sums.nest(reduction, blocks, reduction.cond, step))
    *outer, inner = plan.order
    precision, count = reduction.acc.precision, plan.accumulators
    partial_sums = local_buffer(names("acc"), precision, (count,))
    trip_count = inner.extent // count
    sym = Sym(names(inner.name), 0, trip_count - 1)
    blocks = summation_blocks(reduction, (*outer, sym), limit - (count - 1).bit_length() - 1, names)
    sums = _Accumulators.of_levels(partial_sums, (count,), blocks, names)
    cells = sums.cells(-1)

    def accumulate(cell: Ref, value: Affine) -> Body:
        facts = simplify_condition(reduction.cond.substitute({inner: value}))
        if facts is None:
            return ()
        term = Update(cell, op, simplify_expr(substitute(update.value, {inner: value}), facts), update.origin)
        return (term,) if facts.is_true else (If(facts, (term,)),)

    base = Affine(((count, sym),), inner.lo)
    terms = tuple(chain.from_iterable(accumulate(cell, base + n) for n, cell in enumerate(cells)))
    remainder = range(trip_count * count, inner.extent)
    last_terms = tuple(
        chain.from_iterable(accumulate(cells[i % count], Affine((), inner.lo + i)) for i in remainder)
    )
    strip_cond = split_condition(blocks.cond, [sym])[1]
    body = (*wrap_with_bounds((loop(sym, (), update.origin),), strip_cond, terms), *last_terms)
    if last_terms and sym in blocks.strips:
        start, size = blocks.strips[sym]
        body = (*body[: -len(last_terms)], If(Cond((start + (size - trip_count),)), last_terms))
    total = Update(update.ref, op, _combine(op, [Load(cell) for cell in sums.cells(0)]), update.origin)
    loops = sums.nest(reduction, blocks, TRUE, body, sym)
    return (Local(partial_sums, neutral_element(op, precision)), *loops, *initialize_accumulator(reduction), total)


@dataclass(frozen=True, slots=True)
class _Accumulators:
    """The accumulators of a reduction: a buffer for each level of blocks, the total first."""

    bufs: tuple[Buf, ...]

    @staticmethod
    def of_levels(total: Buf, shape: tuple[int, ...], blocks: SummationBlocks, names: Namer) -> _Accumulators:
        partial_sums = (local_buffer(names("part"), total.precision, shape) for _ in blocks.levels[1:])
        return _Accumulators((total, *partial_sums))

    def cells(self, depth: int) -> list[Ref]:
        buf = self.bufs[depth]
        return [Ref(buf, (Affine((), n),)) for n in range(*buf.shape)] if buf.shape else [Ref(buf, ())]

    def nest(
        self, reduction: Reduction, blocks: SummationBlocks, cond: Cond, body: Body, inner: Sym | None = None
    ) -> Body:
        """Builds the loops of all levels, without the loop over `inner`, around `body`."""
        update = reduction.update
        existing = {old.sym: old for old in reduction.loops}
        levels = [
            [existing.get(sym) or loop(sym, (), update.origin) for sym in level if sym is not inner]
            for level in blocks.levels
        ]

        def add_block(depth: int, block: Body) -> Body:
            pairs = zip(self.cells(depth), self.cells(depth + 1), strict=True)
            additions = (Update(total, update.op, Load(partial), update.origin) for total, partial in pairs)
            return (Local(self.bufs[depth + 1], 0), *block, *additions)

        outer_cond = blocks.cond if inner is None else split_condition(blocks.cond, [inner])[0]
        return nest_levels(levels, cond & outer_cond, body, add_block)


def initialize_accumulator(reduction: Reduction) -> Body:
    """Declares the accumulator with its initial value."""
    if isinstance(reduction.init, Const):
        return (Local(reduction.acc, reduction.init.value),)
    return (Local(reduction.acc), Store(reduction.update.ref, reduction.init, reduction.update.origin))


def _combine(op: Op, values: Sequence[Expr]) -> Expr:
    """Combines the values in a balanced tree."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return Apply(op, (_combine(op, values[:half]), _combine(op, values[half:])))
