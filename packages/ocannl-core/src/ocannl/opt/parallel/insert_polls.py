"""Where a long program looks whether it has been cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ocannl.ir.index import Affine, Bound, Sym
from ocannl.ir.loops import Body, For, If, Mode, Poll, Proc, Stmt
from ocannl.ir.names import Namer
from ocannl.ir.work import max_trip_count, stmt_work
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import bound_names


def insert_polls(proc: Proc, interval_ops: int | None = None) -> Proc:
    """Puts polls between statements and into long loops, so that no more than a stretch of work lies between two. Here
    it is 40:

        proc step                       proc step
          x : f32[90]  inout              x : f32[90]  inout
          for i in 0..90:                 for i_part in 0..90 step 10:
            x[i] = x[i] + 1     ==>         poll
                                            for i in i_part..min(i_part+10, 90):
                                              x[i] = x[i] + 1

    The order of execution stays.
    """
    interval_ops = machine.POLL_INTERVAL_OPS if interval_ops is None else interval_ops
    amounts = list(map(stmt_work, proc.body))
    if sum(amounts) <= interval_ops:
        return proc
    return replace(proc, body=_spread(proc.body, amounts, interval_ops, Namer(bound_names(proc))))


def _spread(body: Body, amounts: Sequence[int], stretch: int, names: Namer) -> Body:
    out: list[Stmt] = []
    since = 0
    for stmt, amount in zip(body, amounts, strict=True):
        if since and since + amount > stretch:
            out.append(Poll())
            since = 0
        if amount <= stretch:
            out.append(stmt)
            since += amount
        else:
            out.append(_divided(stmt, amount, stretch, names))
            since = stretch
    return tuple(out)


def _divided(stmt: Stmt, amount: int, stretch: int, names: Namer) -> Stmt:
    match stmt:
        case If(cond, then, orelse):
            return If(cond, *(_spread(side, list(map(stmt_work, side)), stretch, names) for side in (then, orelse)))
        case For(mode=Mode.VECTORIZED):
            return stmt  # at once
        case For(body=body):
            many = stretch * max_trip_count(stmt) // amount
            if stmt.parallel_chunk and many >= 1:
                return stmt  # who hands out claims looks before each
            if many <= 1 or stmt.step != 1 or stmt.mode is not Mode.SERIAL:
                return replace(stmt, body=(Poll(), *_spread(body, list(map(stmt_work, body)), stretch, names)))
            return _in_parts(stmt, many, names)
        case _:
            return stmt


def _in_parts(stmt: For, many: int, names: Namer) -> For:
    """The same loop, a poll before each stretch of so many iterations."""
    part = Sym(names(f"{stmt.sym.name}_part"), stmt.sym.lo, stmt.sym.hi)
    first = Affine.of(part)
    inner = replace(stmt, lo=Bound(((first, 1),)), hi=Bound(((first + (many - 1), 1), *stmt.hi.quotients)))
    return For(part, stmt.lo, stmt.hi, (Poll(), inner), many, stmt.origin)
