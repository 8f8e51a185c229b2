"""Pads rows of temporaries to avoid conflicts in cache sets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ocannl.ir.accesses import alias_class
from ocannl.ir.loops import Buf, MemorySpace, Proc
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.substitution import replace_buffers
from ocannl.opt.schedule.plan.nest_shape import Strides


def pad_rows(proc: Proc, conflict_stride_bytes: int | None = None) -> Proc:
    """Pads rows by one cache line if their distance is a multiple of `conflict_stride_bytes`, here 128:

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

    Addresses at such distances map to the same cache set. Arrays that are not temporaries keep their layout.
    """
    conflict_stride_bytes = machine.CONFLICT_STRIDE_BYTES if conflict_stride_bytes is None else conflict_stride_bytes
    views = Counter(alias_class(buf) for buf in proc.bufs)
    new: dict[Buf, Buf] = {}
    for buf in proc.bufs:
        if buf.space is MemorySpace.ARENA and views[alias_class(buf)] == 1 and 0 not in buf.shape:
            strides = _padded_strides(buf, conflict_stride_bytes)
            if strides != buf.strides:
                new[buf] = replace(buf, strides=strides)
    return replace_buffers(proc, new)


def _padded_strides(buf: Buf, conflict_stride_bytes: int) -> Strides:
    """Returns strides with the same order of axes, and a cache line of padding per conflicting axis."""
    strides = list(buf.strides)
    stride = 1
    for axis in sorted(range(len(strides)), key=lambda n: (buf.strides[n], -n)):
        if buf.shape[axis] > 1:
            is_conflicting = stride * buf.precision.nbytes % conflict_stride_bytes == 0
            if buf.shape[axis] > machine.L1_MIN_ASSOCIATIVITY and is_conflicting:
                stride += machine.LINE_BYTES // buf.precision.nbytes
            strides[axis] = stride
            stride *= buf.shape[axis]
    return tuple(strides)
