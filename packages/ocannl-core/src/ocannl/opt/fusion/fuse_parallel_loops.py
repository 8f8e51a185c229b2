"""Lets nests share the loop that `hoist_parallel_loop` has put outside: threads meet once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ocannl.ir.index import Affine
from ocannl.ir.loops import Body, Buf, Expr, For, MemorySpace, Load, Local, Proc, Ref, Stmt, Store, loop
from ocannl.ir.names import Namer
from ocannl.ir.stack import MAX_LOCAL_BYTES
from ocannl.ir.accesses import storage, touches
from ocannl.ir.walk import walk
from ocannl.opt.analysis.loop_distribution import AccessSummary, partition_for_shared_loop, strides_without_axis
from ocannl.opt.analysis.nests import is_parallel_loop, bound_names
from ocannl.opt.analysis.substitution import map_statements, substitute_statements
from ocannl.opt.memory.allocate import fitting


def fuse_parallel_loops(proc: Proc) -> Proc:
    """Merges loops that `hoist_parallel_loop` has put outside, as many as can be:

        proc step                               proc step
          x : f32[16,64]  in                      x : f32[16,64]  in
          h : f32[16,64]  arena                   y : f32[16,64]  out
          y : f32[16,64]  out                     for b in 0..16:
          for b in 0..16 claimed by 1:              local h_2: f32[64] reg
            for i in 0..64:                         for i in 0..64:
              h[b, i] = exp(x[b, i])      ==>         h_2[i] = exp(x[b, i])
          for b_2 in 0..16 claimed by 1:            for j in 0..64:
            for j in 0..64:                           y[b, j] = h_2[-j+63] * 2
              y[b_2, j] = h[b_2, -j+63] * 2

    What one nest hands to the next is still in a cache of the core then, and needs no more memory than one iteration
    does. Statements that stand between them go before or after.
    """
    if not any(map(is_parallel_loop, proc.body)):
        return proc
    return _with_locals(replace(proc, body=tuple(_merged(list(proc.body)))))


def _merged(body: list[Stmt]) -> list[Stmt]:
    """The statements with one loop for as many claimed loops as can share it, and then the same of those that come
    after it. The loop has the symbol of the first one that it holds: those that cannot share it keep theirs, as they
    stand before or after it."""
    turns = [stmt for stmt in body if isinstance(stmt, For) and stmt.parallel_chunk]
    if len(turns) < 2:
        return body
    sym = turns[0].sym
    same = {turn.sym for turn in turns if (turn.sym.lo, turn.sym.hi) == (sym.lo, sym.hi)}
    heads = [stmt.sym if isinstance(stmt, For) and stmt.sym in same else None for stmt in body]
    found = partition_for_shared_loop([AccessSummary(touches((stmt,))) for stmt in body], heads)
    members = [stmt for at in found.inside if isinstance(stmt := body[at], For)]
    if not members:
        return body
    first = members[0]
    inner: list[Stmt] = []
    for stmt in members:
        inner += substitute_statements(stmt.body, {stmt.sym: Affine.of(first.sym)})
    before, after = ([body[at] for at in places] for places in (found.before, found.after))
    return [*before, loop(first.sym, tuple(inner), first.origin), *_merged(after)]


def _with_locals(proc: Proc) -> Proc:
    """The program where arrays that only one loop touches, by iterations, are local to it, as far as the stack has
    room for them."""
    names = Namer(bound_names(proc))
    body = list(proc.body)
    found = [touches((stmt,)) for stmt in body]
    users: dict[object, set[int]] = {}
    for at, mine in enumerate(found):
        for touch in mine:
            users.setdefault(storage(touch.ref.buf), set()).add(at)
    gone: set[Buf] = set()
    for at, stmt in enumerate(body):
        if not isinstance(stmt, For) or stmt.parallel_chunk or len(stmt.body) < 2:
            continue
        streamed = {node.ref.buf for node in walk(stmt.body) if isinstance(node, Store) and node.nontemporal}
        own = [
            (buf, min(axes)) for key, (buf, axes) in AccessSummary(found[at], stmt.sym).axes.items()
            if axes and buf.space is MemorySpace.ARENA and users[key] == {at} and buf not in streamed
        ]  # fmt: skip
        small = {buf: (_without(buf, axis, names), axis) for buf, axis in own}
        near = fitting({buf: local.nbytes for buf, (local, _) in small.items()}, stmt.body, MAX_LOCAL_BYTES)
        small = {buf: local for buf, local in small.items() if buf in near}
        inner = _at_locals(stmt.body, small)
        gone |= near
        body[at] = replace(stmt, body=(*(Local(local) for local, _ in small.values()), *inner))
    return replace(proc, body=tuple(body), bufs=tuple([buf for buf in proc.bufs if buf not in gone]))


def _without(buf: Buf, axis: int, names: Namer) -> Buf:
    steps = strides_without_axis(buf, axis)
    shape, strides = ((*of[:axis], *of[axis + 1 :]) for of in (buf.shape, steps))
    return replace(buf, name=names(buf.name), shape=shape, strides=strides, space=MemorySpace.LOCAL, node=None)


def _at_locals(body: Body, small: Mapping[Buf, tuple[Buf, int]]) -> Body:
    def cell(ref: Ref) -> Ref:
        if ref.buf not in small:
            return ref
        local, axis = small[ref.buf]
        return Ref(local, (*ref.indices[:axis], *ref.indices[axis + 1 :]))

    def leaf(expr: Expr) -> Expr:
        return Load(cell(expr.ref)) if isinstance(expr, Load) and expr.ref.buf in small else expr

    return map_statements(body, cell, leaf)
