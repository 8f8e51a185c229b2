"""Rematerialization: recomputes attention weights in the backward pass instead of storing them (Dao et al. 2022)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ocannl.ir.accesses import alias_class
from ocannl.ir.loops import AccessMode, Const, For, Load, MemorySpace, Proc, Ref, Store, Update, is_full
from ocannl.ir.ops import ADD
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.expression_cost import cost
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, is_matmul_like
from ocannl.opt.analysis.fusion_group_graph import ProgramGroups
from ocannl.opt.analysis.nests import accessed_buffers, loads, unit_covering_loops
from ocannl.opt.analysis.substitution import map_expr
from ocannl.opt.idioms.attention.match_softmax import match_softmax
from ocannl.opt.idioms.attention.online_softmax import is_tileable
from ocannl.opt.idioms.attention.recompute_nest import Consumer, RecomputeNest
from ocannl.opt.idioms.attention.recomputed_values import RecomputedValues


def recompute_attention(proc: Proc, key_block: int | None = None, min_keys: int | None = None) -> Proc:
    """Recomputes softmax weights, one block of keys at a time, in the reductions that consume them.

        proc step                                        proc step
          c : f32[8,8]  arena                              c : f32[8,8]  arena
          q : f32[8,2]  in                                 q : f32[8,2]  in
          k : f32[8,2]  in                                 k : f32[8,2]  in
          m : f32[8]    arena                              m : f32[8]    arena
          e : f32[8,8]  arena                              e : f32[8,8]  arena
          s : f32[8]    arena                              s : f32[8]    arena
          z : f32[8]    out                                z : f32[8]    out
          for s_2 in 0..8:                                 for s_2 in 0..8:
            for t in 0..8:                                   for t in 0..8:
              local acc: f32                                   local acc: f32
              acc = 0                                          acc = 0
              for d in 0..2:                                   for d in 0..2:
                acc += q[s_2, d] * k[t, d]                       acc += q[s_2, d] * k[t, d]
              c[s_2, t] = acc                                  c[s_2, t] = acc
          for i_3 in 0..8:                                 for i_3 in 0..8:
            local acc_2: f32                                 local acc_2: f32
            acc_2 = -inf                                     acc_2 = -inf
            for t_2 in 0..8:                                 for t_2 in 0..8:
              acc_2 = max(acc_2, c[i_3, t_2])                  acc_2 = max(acc_2, c[i_3, t_2])
            m[i_3] = acc_2                                   m[i_3] = acc_2
          for j_2 in 0..8:                                 for j_2 in 0..8:
            for t_3 in 0..8:                                 for t_3 in 0..8:
              e[j_2, t_3] = exp(c[j_2, t_3] - m[j_2])          e[j_2, t_3] = exp(c[j_2, t_3] - m[j_2])
          for o in 0..8:                                   for o in 0..8:
            local acc_3: f32                       ==>       local acc_3: f32
            acc_3 = 0                                        acc_3 = 0
            for t_4 in 0..8:                                 for t_4 in 0..8:
              acc_3 += e[o, t_4]                               acc_3 += e[o, t_4]
            s[o] = acc_3                                     s[o] = acc_3
          for t_5 in 0..8:                                 for t_5 in 0..8:
            local acc_4: f32                                 local mixed: f32
            acc_4 = 0                                        mixed = 0
            for n in 0..8:                                   for n_block in 0..4:
              acc_4 += e[n, t_5] / s[n]                        local score_2: f32[2]
            z[t_5] = acc_4                                     for n_3 in 0..2:
                                                                 local acc_5: f32
                                                                 acc_5 = 0
                                                                 for d_2 in 0..2:
                                                                   acc_5 += q[n_3+2*n_block, d_2] * k[t_5, d_2]
                                                                 score_2[n_3] = acc_5
                                                               local row: f32[2]
                                                               for n_4 in 0..2:
                                                                 row[n_4] = exp(score_2[n_4] - m[n_4+2*n_block])
                                                               scope:
                                                                 local acc_6: f32
                                                                 acc_6 = mixed
                                                                 for n_5 in 0..2:
                                                                   acc_6 += row[n_5] / s[n_5+2*n_block]
                                                                 mixed = acc_6
                                                             z[t_5] = mixed

    Arrays that are computed pointwise from the weights, such as their gradients, are recomputed too. An array is
    recomputed either by all consumers except the softmax itself, or by none. The operands must be unmodified since the
    array was first computed, and during the consumer's nest. Blocks whose terms an affine condition makes zero are
    skipped. `key_block` is the number of keys per block, `min_keys` the least number of keys worth recomputing.
    """
    key_block = machine.KEY_BLOCK if key_block is None else key_block
    return _Recompute(proc, key_block, machine.MIN_KEYS if min_keys is None else min_keys).result()


class _Recompute:
    def __init__(self, proc: Proc, key_block: int, min_keys: int) -> None:
        self.proc, self.key_block, self.min_keys = proc, key_block, min_keys
        self.program = ProgramGroups(proc)
        self.groups, self.accesses = self.program.groups, self.program.accesses
        self.softmax_producers: set[int] = set()  # positions of the softmaxes and the producers of their scores

    def result(self) -> Proc:
        for position, group in self.groups.items():
            softmax = match_softmax(position, group, self.program.readers)
            if softmax is not None:
                weighted_sums = [weighted for weighted in softmax.weighted_sums if is_tileable(softmax, weighted)]
                self.softmax_producers |= {*softmax.positions, *(weighted.position for weighted in weighted_sums)}
                self.softmax_producers |= {
                    self.accesses.reaching_write(ref.buf, position) for ref in loads(softmax.match.score)
                }
        producers = {
            position
            for position, group in self.groups.items()
            if self.softmax_producers and self.is_recomputable(group)
        }
        while True:
            consumers = {
                position: consumer
                for position in self.groups
                if (consumer := self.match_consumer(position, producers)) is not None
            }
            recomputed = {
                position for consumer in consumers.values() for position in consumer.producers
            } - self.softmax_producers
            operands = {position for consumer in consumers.values() for position in consumer.operand_producers}
            retained = {
                position
                for position in recomputed
                if position in operands or not self.is_read_only_by(position, consumers.keys() | recomputed)
            }
            if not retained:
                break
            producers -= retained
        if not consumers:
            return self.proc
        stmts = [
            RecomputeNest(self.program, producers, position, consumers[position], self.key_block).stmt()
            if position in consumers
            else stmt
            for position, stmt in enumerate(self.proc.body)
        ]
        body = tuple([stmt for position, stmt in enumerate(stmts) if position not in recomputed])
        remaining = {buf for stmt in body for buffers in accessed_buffers(stmt) for buf in buffers}
        removed = {ref.buf for position in recomputed for ref in self.groups[position].writes} - remaining
        return replace(self.proc, body=body, bufs=tuple([buf for buf in self.proc.bufs if buf not in removed]))

    def is_recomputable(self, group: FusionGroup) -> bool:
        """Whether each cell that the group writes is a pointwise function, possibly of a short matrix product."""
        stores = [stmt for stmt in group.epilogue if isinstance(stmt, Store)]
        return (
            group.cond.is_true
            and all(map(is_full, group.loops))
            and len(group.reductions) <= 1
            and bool(stores)
            and not any(isinstance(stmt, Update) for stmt in group.epilogue)
            and len({store.ref.buf for store in stores}) == len(stores)
            and all(self.fills_large_temporary(store, group) for store in stores)
            and all(_is_short_product(reduction, group, stores) for reduction in group.reductions)
        )

    def fills_large_temporary(self, store: Store, group: FusionGroup) -> bool:
        """Whether the store writes each cell of a temporary matrix that is worth recomputing."""
        buf = store.ref.buf
        is_temporary = buf.space is MemorySpace.ARENA and buf.access is AccessMode.TEMP
        is_large = len(buf.shape) >= 2 and min(buf.shape[-2:]) >= self.min_keys
        return is_temporary and is_large and unit_covering_loops(store.ref, group.loops) == set(group.syms)

    def is_read_only_by(self, at: int, removed: set[int]) -> bool:
        """Whether all statements that read the results of the group are among the given positions."""
        for buf in {ref.buf for ref in self.groups[at].writes}:
            for reader in self.accesses.accessors([buf], at):
                group = self.groups.get(reader)
                reads = group is None or any(alias_class(ref.buf) == alias_class(buf) for ref in group.reads)
                if reads and reader not in removed and self.accesses.reaching_write(buf, reader) == at:
                    return False
        return True

    def match_consumer(self, at: int, producers: set[int]) -> Consumer | None:
        group = self.groups[at]
        if at in self.softmax_producers or not group.cond.is_true or len(group.reductions) != 1 or at in producers:
            return None
        (reduction,) = group.reductions
        match reduction:
            case Reduction(_, (key,), when, Update(_, op, value)) if op is ADD and when.is_true:
                refs = tuple(
                    dict.fromkeys(ref for ref in loads(value) if self.accesses.reaching_write(ref.buf, at) in producers)
                )
            case _:
                return None
        unsupported = [
            ref for ref in group.reads if self.accesses.reaching_write(ref.buf, at) in producers and ref not in refs
        ]
        if not refs or unsupported or not all(map(is_full, (*group.loops, key))) or key.sym.extent < self.min_keys:
            return None
        partition = _rows_and_outputs(group, key, refs)
        if partition is None or any(isinstance(stmt, Update) for stmt in group.epilogue):
            return None
        recomputed = RecomputedValues(self.program, producers, at, key.sym, self.key_block)
        values = {ref: recomputed.value(ref, at) for ref in refs}
        term = map_expr(value, lambda node: values.get(node.ref, node) if isinstance(node, Load) else node)
        if (
            not recomputed.is_unchanged
            or not recomputed.score_bufs
            or not recomputed.used_producers & self.softmax_producers
            or cost(term).nodes > machine.MAX_NODES_PER_KEY
        ):
            return None
        return Consumer(
            group,
            *partition,
            refs,
            term,
            frozenset(recomputed.used_producers),
            frozenset(recomputed.operand_producers),
        )


def _rows_and_outputs(
    group: FusionGroup, key: For, refs: tuple[Ref, ...]
) -> tuple[tuple[For, ...], tuple[For, ...]] | None:
    """The loops over rows, which index all references together with the key, and the loop over outputs, if there is
    one; None if the references do not have this form."""
    if any(index.only_sym is None for ref in refs for index in ref.indices if index.terms):
        return None
    first, *further = [frozenset(ref.syms) for ref in refs]
    rows = tuple([row for row in group.loops if row.sym in first])
    outputs = tuple([output for output in group.loops if output.sym not in first])
    indexes_equally = first == {key.sym, *(row.sym for row in rows)} and all(syms == first for syms in further)
    is_narrow = len(outputs) <= 1 and prod(output.sym.extent for output in outputs) <= machine.MAX_VALUE_WIDTH
    return (rows, outputs) if rows and indexes_equally and is_narrow else None


def _is_short_product(reduction: Reduction, group: FusionGroup, stores: list[Store]) -> bool:
    """Whether the reduction is a matrix product with few terms and with operands much smaller than the results."""
    min_size = machine.MIN_SIZE_RATIO * max((ref.buf.size for ref in loads(reduction.update.value)), default=0)
    return (
        len(reduction.loops) == 1
        and is_full(reduction.loops[0])
        and reduction.loops[0].sym.extent <= machine.MAX_RECOMPUTED_TERMS
        and isinstance(reduction.init, Const)
        and reduction.cond.is_true
        and is_matmul_like(group)
        and all(store.ref.buf.size >= min_size for store in stores)
    )
