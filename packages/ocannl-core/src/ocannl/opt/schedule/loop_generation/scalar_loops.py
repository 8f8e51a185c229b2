"""Builds the loops of scalar plans."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.loops import Apply, Body, Const, Expr, If, Load, Local, Ref, Store, Update, loop
from ocannl.ir.names import Namer
from ocannl.ir.ops import Op, neutral_element
from ocannl.opt.analysis.conditions import simplify_condition
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.analysis.nests import loops_in_order, wrap_with_bounds
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.schedule.plan.scalar_plans import ReductionPlan, ScalarPlan
from ocannl.opt.simplify.simplify import simplify_expr


def build_scalar_loops(group: FusionGroup, plan: ScalarPlan, names: Namer) -> Body:
    """Builds the loops in the order of the plan:

        for i in 0..5:                        for i in 0..5:
          for k in 0..7:                        local acc: f32 reg
            y[i] += w[i, k]            ==>      acc = y[i]
                                                for k in 0..7:
                                                  acc += w[i, k]
                                                y[i] = acc

    The order of summation depends only on the plan: with a single accumulator it is the order of the loops.
    """
    reductions = [
        _build_reduction(reduction, reduction_plan, names)
        for reduction, reduction_plan in zip(group.reductions, plan.reductions, strict=True)
    ]
    body = (*chain.from_iterable(reductions), *group.epilogue)
    return wrap_with_bounds(loops_in_order(group.loops, plan.order), group.cond, body)


def _build_reduction(reduction: Reduction, plan: ReductionPlan, names: Namer) -> Body:
    """Builds the initialized accumulator and the reduction loops."""
    if plan.accumulators == 1:
        loops = wrap_with_bounds(loops_in_order(reduction.loops, plan.order), reduction.cond, (reduction.update,))
        return (*initialize_accumulator(reduction), *loops)
    *outer, inner = plan.order
    update, op, precision, count = reduction.update, reduction.update.op, reduction.acc.precision, plan.accumulators
    partial_sums = local_buffer(names("acc"), precision, (count,))
    cells = [Ref(partial_sums, (Affine((), n),)) for n in range(count)]

    def accumulate(cell: Ref, value: Affine) -> Body:
        facts = simplify_condition(reduction.cond.substitute({inner: value}))
        if facts is None:
            return ()
        term = Update(cell, op, simplify_expr(substitute(update.value, {inner: value}), facts), update.origin)
        return (term,) if facts.is_true else (If(facts, (term,)),)

    trip_count = inner.extent // count
    sym = Sym(names(inner.name), 0, trip_count - 1)
    base = Affine(((count, sym),), inner.lo)
    terms = chain.from_iterable(accumulate(cell, base + n) for n, cell in enumerate(cells))
    remainder = range(trip_count * count, inner.extent)
    last_terms = chain.from_iterable(accumulate(cells[i % count], Affine((), inner.lo + i)) for i in remainder)
    body = (loop(sym, tuple(terms), update.origin), *last_terms)
    loops = wrap_with_bounds(loops_in_order(reduction.loops, outer), TRUE, body)
    total = Update(update.ref, op, _combine(op, [Load(cell) for cell in cells]), update.origin)
    return (Local(partial_sums, neutral_element(op, precision)), *loops, *initialize_accumulator(reduction), total)


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
