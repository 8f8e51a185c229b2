"""Dead-code elimination: removes stores that are never read, empty loops and unused buffers."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.loops import BindIndex, Body, Buf, Comment, For, If, Load, MemorySpace, Proc, Stmt, Store
from ocannl.opt.analysis.constant_folding import make_const
from ocannl.opt.analysis.nests import accessed_buffers, covers_buffer, nest_of, same_objects, with_leaf


def eliminate_dead_code(proc: Proc) -> Proc:
    """Eliminates stores that are never read or are overwritten first, loops without iterations, and unused buffers.

        proc step                       proc step
          x : f32[5]  in                  x : f32[5]  in
          t : f32[5]  arena               y : f32[5]  out
          y : f32[5]  out                 for i_2 in 0..5:
          for i in 0..5:          ==>       y[i_2] = x[i_2] * 2
            t[i] = x[i] + 1
          for i_2 in 0..5:
            y[i_2] = x[i_2] * 2

    A comment is removed together with all statements under it.
    """
    accesses = [accessed_buffers(stmt) for stmt in proc.body]
    first_writes: dict[Buf, int] = {}
    for position, (_, written) in enumerate(accesses):
        for buf in written:
            first_writes.setdefault(buf, position)
    live: set[Buf] = {b for b in proc.bufs if b.space is MemorySpace.GLOBAL}
    used: set[Buf] = set()
    kept: list[Stmt] = []
    kept_below, removed_below = 0, 0  # statements under the nearest comment
    for position in range(len(proc.body) - 1, -1, -1):
        stmt = proc.body[position]
        if isinstance(stmt, Comment):
            if kept_below or not removed_below:
                kept.append(stmt)
            kept_below = removed_below = 0
            continue
        read, written = accesses[position]
        is_live = not written or any(buf in live for buf in written)
        trimmed = _trim(stmt) if is_live else None
        if trimmed is None and is_live and any(first_writes[buf] == position for buf in written):
            trimmed, read = _keep_as_marker(stmt, read)
        if trimmed is None:
            removed_below += 1
            continue
        kept_below += 1
        kept.append(trimmed)
        used.update(read, written)
        nest = nest_of(trimmed)
        if nest is not None and isinstance(nest.leaf, Store) and covers_buffer(nest):
            live.discard(nest.leaf.ref.buf)
        live.update(read)
    body = tuple(reversed(kept))
    bufs = tuple([buf for buf in proc.bufs if buf in used])
    return replace(proc, bufs=bufs, body=proc.body if same_objects(body, proc.body) else body)


def _trim(stmt: Stmt) -> Stmt | None:
    """Removes empty loops, guards without statements and self-assignments; returns None if nothing remains."""
    match stmt:
        case For(sym, lo, hi, body, step, origin):
            first, last = lo.constant, hi.constant
            if sym.extent == 0 or (first is not None and last is not None and last < first):
                return None
            inner = _trim_body(body)
            if not inner:
                return None
            return stmt if inner is body else For(sym, lo, hi, inner, step, origin)
        case If(cond, on_true, on_false):
            a, b = _trim_body(on_true), _trim_body(on_false)
            if not a and not b:
                return None
            return stmt if a is on_true and b is on_false else If(cond, a, b)
        case BindIndex(sym, value, body):
            inner = _trim_body(body)
            if not inner or sym.extent == 0:
                return None
            return stmt if inner is body else BindIndex(sym, value, inner)
        case Store(ref, Load(source)) if ref == source:
            return None
        case _:
            return stmt


def _trim_body(body: Body) -> Body:
    out = tuple([s for s in map(_trim, body) if s is not None])
    return body if same_objects(out, body) else out


def _keep_as_marker(stmt: Stmt, read: tuple[Buf, ...]) -> tuple[Stmt, tuple[Buf, ...]]:
    """Returns the first write of a buffer, which has no effect but marks the buffer as written, and the buffers it
    reads; a nest without iterations stores a constant instead."""
    nest = nest_of(stmt)
    if nest is None or all(loop.sym.extent for loop in nest.loops):
        return stmt, read
    return with_leaf(stmt, replace(nest.leaf, value=make_const(0, nest.leaf.ref.buf.precision))), ()
