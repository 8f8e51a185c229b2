"""Lets a nest take over, cell by cell, what others do with its results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ocannl.ir.index import TRUE, Affine, Sym
from ocannl.ir.loops import AccessMode, Cast, Expr, MemorySpace, Let, Load, Const, Proc, Ref, Stmt, Store, Update, Var
from ocannl.ir.names import Namer
from ocannl.ir.accesses import storage
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.cost import cost
from ocannl.opt.analysis.dependences import AccessIndex
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of_nest
from ocannl.opt.analysis.initial_stores import InitialStores
from ocannl.opt.analysis.nests import AccessTable, bound_names, nest_of, accessed_buffers
from ocannl.opt.analysis.substitution import map_expr


def fuse_epilogues(proc: Proc) -> Proc:
    """Makes one group of a fill and the sum that meets it, and of what is done with each cell afterwards.

        proc step                        proc step
          y : f32[5]    arena              w : f32[5,7]  in
          w : f32[5,7]  in                 z : f32[5]    out
          z : f32[5]    out                for i_2 in 0..5:
          for i in 0..5:                     local acc: f32 reg
            y[i] = 0              ==>        acc = 0
          for i_2 in 0..5:                   for j in 0..7:
            for j in 0..7:                     acc += w[i_2, j]
              y[i_2] += w[i_2, j]            z[i_2] = tanh(acc)
          for i_3 in 0..5:
            z[i_3] = tanh(y[i_3])

    Either nest goes to the place of the other one, if nothing between them minds. What nobody else reads is not stored.
    """
    return _Fusion(proc).result()


class _Fusion:
    __slots__ = ("groups", "names", "places", "proc", "stmts")

    def __init__(self, proc: Proc) -> None:
        self.proc = proc
        self.names = Namer(bound_names(proc))
        self.stmts: list[Stmt | None] = list(proc.body)
        self.groups: dict[int, FusionGroup] = {}  # by place
        starts = InitialStores(AccessTable(proc.body))
        for at, stmt in enumerate(proc.body):
            nest = nest_of(stmt)
            if nest is None:
                continue
            start = starts.initial_store(at, nest)
            starts.record(at, nest)
            group = group_of_nest(nest, self.names, start.value if start is not None else None)
            if group is None:
                continue
            self.groups[at] = group
            if group.reductions:  # which begin with what the fill had, or with what was there
                self.stmts[at] = group.stmt()
            if start is not None:
                self.stmts[start.position] = None
                self.groups.pop(start.position, None)
        self.places = AccessIndex(self.stmts)

    def result(self) -> Proc:
        for at in sorted(self.groups):
            self.absorb(at)
        for at, group in self.groups.items():
            left = self.swept(group)
            if left.epilogue != group.epilogue or len(group.epilogue) > 1 or group.reductions:
                self.stmts[at] = left.stmt() if left.writes else None
        body = tuple([stmt for stmt in self.stmts if stmt is not None])
        used = {buf for stmt in body for some in accessed_buffers(stmt) for buf in some}
        return replace(self.proc, body=body, bufs=tuple([buf for buf in self.proc.bufs if buf in used]))

    def absorb(self, at: int) -> None:
        """Makes this group a part of those that it reads from, if there are some that can take it."""
        group = self.groups[at]
        if group.reductions or not group.cond.is_true:
            return
        makers = {self.places.reaching_write(ref.buf, at) for ref in group.reads}  # an older one could not move past it
        for maker in sorted(makers & self.groups.keys(), reverse=True):
            whole = joined(self.groups[maker], group, self.names)
            if whole is None:
                continue
            if (met := self.places.common_position(maker, at)) is None:
                continue
            place, gone = met
            self.groups[place] = whole
            del self.groups[gone]
            self.stmts[gone] = None
            self.places.merge(gone, place)
            self.places.narrow_reads(place, whole)
            self.absorb(place)
            return

    def swept(self, group: FusionGroup) -> FusionGroup:
        """Without stores of what nobody reads."""

        def is_dead(stmt: Stmt) -> bool:
            if not isinstance(stmt, Store) or stmt.ref.buf.access is not AccessMode.TEMP:
                return False
            return not self.places.is_read(stmt.ref.buf)

        return replace(group, epilogue=tuple([stmt for stmt in group.epilogue if not is_dead(stmt)]))


# --------------------------------------------------------------------------------------------------------- two groups


def joined(first: FusionGroup, then: FusionGroup, names: Namer) -> FusionGroup | None:
    """Both as one group, where each iteration of the second follows on one of the first alone."""
    if not first.cond.is_true or not then.cond.is_true or then.reductions:
        return None
    values = _matched(first, then)
    if values is None:
        return None
    second = replace(then.substituted(values), loops=first.loops)
    tail = second.epilogue
    if not _meet_only_here(first, second):
        return None
    wanted = set(second.reads)
    begin: list[Let | Store | Update] = []
    known: dict[Ref, Expr] = {}
    for stmt in first.epilogue:
        if isinstance(stmt, Store) and stmt.ref in wanted:
            if not _stays(stmt.value):
                let = Let(names(stmt.ref.buf.name), stmt.value)
                begin.append(let)
                stmt = replace(stmt, value=Var(let.name, stmt.value.precision))
            known[stmt.ref] = stmt.value
        elif isinstance(stmt, Update):
            known.pop(stmt.ref, None)
        begin.append(stmt)
    whole = FusionGroup(first.loops, TRUE, first.reductions, (*begin, *_forwarded(tail, known)))
    arrays = {ref.buf for ref in (*whole.reads, *whole.writes)}
    if len(arrays) > machine.MAX_EPILOGUE_STREAMS:
        return None
    return whole if sum(cost(value).nodes for value in whole.values) <= machine.MAX_EPILOGUE_NODES else None


def _stays(value: Expr) -> bool:
    """Whether it costs next to nothing, and is the same in all of the tail."""
    while isinstance(value, Cast):
        value = value.value
    return isinstance(value, Var | Const) or (isinstance(value, Load) and value.ref.buf.space is MemorySpace.LOCAL)


def _forwarded(tail: Iterable[Let | Store | Update], known: dict[Ref, Expr]) -> Iterator[Let | Store | Update]:
    """The statements with values in place of cells that have just been stored, until these change."""
    for stmt in tail:
        value = map_expr(stmt.value, lambda node: known.get(node.ref, node) if isinstance(node, Load) else node)
        yield replace(stmt, value=value)
        if not isinstance(stmt, Let):
            known.pop(stmt.ref, None)


def _matched(first: FusionGroup, then: FusionGroup) -> dict[Sym, Affine] | None:
    """Values for the loops of the second group, from cells of the first one that it reads: one loop for each of its."""
    if len(first.loops) != len(then.loops):
        return None
    written = {ref.buf: ref for ref in first.writes}
    pairs: dict[Sym, Sym] = {}
    for ref in then.reads:
        if ref.buf not in written:
            continue
        for mine, its in zip(written[ref.buf].indices, ref.indices, strict=True):
            one, other = mine.only_sym, its.only_sym
            if one is None or other is None:
                if mine != its:
                    return None
            elif (one.lo, one.hi) != (other.lo, other.hi) or pairs.setdefault(other, one) is not one:
                return None
    if set(pairs) != set(then.syms) or set(pairs.values()) != set(first.syms):
        return None
    return {its: Affine.of(mine) for its, mine in pairs.items()}


def _meet_only_here(first: FusionGroup, second: FusionGroup) -> bool:
    """Whether cells that one writes and the other touches are those of the same iteration."""
    for mine, its in ((first.writes, [*second.reads, *second.writes]), (second.writes, [*first.reads, *first.writes])):
        for ref in mine:
            for other in its:
                if storage(ref.buf) == storage(other.buf) and other != ref:
                    return False
    return True
