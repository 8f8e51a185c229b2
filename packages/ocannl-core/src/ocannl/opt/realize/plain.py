"""Nests with their sums in registers."""

from __future__ import annotations

from collections.abc import Sequence

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
from ocannl.opt.nest import Nest
from ocannl.opt.plan.plain import Plain
from ocannl.opt.substitute import substitute


def realize_plain(nest: Nest, plan: Plain, names: Namer) -> Stmt:
    """The loops in the order of the plan; with reduced loops,

        for i in 0..5:                        for i in 0..5:
          for k in 0..7:                        local acc: f32 reg = 0
            y[i] += w[i, k]            ==>      for k in 0..7:
                                                  acc += w[i, k]
                                                y[i] += acc

    and `y[i] = acc` if the nest has its own start. The order of summation depends on the plan alone.
    """
    if not isinstance(nest.leaf, Update) or not plan.reduced:
        return block(around(_loops(nest, plan.kept), nest.cond, (nest.leaf,)))
    inner = Cond(
        tuple([f for f in nest.cond.ge0 if nest.start is not None or _meets(f, plan.reduced)]),
        tuple([f for f in nest.cond.eq0 if nest.start is not None or _meets(f, plan.reduced)]),
    )
    outer = Cond(
        tuple([f for f in nest.cond.ge0 if f not in inner.ge0]),
        tuple([f for f in nest.cond.eq0 if f not in inner.eq0]),
    )
    return block(around(_loops(nest, plan.kept), outer, _sum(nest, plan, inner, names)))


def _sum(nest: Nest, plan: Plain, cond: Cond, names: Namer) -> Body:
    """The accumulators, the loops that feed them, and the one write that they end in."""
    leaf = nest.leaf
    assert isinstance(leaf, Update)
    kind, op = leaf.ref.buf.precision, leaf.op
    shape = (plan.ways,) if plan.ways > 1 else ()
    zero = neutral(op, kind)
    acc = Buf(names("acc"), kind, shape, row_major(shape), Home.REG, Access.TEMP)
    cells = [Ref(acc, (Affine((), way),)) for way in range(plan.ways)] if shape else [Ref(acc, ())]

    def step(cell: Ref, values: dict[Sym, Affine]) -> Stmt:
        update = Update(cell, op, substitute(leaf.value, values), leaf.origin)
        facts = cond.substitute(values)
        return update if facts.is_true else If(facts, (update,))

    *outer, last = plan.reduced
    if shape:
        turns = last.extent // plan.ways
        by = Sym(names(last.name), 0, turns - 1)
        base = Affine(((plan.ways, by),), last.lo)
        turn = loop(by, tuple([step(cell, {last: base + way}) for way, cell in enumerate(cells)]), leaf.origin)
        rest = range(turns * plan.ways, last.extent)
        feed: Body = (turn, *(step(cells[i % plan.ways], {last: Affine((), last.lo + i)}) for i in rest))
    else:
        feed = (loop(last, (step(cells[0], {}),), leaf.origin),)
    total = _total(op, [Load(cell) for cell in cells])
    if nest.start is None:
        end: Stmt = Update(leaf.ref, op, total, leaf.origin)
    elif isinstance(nest.start, Num) and nest.start.value == zero:
        end = Store(leaf.ref, total, leaf.origin)
    else:
        end = Store(leaf.ref, Apply(op, (nest.start, total)), leaf.origin)
    return (Local(acc, zero), *around(_loops(nest, tuple(outer)), TRUE, feed), end)


def _total(op: Op, parts: Sequence[Expr]) -> Expr:
    """The parts combined as a balanced tree."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return Apply(op, (_total(op, parts[:half]), _total(op, parts[half:])))


def _loops(nest: Nest, syms: tuple[Sym, ...]) -> list[For]:
    by_sym = {old.sym: old for old in nest.loops}
    return [by_sym[s] for s in syms]


def _meets(fact: Affine, syms: Sequence[Sym]) -> bool:
    return any(s in syms for s in fact.syms)


def around(loops: Sequence[For], cond: Cond, body: Body) -> Body:
    """`body` inside the loops, each fact of `cond` tested as far out as its symbols allow."""
    if not loops:
        return body if cond.is_true else (If(cond, body),)
    own = [old.sym for old in loops]
    here = Cond(
        tuple([f for f in cond.ge0 if not _meets(f, own)]),
        tuple([f for f in cond.eq0 if not _meets(f, own)]),
    )
    below = Cond(tuple([f for f in cond.ge0 if _meets(f, own)]), tuple([f for f in cond.eq0 if _meets(f, own)]))
    first = loops[0]
    turn = For(first.sym, first.lo, first.hi, around(loops[1:], below, body), first.step, first.origin)
    return (turn,) if here.is_true else (If(here, (turn,)),)


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
