"""Memory allocation: offsets of temporaries in the arena, and of local arrays in the stack frame of an iteration."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ocannl.ir.affine import Sym
from ocannl.ir.loops import (
    BindIndex,
    Body,
    Buf,
    For,
    If,
    Load,
    Local,
    MemorySpace,
    Mode,
    Proc,
    Stmt,
    Store,
    Update,
    region_body,
)
from ocannl.ir.private_scope import private_scope
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import accessed_buffers
from ocannl.opt.analysis.substitution import replace_buffers, with_buffers


def allocate_memory(proc: Proc, alignment_bytes: int) -> Proc:
    """Assigns an offset to every arena buffer; buffers with disjoint live ranges may share memory.

        proc step                       proc step
          x : f32[64]  in                 x : f32[64]  in
          s : f32[64]  arena              s : f32[64]  arena at 0
          t : f32[64]  arena              t : f32[64]  arena at 256
          u : f32[64]  arena              u : f32[64]  arena at 0        # s is dead when u is born
          y : f32[64]  out                y : f32[64]  out
          for i in 0..64:                 for i in 0..64:
            s[i] = exp(x[i])      ==>       s[i] = exp(x[i])
          for i_2 in 0..64:               for i_2 in 0..64:
            t[i_2] = exp(s[i_2])            t[i_2] = exp(s[i_2])
          for i_3 in 0..64:               for i_3 in 0..64:
            u[i_3] = exp(t[i_3])            u[i_3] = exp(t[i_3])
          for i_4 in 0..64:               for i_4 in 0..64:
            y[i_4] = exp(u[i_4])            y[i_4] = exp(u[i_4])

    A buffer is live from the first to the last statement that accesses it. Buffers are allocated in order of decreasing
    size, each at the lowest offset that is free during its live range (greedy by size, Pisarchyk and Lee 2020).
    """
    arena_bufs = [buf for buf in proc.bufs if buf.space is MemorySpace.ARENA]
    new, arena_bytes = _assign_offsets(arena_bufs, proc.body, alignment_bytes)
    body = tuple([_allocate_locals(stmt, alignment_bytes) for stmt in proc.body])
    return replace(replace_buffers(replace(proc, body=body), new), arena=arena_bytes)


def allocate_separately(proc: Proc, alignment_bytes: int) -> Proc:
    """The plain form of `allocate_memory`: no two buffers share memory."""
    end_bytes, new = 0, {}
    for buf in proc.bufs:
        if buf.space is MemorySpace.ARENA:
            new[buf] = replace(buf, offset=end_bytes)
            end_bytes += -(-buf.nbytes // alignment_bytes) * alignment_bytes
    return replace(replace_buffers(proc, new), arena=end_bytes)


def _allocate_locals(stmt: Stmt, alignment_bytes: int) -> Stmt:
    """Assigns offsets to the arrays that are local to the body of a loop, if there are several, or large ones."""
    region = region_body(stmt)
    if region is not None and isinstance(stmt, For | BindIndex):
        return replace(stmt, body=tuple([_allocate_locals(inner, alignment_bytes) for inner in region]))
    if private_scope(stmt) is not None:
        assert isinstance(stmt, If)
        return If(stmt.cond, tuple([_allocate_locals(inner, alignment_bytes) for inner in stmt.then]))
    if not isinstance(stmt, For):
        return stmt
    local = [inner.buf for inner in stmt.body if isinstance(inner, Local) and inner.buf.shape and inner.init is None]
    if local:
        indexed = _dynamically_indexed(stmt.body)
        local = [buf for buf in local if buf in indexed]
    if len(local) < 2 and sum(buf.nbytes for buf in local) < machine.MAX_SCALAR_REPLACED_BYTES:
        return stmt
    new, _ = _assign_offsets(local, stmt.body, alignment_bytes)
    body = tuple([
        Local(new.get(inner.buf, inner.buf), inner.init) if isinstance(inner, Local) else inner for inner in stmt.body
    ])  # fmt: skip
    return replace(stmt, body=with_buffers(body, new))


def _dynamically_indexed(body: Body) -> set[Buf]:
    """Returns the local arrays that are indexed by loops at run time; all others are replaced by registers."""
    result: set[Buf] = set()
    unrolled: set[Sym] = set()
    for node in walk(body):
        match node:
            case For(sym, mode=Mode.UNROLLED | Mode.VECTORIZED):
                unrolled.add(sym)
            case Load(ref) | Store(ref) | Update(ref) if ref.buf.space is MemorySpace.LOCAL and ref.buf not in result:
                if not unrolled.issuperset(ref.syms):
                    result.add(ref.buf)
            case _:
                pass
    return result


def fitting_buffers(sizes: Mapping[Buf, int], body: Body, max_bytes: int) -> set[Buf]:
    """Returns buffers that can be allocated together in `max_bytes`, leaving out as few of the largest as possible.

    `sizes` are in bytes. Padding for alignment is not included.
    """
    live_ranges = _live_ranges(list(sizes), body)
    by_size = sorted(sizes, key=lambda buf: -sizes[buf])

    def fits(omitted_count: int) -> bool:
        order = sorted(by_size[omitted_count:], key=lambda buf: (-sizes[buf], live_ranges[buf]))
        return _allocate_blocks({buf: sizes[buf] for buf in order}, live_ranges)[1] <= max_bytes

    return set(by_size[bisect_left(range(len(by_size)), True, key=fits) :])


def _assign_offsets(bufs: Sequence[Buf], body: Body, alignment_bytes: int) -> tuple[dict[Buf, Buf], int]:
    """Returns the buffers with offsets, and their total size in bytes."""
    live_ranges = _live_ranges(bufs, body)
    order = sorted(live_ranges, key=lambda buf: (-buf.nbytes, live_ranges[buf]))
    sizes = {buf: -(-buf.nbytes // alignment_bytes) * alignment_bytes for buf in order}
    offsets, total_bytes = _allocate_blocks(sizes, live_ranges)
    return {buf: replace(buf, offset=offset) for buf, offset in offsets.items()}, total_bytes


def _allocate_blocks(
    sizes: Mapping[Buf, int], live_ranges: Mapping[Buf, tuple[int, int]]
) -> tuple[dict[Buf, int], int]:
    """Allocates blocks in the order of `sizes`; returns their offsets and the total size in bytes."""
    offsets, total_bytes = _lowest_offsets(
        np.array([sizes[buf] for buf in sizes], np.int64),
        np.array([live_ranges[buf][0] for buf in sizes], np.int64),
        np.array([live_ranges[buf][1] for buf in sizes], np.int64),
    )
    return dict(zip(sizes, offsets, strict=True)), total_bytes


def _live_ranges(bufs: Sequence[Buf], body: Body) -> dict[Buf, tuple[int, int]]:
    """Maps each buffer to the positions of the first and the last statement that accesses it."""
    live_ranges = dict.fromkeys(bufs, (len(body), -1))
    for position, stmt in enumerate(body):
        read, written = accessed_buffers(stmt)
        for buf in (*read, *written):
            if buf in live_ranges:
                live_ranges[buf] = (min(position, live_ranges[buf][0]), position)
    return live_ranges


def _lowest_offsets(sizes: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[list[int], int]:
    """Places each block at the lowest offset that is free from its first to its last position.

    Returns the offsets, and the total size.
    """
    offsets = np.zeros(len(sizes), np.int64)
    for i, size in enumerate(sizes):
        live = np.flatnonzero((first[:i] <= last[i]) & (last[:i] >= first[i]) & (sizes[:i] > 0))
        live = live[np.argsort(offsets[live], kind="stable")]
        # gap g lies between the highest end of the first g blocks and the start of the next block
        ends = np.maximum.accumulate(np.concatenate(([0], offsets[live] + sizes[live])))
        gaps = np.flatnonzero(offsets[live] - ends[:-1] >= size)
        offsets[i] = ends[gaps[0]] if len(gaps) else ends[-1]
    return [int(offset) for offset in offsets], int((offsets + sizes).max(initial=0))
