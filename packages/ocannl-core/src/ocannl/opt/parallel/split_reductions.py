"""Split reductions (two-stage reductions; "split-K" for matrix products), whose parts run in parallel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.accesses import memory_accesses
from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import (
    AccessMode,
    Buf,
    Const,
    For,
    Load,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    is_full,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import neutral_element
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import (
    FusionGroup,
    Reduction,
    group_of,
    is_matmul_like,
    local_buffer,
    may_combine_parts,
)
from ocannl.opt.analysis.nests import bound_names, is_parallel_loop, loads
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.schedule.plan.scalar_plans import REASSOCIABLE


def split_reductions(proc: Proc, min_iterations: int | None = None, grid_threads: int = 0) -> Proc:
    """Splits reductions over many elements with few results. In this example, 192 iterations are enough:

        proc step                       proc step
          x : f32[192]  in                x       : f32[192]  in
          y : f32       inout             y       : f32       inout
          for i in 0..192:                y_parts : f32[64]   arena
            y += x[i]                     for i_part in 0..64:
                                            local acc_2: f32
                                            acc_2 = 0
                                   ==>      for i_2 in 0..3:
                                              acc_2 += x[i_2+3*i_part]
                                            y_parts[i_part] = acc_2
                                          scope:
                                            local acc: f32
                                            acc = y
                                            for i_part_2 in 0..64:
                                              acc += y_parts[i_part_2]
                                            y = acc

    Parts are contiguous. Their number depends on sizes only, so that results do not depend on the number of threads.
    With `grid_threads`, reductions are split for the programs of a grid with so many threads; the last part may then
    have fewer terms.
    """
    min_iterations = machine.MIN_SPLIT_ITERATIONS if min_iterations is None else min_iterations
    names = Namer(bound_names(proc))
    hoisted_loops = tuple(filter(is_parallel_loop, proc.body))
    hoisted_results = {access.ref.buf for access in memory_accesses(hoisted_loops) if access.writes}
    body: list[Stmt] = []
    bufs: list[Buf] = []
    for stmt in proc.body:
        group = group_of(stmt, names) if not is_parallel_loop(stmt) else None
        split = None
        if group is not None:
            if grid_threads:
                split = _split_for_grid(group, grid_threads)
            elif not _combines_parts(group, hoisted_results):  # a third stage would add rounding errors
                split = _split_for_threads(group, min_iterations) or _split_outermost(group)
        if group is None or split is None:
            body.append(stmt)
            continue
        buf, first_stage, second_stage = split_group(group, *split, names)
        body += (first_stage, second_stage)
        bufs.append(buf)
    return replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs)) if bufs else proc


def _combines_parts(group: FusionGroup, hoisted_results: Collection[Buf]) -> bool:
    """Whether the group may be the second stage of a reduction that `privatize_reductions` has split."""
    combining = filter(may_combine_parts, group.reductions)
    return any(ref.buf in hoisted_results for reduction in combining for ref in loads(reduction.update.value))


def choose_part_count(extent: int) -> int:
    """Returns the largest allowed number of parts of equal length for a loop; 0 for an empty loop."""
    return _largest_divisor(extent, machine.MAX_REDUCTION_PARTS)


def _largest_divisor(extent: int, limit: int) -> int:
    return max(n for n in range(1, limit + 1) if extent % n == 0) if extent else 0


def _has_long_rows(group: FusionGroup) -> bool:
    """Whether the reduction runs across rows so long that threads can share them."""
    reduction = single_reduction(group)
    if reduction is None or len(reduction.syms) != 1:
        return False
    syms = (*group.syms, *reduction.syms)
    rows = [
        ref for ref in loads(reduction.update.value)
        if all(map(ref.stride, syms)) and _is_outermost(reduction.syms[0], ref, syms)
    ]  # fmt: skip
    is_contiguous = any(ref.stride(sym) == 1 for ref in rows for sym in group.syms)
    results = prod(sym.extent for sym in group.syms)
    return is_contiguous and results >= machine.MIN_OUTER_TRIPS * machine.PAGE_ELEMENTS


def _split_for_threads(group: FusionGroup, min_iterations: int) -> tuple[Sym, int] | None:
    """Returns the reduction loop to split over threads, and the number of parts, if splitting is profitable.

    The candidate is the loop with the largest stride in an operand that depends on all loops. Returns None if this is
    not a reduction loop.
    """
    reduction = single_reduction(group)
    if reduction is None or not reduction.cond.is_true:
        return None
    syms = group.syms + reduction.syms
    if prod(sym.extent for sym in syms) < min_iterations:
        return None
    operand = next((ref for ref in loads(reduction.update.value) if all(map(ref.stride, syms))), None)
    if operand is None:
        return None
    outer = max(syms, key=lambda sym: abs(operand.stride(sym)))
    limit = machine.MAX_REDUCTION_PARTS
    if _has_long_rows(group):
        limit = max(1, min(limit, outer.extent // machine.MIN_ROWS_PER_PART))
    part_count = _largest_divisor(outer.extent, limit)
    is_profitable = part_count >= min(machine.MIN_REDUCTION_PARTS, outer.extent)
    return (outer, part_count) if outer in reduction.syms and is_profitable else None


def _split_outermost(group: FusionGroup) -> tuple[Sym, int] | None:
    """Returns the reduction loop to split over threads, and the number of parts, if it is the outermost loop of all
    operands, and they are much larger than the partial sums, as in the gradient of a weight.

    Each thread then reads a part of every operand. If threads shared the results instead, each would read whole
    operands, which other threads have often just written: in the gradient, they share the loop over the batch.
    """
    reduction = single_reduction(group)
    if reduction is None or not reduction.cond.is_true:
        return None
    operands = dict.fromkeys(loads(reduction.update.value))
    syms = group.syms + reduction.syms
    if prod(sym.extent for sym in syms) < machine.MIN_PARALLEL_OPS:
        return None
    outer = [sym for sym in reduction.syms if all(_is_outermost(sym, ref, syms) for ref in operands)]
    if not outer or (_has_long_rows(group) and outer[0].extent < machine.MIN_SPLIT_ROWS):
        return None
    counts = range(machine.MIN_REDUCTION_PARTS, machine.MAX_REDUCTION_PARTS + 1)
    part_count = next((n for n in counts if outer[0].extent % n == 0), 0)
    sums_bytes = part_count * prod(sym.extent for sym in group.syms) * reduction.acc.precision.nbytes
    operand_bytes = sum(buf.nbytes for buf in {ref.buf for ref in operands})
    min_bytes = max(machine.MIN_BYTES_PER_PARTIAL_SUM * sums_bytes, machine.MIN_SPLIT_OPERAND_BYTES)
    return (outer[0], part_count) if part_count and operand_bytes >= min_bytes else None


def _is_outermost(sym: Sym, ref: Ref, syms: Sequence[Sym]) -> bool:
    """Whether no loop has a larger stride."""
    return ref.stride(sym) != 0 and all(abs(ref.stride(other)) <= abs(ref.stride(sym)) for other in syms)


def _split_for_grid(group: FusionGroup, grid_threads: int) -> tuple[Sym, int] | None:
    """Returns the longest reduction loop and its number of parts, if the results alone do not occupy the grid."""
    reduction = single_reduction(group)
    operands = loads(reduction.update.value) if reduction is not None else []
    if reduction is None or not operands:
        return None
    results, terms = (prod(sym.extent for sym in syms) for syms in (group.syms, reduction.syms))
    if not results * terms:
        return None
    largest = max(operands, key=lambda ref: prod(sym.extent for index in ref.indices for sym in index.syms))
    if is_matmul_like(group):
        terms_per_step = machine.PRODUCT_TERMS
        busy_threads = -(-results // machine.RESULTS_PER_LANE)
    else:
        is_along_rows = any(abs(largest.stride(sym)) == 1 for sym in reduction.syms)
        terms_per_step = machine.ROW_TERMS if is_along_rows else machine.COLUMN_TERMS
        busy_threads = results * min(terms, terms_per_step)
    sym = max(reduction.syms, key=lambda sym: sym.extent)
    max_parts = terms // (terms_per_step * machine.MIN_PROGRAM_TRIPS)
    part_count = min(grid_threads // busy_threads, max_parts, sym.extent, machine.MAX_PROGRAM_PARTS)
    return (sym, part_count) if part_count > 1 else None


def single_reduction(group: FusionGroup) -> Reduction | None:
    """Returns the reduction of the group, if there is exactly one and its terms may be reassociated."""
    if len(group.reductions) != 1 or not group.cond.is_true or not all(map(is_full, group.loops)):
        return None
    (reduction,) = group.reductions
    is_reassociable = reduction.update.op in REASSOCIABLE and all(map(is_full, reduction.loops))
    return reduction if reduction.loops and is_reassociable else None


@dataclass(frozen=True, slots=True)
class PartialSums:
    """The buffer of a split reduction: one value per part and cell of the group, and one for each level of blocks that
    a part is divided into."""

    group: FusionGroup
    buf: Buf

    @property
    def init(self) -> Const:
        """The initial value of a part, which is the neutral element of the reduction."""
        (reduction,) = self.group.reductions
        return Const(neutral_element(reduction.update.op, self.buf.precision), self.buf.precision)

    def cell(self, part: Sym, substitution: Mapping[Sym, Affine], level: int = 0) -> Ref:
        """Returns the cell of a part, or of a block in it, after a substitution of the group's symbols."""
        levels = (Affine((), level),) if len(self.buf.shape) > 1 + len(self.group.loops) else ()
        indices = (substitution[loop.sym] - loop.sym.lo for loop in self.group.loops)
        return Ref(self.buf, (Affine.of(part), *levels, *indices))

    def final_reduction(self, part: Sym) -> Stmt:
        """Returns the second stage: the group, with the partial sums as the terms of its reduction."""
        (reduction,) = self.group.reductions
        cell = self.cell(part, {loop.sym: Affine.of(loop.sym) for loop in self.group.loops})
        update = replace(reduction.update, value=Load(cell))
        second = Reduction(reduction.init, (loop(part, ()),), TRUE, update)
        return replace(self.group, reductions=(second,)).stmt()


def partial_sums_buffer(group: FusionGroup, part_count: int, names: Namer, levels: int = 1) -> PartialSums:
    shape = (part_count, *((levels,) if levels > 1 else ()), *(loop.sym.extent for loop in group.loops))
    name, precision = names(f"{group.writes[0].buf.name}_parts"), group.reductions[0].acc.precision
    return PartialSums(group, Buf(name, precision, shape, row_major(shape), MemorySpace.ARENA, AccessMode.TEMP))


def with_fresh_symbols(loops: Sequence[For], names: Namer) -> tuple[tuple[For, ...], dict[Sym, Affine]]:
    """Returns loops with new symbols, and the substitution of the old symbols by the new ones."""
    new = {old.sym: Sym(names(old.sym.name), old.sym.lo, old.sym.hi) for old in loops}
    return tuple([loop(sym, ()) for sym in new.values()]), {old: Affine.of(sym) for old, sym in new.items()}


def split_group(group: FusionGroup, sym: Sym, part_count: int, names: Namer) -> tuple[Buf, Stmt, Stmt]:
    """Splits a reduction; returns the buffer of the partial sums, and the statements of the first and second stage.

    If parts have one iteration, the loop within a part is omitted, unless the first stage would have no other loop.
    """
    (reduction,) = group.reductions
    part_size = -(-sym.extent // part_count)
    part_count = -(-sym.extent // part_size)
    sums = partial_sums_buffer(group, part_count, names)
    part, second_stage_part = (Sym(names(f"{sym.name}_part"), 0, part_count - 1) for _ in range(2))
    if part_size > 1 or len(reduction.loops) == 1:
        inner = Sym(names(sym.name), 0, part_size - 1)
        iteration = Affine(((part_size, part), (1, inner)))
        loops = tuple([loop(inner, ()) if old.sym is sym else old for old in reduction.loops])
    else:
        iteration = Affine.of(part)
        loops = tuple([old for old in reduction.loops if old.sym is not sym])
    parallel_loops, substitution = with_fresh_symbols(group.loops, names)
    substitution |= {sym: iteration + sym.lo}
    cond = reduction.cond.substitute(substitution)
    if part_size * part_count > sym.extent:
        cond = Cond((Affine.of(sym.extent - 1) - iteration,)) & cond
    acc = Ref(local_buffer(names("acc"), sums.buf.precision, ()), ())
    update = replace(reduction.update, ref=acc, value=substitute(reduction.update.value, substitution))
    first_stage = FusionGroup(
        (loop(part, ()), *parallel_loops),
        TRUE,
        (Reduction(sums.init, loops, cond, update),),
        (Store(sums.cell(part, substitution), Load(acc)),),
    )
    return sums.buf, first_stage.stmt(), sums.final_reduction(second_stage_part)
