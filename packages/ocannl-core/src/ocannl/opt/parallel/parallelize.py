"""Which loops several threads share."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.loops import For, Mode, Proc, Stmt
from ocannl.ir.accesses import has_no_loop_carried_dependence, touches
from ocannl.ir.work import max_trip_count, stmt_work
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import same_objects


def parallelize(proc: Proc, min_ops: int | None = None, min_chunk_ops: int | None = None) -> Proc:
    """Lets threads claim iterations of a long nest's outermost loop, where these have nothing to do with each other.
    Here it is long from 200 on, and a claim is of 120 at least:

        proc step                         proc step
          x : f32[6,2]  in                  x : f32[6,2]  in
          y : f32[6,2]  out                 y : f32[6,2]  out
          for i in 0..6:                    for i in 0..6 claimed by 2:
            for j in 0..2:        ==>         for j in 0..2:
              y[i, j] = tanh(x[i, j])           y[i, j] = tanh(x[i, j])

    How much a thread takes at a time depends on the program alone, and no sum is divided: results are the same whatever
    the number of threads.
    """
    min_ops = machine.MIN_PARALLEL_OPS if min_ops is None else min_ops
    min_chunk_ops = machine.MIN_CHUNK_OPS if min_chunk_ops is None else min_chunk_ops
    body = tuple([_shared(stmt, min_ops, min_chunk_ops) for stmt in proc.body])
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _shared(stmt: Stmt, worth: int, claim: int) -> Stmt:
    if not isinstance(stmt, For) or stmt.mode is not Mode.SERIAL:
        return stmt
    if stmt.step != 1 or stmt.lo.constant is None or stmt.hi.constant is None:
        return stmt
    amount, count = stmt_work(stmt, machine.STORE_OPS), max_trip_count(stmt)
    if amount < worth or count < 2 or not has_no_loop_carried_dependence(touches(stmt.body), stmt.sym, (), sums=False):
        return replace(stmt, parallel_chunk=0) if stmt.parallel_chunk else stmt
    return replace(stmt, parallel_chunk=max(1, min(max(claim * count // amount, count // machine.MAX_CHUNKS), count // 2)))
