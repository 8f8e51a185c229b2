"""Privatizes copies that all threads of a parallel loop read (array privatization, Tu and Padua 1993)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import TRUE, Sym
from ocannl.ir.free_symbols import mentioned_symbols
from ocannl.ir.loops import (
    AccessMode,
    BindIndex,
    Body,
    Buf,
    Cast,
    Expr,
    For,
    If,
    Load,
    Local,
    MemorySpace,
    Proc,
    Stmt,
    Store,
    region_body,
)
from ocannl.ir.private_scope import fills_same_cells, padded_bytes
from ocannl.ir.walk import walk
from ocannl.opt.analysis.nests import accessed_buffers, is_parallel_loop, leaves, loads
from ocannl.opt.analysis.substitution import with_buffers


def privatize_copies(proc: Proc, max_bytes: int) -> Proc:
    """Lets each thread of a parallel loop make its own copies of operands, up to `max_bytes`:

        proc step                                   proc step
          w : f32[3,2]  in                            w : f32[3,2]  in
          t : f32[2,3]  arena                         x : f32[8,3]  in
          x : f32[8,3]  in                            y : f32[8,2]  inout
          y : f32[8,2]  inout                         scope:
          for i in 0..2:                                private t: f32[2,3]
            for j in 0..3:                              for i in 0..2:
              t[i, j] = w[j, i]               ==>         for j in 0..3:
          parallel(chunk=1) for b in 0..8:                  t[i, j] = w[j, i]
            for o in 0..2:                              parallel(chunk=1) for b in 0..8:
              for k in 0..3:                              for o in 0..2:
                y[b, o] += x[b, k] * t[o, k]                for k in 0..3:
                                                              y[b, o] += x[b, k] * t[o, k]

    The lines of a shared copy move between cores twice: when other threads read them, and when the next call of the
    routine writes them again. To copy them several times takes less time, as long as they stay in the private caches:
    up to some size, each thread copies whole operands, however many threads there are. A copy of which each iteration
    reads a part of its own remains shared.
    """
    body, private = _privatize(proc.body, frozenset(), max_bytes)
    if not private:
        return proc
    return replace(proc, body=body, bufs=tuple([buf for buf in proc.bufs if buf not in private]))


def _buffers(stmt: Stmt) -> dict[Buf, None]:
    """Returns the buffers that the statement accesses, in order of first access."""
    read, written = accessed_buffers(stmt)
    return dict.fromkeys((*read, *written))


def _privatize(body: Body, outside: frozenset[object], max_bytes: int) -> tuple[Body, set[Buf]]:
    """Privatizes copies in a body and its regions; statements elsewhere access the arrays `outside`. Returns the new
    body, and the arrays that are private now."""
    accessors = Counter(alias_class(buf) for stmt in body for buf in _buffers(stmt))
    shared = outside.union(array for array, count in accessors.items() if count > 1)
    private: set[Buf] = set()
    stmts: list[Stmt] = []
    for stmt in body:
        inner = region_body(stmt)
        if inner is not None:
            assert isinstance(stmt, For | BindIndex)
            condition = loads(stmt.value) if isinstance(stmt, BindIndex) else ()
            new, inner_private = _privatize(inner, shared.union(alias_class(ref.buf) for ref in condition), max_bytes)
            stmt, private = replace(stmt, body=new) if inner_private else stmt, private | inner_private
        stmts.append(stmt)
    copies: dict[int, list[int]] = {}  # positions of copies by that of their loop
    private_bytes: Counter[int] = Counter()
    private_bufs: dict[Buf, Buf] = {}
    for buf, positions in _copied_arrays(stmts, accessors, outside).items():
        *writers, reader = positions
        if private_bytes[reader] + padded_bytes(buf) <= max_bytes:
            private_bytes[reader] += padded_bytes(buf)
            copies.setdefault(reader, []).extend(writers)
            private_bufs[buf] = replace(buf, space=MemorySpace.PRIVATE)
    if not private_bufs:
        return tuple(stmts), private
    moved = {position for positions in copies.values() for position in positions}
    new_body: list[Stmt] = []
    for position, stmt in enumerate(stmts):
        if position in copies:
            parts = with_buffers((*(_as_serial(stmts[n]) for n in sorted(copies[position])), stmt), private_bufs)
            read = _buffers(stmt)
            declared = [Local(private_buf) for buf, private_buf in private_bufs.items() if buf in read]
            new_body.append(If(TRUE, (*declared, *parts)))
        elif position not in moved:
            new_body.append(stmt)
    return tuple(new_body), private | private_bufs.keys()


def _copied_arrays(
    body: Sequence[Stmt], accessors: Mapping[object, int], outside: frozenset[object]
) -> dict[Buf, list[int]]:
    """Returns the copies that the threads of one parallel loop share, with the positions of the statements that fill
    them, and of the loop. `accessors` counts the statements that access each array."""
    positions: dict[Buf, list[int]] = {}
    for position, stmt in enumerate(body):
        for buf in _buffers(stmt):
            positions.setdefault(buf, []).append(position)

    def is_private(buf: Buf, writers: Sequence[int], reader: int) -> bool:
        array, loop = alias_class(buf), body[reader]
        if buf.space is not MemorySpace.ARENA or buf.access is not AccessMode.TEMP or array in outside:
            return False
        if not writers or accessors[array] != len(writers) + 1 or not is_parallel_loop(loop):
            return False
        if buf in accessed_buffers(loop)[1] or not all(_copies(body[n], buf) for n in writers):
            return False
        sources = {alias_class(source) for n in writers for source in accessed_buffers(body[n])[0]}
        between = body[writers[0] : reader + 1]
        changed = {alias_class(target) for stmt in between for target in accessed_buffers(stmt)[1]}
        return sources.isdisjoint(changed) and not _reads_part(loop, buf)

    copied = {buf: at for buf, at in positions.items() if is_private(buf, at[:-1], at[-1])}
    moved = {position for at in copied.values() for position in at[:-1]}
    return {buf: at for buf, at in copied.items() if at[-1] not in moved}  # a copy of a copy moves alone


def _copies(stmt: Stmt, target: Buf) -> bool:
    """Whether the statement only copies another array to `target`, always to the same cells."""
    is_nest = isinstance(stmt, For) and region_body(stmt) is None
    return is_nest and fills_same_cells(stmt) and all(
        isinstance(leaf, Store) and leaf.ref.buf is target and _is_copied_value(leaf.value) and not leaf.nontemporal
        for leaf in leaves((stmt,))
    )


def _is_copied_value(value: Expr) -> bool:
    return isinstance(value.value if isinstance(value, Cast) else value, Load)


def _reads_part(loop: Stmt, buf: Buf) -> bool:
    """Whether the cells of the buffer that the loop reads depend on its iteration."""
    assert isinstance(loop, For)
    varying: set[Sym] = {loop.sym}
    for node in walk(loop.body):
        match node:
            case BindIndex(sym):
                varying.add(sym)
            case For(sym) if varying.intersection(mentioned_symbols(node)):
                varying.add(sym)
            case Load(ref) if ref.buf is buf and varying.intersection(ref.syms):
                return True
            case _:
                pass
    return False


def _as_serial(stmt: Stmt) -> Stmt:
    return replace(stmt, parallel_chunk=0) if isinstance(stmt, For) and stmt.parallel_chunk else stmt
