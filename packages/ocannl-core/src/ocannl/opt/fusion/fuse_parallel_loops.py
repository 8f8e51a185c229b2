"""Fuses hoisted parallel loops into one parallel region (loop fusion), so that threads synchronize once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ocannl.ir.accesses import alias_class, memory_accesses
from ocannl.ir.affine import Affine
from ocannl.ir.loops import Body, Buf, Expr, For, Load, Local, MemorySpace, Proc, Ref, Stmt, Store, loop
from ocannl.ir.name_mangling import Namer
from ocannl.ir.stack_size import MAX_LOCAL_BYTES
from ocannl.ir.walk import walk
from ocannl.opt.analysis.loop_distribution import AccessSummary, partition_for_shared_loop, strides_without_axis
from ocannl.opt.analysis.nests import bound_names, is_parallel_loop
from ocannl.opt.analysis.substitution import map_statements, substitute_statements
from ocannl.opt.memory.allocate_memory import fitting_buffers


def fuse_parallel_loops(proc: Proc) -> Proc:
    """Fuses as many of the loops that `hoist_parallel_loop` has hoisted as dependences allow:

        proc step                                proc step
          x : f32[16,64]  in                       x : f32[16,64]  in
          h : f32[16,64]  arena                    y : f32[16,64]  out
          y : f32[16,64]  out                      for b in 0..16:
          parallel(chunk=1) for b in 0..16:          local h_2: f32[64]
            for i in 0..64:                          for i in 0..64:
              h[b, i] = exp(x[b, i])       ==>         h_2[i] = exp(x[b, i])
          parallel(chunk=1) for b_2 in 0..16:        for j in 0..64:
            for j in 0..64:                            y[b, j] = h_2[-j+63] * 2
              y[b_2, j] = h[b_2, -j+63] * 2

    Intermediate arrays stay in the cache of a core, and shrink to one iteration (array contraction). Statements between
    the loops move before or after the fused loop.
    """
    if not any(map(is_parallel_loop, proc.body)):
        return proc
    summaries = [AccessSummary(memory_accesses((stmt,))) for stmt in proc.body]
    return _contract_arrays(replace(proc, body=tuple(_merge_loops(list(proc.body), summaries))))


def _merge_loops(body: list[Stmt], summaries: list[AccessSummary]) -> list[Stmt]:
    """Fuses as many parallel loops as possible into one, then continues with the statements after it. The fused loop
    takes the symbol of its first member; loops that cannot be fused are unchanged and stand before or after it."""
    parallel_loops = [stmt for stmt in body if isinstance(stmt, For) and stmt.parallel_chunk]
    if len(parallel_loops) < 2:
        return body
    sym = parallel_loops[0].sym
    syms = [parallel_loop.sym for parallel_loop in parallel_loops]
    equal_range = {candidate for candidate in syms if (candidate.lo, candidate.hi) == (sym.lo, sym.hi)}
    loop_symbols = [stmt.sym if isinstance(stmt, For) and stmt.sym in equal_range else None for stmt in body]
    partition = partition_for_shared_loop(summaries, loop_symbols)
    members = [stmt for position in partition.inside if isinstance(stmt := body[position], For)]
    if not members:
        return body
    first = members[0]
    inner: list[Stmt] = []
    for stmt in members:
        inner += substitute_statements(stmt.body, {stmt.sym: Affine.of(first.sym)})
    before, after = ([body[position] for position in positions] for positions in (partition.before, partition.after))
    merged = loop(first.sym, tuple(inner), first.origin)
    return [*before, merged, *_merge_loops(after, [summaries[position] for position in partition.after])]


def _contract_arrays(proc: Proc) -> Proc:
    """Array contraction: arrays that only one loop accesses, one slice per iteration, become local to the loop if they
    fit on the stack."""
    names = Namer(bound_names(proc))
    body = list(proc.body)
    accesses = [memory_accesses((stmt,)) for stmt in body]
    users: dict[object, set[int]] = {}
    for position, stmt_accesses in enumerate(accesses):
        for access in stmt_accesses:
            users.setdefault(alias_class(access.ref.buf), set()).add(position)
    contracted: set[Buf] = set()
    for position, stmt in enumerate(body):
        if not isinstance(stmt, For) or stmt.parallel_chunk or len(stmt.body) < 2:
            continue
        private = [
            (buf, min(axes)) for key, (buf, axes) in AccessSummary(accesses[position], stmt.sym).axes.items()
            if axes and buf.space is MemorySpace.ARENA and users[key] == {position}
        ]  # fmt: skip
        if not private:
            continue
        nontemporal = {node.ref.buf for node in walk(stmt.body) if isinstance(node, Store) and node.nontemporal}
        private = [(buf, axis) for buf, axis in private if buf not in nontemporal]
        local_bufs = {buf: (_contracted_buffer(buf, axis, names), axis) for buf, axis in private}
        fitting_bufs = fitting_buffers(
            {buf: local.nbytes for buf, (local, _) in local_bufs.items()}, stmt.body, MAX_LOCAL_BYTES
        )
        local_bufs = {buf: local for buf, local in local_bufs.items() if buf in fitting_bufs}
        inner = _redirect_accesses(stmt.body, local_bufs)
        contracted |= fitting_bufs
        body[position] = replace(stmt, body=(*(Local(local) for local, _ in local_bufs.values()), *inner))
    return replace(proc, body=tuple(body), bufs=tuple([buf for buf in proc.bufs if buf not in contracted]))


def _contracted_buffer(buf: Buf, axis: int, names: Namer) -> Buf:
    contracted = strides_without_axis(buf, axis)
    shape, strides = ((*dims[:axis], *dims[axis + 1 :]) for dims in (buf.shape, contracted))
    return replace(buf, name=names(buf.name), shape=shape, strides=strides, space=MemorySpace.LOCAL, node=None)


def _redirect_accesses(body: Body, local_bufs: Mapping[Buf, tuple[Buf, int]]) -> Body:
    def cell(ref: Ref) -> Ref:
        if ref.buf not in local_bufs:
            return ref
        local, axis = local_bufs[ref.buf]
        return Ref(local, (*ref.indices[:axis], *ref.indices[axis + 1 :]))

    def leaf(expr: Expr) -> Expr:
        return Load(cell(expr.ref)) if isinstance(expr, Load) and expr.ref.buf in local_bufs else expr

    return map_statements(body, cell, leaf)
