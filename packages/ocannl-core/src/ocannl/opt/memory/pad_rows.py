"""Keeps rows of temporaries apart that caches would keep in the same place."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ocannl.ir.loops import Buf, MemorySpace, Proc
from ocannl.ir.accesses import storage
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.substitution import replace_buffers
from ocannl.opt.schedule.plan.cost_model import Strides


def pad_rows(proc: Proc, page_bytes: int | None = None) -> Proc:
    """Makes rows a line of cache longer that lie whole pages apart. Here a page has 128 bytes:

        proc step                       proc step
          x : f32[8,32]  in               x : f32[8,32]         in
          h : f32[8,32]  arena            h : f32[8,32]@(48,1)  arena
          y : f32[8]     inout            y : f32[8]            inout
          for i in 0..8:                  for i in 0..8:
            for j in 0..32:        ==>      for j in 0..32:
              h[i, j] = exp(x[i, j])          h[i, j] = exp(x[i, j])
          for i_2 in 0..8:                for i_2 in 0..8:
            for j_2 in 0..32:               for j_2 in 0..32:
              y[i_2] += h[i_2, j_2]           y[i_2] += h[i_2, j_2]

    What is kept stays as it is.
    """
    page_bytes = machine.CONFLICT_STRIDE_BYTES if page_bytes is None else page_bytes
    views = Counter(storage(buf) for buf in proc.bufs)
    new: dict[Buf, Buf] = {}
    for buf in proc.bufs:
        if buf.space is MemorySpace.ARENA and views[storage(buf)] == 1 and 0 not in buf.shape:
            strides = _padded(buf, page_bytes)
            if strides != buf.strides:
                new[buf] = replace(buf, strides=strides)
    return replace_buffers(proc, new)


def _padded(buf: Buf, page_bytes: int) -> Strides:
    """Its axes in the same order, innermost first."""
    strides = list(buf.strides)
    end = 1
    for axis in sorted(range(len(strides)), key=lambda n: (buf.strides[n], -n)):
        if buf.shape[axis] > 1:
            if buf.shape[axis] > machine.L1_MIN_ASSOCIATIVITY and end * buf.precision.nbytes % page_bytes == 0:
                end += machine.LINE_BYTES // buf.precision.nbytes
            strides[axis] = end
            end *= buf.shape[axis]
    return tuple(strides)
