"""Reduction privatization: iterations of a hoisted loop reduce their own slices of the arrays that they have produced.

A second stage combines the partial results.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod
from typing import NamedTuple

from ocannl.ir.accesses import memory_accesses
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Body, Buf, For, MemorySpace, Proc, Stmt
from ocannl.ir.name_mangling import Namer
from ocannl.ir.stack_size import MAX_LOCAL_BYTES
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of
from ocannl.opt.analysis.loop_distribution import AccessSummary
from ocannl.opt.analysis.nests import bound_names, is_parallel_loop, loads
from ocannl.opt.parallel.split_reductions import single_reduction, split_group


def privatize_reductions(proc: Proc, min_operand_bytes: int | None = None) -> Proc:
    """Splits reductions of arrays that hoisted loops produce, so that each iteration reduces its own slice. In this
    example, `min_operand_bytes` is 2048:

        proc step                                  proc step
          x : f32[8,4,16]  in                        x       : f32[8,4,16]  in
          h : f32[8,4,16]  arena                     h       : f32[8,4,16]  arena
          y : f32[16]      out                       y       : f32[16]      out
          parallel(chunk=1) for b in 0..8:           y_parts : f32[8,16]    arena
            for i in 0..4:                           parallel(chunk=1) for b in 0..8:
              for j in 0..16:                          for i in 0..4:
                h[b, i, j] = exp(x[b, i, j])             for j in 0..16:
          for m in 0..16:                                  h[b, i, j] = exp(x[b, i, j])
            local acc: f32                           parallel(chunk=1) for c_part in 0..8:
            acc = 0                                    for m_2 in 0..16:
            for c in 0..8:                    ==>        local acc_2: f32
              for k in 0..4:                             acc_2 = 0
                acc += h[c, k, m]                        for k in 0..4:
            y[m] = acc                                     acc_2 += h[c_part, k, m_2]
                                                         y_parts[c_part, m_2] = acc_2
                                                     for m in 0..16:
                                                       local acc: f32
                                                       acc = 0
                                                       for c_part_2 in 0..8:
                                                         acc += y_parts[c_part_2, m]
                                                       y[m] = acc

    `fuse_parallel_loops` then fuses the first stage with the loop that produces its operands, such as the gradients of
    weights with the backward pass of a batch item: the operands are read from a private cache, and arrays that no other
    nest reads shrink to one iteration.

    This is profitable if all reductions together have at least `min_operand_bytes` bytes of operands and no more bytes
    of partial results, and if the slices of an iteration are small enough to shrink.
    """
    min_operand_bytes = machine.MIN_SPLIT_OPERAND_BYTES if min_operand_bytes is None else min_operand_bytes
    hoisted_axes = _hoisted_axes(proc.body)
    if not hoisted_axes:
        return proc
    names = Namer(bound_names(proc))
    candidates: dict[int, _Candidate] = {}
    for position, stmt in enumerate(proc.body):
        group = None if is_parallel_loop(stmt) else group_of(stmt, names)
        candidate = None if group is None else _candidate(group, hoisted_axes)
        if candidate is not None:
            candidates[position] = candidate
    if not _is_profitable(candidates.values(), hoisted_axes, min_operand_bytes):
        return proc
    body: list[Stmt] = []
    bufs: list[Buf] = []
    for position, stmt in enumerate(proc.body):
        if position not in candidates:
            body.append(stmt)
            continue
        group, sym = candidates[position].group, candidates[position].sym
        buf, first_stage, second_stage = split_group(group, sym, sym.extent, names)
        assert isinstance(first_stage, For)
        body += (replace(first_stage, parallel_chunk=1), second_stage)
        bufs.append(buf)
    return replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs))


class _HoistedAxis(NamedTuple):
    """An axis that hoisted loops index, and the range of their symbols."""

    axis: int
    lo: int
    hi: int


def _hoisted_axes(body: Body) -> dict[Buf, _HoistedAxis]:
    """Maps temporaries that only hoisted loops write to the outermost axis, if these loops index it."""
    axes_of: dict[Buf, frozenset[_HoistedAxis]] = {}
    for stmt in body:
        sym = stmt.sym if isinstance(stmt, For) and is_parallel_loop(stmt) else None
        written = [access for access in memory_accesses((stmt,)) if access.writes]
        for buf, axes in AccessSummary(written, sym).axes.values():
            indexed = frozenset(_HoistedAxis(axis, sym.lo, sym.hi) for axis in axes) if sym else frozenset()
            axes_of[buf] = axes_of.get(buf, indexed) & indexed
    return {
        buf: hoisted for buf, indexed in axes_of.items() for hoisted in indexed
        if buf.space is MemorySpace.ARENA and buf.strides[hoisted.axis] == max(buf.strides)
    }  # fmt: skip


class _Candidate(NamedTuple):
    """A reduction, the symbol of its loop over the iterations of hoisted loops, and the temporaries it reads."""

    group: FusionGroup
    sym: Sym
    operands: frozenset[Buf]

    @property
    def parts_bytes(self) -> int:
        (reduction,) = self.group.reductions
        return self.sym.extent * prod(sym.extent for sym in self.group.syms) * reduction.acc.precision.nbytes


def _candidate(group: FusionGroup, hoisted_axes: Mapping[Buf, _HoistedAxis]) -> _Candidate | None:
    """Returns a reduction over the iterations of the hoisted loops that produce its operands; None for other groups.

    There must be another reduction loop: otherwise, partial results would be copies of the operands. The number of
    parts is that of other split reductions at most, for which the bound on rounding errors holds. A reduction to a
    scalar is left to `fuse_outer_loops`, which adds up the rows of several iterations in vectors.
    """
    reduction = single_reduction(group)
    if reduction is None or not reduction.cond.is_true or len(reduction.loops) < 2 or not group.loops:
        return None
    temporaries = [ref for ref in loads(reduction.update.value) if ref.buf.space is MemorySpace.ARENA]
    if not temporaries or any(ref.buf not in hoisted_axes for ref in temporaries):
        return None  # the first stage could not join the loop
    syms = {ref.indices[hoisted_axes[ref.buf].axis].only_sym for ref in temporaries}
    sym = syms.pop()
    if syms or sym is None or sym not in reduction.syms or sym.extent > machine.MAX_REDUCTION_PARTS:
        return None
    ranges = {hoisted_axes[ref.buf][1:] for ref in temporaries}
    return _Candidate(group, sym, frozenset(ref.buf for ref in temporaries)) if ranges == {(sym.lo, sym.hi)} else None


def _is_profitable(
    candidates: Collection[_Candidate], hoisted_axes: Mapping[Buf, _HoistedAxis], min_operand_bytes: int
) -> bool:
    """Whether storing and reading the partial results takes less time than storing and reading the operands."""
    operands = {buf for candidate in candidates for buf in candidate.operands}
    slice_bytes = sum(buf.nbytes // buf.shape[hoisted_axes[buf].axis] for buf in operands)
    parts_bytes = sum(candidate.parts_bytes for candidate in candidates)
    operand_bytes = sum(buf.nbytes for buf in operands)
    return slice_bytes <= MAX_LOCAL_BYTES and operand_bytes >= max(min_operand_bytes, parts_bytes, 1)
