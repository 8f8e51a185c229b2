"""Loop-invariant code motion: moves nests that compute the same array in every iteration before a sequential loop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ocannl.ir.free_symbols import free_symbols
from ocannl.ir.loops import AccessMode, BindIndex, Body, Buf, For, Proc, Stmt, region_body
from ocannl.opt.analysis.nests import accessed_buffers


def hoist_invariant_nests(proc: Proc) -> Proc:
    """Moves nests such as packing copies of weights out of sequential loops:

        proc step                             proc step
          w : f32[5]    in                      w : f32[5]    in
          v : f32[5]    arena                   v : f32[5]    arena
          x : f32[3,5]  inout                   x : f32[3,5]  inout
          sequential for t in 0..3:             for i in 0..5:
            for i in 0..5:              ==>       v[i] = exp(w[i])
              v[i] = exp(w[i])                  sequential for t in 0..3:
            for j in 0..5:                        for j in 0..5:
              x[t, j] = v[j] * x[t, j]              x[t, j] = v[j] * x[t, j]

    A nest is moved if it depends neither on the iteration nor on an array that the loop writes, and if it alone writes
    its results, which are temporaries.
    """
    if all(region_body(stmt) is None for stmt in proc.body):
        return proc
    return replace(proc, body=_hoisted(proc.body, set()))


def _hoisted(body: Body, outside: set[Buf]) -> Body:
    """Hoists nests out of the loops in a body; `outside` are the buffers accessed by code around it."""
    access = [set(_accessed((stmt,))) for stmt in body]
    out: list[Stmt] = []
    for number, stmt in enumerate(body):
        elsewhere = outside.union(*(bufs for n, bufs in enumerate(access) if n != number))
        match stmt:
            case For(body=inner) if region_body(stmt) is not None:
                inner = _hoisted(inner, elsewhere)
                moved = _invariant(stmt, inner, elsewhere) if stmt.sym.extent else []
                out += moved
                out.append(replace(stmt, body=tuple([child for child in inner if child not in moved])))
            case BindIndex(body=inner) if region_body(stmt) is not None:
                out.append(replace(stmt, body=_hoisted(inner, elsewhere)))
            case _:
                out.append(stmt)
    return tuple(out)


def _accessed(body: Iterable[Stmt]) -> Iterable[Buf]:
    return (buf for stmt in body for bufs in accessed_buffers(stmt) for buf in bufs)


def _invariant(loop: For, body: Body, elsewhere: set[Buf]) -> list[Stmt]:
    """Returns the statements that can be executed before the loop."""
    access = [accessed_buffers(stmt) for stmt in body]
    writers: dict[Buf, int] = {}
    for _, written in access:
        for buf in written:
            writers[buf] = writers.get(buf, 0) + 1
    moved: list[Stmt] = []
    constant: set[Buf] = set()  # written by moved statements
    seen: set[Buf] = set()  # read before
    for stmt, (read, written) in zip(body, access, strict=True):
        seen.update(read)
        if region_body(stmt) is not None or not written or loop.sym in free_symbols(stmt):
            continue
        private = {buf for buf in written if buf.access is AccessMode.TEMP and writers[buf] == 1} - elsewhere - seen
        if private == set(written) and all(buf not in writers or buf in constant for buf in read):
            moved.append(stmt)
            constant.update(written)
    return moved
