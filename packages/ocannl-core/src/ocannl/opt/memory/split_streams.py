"""Several streams: rows of distant parts of an array are read at once (multi-strided access; Blom et al. 2025)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Proc, Ref, is_full, loop
from ocannl.ir.name_mangling import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, group_of
from ocannl.opt.analysis.nests import bound_names, is_parallel_loop, loads


def split_streams(proc: Proc, min_bytes: int, min_rows: int = machine.MIN_STREAMED_ROWS) -> Proc:
    """Splits the loop over the rows of an array that is read once. In this example, 64 bytes and eight rows are enough:

        proc step                          proc step
          w : f32[8,16]  in                  w : f32[8,16]  in
          x : f32[16]    in                  x : f32[16]    in
          y : f32[8]     inout               y : f32[8]     inout
          for i in 0..8:                     for i_2 in 0..4:
            for k in 0..16:           ==>      for i_half in 0..2:
              y[i] += w[i, k] * x[k]             local acc: f32
                                                 acc = y[i_2+4*i_half]
                                                 for k in 0..16:
                                                   acc += w[i_2+4*i_half, k] * x[k]
                                                 y[i_2+4*i_half] = acc

    Register tiles then contain a row of each half. Processors prefetch the pages of memory separately, so rows of
    distant pages arrive sooner than rows of the same page. `min_bytes` is the size of the private cache. A few long
    rows are left to register tiles of adjacent rows.
    """
    names = Namer(bound_names(proc))
    body = []
    for stmt in proc.body:
        group = group_of(stmt, names) if not is_parallel_loop(stmt) else None
        rows = _rows_to_split(group, min_bytes, min_rows) if group is not None else None
        body.append(stmt if group is None or rows is None else _split(group, rows, names).stmt())
    return replace(proc, body=tuple(body))


def _rows_to_split(group: FusionGroup, min_bytes: int, min_rows: int) -> Sym | None:
    """Returns the loop over the rows of the only operand of more than `min_bytes`, if each cell is read once."""
    loops = (*group.loops, *(loop for reduction in group.reductions for loop in reduction.loops))
    if len(group.reductions) != 1 or not group.cond.is_true or not all(map(is_full, loops)):
        return None
    (reduction,) = group.reductions
    large = {ref for ref in group.reads if ref.buf.nbytes > min_bytes}
    if not reduction.cond.is_true or len(large) != 1 or prod(sym.extent for sym in group.syms) < min_rows:
        return None
    (operand,) = large
    if operand not in loads(reduction.update.value) or not _is_read_by_rows(operand, group, reduction):
        return None
    rows = max(group.syms, key=lambda sym: abs(operand.stride(sym)) if sym.extent > 1 else 0)
    return rows if rows.extent % 2 == 0 else None


def _is_read_by_rows(ref: Ref, group: FusionGroup, reduction: Reduction) -> bool:
    """Whether each cell of an array of the caller is read once, without gaps, by rows that are terms of one sum. If the
    sum reads other operands as well, two rows must fit the L1 cache: tiles of longer ones are single rows."""
    syms = [sym for sym in (*group.syms, *reduction.syms) if sym.extent > 1]
    strides = [abs(ref.stride(sym)) for sym in syms]
    row = prod(sym.extent for sym in reduction.syms)
    is_row_major = all(abs(ref.stride(sym)) < row for sym in reduction.syms) and any(
        ref.stride(sym) == 1 for sym in reduction.syms
    )
    is_read_once = all(strides) and prod(sym.extent for sym in syms) == prod(ref.buf.shape)
    fits = 2 * row < machine.L1_ELEMENTS or set(loads(reduction.update.value)) == {ref}
    return ref.buf.access is not AccessMode.TEMP and is_row_major and is_read_once and fits


def _split(group: FusionGroup, rows: Sym, names: Namer) -> FusionGroup:
    row, half = Sym(names(rows.name), 0, rows.extent // 2 - 1), Sym(names(f"{rows.name}_half"), 0, 1)
    position = Affine(((rows.extent // 2, half), (1, row))) + rows.lo
    split = loop(row, ()), loop(half, ())
    loops = (new for old in group.loops for new in (split if old.sym is rows else (old,)))
    return replace(group.substituted({rows: position}), loops=tuple(loops))
