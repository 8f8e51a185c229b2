"""Rematerialization: recomputes attention weights in the backward pass instead of storing them (Dao et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import (
    AccessMode,
    Buf,
    Const,
    Expr,
    For,
    Let,
    Load,
    Local,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
    is_full,
    loop,
)
from ocannl.ir.names import Namer
from ocannl.ir.ops import ADD
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.cost import cost
from ocannl.opt.analysis.dependences import AccessIndex
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, group_of, is_matmul_like, local_buffer
from ocannl.opt.analysis.nests import (
    accessed_buffers,
    as_statement,
    bound_names,
    loads,
    unit_covering_loops,
    wrap_in_loops,
)
from ocannl.opt.analysis.substitution import map_expr, substitute
from ocannl.opt.idioms.attention.masked_blocks import blocks_with_terms
from ocannl.opt.idioms.attention.match_softmax import match_softmax
from ocannl.opt.idioms.attention.online_softmax import is_tileable
from ocannl.opt.parallel.split_reductions import with_fresh_symbols

Epilogue = tuple[Let | Store | Update, ...]


def recompute_attention(proc: Proc, key_block: int | None = None, min_keys: int | None = None) -> Proc:
    """Recomputes softmax weights, one block of keys at a time, in the reductions that consume them.

        proc step                                           proc step
          c : f32[8,8]  arena                                 c : f32[8,8]  arena
          q : f32[8,2]  in                                    q : f32[8,2]  in
          k : f32[8,2]  in                                    k : f32[8,2]  in
          m : f32[8]    arena                                 m : f32[8]    arena
          e : f32[8,8]  arena                                 e : f32[8,8]  arena
          s : f32[8]    arena                                 s : f32[8]    arena
          z : f32[8]    out                                   z : f32[8]    out
          for s_2 in 0..8:                                    for s_2 in 0..8:
            for t in 0..8:                                      for t in 0..8:
              local acc: f32 reg                                  local acc: f32 reg
              acc = 0                                             acc = 0
              for d in 0..2:                                      for d in 0..2:
                acc += q[s_2, d] * k[t, d]                          acc += q[s_2, d] * k[t, d]
              c[s_2, t] = acc                                     c[s_2, t] = acc
          for i_3 in 0..8:                                    for i_3 in 0..8:
            local acc_2: f32 reg                                local acc_2: f32 reg
            acc_2 = -inf                                        acc_2 = -inf
            for t_2 in 0..8:                                    for t_2 in 0..8:
              acc_2 = max(acc_2, c[i_3, t_2])                     acc_2 = max(acc_2, c[i_3, t_2])
            m[i_3] = acc_2                                      m[i_3] = acc_2
          for j_2 in 0..8:                                    for j_2 in 0..8:
            for t_3 in 0..8:                                    for t_3 in 0..8:
              e[j_2, t_3] = exp(c[j_2, t_3] - m[j_2])             e[j_2, t_3] = exp(c[j_2, t_3] - m[j_2])
          for o in 0..8:                                      for o in 0..8:
            local acc_3: f32 reg                       ==>      local acc_3: f32 reg
            acc_3 = 0                                           acc_3 = 0
            for t_4 in 0..8:                                    for t_4 in 0..8:
              acc_3 += e[o, t_4]                                  acc_3 += e[o, t_4]
            s[o] = acc_3                                        s[o] = acc_3
          for t_5 in 0..8:                                    for t_5 in 0..8:
            local acc_4: f32 reg                                local mixed: f32 reg
            acc_4 = 0                                           mixed = 0
            for n in 0..8:                                      for n_block in 0..4:
              acc_4 += e[n, t_5] / s[n]                           local score_2: f32[2] reg
            z[t_5] = acc_4                                        for n_3 in 0..2:
                                                                    local acc_5: f32 reg
                                                                    acc_5 = 0
                                                                    for d_2 in 0..2:
                                                                      acc_5 += q[n_3+2*n_block, d_2] * k[t_5, d_2]
                                                                    score_2[n_3] = acc_5
                                                                  local row: f32[2] reg
                                                                  for n_4 in 0..2:
                                                                    row[n_4] = exp(score_2[n_4] - m[n_4+2*n_block])
                                                                  if true:
                                                                    local acc_6: f32 reg
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


@dataclass(frozen=True, slots=True)
class _Consumer:
    """A group with one reduction over keys, for each row and each iteration of its output loops; `term` is the added
    value with the recomputed references replaced by their expressions."""

    group: FusionGroup
    rows: tuple[For, ...]
    output_loops: tuple[For, ...]
    recomputed_refs: tuple[Ref, ...]
    term: Expr
    producers: frozenset[int]
    operand_producers: frozenset[int]


class _Recomputed:
    """Expressions of recomputed arrays in terms of stored ones, as read by the statement at `position`; `score_bufs`
    maps the matrix products in them to buffers of one block, indexed by `key_sym`."""

    def __init__(self, recompute: _Recompute, makers: set[int], position: int, key_sym: Sym) -> None:
        self.recompute, self.producers, self.position, self.key_sym = recompute, makers, position, key_sym
        self.score_bufs: dict[Reduction, Buf] = {}
        self.used_producers: set[int] = set()
        self.operand_producers: set[int] = set()  # positions of the statements that write the operands of products
        self.written = {alias_class(ref.buf) for ref in recompute.groups[position].writes}
        self.is_unchanged = True  # no stored operand is overwritten between producer and consumer, nor by the consumer

    def value(self, ref: Ref, before: int) -> Expr:
        writer = self.recompute.accesses.reaching_write(ref.buf, before)
        if writer not in self.producers:
            self.check_unchanged(ref, before)
            return Load(ref)
        self.used_producers.add(writer)
        group, store = self.recompute.groups[writer], self.recompute.store_to(writer, ref.buf)
        values = {
            store_index.terms[0][1]: read_index
            for store_index, read_index in zip(store.ref.indices, ref.indices, strict=True)
            if store_index.terms
        }
        group = group.substituted(values)
        lets: dict[str, Expr] = {}

        def leaf(node: Expr) -> Expr:
            match node:
                case Var(name):
                    return lets[name]
                case Load(inner):
                    reduction = next((candidate for candidate in group.reductions if candidate.acc is inner.buf), None)
                    return self.value(inner, writer) if reduction is None else Load(self.score_ref(reduction, writer))
            return node

        for stmt in group.epilogue:
            value = map_expr(stmt.value, leaf)
            if isinstance(stmt, Let):
                lets[stmt.name] = value
            elif stmt.ref.buf is ref.buf:
                return value
        raise AssertionError(f"{ref.buf.name} is not stored by this group")

    def check_unchanged(self, ref: Ref, before: int) -> None:
        reaching_write = self.recompute.accesses.reaching_write
        is_kept = (
            reaching_write(ref.buf, before) == reaching_write(ref.buf, self.position)
            and alias_class(ref.buf) not in self.written
        )
        self.is_unchanged = self.is_unchanged and is_kept

    def score_ref(self, reduction: Reduction, at: int) -> Ref:
        if reduction not in self.score_bufs:
            for ref in loads(reduction.update.value):
                self.check_unchanged(ref, at)
                self.operand_producers.add(self.recompute.accesses.reaching_write(ref.buf, at))
            names = self.recompute.names
            self.score_bufs[reduction] = local_buffer(
                names("score"), reduction.acc.precision, (self.recompute.key_block,)
            )
        return Ref(self.score_bufs[reduction], (Affine.of(self.key_sym),))


class _Recompute:
    def __init__(self, proc: Proc, key_block: int, min_keys: int) -> None:
        self.proc, self.key_block, self.min_keys = proc, key_block, min_keys
        self.names = Namer(bound_names(proc))
        groups = ((position, group_of(stmt, self.names)) for position, stmt in enumerate(proc.body))
        self.groups = {position: group for position, group in groups if group is not None}
        self.accesses = AccessIndex(list(proc.body))
        self.softmax_producers: set[int] = set()  # positions of the softmaxes and the producers of their scores

    def result(self) -> Proc:
        for position, group in self.groups.items():
            softmax = match_softmax(position, group, self.readers)
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
            self.build_nest(consumers[position], position, producers) if position in consumers else stmt
            for position, stmt in enumerate(self.proc.body)
        ]
        body = tuple([stmt for position, stmt in enumerate(stmts) if position not in recomputed])
        remaining = {buf for stmt in body for buffers in accessed_buffers(stmt) for buf in buffers}
        removed = {ref.buf for position in recomputed for ref in self.groups[position].writes} - remaining
        return replace(self.proc, body=body, bufs=tuple([buf for buf in self.proc.bufs if buf not in removed]))

    # ------------------------------------------------------------------------------------------------- analysis

    def readers(self, position: int, buf: Buf) -> Iterator[tuple[int, FusionGroup]]:
        """Yields the groups that read the value that the statement at `position` writes to the array."""
        for reader in self.accesses.accessors([buf], position):
            if reader in self.groups and self.accesses.reaching_write(buf, reader) == position:
                yield reader, self.groups[reader]

    def store_to(self, at: int, buf: Buf) -> Store:
        return next(stmt for stmt in self.groups[at].epilogue if isinstance(stmt, Store) and stmt.ref.buf is buf)

    def is_recomputable(self, group: FusionGroup) -> bool:
        """Whether each cell that the group writes is a pointwise function, possibly of a short matrix product."""
        loops, stores = group.loops, [stmt for stmt in group.epilogue if not isinstance(stmt, Let)]
        if not group.cond.is_true or not all(map(is_full, loops)) or len(group.reductions) > 1 or not stores:
            return False
        if len({stmt.ref.buf for stmt in stores}) < len(stores):
            return False
        for stmt in stores:
            buf = stmt.ref.buf
            if isinstance(stmt, Update) or buf.space is not MemorySpace.ARENA or buf.access is not AccessMode.TEMP:
                return False
            if (
                len(buf.shape) < 2
                or min(buf.shape[-2:]) < self.min_keys
                or unit_covering_loops(stmt.ref, loops) != set(group.syms)
            ):
                return False
        for reduction in group.reductions:
            if len(reduction.loops) != 1 or not is_full(reduction.loops[0]):
                return False
            if reduction.loops[0].sym.extent > machine.MAX_RECOMPUTED_TERMS:
                return False
            if not isinstance(reduction.init, Const) or not reduction.cond.is_true or not is_matmul_like(group):
                return False
            min_size = machine.MIN_SIZE_RATIO * max(ref.buf.size for ref in loads(reduction.update.value))
            if any(stmt.ref.buf.size < min_size for stmt in stores):
                return False
        return True

    def is_read_only_by(self, at: int, removed: set[int]) -> bool:
        """Whether all statements that read the results of the group are among the given positions."""
        for buf in {ref.buf for ref in self.groups[at].writes}:
            for reader in self.accesses.accessors([buf], at):
                group = self.groups.get(reader)
                reads = group is None or any(alias_class(ref.buf) == alias_class(buf) for ref in group.reads)
                if reads and reader not in removed and self.accesses.reaching_write(buf, reader) == at:
                    return False
        return True

    def match_consumer(self, at: int, producers: set[int]) -> _Consumer | None:
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
        if any(index.only_sym is None for ref in refs for index in ref.indices if index.terms):
            return None
        index_syms = {frozenset(sym for index in ref.indices for sym in index.syms) for ref in refs}
        rows = tuple([group_loop for group_loop in group.loops if group_loop.sym in next(iter(index_syms))])
        output_loops = tuple([group_loop for group_loop in group.loops if group_loop not in rows])
        if index_syms != {frozenset((key.sym, *(group_loop.sym for group_loop in rows)))} or not rows:
            return None
        if (
            len(output_loops) > 1
            or prod(group_loop.sym.extent for group_loop in output_loops) > machine.MAX_VALUE_WIDTH
        ):
            return None
        if any(isinstance(stmt, Update) for stmt in group.epilogue):
            return None
        recomputed = _Recomputed(self, producers, at, key.sym)
        values = {ref: recomputed.value(ref, at) for ref in refs}
        term = map_expr(value, lambda node: values.get(node.ref, node) if isinstance(node, Load) else node)
        if (
            not recomputed.is_unchanged
            or not recomputed.score_bufs
            or not recomputed.used_producers & self.softmax_producers
            or cost(term).nodes > machine.MAX_NODES_PER_KEY
        ):
            return None
        return _Consumer(
            group,
            rows,
            output_loops,
            refs,
            term,
            frozenset(recomputed.used_producers),
            frozenset(recomputed.operand_producers),
        )

    # ------------------------------------------------------------------------------------------------- construction

    def build_nest(self, consumer: _Consumer, at: int, producers: set[int]) -> Stmt:
        (reduction,) = consumer.group.reductions
        key, acc = reduction.loops[0].sym, reduction.acc
        accumulators = local_buffer(
            self.names("mixed"), acc.precision, tuple([output_loop.sym.extent for output_loop in consumer.output_loops])
        )
        block_sym = Sym(self.names(f"{key.name}_block"), 0, -(-key.extent // self.key_block) - 1)
        key_sym = self.new_key_sym(key)
        block_values = {key: Affine(((self.key_block, block_sym),), key.lo) + key_sym}
        in_range = TRUE
        if key.extent % self.key_block:
            in_range = Cond((Affine.of(key.extent - 1) - key_sym - Affine(((self.key_block, block_sym),)),))
        recomputed = _Recomputed(self, producers, at, key_sym)
        rows: dict[Ref, Ref] = {}
        body: list[Stmt] = []
        stores = []
        for ref in consumer.recomputed_refs:
            value = recomputed.value(Ref(ref.buf, tuple([index.substitute(block_values) for index in ref.indices])), at)
            rows[ref] = Ref(
                local_buffer(self.names("row"), ref.buf.precision, (self.key_block,)), (Affine.of(key_sym),)
            )
            masked = value if in_range.is_true else When(in_range, value, Const(0, value.precision))
            stores.append(Store(rows[ref], masked))
        for product, score in recomputed.score_bufs.items():
            body += (
                Local(score),
                self.compute_score(product, Ref(score, (Affine.of(key_sym),)), in_range, key, key_sym),
            )
        for store in stores:
            body += (Local(store.ref.buf), self.loop_over_block(key, key_sym, (), store))
        body.append(self.accumulate_block(consumer, reduction, accumulators, rows, block_values, in_range, key_sym))
        initialize = self.loop_over_outputs(consumer, accumulators, lambda cell: (Store(cell, reduction.init),))
        finalize = self.loop_over_outputs(
            consumer, accumulators, lambda cell: self.final_stores(consumer, reduction, cell)
        )
        block_loop = replace(blocks_with_terms(block_sym, key, self.key_block, consumer.term), body=tuple(body))
        return as_statement(wrap_in_loops(consumer.rows, TRUE, (Local(accumulators), initialize, block_loop, finalize)))

    def new_key_sym(self, key: Sym) -> Sym:
        """A new symbol for the keys of a block."""
        return Sym(self.names(key.name), 0, self.key_block - 1)

    def loop_over_block(self, key: Sym, key_sym: Sym, sums: tuple[Reduction, ...], store: Store) -> Stmt:
        """The store, for each key of a block, in a loop with a new symbol."""
        fresh_sym = self.new_key_sym(key)
        group = FusionGroup((loop(fresh_sym, ()),), TRUE, sums, (store,))
        return group.substituted({key_sym: Affine.of(fresh_sym)}).stmt()

    def compute_score(self, product: Reduction, to: Ref, inside: Cond, key: Sym, key_sym: Sym) -> Stmt:
        acc = Ref(local_buffer(self.names("acc"), product.acc.precision, ()), ())
        loops, renaming = with_fresh_symbols(product.loops, self.names)
        update = replace(product.update, ref=acc, value=substitute(product.update.value, renaming))
        return self.loop_over_block(
            key, key_sym, (Reduction(product.init, loops, inside, update),), Store(to, Load(acc))
        )

    def loop_over_outputs(self, consumer: _Consumer, accumulators: Buf, tail: Callable[[Ref], Epilogue]) -> Stmt:
        """Statements for each iteration of the output loops, each with its accumulator cell."""
        output_loops, renaming = with_fresh_symbols(consumer.output_loops, self.names)
        cell = Ref(
            accumulators,
            tuple([Affine.of(output_loop.sym) - output_loop.sym.lo for output_loop in consumer.output_loops]),
        )
        group = FusionGroup(consumer.output_loops, TRUE, (), tail(cell)).substituted(renaming)
        return replace(group, loops=output_loops).stmt()

    def accumulate_block(
        self,
        consumer: _Consumer,
        reduction: Reduction,
        accumulators: Buf,
        rows: Mapping[Ref, Ref],
        block_values: dict[Sym, Affine],
        inside: Cond,
        key_sym: Sym,
    ) -> Stmt:
        """Adds the terms of one block of keys to the accumulators."""
        acc = Ref(local_buffer(self.names("acc"), reduction.acc.precision, ()), ())
        cell = Ref(
            accumulators,
            tuple([Affine.of(output_loop.sym) - output_loop.sym.lo for output_loop in consumer.output_loops]),
        )

        def leaf(node: Expr) -> Expr:
            return (
                Load(rows[node.ref]) if isinstance(node, Load) and node.ref in rows else substitute(node, block_values)
            )

        fresh_sym = self.new_key_sym(reduction.syms[0])
        output_loops, renaming = with_fresh_symbols(consumer.output_loops, self.names)
        value = substitute(
            map_expr(reduction.update.value, leaf, block_values), renaming | {key_sym: Affine.of(fresh_sym)}
        )
        target = Ref(accumulators, tuple([index.substitute(renaming) for index in cell.indices]))
        cond = inside.substitute({key_sym: Affine.of(fresh_sym)})
        total = Reduction(Load(target), (loop(fresh_sym, ()),), cond, replace(reduction.update, ref=acc, value=value))
        return FusionGroup(output_loops, TRUE, (total,), (Store(target, Load(acc)),)).stmt()

    def final_stores(self, consumer: _Consumer, reduction: Reduction, cell: Ref) -> Epilogue:
        accumulated = Load(reduction.update.ref)
        return tuple(
            [
                replace(stmt, value=map_expr(stmt.value, lambda node: Load(cell) if node == accumulated else node))
                for stmt in consumer.group.epilogue
            ]
        )
