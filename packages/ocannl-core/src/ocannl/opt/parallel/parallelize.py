"""Parallelizes the outermost loops of long nests over threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ocannl.ir.accesses import has_no_loop_carried_dependence, memory_accesses
from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.loops import BindIndex, Body, For, Mode, Proc, Stmt, region_body
from ocannl.ir.walk import walk
from ocannl.ir.work import max_trip_count, stmt_work
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import same_objects
from ocannl.opt.analysis.substitution import substitute_statements


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
    the program only, and no reduction is split, so that results do not depend on the number of threads. A sequential
    loop whose iterations are independent is parallelized as well.
    """
    min_ops = machine.MIN_PARALLEL_OPS if min_ops is None else min_ops
    min_chunk_ops = machine.MIN_CHUNK_OPS if min_chunk_ops is None else min_chunk_ops
    body = _parallelize_body(proc.body, min_ops, min_chunk_ops)
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _parallelize_body(body: Body, min_ops: int, min_chunk_ops: int) -> Body:
    new = tuple([_parallelize_statement(stmt, min_ops, min_chunk_ops) for stmt in body])
    return body if same_objects(new, body) else new


def _parallelize_statement(stmt: Stmt, min_ops: int, min_chunk_ops: int) -> Stmt:
    region = region_body(stmt)
    if region is None:
        return _parallelize_loop(stmt, min_ops, min_chunk_ops)
    assert isinstance(stmt, For | BindIndex)
    inner = _parallelize_body(region, min_ops, min_chunk_ops)
    # threads that share all iterations wait for each other once, but a short loop employs few of them
    if isinstance(stmt, For) and (inner is region or stmt.sym.extent >= machine.MIN_HOISTED_TRIPS):
        loop = _parallelize_loop(_as_serial_loop(stmt), min_ops, min_chunk_ops)
        if isinstance(loop, For) and loop.parallel_chunk:
            return loop
    return stmt if inner is region else replace(stmt, body=inner)


def _as_serial_loop(stmt: For) -> For:
    """Returns a sequential loop as a serial one that contains no parallel loop. Symbols of iterations become symbols of
    loops, so that the test for dependences does not take them for constants."""
    loops = [node for node in walk(stmt) if isinstance(node, For) and node.sym.kind is SymKind.ITERATION]
    new = {loop.sym: Sym(loop.sym.name, loop.sym.lo, loop.sym.hi) for loop in loops}
    body = substitute_statements(stmt.body, {old: Affine.of(sym) for old, sym in new.items()})
    return replace(stmt, sym=new.get(stmt.sym, stmt.sym), body=_with_symbols(body, new), mode=Mode.SERIAL)


def _with_symbols(body: Body, new: Mapping[Sym, Sym]) -> Body:
    """Replaces the symbols of regions and makes their parallel loops serial."""
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, For):
            sym = new.get(stmt.sym, stmt.sym)
            stmt = replace(stmt, sym=sym, body=_with_symbols(stmt.body, new), parallel_chunk=0)
        elif isinstance(stmt, BindIndex):
            stmt = replace(stmt, body=_with_symbols(stmt.body, new))
        out.append(stmt)
    return tuple(out)


def _parallelize_loop(stmt: Stmt, min_ops: int, min_chunk_ops: int) -> Stmt:
    if not isinstance(stmt, For) or stmt.mode is not Mode.SERIAL:
        return stmt
    if stmt.step != 1 or stmt.lo.constant is None or stmt.hi.constant is None:
        return stmt
    ops, trip_count = stmt_work(stmt, machine.STORE_OPS), max_trip_count(stmt)
    is_long = ops >= min_ops and trip_count >= 2
    if not is_long or not has_no_loop_carried_dependence(memory_accesses((stmt,)), stmt.sym, (), sums=False):
        return replace(stmt, parallel_chunk=0) if stmt.parallel_chunk else stmt
    min_chunk = max(min_chunk_ops * trip_count // ops, trip_count // machine.MAX_CHUNKS)
    return replace(stmt, parallel_chunk=max(1, min(min_chunk, trip_count // 2)))
