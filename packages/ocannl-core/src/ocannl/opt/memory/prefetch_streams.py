"""Software prefetching of arrays that come from memory and are read once, in order, by sums and scatters of rows."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import AccessMode, BindIndex, Body, For, If, Local, Mode, Prefetch, Proc, Ref, Stmt
from ocannl.ir.walk import walk
from ocannl.opt.analysis.nests import same_objects
from ocannl.opt.memory.prefetch import first_cell, is_reduction_loop, vector_reads


def prefetch_streams(proc: Proc, cpu: Cpu) -> Proc:
    """Prefetches arrays that exceed the last-level cache in the loops that read them once, which are reductions
    or below an index from memory. In this example, the cache holds 128 bytes, and memory delivers 32 bytes during its
    latency:

        proc step                          proc step
          x : f32[4,16]  in                  x : f32[4,16]  in
          y : f32[4]     out                 y : f32[4]     out
          for i in 0..4:                     for i in 0..4:
            local acc: f32                     local acc: f32
            acc = 0                            acc = 0
            for j in 0..4:             ==>     for j in 0..4:
              vectorized for k in 0..4:          prefetch(level=2, distance=8) x[i, 4*j]
                acc += x[i, 4*j+k]               vectorized for k in 0..4:
            y[i] = acc                             acc += x[i, 4*j+k]
                                               y[i] = acc

    Lines are fetched to the private cache: prefetchers of processors stop at the ends of pages, and those that fetch to
    the first-level cache do not run far enough ahead to cover the latency of memory.
    """
    streams = _StreamPrefetcher(cpu)
    body = tuple([_replaced(stmt, streams) for stmt in proc.body])
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _replaced(stmt: Stmt, streams: _StreamPrefetcher) -> Stmt:
    is_prefetched = any(isinstance(node, Prefetch) for node in walk((stmt,)))
    return stmt if is_prefetched else streams.body((stmt,), ())[0]


class _StreamPrefetcher:
    """Inserts prefetches into reduction loops; `outer` are the loops around a statement."""

    def __init__(self, cpu: Cpu) -> None:
        self.min_bytes = cpu.l3.size_bytes + 1
        self.bytes_ahead = cpu.memory_latency_cycles * cpu.memory_bytes_per_cycle

    def body(self, body: Body, outer: tuple[For, ...]) -> Body:
        accumulators = {stmt.buf for stmt in body if isinstance(stmt, Local)}
        result: list[Stmt] = []
        for stmt in body:
            match stmt:
                case For() if is_reduction_loop(stmt, accumulators):
                    result.append(replace(stmt, body=self.terms(stmt.body, (*outer, stmt))))
                case For(mode=Mode.SERIAL):
                    result.append(replace(stmt, body=self.body(stmt.body, (*outer, stmt))))
                case BindIndex(body=terms):  # of a scatter, for example, which adds rows to those of a table
                    result.append(replace(stmt, body=self.terms(terms, outer)))
                case If(cond, on_true, on_false):
                    result.append(If(cond, self.body(on_true, outer), self.body(on_false, outer)))
                case _:
                    result.append(stmt)
        return body if tuple(result) == body else tuple(result)

    def terms(self, body: Body, outer: tuple[For, ...]) -> Body:
        """Inserts prefetches before the vectors that the innermost serial loop of `outer` reads."""
        result: list[Stmt] = []
        for stmt in body:
            match stmt:
                case For(mode=Mode.VECTORIZED):
                    streams = [ref for ref in vector_reads(stmt) if self.is_stream(ref, outer)]
                    result += [Prefetch(first_cell(ref, stmt), self.distance(ref, outer[-1]), 2) for ref in streams]
                    result.append(stmt)
                case For(mode=Mode.SERIAL):
                    result.append(replace(stmt, body=self.terms(stmt.body, (*outer, stmt))))
                case For():
                    result.append(replace(stmt, body=self.terms(stmt.body, outer)))
                case If(cond, on_true, on_false):
                    result.append(If(cond, self.terms(on_true, outer), self.terms(on_false, outer)))
                case _:
                    result.append(stmt)
        return tuple(result)

    def is_stream(self, ref: Ref, outer: tuple[For, ...]) -> bool:
        """Whether the loops read each cell once, of an array in memory, and lines that the innermost one reads follow
        those of its previous iteration."""
        is_large = ref.buf.access in (AccessMode.IN, AccessMode.CONST) and ref.buf.nbytes >= self.min_bytes
        steps = [ref.stride(loop.sym) for loop in outer]
        is_read_in_order = bool(steps) and all(steps) and 0 < steps[-1] * ref.buf.precision.nbytes <= self.bytes_ahead
        return is_large and is_read_in_order

    def distance(self, ref: Ref, loop: For) -> int:
        """Returns the elements that whole iterations read while the first of them arrives."""
        step = ref.stride(loop.sym)
        return -(-self.bytes_ahead // (step * ref.buf.precision.nbytes)) * step
