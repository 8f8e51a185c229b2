"""Removes what nobody will see."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.loops import Body, Buf, Comment, For, Home, If, Load, Proc, Stmt, Store
from ocannl.opt.nest import covers, nest_of, same, touched, writes_kept


def sweep(proc: Proc) -> Proc:
    """Drops writes that are never read or are overwritten first, loops that never turn, and buffers that are left over.

        proc step                           proc step
          x : f32[5]  in                      x : f32[5]  in
          t : f32[5]  arena                   y : f32[5]  out
          y : f32[5]  out                     for i_2 in 0..5:
          for i in 0..5:              ==>       y[i_2] = x[i_2] * 2
            t[i] = x[i] + 1
          for i_2 in 0..5:
            y[i_2] = x[i_2] * 2

    A comment goes with the code under it.
    """
    live: set[Buf] = {b for b in proc.bufs if b.home is Home.POOL}
    kept: list[Stmt] = []
    under, dropped = 0, 0  # statements below the nearest comment
    for stmt in reversed(proc.body):
        if isinstance(stmt, Comment):
            if under or not dropped:
                kept.append(stmt)
            under = dropped = 0
            continue
        trimmed = _trim(stmt) or (stmt if writes_kept(stmt) else None)
        if trimmed is None or not _is_seen(trimmed, live):
            dropped += 1
            continue
        under += 1
        kept.append(trimmed)
    body = tuple(reversed(kept))
    return replace(proc, bufs=_used(proc.bufs, body), body=body)


def _is_seen(stmt: Stmt, live: set[Buf]) -> bool:
    """Whether a later statement or the caller sees what `stmt` writes; `live` goes from after it to before it."""
    read, written = touched(stmt)
    if written and not any(buf in live for buf in written):
        return False
    nest = nest_of(stmt)
    if nest is not None and isinstance(nest.leaf, Store) and covers(nest):
        live.discard(nest.leaf.ref.buf)
    live.update(read)
    return True


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
        case Store(ref, Load(source)) if ref == source:
            return None
        case _:
            return stmt


def _trim_body(body: Body) -> Body:
    out = tuple([s for s in map(_trim, body) if s is not None])
    return body if same(out, body) else out


def _used(bufs: tuple[Buf, ...], body: Body) -> tuple[Buf, ...]:
    """The buffers that the body touches."""
    used: set[Buf] = set()
    for stmt in body:
        for group in touched(stmt):
            used.update(group)
    return tuple([b for b in bufs if b in used])
