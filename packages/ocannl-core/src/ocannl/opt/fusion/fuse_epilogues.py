"""Fuses pointwise consumers into their producer as an epilogue (producer-consumer loop fusion)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.loops import AccessMode, Cast, Const, Expr, Let, Load, MemorySpace, Proc, Ref, Stmt, Store, Update, Var
from ocannl.ir.name_mangling import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.dependences import AccessIndex
from ocannl.opt.analysis.expression_cost import cost
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of_nest
from ocannl.opt.analysis.initial_stores import InitialStores
from ocannl.opt.analysis.nests import AccessTable, accessed_buffers, bound_names, nest_of
from ocannl.opt.analysis.substitution import map_expr


def fuse_epilogues(proc: Proc) -> Proc:
    """Makes one group of an initial store, the reduction that updates it, and the pointwise operations on the result.

        proc step                        proc step
          y : f32[5]    arena              w : f32[5,7]  in
          w : f32[5,7]  in                 z : f32[5]    out
          z : f32[5]    out                for i_2 in 0..5:
          for i in 0..5:                     local acc: f32
            y[i] = 0              ==>        acc = 0
          for i_2 in 0..5:                   for j in 0..7:
            for j in 0..7:                     acc += w[i_2, j]
              y[i_2] += w[i_2, j]            z[i_2] = tanh(acc)
          for i_3 in 0..5:
            z[i_3] = tanh(y[i_3])

    Either nest moves next to the other if no statement between them conflicts. Stores that are never read are removed.
    """
    return _EpilogueFusion(proc).result()


class _EpilogueFusion:
    __slots__ = ("groups", "names", "accesses", "depths", "proc", "stmts")

    def __init__(self, proc: Proc) -> None:
        self.proc = proc
        self.names = Namer(bound_names(proc))
        self.stmts: list[Stmt | None] = list(proc.body)
        self.groups: dict[int, FusionGroup] = {}  # by position
        initial_stores = InitialStores(AccessTable(proc.body))
        for position, stmt in enumerate(proc.body):
            nest = nest_of(stmt)
            if nest is None:
                continue
            initial = initial_stores.initial_store(position, nest)
            initial_stores.record(position, nest)
            group = group_of_nest(nest, self.names, initial.value if initial is not None else None)
            if group is None:
                continue
            self.groups[position] = group
            if group.reductions:  # they start from the initial store, or from the cells' values
                self.stmts[position] = group.stmt()
            if initial is not None:
                self.stmts[initial.position] = None
                self.groups.pop(initial.position, None)
        self.accesses = AccessIndex(self.stmts)
        self.depths = self.accesses.depths()

    def result(self) -> Proc:
        for position in sorted(self.groups):
            self.try_fuse(position)
        for position, group in self.groups.items():
            live = self.without_dead_stores(group)
            if live.epilogue != group.epilogue or len(group.epilogue) > 1 or group.reductions:
                self.stmts[position] = live.stmt() if live.writes else None
        body = tuple([stmt for stmt in self.stmts if stmt is not None])
        used = {buf for stmt in body for buffers in accessed_buffers(stmt) for buf in buffers}
        return replace(self.proc, body=body, bufs=tuple([buf for buf in self.proc.bufs if buf in used]))

    def try_fuse(self, at: int) -> None:
        """Fuses this group into a producer of its operands, then repeats with the result.

        The first choice is the producer with the longest chain of nests before it: the group must wait for this one
        anyway, and fused with another producer, it would delay that one as well. In a mean loss, for example, the sum
        of the losses depends on the whole network, and the number of valid labels, from which gradients start, only on
        the labels. The depths of later consumers are not updated.
        """
        group = self.groups[at]
        if group.reductions or not group.cond.is_true:
            return
        # only the last write of an operand: an earlier one could not move past it
        producers = {self.accesses.reaching_write(ref.buf, at) for ref in group.reads}
        candidates = producers & self.groups.keys()
        for producer in sorted(candidates, key=lambda position: (self.depths[position], position), reverse=True):
            fused = fused_groups(self.groups[producer], group, self.names)
            if fused is None:
                continue
            if (merged := self.accesses.common_position(producer, at)) is None:
                continue
            position, absorbed = merged
            self.depths[position] = max(self.depths[producer], self.depths[at])
            self.groups[position] = fused
            del self.groups[absorbed]
            self.stmts[absorbed] = None
            self.accesses.merge(absorbed, position)
            self.accesses.narrow_reads(position, fused)
            self.try_fuse(position)
            return

    def without_dead_stores(self, group: FusionGroup) -> FusionGroup:
        """The group without dead stores."""

        def is_dead(stmt: Stmt) -> bool:
            if not isinstance(stmt, Store) or stmt.ref.buf.access is not AccessMode.TEMP:
                return False
            return not self.accesses.is_read(stmt.ref.buf)

        return replace(group, epilogue=tuple([stmt for stmt in group.epilogue if not is_dead(stmt)]))


# -------------------------------------------------------------------------------------------------- pairs of groups


def fused_groups(first: FusionGroup, second_group: FusionGroup, names: Namer) -> FusionGroup | None:
    """One group that executes each iteration of the second after the equal one of the first. Returns None if fusion is
    illegal, or if the result exceeds the limits of the machine model."""
    if not first.cond.is_true or not second_group.cond.is_true or second_group.reductions:
        return None
    values = _match_loops(first, second_group)
    if values is None:
        return None
    second = replace(second_group.substituted(values), loops=first.loops)
    consumer_stmts = second.epilogue
    if not _has_only_zero_distance_dependences(first, second):
        return None
    consumed = set(second.reads)
    producer_stmts: list[Let | Store | Update] = []
    stored: dict[Ref, Expr] = {}
    for stmt in first.epilogue:
        if isinstance(stmt, Store) and stmt.ref in consumed:
            if not _is_cheap_and_stable(stmt.value):
                let = Let(names(stmt.ref.buf.name), stmt.value)
                producer_stmts.append(let)
                stmt = replace(stmt, value=Var(let.name, stmt.value.precision))
            stored[stmt.ref] = stmt.value
        elif isinstance(stmt, Update):
            stored.pop(stmt.ref, None)
        producer_stmts.append(stmt)
    fused = FusionGroup(
        first.loops, TRUE, first.reductions, (*producer_stmts, *_forward_stores(consumer_stmts, stored))
    )
    arrays = {ref.buf for ref in (*fused.reads, *fused.writes)}
    if len(arrays) > machine.MAX_EPILOGUE_STREAMS:
        return None
    return fused if sum(cost(value).nodes for value in fused.values) <= machine.MAX_EPILOGUE_NODES else None


def _is_cheap_and_stable(value: Expr) -> bool:
    """Whether the value is trivial to recompute and cannot change within the epilogue."""
    while isinstance(value, Cast):
        value = value.value
    return isinstance(value, Var | Const) or (isinstance(value, Load) and value.ref.buf.space is MemorySpace.LOCAL)


def _forward_stores(
    epilogue: Iterable[Let | Store | Update], stored: dict[Ref, Expr]
) -> Iterator[Let | Store | Update]:
    """Store-to-load forwarding: replaces loads of cells by the stored values, until the cells are overwritten."""
    for stmt in epilogue:
        value = map_expr(stmt.value, lambda node: stored.get(node.ref, node) if isinstance(node, Load) else node)
        yield replace(stmt, value=value)
        if not isinstance(stmt, Let):
            stored.pop(stmt.ref, None)


def _match_loops(first: FusionGroup, second: FusionGroup) -> dict[Sym, Affine] | None:
    """Maps the loop symbols of the second group one-to-one to those of the first, by the indices of shared cells."""
    if len(first.loops) != len(second.loops):
        return None
    written = {ref.buf: ref for ref in first.writes}
    loop_pairs: dict[Sym, Sym] = {}
    for ref in second.reads:
        if ref.buf not in written:
            continue
        for write_index, read_index in zip(written[ref.buf].indices, ref.indices, strict=True):
            first_sym, second_sym = write_index.only_sym, read_index.only_sym
            if first_sym is None or second_sym is None:
                if write_index != read_index:
                    return None
                continue
            if (first_sym.lo, first_sym.hi) != (second_sym.lo, second_sym.hi):
                return None
            if loop_pairs.setdefault(second_sym, first_sym) is not first_sym:
                return None
    if set(loop_pairs) != set(second.syms) or set(loop_pairs.values()) != set(first.syms):
        return None
    return {second_sym: Affine.of(first_sym) for second_sym, first_sym in loop_pairs.items()}


def _has_only_zero_distance_dependences(first: FusionGroup, second: FusionGroup) -> bool:
    """Whether all dependences between the groups are within one iteration (dependence distance zero)."""
    for written, accessed in (
        (first.writes, [*second.reads, *second.writes]),
        (second.writes, [*first.reads, *first.writes]),
    ):
        for write in written:
            for access in accessed:
                if alias_class(write.buf) == alias_class(access.buf) and access != write:
                    return False
    return True
