"""Marks large, write-only results for non-temporal stores."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ocannl.ir.accesses import alias_class, is_aligned, memory_accesses
from ocannl.ir.loops import Body, Buf, For, If, Let, MemorySpace, Mode, Proc, Ref, Stmt, Store
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.expression_cost import cost
from ocannl.opt.analysis.nests import is_parallel_loop, same_objects


def use_nontemporal_stores(
    proc: Proc, threshold_bytes: int, min_result_bytes: int | None = None, max_work: int | None = None
) -> Proc:
    """Uses non-temporal stores for large results of nests with a footprint above `threshold_bytes`, here 64 bytes:

        proc step                                   proc step
          x : f32[64]  in                             x : f32[64]  in
          y : f32[64]  out                            y : f32[64]  out
          for i_2 in 0..4:                            for i_2 in 0..4:
            vectorized for i_3 in 0..16:      ==>       vectorized for i_3 in 0..16:
              y[16*i_2+i_3] = exp(x[16*i_2+i_3])          nontemporal y[16*i_2+i_3] = exp(x[16*i_2+i_3])

    A non-temporal store bypasses the caches and does not read the line before it writes it. Arrays that the nest itself
    reads are excluded, since their lines are cached then, and so are results of at most `min_result_bytes`, which are
    still cached when later nests read them. Loops with more than `max_work` operations for each cell are excluded, too:
    memory does not limit them. So are temporaries that only hoisted loops access: `fuse_parallel_loops` is about to
    fuse these, and later nests of an iteration read their slices from a cache. So are stores that write parts of too
    many lines before they complete the first one, because the processor combines stores in a few buffers of one line.
    """
    min_result_bytes = machine.MIN_NONTEMPORAL_BYTES if min_result_bytes is None else min_result_bytes
    max_work = machine.MAX_STREAMED_WORK if max_work is None else max_work
    cached = _arrays_of_hoisted_loops(proc.body)
    body = tuple([_use_in_nest(stmt, threshold_bytes, min_result_bytes, max_work, cached) for stmt in proc.body])
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def has_large_footprint(stmt: Stmt, threshold_bytes: int) -> bool:
    """Whether the arrays that the statement accesses are larger than the threshold in total."""
    return sum(buf.nbytes for buf in {access.ref.buf for access in memory_accesses((stmt,))}) > threshold_bytes


def _arrays_of_hoisted_loops(body: Body) -> set[object]:
    """Returns the temporaries that hoisted loops read and no other nest accesses."""
    read: set[object] = set()
    other: set[object] = set()
    for stmt in body:
        for access in memory_accesses((stmt,)):
            key = alias_class(access.ref.buf)
            if not is_parallel_loop(stmt):
                other.add(key)
            elif not access.writes and access.ref.buf.space is MemorySpace.ARENA:
                read.add(key)
    return read - other


def _use_in_nest(
    stmt: Stmt, threshold_bytes: int, min_result_bytes: int, max_work: int, cached: Collection[object]
) -> Stmt:
    if not has_large_footprint(stmt, threshold_bytes):
        return stmt
    nest_accesses = memory_accesses((stmt,))
    read = {alias_class(access.ref.buf) for access in nest_accesses if not access.writes or access.op is not None}
    large = {access.ref.buf for access in nest_accesses if access.ref.buf.nbytes > min_result_bytes}
    results = {buf for buf in large if alias_class(buf) not in read and alias_class(buf) not in cached}
    return _mark_stores(stmt, results, max_work) if results else stmt


def _mark_stores(stmt: Stmt, results: set[Buf], max_work: int, loops: tuple[For, ...] = ()) -> Stmt:
    """Marks the aligned vector stores to the buffers in `results` as non-temporal; `loops` are those around the
    statement, outermost first."""
    match stmt:
        case For(mode=Mode.VECTORIZED, body=body) if not any(isinstance(inner, For) for inner in body):  # innermost
            work = sum(cost(inner.value).work for inner in body if isinstance(inner, Let | Store))
            if work > max_work:
                return stmt
            return replace(stmt, body=tuple([_mark_vector_store(inner, stmt, results, loops) for inner in body]))
        case For(body=body):
            return replace(stmt, body=_mark_body(body, results, max_work, (*loops, stmt)))
        case If(cond, on_true, on_false):
            bodies = (_mark_body(body, results, max_work, loops) for body in (on_true, on_false))
            return If(cond, *bodies)
        case _:
            return stmt


def _mark_body(body: Body, results: set[Buf], max_work: int, loops: tuple[For, ...]) -> Body:
    return tuple([_mark_stores(stmt, results, max_work, loops) for stmt in body])


def _mark_vector_store(stmt: Stmt, lanes: For, results: set[Buf], loops: tuple[For, ...]) -> Stmt:
    if isinstance(stmt, Store) and stmt.ref.buf in results and is_aligned(stmt.ref, lanes):
        return replace(stmt, nontemporal=_incomplete_lines(stmt.ref, lanes, loops) <= machine.MAX_INCOMPLETE_LINES)
    return stmt


def _incomplete_lines(ref: Ref, lanes: For, loops: tuple[For, ...]) -> int:
    """Returns the number of lines that are written in part before the first one is complete."""
    nbytes, lines = ref.buf.precision.nbytes, 1
    run = lanes.sym.extent * nbytes
    for around in reversed(loops):
        if run >= machine.LINE_BYTES:
            break
        distance, trips = abs(ref.stride(around.sym)) * around.step * nbytes, -(-around.sym.extent // around.step)
        if distance == run:
            run *= trips
        else:
            lines *= trips
    return lines
