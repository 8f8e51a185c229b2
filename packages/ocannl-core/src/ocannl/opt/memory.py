"""Where temporaries lie in the arena."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ocannl.ir.loops import Buf, Home, Proc
from ocannl.opt.nest import touched
from ocannl.opt.substitute import replace_buffers


def memory(proc: Proc, alignment_bytes: int) -> Proc:
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
    lives = _lives(proc)
    bufs = sorted(lives, key=lambda b: (-b.nbytes, lives[b]))
    offsets, total = _place(
        np.array([_aligned(b.nbytes, alignment_bytes) for b in bufs], np.int64),
        np.array([lives[b][0] for b in bufs], np.int64),
        np.array([lives[b][1] for b in bufs], np.int64),
    )
    new = {b: replace(b, offset=offset) for b, offset in zip(bufs, offsets, strict=True)}
    return replace(replace_buffers(proc, new), arena=total)


def _aligned(size_bytes: int, alignment_bytes: int) -> int:
    return -(-size_bytes // alignment_bytes) * alignment_bytes


def _lives(proc: Proc) -> dict[Buf, tuple[int, int]]:
    """First and last position at which each arena buffer is touched."""
    lives = {b: (len(proc.body), -1) for b in proc.bufs if b.home is Home.ARENA}
    for at, stmt in enumerate(proc.body):
        read, written = touched(stmt)
        for buf in (*read, *written):
            if buf.home is Home.ARENA:
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
