"""Software prefetching of the next row of large arrays, and of the operands of tile epilogues."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from ocannl.ir.accesses import always_in_bounds, memory_accesses
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import (
    AccessMode,
    BindIndex,
    Body,
    Buf,
    For,
    If,
    Load,
    Local,
    MemorySpace,
    Mode,
    Prefetch,
    Proc,
    Ref,
    Stmt,
    Update,
    When,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import bound_names, same_objects
from ocannl.opt.analysis.substitution import substitute_statements
from ocannl.opt.memory.use_nontemporal_stores import has_large_footprint


def prefetch(proc: Proc, threshold_bytes: int, min_array_bytes: int) -> Proc:
    """Prefetches the next row of large arrays in loops that read a row repeatedly, except for the first of these loops,
    and the operands of a tile's epilogue before its reduction. In this example every array is large:

        proc step                         proc step
          x : f32[4,8]  in                  x : f32[4,8]  in
          y : f32[4,8]  out                 y : f32[4,8]  out
          z : f32[4,8]  out                 z : f32[4,8]  out
          for i in 0..4:                    for i in 0..4:
            vectorized for j in 0..8:         vectorized for j in 0..8:
              y[i, j] = x[i, j] * 2 ==>         y[i, j] = x[i, j] * 2
            vectorized for k in 0..8:         prefetch(distance=8) x[i, 0]
              z[i, k] = x[i, k] + 2           vectorized for k in 0..8:
                                                z[i, k] = x[i, k] + 2
    """
    body = tuple([
        _prefetch_next_rows(stmt, min_array_bytes) if has_large_footprint(stmt, threshold_bytes) else stmt
        for stmt in proc.body
    ])  # fmt: skip
    body = _EpiloguePrefetcher(Namer(bound_names(proc)), min_array_bytes).body(body)
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _prefetch_next_rows(stmt: Stmt, min_array_bytes: int) -> Stmt:
    """Adds prefetches to the innermost loops over rows that process every row in several loops."""
    match stmt:
        case For(mode=Mode.SERIAL, body=body):
            inner = tuple([_prefetch_next_rows(child, min_array_bytes) for child in body])
            if same_objects(inner, body) and sum(map(_takes_time, body)) > 1:
                rows = _RowPrefetcher(stmt, min_array_bytes)
                inner = rows.body(body) if rows.prefetches else body
            return stmt if same_objects(inner, body) else replace(stmt, body=inner)
        case _:
            return stmt


def _takes_time(stmt: Stmt) -> bool:
    """Whether the statement is a loop or a branch, except for loops over lanes and parts that only read local arrays,
    such as those that add up partial sums and store them: the processor itself prefetches the rows of a loop that reads
    one after the other."""
    if isinstance(stmt, For) and stmt.mode in (Mode.UNROLLED, Mode.VECTORIZED):
        accesses = memory_accesses((stmt,))
        return any(access.ref.buf.space is not MemorySpace.LOCAL and not access.writes for access in accesses)
    return isinstance(stmt, For | If)


class _RowPrefetcher:
    """Inserts prefetches of the next row into the body of a loop over rows."""

    def __init__(self, loop: For, min_array_bytes: int) -> None:
        self.sym, self.min_array_bytes = loop.sym, min_array_bytes
        readers: dict[Buf, list[For]] = {}
        for lanes in walk(loop.body):
            if isinstance(lanes, For) and lanes.mode is Mode.VECTORIZED:
                for buf in dict.fromkeys(ref.buf for ref in self.large_reads(lanes)):
                    readers.setdefault(buf, []).append(lanes)
        # a prefetch in the first reader would compete with its own cache misses
        self.prefetches = {(buf, id(lanes)) for buf, loops in readers.items() for lanes in loops[1:] or loops}

    def large_reads(self, lanes: For) -> list[Ref]:
        """Returns the vector reads of large arrays that advance by a row per iteration."""
        return [ref for ref in vector_reads(lanes) if self.is_large(ref)]

    def is_large(self, ref: Ref) -> bool:
        row_bytes = abs(ref.stride(self.sym)) * ref.buf.precision.nbytes
        is_large = ref.buf.access is AccessMode.IN and ref.buf.nbytes >= self.min_array_bytes
        return is_large and 0 < row_bytes <= machine.MAX_PREFETCHED_ROW_BYTES

    def body(self, body: Body) -> Body:
        result: list[Stmt] = []
        for stmt in body:
            match stmt:
                case For(mode=Mode.VECTORIZED):
                    reads = [ref for ref in self.large_reads(stmt) if (ref.buf, id(stmt)) in self.prefetches]
                    result += [Prefetch(first_cell(ref, stmt), ref.stride(self.sym)) for ref in reads]
                    result.append(stmt)
                case For():
                    result.append(replace(stmt, body=self.body(stmt.body)))
                case If(cond, on_true, on_false):
                    result.append(If(cond, self.body(on_true), self.body(on_false)))
                case _:
                    result.append(stmt)
        return tuple(result)


class _EpiloguePrefetcher:
    """Inserts prefetches of the operands of tile epilogues before the reduction loops, which hide the latency."""

    def __init__(self, names: Namer, min_array_bytes: int) -> None:
        self.names, self.min_array_bytes = names, min_array_bytes

    def body(self, body: Body) -> Body:
        result = tuple(map(self.statement, body))
        accumulators = {stmt.buf for stmt in body if isinstance(stmt, Local)}
        reductions = [position for position, stmt in enumerate(body) if is_reduction_loop(stmt, accumulators)]
        if reductions:
            first = next(position for position, stmt in enumerate(body) if isinstance(stmt, For))
            epilogue = body[reductions[-1] + 1 :]
            result = (*result[:first], *chain.from_iterable(map(self.prefetches, epilogue)), *result[first:])
        return body if same_objects(result, body) else result

    def statement(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(mode=Mode.SERIAL, body=body):
                inner = self.body(body)
                return stmt if inner is body else replace(stmt, body=inner)
            case If(cond, on_true, on_false):
                branches = self.body(on_true), self.body(on_false)
                return stmt if branches == (on_true, on_false) else If(cond, *branches)
            case _:
                return stmt

    def prefetches(self, stmt: Stmt) -> Body:
        """Returns the loops of the statement, around prefetches of the cache lines of large arrays that they read."""
        match stmt:
            case For(mode=Mode.VECTORIZED):
                cells = dict.fromkeys(first_cell(ref, stmt) for ref in vector_reads(stmt) if self.is_large(ref.buf))
                return tuple([Prefetch(ref, 0) for ref in cells])
            case For(sym, body=body):
                inner = tuple(chain.from_iterable(map(self.prefetches, body)))
                if not inner:
                    return ()
                new = Sym(self.names(sym.name), sym.lo, sym.hi)
                return (replace(stmt, sym=new, body=substitute_statements(inner, {sym: Affine.of(new)})),)
            case _:
                return ()

    def is_large(self, buf: Buf) -> bool:
        return buf.space is not MemorySpace.LOCAL and buf.nbytes >= self.min_array_bytes


def vector_reads(lanes: For) -> list[Ref]:
    """Returns the unit-stride reads of a vector loop whose addresses are in bounds and known before the loop."""
    nodes = list(walk(lanes.body))
    bound_syms = {node.sym for node in nodes if isinstance(node, BindIndex)}
    nested = [node for node in nodes if isinstance(node, For | If | When)]
    conditional = {node.ref for outer in nested for node in walk(outer) if isinstance(node, Load | Update)}
    refs = dict.fromkeys(node.ref for node in nodes if isinstance(node, Load | Update))
    direct = [ref for ref in refs if bound_syms.isdisjoint(ref.syms)]
    unit_stride = [ref for ref in direct if ref.stride(lanes.sym) == 1]
    return [ref for ref in unit_stride if ref not in conditional or always_in_bounds(ref)]


def first_cell(ref: Ref, lanes: For) -> Ref:
    """Returns the cell in the first iteration of the loop and of all loops inside it."""
    loops = (lanes, *(node for node in walk(lanes.body) if isinstance(node, For)))
    first = {loop.sym: Affine((), loop.sym.lo) for loop in loops}
    return ref.substitute(first)


def is_reduction_loop(stmt: Stmt, accumulators: set[Buf]) -> bool:
    """Whether the statement is a serial loop that updates one of the accumulators."""
    if not isinstance(stmt, For) or stmt.mode is not Mode.SERIAL:
        return False
    return any(access.is_update and access.ref.buf in accumulators for access in memory_accesses((stmt,)))
