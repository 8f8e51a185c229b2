"""Where temporaries lie: in the arena, and on the stack of a loop's iteration."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ocannl.ir.index import Sym
from ocannl.ir.loops import Body, Buf, For, MemorySpace, Load, Local, Mode, Proc, Stmt, Store, Update
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import accessed_buffers
from ocannl.opt.analysis.substitution import replace_buffers, with_buffers


def allocate_memory(proc: Proc, alignment_bytes: int) -> Proc:
    """Gives every arena buffer an offset; those that are never alive together may share bytes.

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

    A buffer lives from the first to the last statement that touches it. The largest are placed first, each as low as
    the placed ones that live beside it allow (Pisarchyk and Lee 2020, greedy by size).
    """
    new, total = _placed([b for b in proc.bufs if b.space is MemorySpace.ARENA], proc.body, alignment_bytes)
    body = tuple([_with_stack(stmt, alignment_bytes) for stmt in proc.body])
    return replace(replace_buffers(replace(proc, body=body), new), arena=total)


def _with_stack(stmt: Stmt, alignment_bytes: int) -> Stmt:
    """The loop with places for the arrays that are local to its body, if there are several, or large ones."""
    if not isinstance(stmt, For):
        return stmt
    local = [each.buf for each in stmt.body if isinstance(each, Local) and each.buf.shape and each.init is None]
    if local:
        walked = _walked(stmt.body)
        local = [buf for buf in local if buf in walked]
    if len(local) < 2 and sum(buf.nbytes for buf in local) < machine.MAX_SCALAR_REPLACED_BYTES:
        return stmt
    new, _ = _placed(local, stmt.body, alignment_bytes)
    body = [Local(new.get(each.buf, each.buf), each.init) if isinstance(each, Local) else each for each in stmt.body]
    return replace(stmt, body=with_buffers(tuple(body), new))


def _walked(body: Body) -> set[Buf]:
    """The local arrays of which loops choose cells as they go; the others are registers, which have no place."""
    found: set[Buf] = set()
    copied: set[Sym] = set()
    for node in walk(body):
        match node:
            case For(sym, mode=Mode.UNROLLED | Mode.VECTORIZED):
                copied.add(sym)
            case Load(ref) | Store(ref) | Update(ref) if ref.buf.space is MemorySpace.LOCAL and ref.buf not in found:
                if not all(copied.issuperset(place.syms) for place in ref.indices):
                    found.add(ref.buf)
            case _:
                pass
    return found


def fitting(sizes: Mapping[Buf, int], body: Body, most_bytes: int) -> set[Buf]:
    """Of arrays that take so many bytes each in the body, those that fit into a block, but for gaps: the largest ones
    are left out."""
    lives = _lives(list(sizes), body)
    order = sorted(sizes, key=lambda buf: -sizes[buf])

    def fits(left_out: int) -> bool:
        rest = sorted(order[left_out:], key=lambda buf: (-sizes[buf], lives[buf]))
        return _offsets({buf: sizes[buf] for buf in rest}, lives)[1] <= most_bytes

    return set(order[bisect_left(range(len(order)), True, key=fits) :])


def _placed(bufs: Sequence[Buf], body: Body, alignment_bytes: int) -> tuple[dict[Buf, Buf], int]:
    """The arrays with offsets, and the bytes that they span."""
    lives = _lives(bufs, body)
    order = sorted(lives, key=lambda buf: (-buf.nbytes, lives[buf]))
    offsets, total = _offsets({buf: -(-buf.nbytes // alignment_bytes) * alignment_bytes for buf in order}, lives)
    return {buf: replace(buf, offset=offset) for buf, offset in offsets.items()}, total


def _offsets(sizes: Mapping[Buf, int], lives: Mapping[Buf, tuple[int, int]]) -> tuple[dict[Buf, int], int]:
    """Where blocks of these sizes lie that are placed in this order, and the bytes that they span."""
    offsets, total = _place(
        np.array([sizes[buf] for buf in sizes], np.int64),
        np.array([lives[buf][0] for buf in sizes], np.int64),
        np.array([lives[buf][1] for buf in sizes], np.int64),
    )
    return dict(zip(sizes, offsets, strict=True)), total


def _lives(bufs: Sequence[Buf], body: Body) -> dict[Buf, tuple[int, int]]:
    """First and last position at which each of the arrays is touched."""
    lives = dict.fromkeys(bufs, (len(body), -1))
    for at, stmt in enumerate(body):
        read, written = accessed_buffers(stmt)
        for buf in (*read, *written):
            if buf in lives:
                lives[buf] = (min(at, lives[buf][0]), at)
    return lives


def _place(sizes: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[list[int], int]:
    """Offsets for blocks given in order of placement, and the bytes they span."""
    offsets = np.zeros(len(sizes), np.int64)
    for i, size in enumerate(sizes):
        beside = np.flatnonzero((first[:i] <= last[i]) & (last[:i] >= first[i]) & (sizes[:i] > 0))
        beside = beside[np.argsort(offsets[beside], kind="stable")]
        # gap g lies between what ends highest among the first g blocks and the start of the next
        ends = np.maximum.accumulate(np.concatenate(([0], offsets[beside] + sizes[beside])))
        fits = np.flatnonzero(offsets[beside] - ends[:-1] >= size)
        offsets[i] = ends[fits[0]] if len(fits) else ends[-1]
    return [int(o) for o in offsets], int((offsets + sizes).max(initial=0))
