"""Sums over the rows that a nest goes through anyway, in parts.

Taking a sum along is fusion of loops, and legal where no dependence between the two is turned round (Kennedy and
McKinley 1993). Let R be the nest over rows, S the sums that it takes along already, and G another sum. Where they are
one, R, the terms of S, and the terms of G are executed row by row, in this order; the totals of S and of G, with what
is done with them, come after the last row, in this order. So

- what R does in a row happens before all that G does: if G stood before R, neither may write what the other one
  touches;
- the total of G comes after all that R does, as does whatever it reads besides the terms: if G stood behind R, these
  dependences are kept, be they what they may;
- a term of G may read what R writes only in cells of its own row: R writes those of later rows later;
- a term of G may not read the total of a sum in S: it is complete when the last row is through, and not before. That R
  itself is such a reader is excluded by the first rule. All other dependences go from S to G, which stood behind S, and
  are kept: terms that G's total overwrites have been read, and totals are written in the old order.

Statements that stood between R and G must not mind that either of them moves, see `Places.may_move`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from ocannl.ir.index import TRUE, Affine, Sym
from ocannl.ir.loops import Buf, Expr, For, Load, Ref, Stmt, Store
from ocannl.ir.names import Namer
from ocannl.ir.accesses import storage
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.analysis.nests import is_full, loads
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.parallel.split_reductions import parts_of, renamed, room_of
from ocannl.opt.schedule.plan.plain import REASSOCIABLE


@dataclass(frozen=True, slots=True)
class Carried:
    """A group whose sum goes over rows; `syms` are its loops over them, in the order of the rows' own."""

    group: FusionGroup
    syms: tuple[Sym, ...]

    @property
    def sum(self) -> Reduction:
        return self.group.reductions[0]

    def term(self, loops: Sequence[For]) -> Expr:
        """What a row adds, in symbols of these loops."""
        rows = {sym: Affine.of(turn.sym) for sym, turn in zip(self.syms, loops, strict=True)}
        return substitute(self.sum.update.value, rows)

    @property
    def late(self) -> set[Buf]:
        """What is read or written when all rows are through."""
        (each,) = self.group.reductions
        read = {ref.buf for value in (each.init, *(stmt.value for stmt in self.group.epilogue)) for ref in loads(value)}
        return read | {ref.buf for ref in self.group.writes}


def carried(
    loops: Sequence[For],
    reads: Sequence[Ref],
    writes: Sequence[Ref],
    sums: Sequence[Carried],
    group: FusionGroup,
    far_bytes: int,
) -> Carried | None:
    """The group, if its sum can be taken along by a nest that goes through rows by these loops, reads and writes these
    cells, and takes these sums along: if a row is enough for a row's term, of which a lot is there already."""
    extent = loops[0].sym.extent
    if len(group.reductions) != 1 or parts_of(extent) < min(machine.MIN_REDUCTION_PARTS, extent):
        return None
    (each,) = group.reductions
    terms = loads(each.update.value)
    size = prod(sym.extent for sym in group.syms) * each.acc.precision.nbytes
    if each.update.op not in REASSOCIABLE or not each.cond.is_true or not all(map(is_full, each.loops)):
        return None
    if size > machine.MAX_PARTIAL_SUMS_BYTES:
        return None
    if not any(all(ref.stride(s) for s in group.syms + each.syms) for ref in terms):
        return None
    pairs = product((*writes, *reads), terms)
    syms = next((same for one, its in pairs if (same := _same(loops, one, each.syms, its))), ())
    known = {storage(ref.buf) for ref in (*reads, *writes)}
    again = {ref.buf for ref in terms if storage(ref.buf) in known}
    if not syms or sum(buf.nbytes for buf in again) < far_bytes:
        return None
    totals = {storage(ref.buf) for other in sums for ref in other.group.writes}
    if any(storage(ref.buf) in totals for ref in terms):
        return None
    met = [(one, its) for one in writes for its in terms if storage(one.buf) == storage(its.buf)]
    return Carried(group, syms) if all(_same(loops, one, each.syms, its) == syms for one, its in met) else None


def _same(loops: Sequence[For], one: Ref, syms: Sequence[Sym], other: Ref) -> tuple[Sym, ...]:
    """For each of the loops the symbol that equals its own wherever the cells are one; nothing, if one has none."""
    if one.buf is not other.buf:
        return ()
    pairs = {a.only_sym: b.only_sym for a, b in zip(one.indices, other.indices, strict=True)}
    found = [sym for turn in loops if (sym := pairs.get(turn.sym)) is not None and sym in syms]
    if len(set(found)) != len(loops):
        return ()
    both = zip(loops, found, strict=True)
    return tuple(found) if all((turn.sym.lo, turn.sym.hi) == (sym.lo, sym.hi) for turn, sym in both) else ()


@dataclass(frozen=True, slots=True)
class Parts:
    """What stands before the rows of a part, in each row, and after all of them."""

    buf: Buf
    before: Stmt
    inside: Stmt
    after: Stmt


def in_parts(each: Carried, loops: Sequence[For], part: Sym, names: Namer) -> Parts:
    """The sum in the parts that `part` counts, taken along by these loops:

        for o in 0..4: y_parts[p, o] = 0
        ...
          for o_2 in 0..4: y_parts[p, o_2] += x[b, o_2]
        for o_3 in 0..4: y[o_3] = the sum of y_parts[p_2, o_3]
    """
    total = each.sum
    room = room_of(each.group, part.extent, names)
    begun, known = renamed(each.group.loops, names)
    before = FusionGroup(begun, TRUE, (), (Store(room.cell(part, known), room.start),)).stmt()

    turns, known = renamed(each.group.loops, names)
    rest = tuple([turn for turn in total.loops if turn.sym not in each.syms])
    update = replace(total.update, ref=room.cell(part, known), value=substitute(each.term(loops), known))
    if rest:
        acc = Ref(local_buffer(names("acc"), room.buf.precision, ()), ())
        inner = Reduction(Load(update.ref), rest, TRUE, replace(update, ref=acc))
        inside = FusionGroup(turns, TRUE, (inner,), (Store(update.ref, Load(acc)),)).stmt()
    else:
        inside = FusionGroup(turns, TRUE, (), (update,)).stmt()
    return Parts(room.buf, before, inside, room.added_up(Sym(names(part.name), part.lo, part.hi)))
