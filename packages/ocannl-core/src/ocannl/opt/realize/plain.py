"""Groups as they are, in the order of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from ocannl.ir.index import TRUE, Affine, Sym
from ocannl.ir.loops import Apply, Body, Expr, If, Load, Local, Num, Ref, Store, Update, loop
from ocannl.ir.names import Namer
from ocannl.ir.ops import Op
from ocannl.ir.precision import Family, Precision
from ocannl.opt.decide import decide
from ocannl.opt.fold import fold_expr
from ocannl.opt.group import Group, Sum, scratch
from ocannl.opt.nest import clipped, in_order
from ocannl.opt.plan.plain import Plain, Reduced
from ocannl.opt.substitute import substitute


def realize_plain(group: Group, plan: Plain, names: Namer) -> Body:
    """The loops in the order of the plan:

        for i in 0..5:                        for i in 0..5:
          for k in 0..7:                        local acc: f32 reg
            y[i] += w[i, k]            ==>      acc = y[i]
                                                for k in 0..7:
                                                  acc += w[i, k]
                                                y[i] = acc

    The order of summation depends on the plan alone: with partial sums it is another one, with a single one it is that
    of the loops.
    """
    sums = [_sum(each, way, names) for each, way in zip(group.sums, plan.sums, strict=True)]
    return clipped(in_order(group.loops, plan.order), group.cond, (*chain.from_iterable(sums), *group.tail))


def _sum(each: Sum, plan: Reduced, names: Namer) -> Body:
    """The accumulator, with what it begins with, and the loops that feed it."""
    if plan.ways == 1:
        feed = clipped(in_order(each.loops, plan.order), each.cond, (each.update,))
        return (*begun(each), *feed)
    *outer, last = plan.order
    update, op, kind, ways = each.update, each.update.op, each.acc.precision, plan.ways
    acc = scratch(names("acc"), kind, (ways,))
    cells = [Ref(acc, (Affine((), way),)) for way in range(ways)]

    def step(cell: Ref, value: Affine) -> Body:
        facts = decide(each.cond.substitute({last: value}))
        if facts is None:
            return ()
        term = Update(cell, op, fold_expr(substitute(update.value, {last: value}), facts), update.origin)
        return (term,) if facts.is_true else (If(facts, (term,)),)

    turns = last.extent // ways
    by = Sym(names(last.name), 0, turns - 1)
    base = Affine(((ways, by),), last.lo)
    turn = chain.from_iterable(step(cell, base + way) for way, cell in enumerate(cells))
    rest = range(turns * ways, last.extent)
    ends = chain.from_iterable(step(cells[i % ways], Affine((), last.lo + i)) for i in rest)
    feed = clipped(in_order(each.loops, outer), TRUE, (loop(by, tuple(turn), update.origin), *ends))
    total = Update(update.ref, op, _total(op, [Load(cell) for cell in cells]), update.origin)
    return (Local(acc, neutral(op, kind)), *feed, *begun(each), total)


def begun(each: Sum) -> Body:
    """The accumulator with its first value."""
    if isinstance(each.start, Num):
        return (Local(each.acc, each.start.value),)
    return (Local(each.acc), Store(each.update.ref, each.start, each.update.origin))


def _total(op: Op, parts: Sequence[Expr]) -> Expr:
    """The parts combined as a balanced tree."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return Apply(op, (_total(op, parts[:half]), _total(op, parts[half:])))


def neutral(op: Op, precision: Precision) -> int | float:
    """What an accumulator of this type starts from; infinities become the last number of types that have none."""
    assert op.neutral is not None
    match precision.family:
        case Family.FLOAT:
            return op.neutral
        case Family.BOOL:
            return int(op.neutral > 0)
        case _:
            limits = np.iinfo(precision.numpy)
            return int(min(max(op.neutral, limits.min), limits.max))
