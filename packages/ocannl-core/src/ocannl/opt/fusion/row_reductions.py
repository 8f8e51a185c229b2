"""Loop fusion of a nest over rows with reductions over the same rows, as partial sums.

Fusion is legal if it reverses no dependence (Kennedy and McKinley 1993). Let R be the nest over rows, S the reductions
fused into it before, and G the reduction to fuse. The fused nest executes R, the terms of S and the terms of G for each
row, in this order; the epilogues of S and of G run after the last row, in this order. Hence:

- All of R in a row precedes G. If G preceded R in the program, neither may write what the other accesses.
- The epilogue of G, with all its reads besides the terms, follows R. If G followed R in the program, these dependences
  are preserved.
- A term of G may read what R writes only in cells of the same row, because R writes those of later rows later.
- A term of G may not read the result of a reduction in S, which is complete only after the last row. That R reads such
  a result is excluded by the first rule. All other dependences from S to G are preserved: terms that the result of G
  overwrites have been read before, and results are written in program order.

Statements between R and G must not depend on the one that moves, see `AccessIndex.can_move_next_to`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.loops import Buf, Expr, For, Load, Ref, Stmt, Store, is_full
from ocannl.ir.name_mangling import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, is_rounded_sum, local_buffer
from ocannl.opt.analysis.nests import loads
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.parallel.split_reductions import choose_part_count, partial_sums_buffer, with_fresh_symbols
from ocannl.opt.schedule.loop_generation.blocked_summation import SummationBlocks, divide_loops
from ocannl.opt.schedule.plan.scalar_plans import REASSOCIABLE


@dataclass(frozen=True, slots=True)
class RowReduction:
    """A group whose reduction runs over rows; `syms` are its row loops, in the order of the loops of the nest."""

    group: FusionGroup
    syms: tuple[Sym, ...]

    @property
    def reduction(self) -> Reduction:
        return self.group.reductions[0]

    def term(self, loops: Sequence[For]) -> Expr:
        """The term of one row, in symbols of the given loops."""
        values = {sym: Affine.of(loop.sym) for sym, loop in zip(self.syms, loops, strict=True)}
        return substitute(self.reduction.update.value, values)

    @property
    def epilogue_buffers(self) -> set[Buf]:
        """Buffers that are accessed after the last row, by the initial value and the epilogue."""
        (reduction,) = self.group.reductions
        values = (reduction.init, *(stmt.value for stmt in self.group.epilogue))
        return {ref.buf for value in values for ref in loads(value)} | {ref.buf for ref in self.group.writes}


def fused_row_reduction(
    loops: Sequence[For],
    reads: Sequence[Ref],
    writes: Sequence[Ref],
    row_reductions: Sequence[RowReduction],
    group: FusionGroup,
    min_reused_bytes: int,
) -> RowReduction | None:
    """The group as a row reduction of the nest with these loops, accesses and row reductions. Returns None if fusion is
    illegal, or if the terms reuse fewer than `min_reused_bytes` bytes that the nest accesses."""
    extent = loops[0].sym.extent
    if len(group.reductions) != 1 or choose_part_count(extent) < min(machine.MIN_REDUCTION_PARTS, extent):
        return None
    (reduction,) = group.reductions
    terms = loads(reduction.update.value)
    result_bytes = prod(sym.extent for sym in group.syms) * reduction.acc.precision.nbytes
    if reduction.update.op not in REASSOCIABLE or not reduction.cond.is_true or not all(map(is_full, reduction.loops)):
        return None
    if result_bytes > machine.MAX_PARTIAL_SUMS_BYTES:
        return None
    if not any(all(ref.stride(s) for s in group.syms + reduction.syms) for ref in terms):
        return None
    pairs = product((*writes, *reads), terms)
    matches = (_matching_syms(loops, nest_ref, reduction.syms, term_ref) for nest_ref, term_ref in pairs)
    syms = next(filter(None, matches), ())
    accessed = {alias_class(ref.buf) for ref in (*reads, *writes)}
    reused = {ref.buf for ref in terms if alias_class(ref.buf) in accessed}
    if not syms or sum(buf.nbytes for buf in reused) < min_reused_bytes:
        return None
    totals = {alias_class(ref.buf) for previous in row_reductions for ref in previous.group.writes}
    if any(alias_class(ref.buf) in totals for ref in terms):
        return None
    for write, read in product(writes, terms):
        may_alias = alias_class(write.buf) == alias_class(read.buf)
        if may_alias and _matching_syms(loops, write, reduction.syms, read) != syms:
            return None
    return RowReduction(group, syms)


def _matching_syms(loops: Sequence[For], left_ref: Ref, syms: Sequence[Sym], right_ref: Ref) -> tuple[Sym, ...]:
    """For each loop, the symbol of `syms` that equals its symbol wherever both references are to one cell, or ()."""
    if left_ref.buf is not right_ref.buf:
        return ()
    pairs = {left.only_sym: right.only_sym for left, right in zip(left_ref.indices, right_ref.indices, strict=True)}
    matched = [sym for loop in loops if (sym := pairs.get(loop.sym)) is not None and sym in syms]
    if len(set(matched)) != len(loops):
        return ()
    both = zip(loops, matched, strict=True)
    return tuple(matched) if all((loop.sym.lo, loop.sym.hi) == (sym.lo, sym.hi) for loop, sym in both) else ()


@dataclass(frozen=True, slots=True)
class PartialSumStmts:
    """The statements of a row reduction: initialization and addition of the partial sums of each level of blocks, the
    terms of a row, and the final reduction."""

    buf: Buf
    clear: tuple[Stmt, ...]  # by level; the first one clears the sums of a part
    inside: Stmt
    add: tuple[Stmt, ...]  # adds the sums of the next level to those of a level
    after: Stmt


def row_blocks(row_reductions: Sequence[RowReduction], loops: Sequence[For], names: Namer) -> SummationBlocks:
    """Divides the rows of a part, which are the iterations of `loops`, into blocks that suit all of the reductions."""
    syms = tuple([loop.sym for loop in loops])
    limits = [
        machine.MAX_ADDITIONS_PER_TERM if len(part.reduction.loops) == len(part.syms) else machine.MAX_ROW_ADDITIONS
        for part in row_reductions if is_rounded_sum(part.reduction.update)
    ]  # fmt: skip
    return divide_loops(syms, min(limits), names) if limits else SummationBlocks((syms,))


def with_partial_sums(
    row_reduction: RowReduction, loops: Sequence[For], part: Sym, levels: int, names: Namer
) -> PartialSumStmts:
    """Builds the reduction as partial sums, indexed by `part`, with the terms added within the given loops:

    for o in 0..4: y_parts[p, o] = 0
    ...
      for o_2 in 0..4: y_parts[p, o_2] += x[b, o_2]
    for o_3 in 0..4: y[o_3] = the sum of y_parts[p_2, o_3]

    The terms are added to the sums of the last of `levels` levels.
    """
    total = row_reduction.reduction
    buffer = partial_sums_buffer(row_reduction.group, part.extent, names, levels)

    def clear(level: int) -> Stmt:
        clear_loops, renaming = with_fresh_symbols(row_reduction.group.loops, names)
        store = Store(buffer.cell(part, renaming, level), buffer.init)
        return FusionGroup(clear_loops, TRUE, (), (store,)).stmt()

    def add(level: int) -> Stmt:
        add_loops, renaming = with_fresh_symbols(row_reduction.group.loops, names)
        value = Load(buffer.cell(part, renaming, level + 1))
        update = replace(total.update, ref=buffer.cell(part, renaming, level), value=value)
        return FusionGroup(add_loops, TRUE, (), (update,)).stmt()

    group_loops, renaming = with_fresh_symbols(row_reduction.group.loops, names)
    inner_loops = tuple([loop for loop in total.loops if loop.sym not in row_reduction.syms])
    cell = buffer.cell(part, renaming, levels - 1)
    update = replace(total.update, ref=cell, value=substitute(row_reduction.term(loops), renaming))
    if inner_loops:
        acc = Ref(local_buffer(names("acc"), buffer.buf.precision, ()), ())
        inner = Reduction(Load(update.ref), inner_loops, TRUE, replace(update, ref=acc))
        inside = FusionGroup(group_loops, TRUE, (inner,), (Store(update.ref, Load(acc)),)).stmt()
    else:
        inside = FusionGroup(group_loops, TRUE, (), (update,)).stmt()
    after = buffer.final_reduction(Sym(names(part.name), part.lo, part.hi))
    clears, additions = tuple(map(clear, range(levels))), tuple(map(add, range(levels - 1)))
    return PartialSumStmts(buffer.buf, clears, inside, additions, after)
