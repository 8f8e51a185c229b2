"""Parallelizes the outermost loops of long nests over threads."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.accesses import has_no_loop_carried_dependence, memory_accesses
from ocannl.ir.loops import For, Mode, Proc, Stmt
from ocannl.ir.work import max_trip_count, stmt_work
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import same_objects


def parallelize(proc: Proc, min_ops: int | None = None, min_chunk_ops: int | None = None) -> Proc:
    """Parallelizes the outermost loop of each nest that has at least `min_ops` of work and no loop-carried dependence.
    In this example, `min_ops` is 200 and `min_chunk_ops` is 120:

        proc step                         proc step
          x : f32[6,2]  in                  x : f32[6,2]  in
          y : f32[6,2]  out                 y : f32[6,2]  out
          for i in 0..6:                    parallel(chunk=2) for i in 0..6:
            for j in 0..2:        ==>         for j in 0..2:
              y[i, j] = tanh(x[i, j])           y[i, j] = tanh(x[i, j])

    Threads take chunks of iterations dynamically (like OpenMP's `schedule(dynamic, n)`). The size of a chunk depends on
    the program only, and no reduction is split, so that results do not depend on the number of threads.
    """
    min_ops = machine.MIN_PARALLEL_OPS if min_ops is None else min_ops
    min_chunk_ops = machine.MIN_CHUNK_OPS if min_chunk_ops is None else min_chunk_ops
    body = tuple([_parallelize_loop(stmt, min_ops, min_chunk_ops) for stmt in proc.body])
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _parallelize_loop(stmt: Stmt, min_ops: int, min_chunk_ops: int) -> Stmt:
    if not isinstance(stmt, For) or stmt.mode is not Mode.SERIAL:
        return stmt
    if stmt.step != 1 or stmt.lo.constant is None or stmt.hi.constant is None:
        return stmt
    ops, trip_count = stmt_work(stmt, machine.STORE_OPS), max_trip_count(stmt)
    is_long = ops >= min_ops and trip_count >= 2
    if not is_long or not has_no_loop_carried_dependence(memory_accesses(stmt.body), stmt.sym, (), sums=False):
        return replace(stmt, parallel_chunk=0) if stmt.parallel_chunk else stmt
    min_chunk = max(min_chunk_ops * trip_count // ops, trip_count // machine.MAX_CHUNKS)
    return replace(stmt, parallel_chunk=max(1, min(min_chunk, trip_count // 2)))
