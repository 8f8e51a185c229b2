"""Reduction privatization: iterations of a hoisted loop compute partial sums of what they have produced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ocannl.ir.accesses import memory_accesses
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Body, Buf, For, MemorySpace, Proc, Stmt
from ocannl.ir.name_mangling import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of
from ocannl.opt.analysis.loop_distribution import AccessSummary
from ocannl.opt.analysis.nests import bound_names, is_parallel_loop, loads
from ocannl.opt.parallel.split_reductions import single_reduction, split_group


def privatize_reductions(proc: Proc, min_operand_bytes: int | None = None) -> Proc:
    """Splits reductions of arrays that hoisted loops produce, so that each iteration reduces its own slice. In this
    example, operands of 2048 bytes are enough:

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
    """
    min_operand_bytes = machine.MIN_SPLIT_OPERAND_BYTES if min_operand_bytes is None else min_operand_bytes
    hoisted_axes = _hoisted_axes(proc.body)
    if not hoisted_axes:
        return proc
    names = Namer(bound_names(proc))
    body: list[Stmt] = []
    bufs: list[Buf] = []
    for stmt in proc.body:
        group = None if is_parallel_loop(stmt) else group_of(stmt, names)
        sym = None if group is None else _privatizable_loop(group, hoisted_axes, min_operand_bytes)
        if group is None or sym is None:
            body.append(stmt)
            continue
        buf, first_stage, second_stage = split_group(group, sym, sym.extent, names)
        assert isinstance(first_stage, For)
        body += (replace(first_stage, parallel_chunk=1), second_stage)
        bufs.append(buf)
    return replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs)) if bufs else proc


def _hoisted_axes(body: Body) -> dict[Buf, int]:
    """Maps temporaries that only hoisted loops write to the axis that the hoisted loops index."""
    axes_of: dict[Buf, frozenset[int]] = {}
    for stmt in body:
        sym = stmt.sym if isinstance(stmt, For) and is_parallel_loop(stmt) else None
        written = [access for access in memory_accesses((stmt,)) if access.writes]
        for buf, axes in AccessSummary(written, sym).axes.values():
            axes_of[buf] = axes_of.get(buf, axes) & axes
    return {buf: min(axes) for buf, axes in axes_of.items() if axes and buf.space is MemorySpace.ARENA}


def _privatizable_loop(group: FusionGroup, hoisted_axes: Mapping[Buf, int], min_operand_bytes: int) -> Sym | None:
    """Returns the reduction loop over the iterations of the hoisted loops that produce the operands, if there are
    terms left for each iteration, and the partial sums are smaller than the operands.

    A reduction to a scalar is left to `fuse_outer_loops`, which adds up the rows of several iterations in vectors.
    """
    reduction = single_reduction(group)
    if reduction is None or not reduction.cond.is_true or len(reduction.loops) < 2 or not group.loops:
        return None
    operands = dict.fromkeys(loads(reduction.update.value))
    syms = {ref.indices[hoisted_axes[ref.buf]].only_sym for ref in operands if ref.buf in hoisted_axes}
    if len(syms) != 1 or (sym := syms.pop()) is None or sym not in reduction.syms:
        return None
    sums_bytes = sym.extent * prod(loop.extent for loop in group.syms) * reduction.acc.precision.nbytes
    operand_bytes = sum(buf.nbytes for buf in {ref.buf for ref in operands})
    return sym if operand_bytes >= max(min_operand_bytes, sums_bytes) else None
