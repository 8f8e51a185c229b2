"""Nests with their sums in registers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from ocannl.ir.index import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import (
    Access,
    Apply,
    Body,
    Buf,
    Expr,
    For,
    Home,
    If,
    Load,
    Local,
    Num,
    Ref,
    Stmt,
    Store,
    Update,
    loop,
    row_major,
)
from ocannl.ir.names import Namer
from ocannl.ir.ops import Op
from ocannl.ir.precision import Family, Precision
from ocannl.opt.decide import decide
from ocannl.opt.fold import fold_expr
from ocannl.opt.nest import Nest
from ocannl.opt.plan.plain import Plain
from ocannl.opt.substitute import substitute


def realize_plain(nest: Nest, plan: Plain, names: Namer) -> Body:
    """The loops in the order of the plan; with reduced loops,

        for i in 0..5:                        for i in 0..5:
          for k in 0..7:                        local acc: f32 reg
            y[i] += w[i, k]            ==>      acc = y[i]
                                                for k in 0..7:
                                                  acc += w[i, k]
                                                y[i] = acc

    and where the nest has its own start, `acc` begins with that. The order of summation depends on the plan alone: with
    partial sums it is another one, with a single one it is that of the loops.
    """
    if not isinstance(nest.leaf, Update) or not plan.reduced:
        return around(loops_of(nest, plan.kept), nest.cond, (nest.leaf,))
    outer, inner = split(nest.cond, plan.reduced)
    if nest.start is not None:  # then every cell is written, whatever the guard
        return around(loops_of(nest, plan.kept), TRUE, _sum(nest, plan, outer, inner, names))
    return around(loops_of(nest, plan.kept), outer, _sum(nest, plan, TRUE, inner, names))


def _sum(nest: Nest, plan: Plain, some: Cond, each: Cond, names: Namer) -> Body:
    """The accumulators, the loops that feed them, and the one write that they end in. They are fed anything if `some`
    holds, and the terms for which `each` does."""
    leaf = nest.leaf
    assert isinstance(leaf, Update)
    kind, op = leaf.ref.buf.precision, leaf.op
    shape = (plan.ways,) if plan.ways > 1 else ()
    acc = Buf(names("acc"), kind, shape, row_major(shape), Home.REG, Access.TEMP)
    cells = [Ref(acc, (Affine((), way),)) for way in range(plan.ways)] if shape else [Ref(acc, ())]
    start = Load(leaf.ref) if nest.start is None else nest.start
    zero = neutral(op, kind)
    if isinstance(start, Num) and (not shape or start.value == zero):
        begin: Body = (Local(acc, start.value),)
    else:
        begin = (Local(acc, zero if shape else None), Store(cells[0], start, leaf.origin))

    def step(cell: Ref, values: dict[Sym, Affine]) -> Body:
        facts = decide(each.substitute(values))
        if facts is None:
            return ()
        update = Update(cell, op, fold_expr(substitute(leaf.value, values), facts), leaf.origin)
        return (update,) if facts.is_true else (If(facts, (update,)),)

    *outer, last = plan.reduced
    if shape:
        turns = last.extent // plan.ways
        by = Sym(names(last.name), 0, turns - 1)
        base = Affine(((plan.ways, by),), last.lo)
        turn = chain.from_iterable(step(cell, {last: base + way}) for way, cell in enumerate(cells))
        rest = range(turns * plan.ways, last.extent)
        ends = chain.from_iterable(step(cells[i % plan.ways], {last: Affine((), last.lo + i)}) for i in rest)
        feed: Body = (loop(by, tuple(turn), leaf.origin), *ends)
    else:
        feed = (loop(last, step(cells[0], {}), leaf.origin),)
    fed = around(loops_of(nest, tuple(outer)), TRUE, feed)
    end = Store(leaf.ref, _total(op, [Load(cell) for cell in cells]), leaf.origin)
    return (*begin, *(fed if some.is_true else (If(some, fed),)), end)


def _total(op: Op, parts: Sequence[Expr]) -> Expr:
    """The parts combined as a balanced tree."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return Apply(op, (_total(op, parts[:half]), _total(op, parts[half:])))


def loops_of(nest: Nest, syms: tuple[Sym, ...]) -> list[For]:
    by_sym = {old.sym: old for old in nest.loops}
    return [by_sym[s] for s in syms]


def around(loops: Sequence[For], cond: Cond, body: Body) -> Body:
    """`body` inside the loops, each fact of `cond` tested as far out as its symbols allow."""
    if not loops:
        return body if cond.is_true else (If(cond, body),)
    here, below = split(cond, [old.sym for old in loops])
    first = loops[0]
    turn = For(first.sym, first.lo, first.hi, around(loops[1:], below, body), first.step, first.origin)
    return (turn,) if here.is_true else (If(here, (turn,)),)


def split(cond: Cond, syms: Sequence[Sym]) -> tuple[Cond, Cond]:
    """The facts that do not depend on `syms`, and those that do."""

    def part(facts: tuple[Affine, ...], depends: bool) -> tuple[Affine, ...]:
        return tuple([f for f in facts if any(s in syms for s in f.syms) is depends])

    return Cond(part(cond.ge0, False), part(cond.eq0, False)), Cond(part(cond.ge0, True), part(cond.eq0, True))


def block(body: Body) -> Stmt:
    """One statement that is this body; what is local to it stays local."""
    return body[0] if len(body) == 1 else If(TRUE, body)


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
