"""Inserts polls for cancellation (safepoints) into long programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ocannl.ir.affine import Affine, Bound, Sym
from ocannl.ir.loops import BindIndex, Body, For, If, Mode, Poll, Proc, Stmt
from ocannl.ir.name_mangling import Namer
from ocannl.ir.private_scope import private_scope
from ocannl.ir.work import max_trip_count, stmt_work
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import bound_names

DIVISIBLE_MODES = Mode.SERIAL, Mode.SEQUENTIAL


def insert_polls(proc: Proc, interval_ops: int | None = None) -> Proc:
    """Inserts polls between statements and into long loops, with at most `interval_ops` of work between two polls. In
    this example the interval is 40:

        proc step                       proc step
          x : f32[90]  inout              x : f32[90]  inout
          for i in 0..90:                 for i_part in 0..90 step 10:
            x[i] = x[i] + 1     ==>         poll
                                            for i in i_part..min(i_part+10, 90):
                                              x[i] = x[i] + 1

    Long loops are strip-mined, which preserves the order of execution.
    """
    interval_ops = machine.POLL_INTERVAL_OPS if interval_ops is None else interval_ops
    ops = list(map(stmt_work, proc.body))
    if sum(ops) <= interval_ops:
        return proc
    return replace(proc, body=_insert_between(proc.body, ops, interval_ops, Namer(bound_names(proc))))


def _insert_between(body: Body, ops: Sequence[int], interval_ops: int, names: Namer) -> Body:
    """Inserts polls between and into the statements of a body, whose work is `ops`."""
    result: list[Stmt] = []
    ops_since_poll = 0
    for stmt, stmt_ops in zip(body, ops, strict=True):
        if ops_since_poll and ops_since_poll + stmt_ops > interval_ops:
            result.append(Poll())
            ops_since_poll = 0
        if stmt_ops <= interval_ops:
            result.append(stmt)
            ops_since_poll += stmt_ops
        else:
            result.append(_insert_inside(stmt, stmt_ops, interval_ops, names))
            ops_since_poll = interval_ops
    return tuple(result)


def _insert_inside(stmt: Stmt, ops: int, interval_ops: int, names: Namer) -> Stmt:
    match stmt:
        case If(cond, (*first, loop), ()) if private_scope(stmt) is not None:
            return If(cond, (*first, _insert_inside(loop, stmt_work(loop), interval_ops, names)))
        case If(cond, on_true, on_false):
            return If(cond, *(
                _insert_between(branch, list(map(stmt_work, branch)), interval_ops, names)
                for branch in (on_true, on_false)
            ))  # fmt: skip
        case BindIndex(body=body):
            return replace(stmt, body=_insert_between(body, list(map(stmt_work, body)), interval_ops, names))
        case For(mode=Mode.VECTORIZED | Mode.TENSORIZED):
            return stmt  # vectors and tiles are not divided
        case For(body=body):
            iterations = interval_ops * max_trip_count(stmt) // ops  # between polls
            if stmt.parallel_chunk and iterations >= 1:
                return stmt  # the runtime polls before each chunk
            if iterations <= 1 or stmt.step != 1 or stmt.mode not in DIVISIBLE_MODES:
                inner = _insert_between(body, list(map(stmt_work, body)), interval_ops, names)
                return replace(stmt, body=(Poll(), *inner))
            return _divide_loop(stmt, iterations, names)
        case _:
            return stmt


def _divide_loop(stmt: For, strip_size: int, names: Namer) -> For:
    """Strip-mines the loop, with a poll before each strip."""
    outer = Sym(names(f"{stmt.sym.name}_part"), stmt.sym.lo, stmt.sym.hi)
    first = Affine.of(outer)
    end = first + (strip_size - 1)
    inner = replace(stmt, lo=Bound(((first, 1),)), hi=Bound(((end, 1), *stmt.hi.quotients)))
    return For(outer, stmt.lo, stmt.hi, (Poll(), inner), strip_size, stmt.origin, mode=stmt.mode)
