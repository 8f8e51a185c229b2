"""Cache blocking of a reduction: partial sums are stored between blocks, so that operands stay cached within one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.loops import AccessMode, Buf, Expr, Let, Load, MemorySpace, Ref, Store, Update, row_major
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import loads
from ocannl.opt.schedule.loop_generation.blocked_summation import SummationBlocks
from ocannl.opt.schedule.plan.register_tiles import TilePlan


@dataclass(frozen=True, slots=True)
class ReductionBlock:
    """The group restricted to one block of the reduction, or to a sequence of blocks that `block_sym` counts; `count`
    iterations of the outermost reduction loop from `first` on."""

    group: FusionGroup
    first: Affine
    count: int
    block_sym: Sym | None = None


@dataclass(frozen=True, slots=True)
class BlockedReduction:
    blocks: tuple[ReductionBlock, ...]
    bufs: tuple[Buf, ...]  # partial sums


def block_reduction(
    group: FusionGroup, plan: TilePlan, summation: SummationBlocks, names: Namer,
    space: MemorySpace = MemorySpace.ARENA,
) -> BlockedReduction:  # fmt: skip
    """Splits the outermost reduction loop into blocks of `plan.k_block` iterations, rounded up to whole iterations of
    the outermost loop of `summation`:

        acc = 0                               acc = 0
        for k in 0..24:                       for k in 0..8:
          acc += ..                             acc += ..
        y[i, j] = acc + 1                     y_sums[i, j] = acc
                                   ==>
                                              acc = y_sums[i, j]
                                              for k in 8*t..8*t+8:       for t in 1..2
                                                acc += ..
                                              y_sums[i, j] = acc

                                              acc = y_sums[i, j]
                                              for k in 16..24:
                                                acc += ..
                                              y[i, j] = acc + 1

    A buffer of partial sums, if there is one, is in the memory `space`. The order of summation does not change, so
    results are bitwise equal.
    """
    (reduction,), sym, size = group.reductions, summation.levels[0][0], -(-plan.k_block // summation.unit)
    count = -(-sym.extent // size)
    if count < 2:
        return BlockedReduction((whole_reduction(group, plan),), ())
    partial_sums, bufs = _partial_sums(group, plan, names, space)
    spill = (Store(partial_sums, Load(reduction.update.ref)),)
    block_sym, k, k_count = Sym(names(sym.name), 1, count - 2), plan.reduction_syms[0], size * summation.unit

    def block(
        number: Affine, init: Expr, epilogue: tuple[Let | Store | Update, ...], terms: int, counter: Sym | None = None
    ) -> ReductionBlock:
        first = number * size + sym.lo
        cond = reduction.cond & Cond((Affine.of(sym) - first, first + (size - 1) - sym))
        restricted = replace(group, reductions=(replace(reduction, init=init, cond=cond),), epilogue=epilogue)
        return ReductionBlock(restricted, number * k_count + k.lo, terms, counter)

    blocks = [block(Affine(), reduction.init, spill, k_count)]
    if block_sym.extent:
        blocks.append(block(Affine.of(block_sym), Load(partial_sums), spill, k_count, block_sym))
    last = k.extent - (count - 1) * k_count
    blocks.append(block(Affine((), count - 1), Load(partial_sums), group.epilogue, last))
    return BlockedReduction(tuple(blocks), bufs)


def whole_reduction(group: FusionGroup, plan: TilePlan) -> ReductionBlock:
    """Returns the only block of a reduction that is not blocked."""
    k = plan.reduction_syms[0]
    return ReductionBlock(group, Affine((), k.lo), k.extent)


def _partial_sums(
    group: FusionGroup, plan: TilePlan, names: Namer, space: MemorySpace
) -> tuple[Ref, tuple[Buf, ...]]:
    """Returns where partial sums are stored between blocks: in the result itself if the epilogue only stores the
    accumulator and no term reads the result, otherwise in a new buffer, in which vectors are contiguous."""
    (reduction,) = group.reductions
    acc, syms = reduction.update.ref, sorted(group.syms, key=lambda sym: sym is plan.vector)
    read = {alias_class(ref.buf) for ref in loads(reduction.update.value)}
    match group.epilogue:
        case (Store(ref, Load(stored)),) if stored == acc and ref.buf.precision is acc.buf.precision:
            memory = alias_class(ref.buf)
            init_refs = [init_ref for init_ref in loads(reduction.init) if alias_class(init_ref.buf) == memory]
            if all(init_ref == ref for init_ref in init_refs) and memory not in read:
                return ref, ()
    shape = tuple([sym.extent for sym in syms])
    name = names(f"{group.writes[0].buf.name}_sums")
    buf = Buf(name, acc.buf.precision, shape, row_major(shape), space, AccessMode.TEMP)
    return Ref(buf, tuple([Affine.of(sym) - sym.lo for sym in syms])), (buf,)
