"""Long sums in parts, which threads can share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.index import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import AccessMode, Buf, For, MemorySpace, Load, Const, Proc, Ref, Stmt, Store, loop, row_major
from ocannl.ir.names import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, group_of, is_matmul_like, local_buffer
from ocannl.opt.analysis.nests import is_parallel_loop, is_full, loads, bound_names
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.schedule.build.plain import neutral_element
from ocannl.opt.schedule.plan.plain import REASSOCIABLE


def split_reductions(proc: Proc, min_iterations: int | None = None, grid_threads: int = 0) -> Proc:
    """Divides sums that go through much memory but for few results. Here a sum is long from 192 on:

        proc step                       proc step
          x : f32[192]  in                x       : f32[192]  in
          y : f32       inout             y       : f32       inout
          for i in 0..192:                y_parts : f32[64]   arena
            y += x[i]                     for i_part in 0..64:
                                            local acc_2: f32 reg
                                            acc_2 = 0
                                   ==>      for i_2 in 0..3:
                                              acc_2 += x[i_2+3*i_part]
                                            y_parts[i_part] = acc_2
                                          if true:
                                            local acc: f32 reg
                                            acc = y
                                            for i_part_2 in 0..64:
                                              acc += y_parts[i_part_2]
                                            y = acc

    Parts are consecutive, and as many as sizes say: the result is the same whatever the number of threads. Those for
    programs of a grid are as many as it takes to keep so many `lanes` busy; the last one may have fewer terms.
    """
    min_iterations = machine.MIN_SPLIT_ITERATIONS if min_iterations is None else min_iterations
    names = Namer(bound_names(proc))
    body: list[Stmt] = []
    bufs: list[Buf] = []
    for stmt in proc.body:
        group = group_of(stmt, names) if not is_parallel_loop(stmt) else None
        found = (_among_programs(group, grid_threads) if grid_threads else _among_threads(group, min_iterations)) if group is not None else None
        if group is None or found is None:
            body.append(stmt)
            continue
        buf, first, last = _in_parts(group, *found, names)
        body += (first, last)
        bufs.append(buf)
    return replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs)) if bufs else proc


def choose_part_count(extent: int) -> int:
    """So many parts of equal length as a loop is divided into."""
    return max(n for n in range(1, machine.MAX_REDUCTION_PARTS + 1) if extent % n == 0) if extent else 0


def _among_threads(group: FusionGroup, long: int) -> tuple[Sym, int] | None:
    """The loop of a sum to divide, in how many parts: that along which most memory lies, if it does for all loops."""
    each = _only_sum(group)
    if each is None or not each.cond.is_true or prod(sym.extent for sym in group.syms + each.syms) < long:
        return None
    syms = group.syms + each.syms
    whole = next((ref for ref in loads(each.update.value) if all(map(ref.stride, syms))), None)
    if whole is None:
        return None
    outer = max(syms, key=lambda sym: abs(whole.stride(sym)))
    many = choose_part_count(outer.extent)
    return (outer, many) if outer in each.syms and many >= min(machine.MIN_REDUCTION_PARTS, outer.extent) else None


def _among_programs(group: FusionGroup, lanes: int) -> tuple[Sym, int] | None:
    """The longest loop of a sum, if there are few results with many terms."""
    each = _only_sum(group)
    read = loads(each.update.value) if each is not None else []
    if each is None or not read:
        return None
    results, terms = (prod(sym.extent for sym in syms) for syms in (group.syms, each.syms))
    if not results * terms:
        return None
    most = max(read, key=lambda ref: prod(sym.extent for at in ref.indices for sym in at.syms))
    along = any(abs(most.stride(sym)) == 1 for sym in each.syms)
    taken = machine.PRODUCT_TERMS if is_matmul_like(group) else machine.ROW_TERMS if along else machine.COLUMN_TERMS
    busy = -(-results // machine.RESULTS_PER_LANE) if is_matmul_like(group) else results * min(terms, taken)
    sym = max(each.syms, key=lambda sym: sym.extent)
    many = min(lanes // busy, terms // (taken * machine.MIN_PROGRAM_TRIPS), sym.extent, machine.MAX_PROGRAM_PARTS)
    return (sym, many) if many > 1 else None


def _only_sum(group: FusionGroup) -> Reduction | None:
    """If its terms may be added in any order."""
    if len(group.reductions) != 1 or not group.cond.is_true or not all(map(is_full, group.loops)):
        return None
    (each,) = group.reductions
    return each if each.loops and each.update.op in REASSOCIABLE and all(map(is_full, each.loops)) else None


@dataclass(frozen=True, slots=True)
class PartialSums:
    """An array for the parts of a group's sum: for each part a number for each cell of the group."""

    group: FusionGroup
    buf: Buf

    @property
    def init(self) -> Const:
        """What a part begins with."""
        (total,) = self.group.reductions
        return Const(neutral_element(total.update.op, self.buf.precision), self.buf.precision)

    def cell(self, part: Sym, substitution: Mapping[Sym, Affine]) -> Ref:
        """That of a part, for these values of the group's symbols."""
        return Ref(self.buf, (Affine.of(part), *(substitution[turn.sym] - turn.sym.lo for turn in self.group.loops)))

    def final_reduction(self, part: Sym) -> Stmt:
        """The group with the parts as its terms."""
        (total,) = self.group.reductions
        cell = self.cell(part, {turn.sym: Affine.of(turn.sym) for turn in self.group.loops})
        update = replace(total.update, value=Load(cell))
        return replace(self.group, reductions=(Reduction(total.init, (loop(part, ()),), TRUE, update),)).stmt()


def partial_sums_buffer(group: FusionGroup, part_count: int, names: Namer) -> PartialSums:
    shape = (part_count, *(turn.sym.extent for turn in group.loops))
    name, precision = names(f"{group.writes[0].buf.name}_parts"), group.reductions[0].acc.precision
    return PartialSums(group, Buf(name, precision, shape, row_major(shape), MemorySpace.ARENA, AccessMode.TEMP))


def with_fresh_symbols(loops: Sequence[For], names: Namer) -> tuple[tuple[For, ...], dict[Sym, Affine]]:
    """The loops with symbols of their own, and these as values of the old ones."""
    new = {turn.sym: Sym(names(turn.sym.name), turn.sym.lo, turn.sym.hi) for turn in loops}
    return tuple([loop(sym, ()) for sym in new.values()]), {old: Affine.of(sym) for old, sym in new.items()}


def _in_parts(group: FusionGroup, sym: Sym, many: int, names: Namer) -> tuple[Buf, Stmt, Stmt]:
    """The array of the parts, the group that makes them, and the one that adds them up."""
    (total,) = group.reductions
    size = -(-sym.extent // many)
    many = -(-sym.extent // size)
    room = partial_sums_buffer(group, many, names)
    part, again = (Sym(names(f"{sym.name}_part"), 0, many - 1) for _ in range(2))
    turn = Sym(names(sym.name), 0, size - 1)
    kept, known = with_fresh_symbols(group.loops, names)
    here = Affine(((size, part), (1, turn)))
    known |= {sym: here + sym.lo}
    cond = total.cond.substitute(known)
    if size * many > sym.extent:
        cond = Cond((Affine.of(sym.extent - 1) - here,)) & cond
    acc = Ref(local_buffer(names("acc"), room.buf.precision, ()), ())
    loops = tuple([loop(turn, ()) if each.sym is sym else each for each in total.loops])
    update = replace(total.update, ref=acc, value=substitute(total.update.value, known))
    first = FusionGroup((loop(part, ()), *kept), TRUE, (Reduction(room.init, loops, cond, update),),
                  (Store(room.cell(part, known), Load(acc)),))  # fmt: skip
    return room.buf, first.stmt(), room.final_reduction(again)
