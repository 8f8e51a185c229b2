"""Removes what nobody will see."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.loops import Body, Buf, Comment, For, Home, If, Load, Pick, Proc, Stmt, Store
from ocannl.opt.exact import number
from ocannl.opt.nest import covers, nest_of, same, touched, with_leaf


def sweep(proc: Proc) -> Proc:
    """Drops writes that are never read or are overwritten first, loops that never turn, and buffers that are left over.

        proc step                       proc step
          x : f32[5]  in                  x : f32[5]  in
          t : f32[5]  arena               y : f32[5]  out
          y : f32[5]  out                 for i_2 in 0..5:
          for i in 0..5:          ==>       y[i_2] = x[i_2] * 2
            t[i] = x[i] + 1
          for i_2 in 0..5:
            y[i_2] = x[i_2] * 2

    A comment goes with the code under it.
    """
    touching = [touched(stmt) for stmt in proc.body]
    first: dict[Buf, int] = {}  # who writes it first
    for at, (_, written) in enumerate(touching):
        for buf in written:
            first.setdefault(buf, at)
    live: set[Buf] = {b for b in proc.bufs if b.home is Home.POOL}
    used: set[Buf] = set()
    kept: list[Stmt] = []
    under, dropped = 0, 0  # statements below the nearest comment
    for at in range(len(proc.body) - 1, -1, -1):
        stmt = proc.body[at]
        if isinstance(stmt, Comment):
            if under or not dropped:
                kept.append(stmt)
            under = dropped = 0
            continue
        read, written = touching[at]
        is_seen = not written or any(buf in live for buf in written)
        trimmed = _trim(stmt) if is_seen else None
        if trimmed is None and is_seen and any(first[buf] == at for buf in written):
            trimmed, read = _hollow(stmt, read)
        if trimmed is None:
            dropped += 1
            continue
        under += 1
        kept.append(trimmed)
        used.update(read, written)
        nest = nest_of(trimmed)
        if nest is not None and isinstance(nest.leaf, Store) and covers(nest):
            live.discard(nest.leaf.ref.buf)
        live.update(read)
    body = tuple(reversed(kept))
    bufs = tuple([buf for buf in proc.bufs if buf in used])
    return replace(proc, bufs=bufs, body=proc.body if same(body, proc.body) else body)


def _trim(stmt: Stmt) -> Stmt | None:
    """The statement without loops that never turn and guards around nothing; None when nothing is left."""
    match stmt:
        case For(sym, lo, hi, body, step, origin):
            first, last = lo.constant, hi.constant
            if sym.extent == 0 or (first is not None and last is not None and last < first):
                return None
            inner = _trim_body(body)
            if not inner:
                return None
            return stmt if inner is body else For(sym, lo, hi, inner, step, origin)
        case If(cond, then, orelse):
            a, b = _trim_body(then), _trim_body(orelse)
            if not a and not b:
                return None
            return stmt if a is then and b is orelse else If(cond, a, b)
        case Pick(sym, value, body):
            inner = _trim_body(body)
            if not inner or sym.extent == 0:
                return None
            return stmt if inner is body else Pick(sym, value, inner)
        case Store(ref, Load(source)) if ref == source:
            return None
        case _:
            return stmt


def _trim_body(body: Body) -> Body:
    out = tuple([s for s in map(_trim, body) if s is not None])
    return body if same(out, body) else out


def _hollow(stmt: Stmt, read: list[Buf]) -> tuple[Stmt, list[Buf]]:
    """The first write of a buffer, in which nothing happens, and what it reads: if it never turns, no more than a mark
    that the buffer is written."""
    nest = nest_of(stmt)
    if nest is None or all(loop.sym.extent for loop in nest.loops):
        return stmt, read
    return with_leaf(stmt, replace(nest.leaf, value=number(0, nest.leaf.ref.buf.precision))), []
