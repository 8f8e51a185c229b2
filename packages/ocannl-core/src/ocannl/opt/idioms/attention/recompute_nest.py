"""The nest of a consumer that recomputes its operands, one block of keys at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import Apply, Const, Expr, For, Let, Load, Local, Ref, Stmt, Store, Update, When, loop
from ocannl.ir.ops import ADD
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.analysis.fusion_group_graph import ProgramGroups
from ocannl.opt.analysis.nests import as_statement, wrap_in_loops
from ocannl.opt.analysis.substitution import map_expr, substitute
from ocannl.opt.idioms.attention.block_sum_types import block_sum_precision, cast_to
from ocannl.opt.idioms.attention.masked_blocks import blocks_with_terms
from ocannl.opt.idioms.attention.recomputed_values import RecomputedValues
from ocannl.opt.parallel.split_reductions import with_fresh_symbols

Epilogue = tuple[Let | Store | Update, ...]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A group with one reduction over keys, for each row and each iteration of its output loops; `term` is the added
    value with the recomputed references replaced by their expressions."""

    group: FusionGroup
    rows: tuple[For, ...]
    output_loops: tuple[For, ...]
    recomputed_refs: tuple[Ref, ...]
    term: Expr
    producers: frozenset[int]
    operand_producers: frozenset[int]


class RecomputeNest:
    """Builds the nest of the consumer at `position` with `key_block` keys per block."""

    def __init__(
        self, program: ProgramGroups, producers: set[int], position: int, consumer: Consumer, key_block: int
    ) -> None:
        self.names, self.position, self.consumer, self.key_block = program.names, position, consumer, key_block
        (self.reduction,) = consumer.group.reductions
        self.key = self.reduction.loops[0].sym
        precision, blocks = self.reduction.acc.precision, -(-self.key.extent // key_block)
        self.sum_precision = block_sum_precision(precision, blocks) if self.reduction.update.op is ADD else precision
        self.accumulators = local_buffer(
            self.names("mixed"),
            self.sum_precision,
            tuple([output_loop.sym.extent for output_loop in consumer.output_loops]),
        )
        self.block_sym = Sym(self.names(f"{self.key.name}_block"), 0, blocks - 1)
        self.key_sym = self.new_key_sym()
        self.key_value = Affine(((key_block, self.block_sym),), self.key.lo) + self.key_sym
        self.in_range = TRUE
        if self.key.extent % key_block:
            block_start = Affine(((key_block, self.block_sym),))
            self.in_range = Cond((Affine.of(self.key.extent - 1) - self.key_sym - block_start,))
        self.values = RecomputedValues(program, producers, position, self.key_sym, key_block)

    def stmt(self) -> Stmt:
        consumer, reduction = self.consumer, self.reduction
        rows: dict[Ref, Ref] = {}
        body: list[Stmt] = []
        stores = []
        for ref in consumer.recomputed_refs:
            value = self.values.value(ref.substitute({self.key: self.key_value}), self.position)
            row = local_buffer(self.names("row"), ref.buf.precision, (self.key_block,))
            rows[ref] = Ref(row, (Affine.of(self.key_sym),))
            masked = value if self.in_range.is_true else When(self.in_range, value, Const(0, value.precision))
            stores.append(Store(rows[ref], masked))
        for product, score in self.values.score_bufs.items():
            body += Local(score), self.compute_score(product, Ref(score, (Affine.of(self.key_sym),)))
        for store in stores:
            body += Local(store.ref.buf), self.loop_over_block((), store)
        body.append(self.accumulate_block(rows))
        initialize = self.loop_over_outputs(lambda cell: (Store(cell, cast_to(reduction.init, self.sum_precision)),))
        finalize = self.loop_over_outputs(self.final_stores)
        block_loop = replace(
            blocks_with_terms(self.block_sym, self.key, self.key_block, consumer.term), body=tuple(body)
        )
        nest = (Local(self.accumulators), initialize, block_loop, finalize)
        return as_statement(wrap_in_loops(consumer.rows, TRUE, nest))

    @property
    def cell(self) -> Ref:
        """The accumulator of the current iteration of the output loops."""
        loops = self.consumer.output_loops
        return Ref(self.accumulators, tuple([Affine.of(output.sym) - output.sym.lo for output in loops]))

    def new_key_sym(self) -> Sym:
        """A new symbol for the keys of a block."""
        return Sym(self.names(self.key.name), 0, self.key_block - 1)

    def loop_over_block(self, sums: tuple[Reduction, ...], store: Store) -> Stmt:
        """The store, for each key of a block, in a loop with a new symbol."""
        fresh_sym = self.new_key_sym()
        group = FusionGroup((loop(fresh_sym, ()),), TRUE, sums, (store,))
        return group.substituted({self.key_sym: Affine.of(fresh_sym)}).stmt()

    def compute_score(self, product: Reduction, score: Ref) -> Stmt:
        acc = Ref(local_buffer(self.names("acc"), product.acc.precision, ()), ())
        loops, renaming = with_fresh_symbols(product.loops, self.names)
        update = replace(product.update, ref=acc, value=substitute(product.update.value, renaming))
        return self.loop_over_block((Reduction(product.init, loops, self.in_range, update),), Store(score, Load(acc)))

    def loop_over_outputs(self, tail: Callable[[Ref], Epilogue]) -> Stmt:
        """Statements for each iteration of the output loops, each with its accumulator cell."""
        output_loops, renaming = with_fresh_symbols(self.consumer.output_loops, self.names)
        group = FusionGroup(self.consumer.output_loops, TRUE, (), tail(self.cell)).substituted(renaming)
        return replace(group, loops=output_loops).stmt()

    def accumulate_block(self, rows: dict[Ref, Ref]) -> Stmt:
        """Adds the terms of one block of keys, whose recomputed operands are in `rows`, to the accumulators."""
        reduction, at_key = self.reduction, {self.key: self.key_value}
        acc = Ref(local_buffer(self.names("acc"), reduction.acc.precision, ()), ())

        def leaf(node: Expr) -> Expr:
            return Load(rows[node.ref]) if isinstance(node, Load) and node.ref in rows else substitute(node, at_key)

        fresh_sym = self.new_key_sym()
        output_loops, renaming = with_fresh_symbols(self.consumer.output_loops, self.names)
        renaming_with_key = renaming | {self.key_sym: Affine.of(fresh_sym)}
        value = substitute(map_expr(reduction.update.value, leaf, at_key), renaming_with_key)
        target = Ref(self.accumulators, tuple([index.substitute(renaming) for index in self.cell.indices]))
        cond = self.in_range.substitute({self.key_sym: Affine.of(fresh_sym)})
        is_wide = self.sum_precision is not acc.buf.precision
        init = Const(0.0, acc.buf.precision) if is_wide else Load(target)
        total = Reduction(init, (loop(fresh_sym, ()),), cond, replace(reduction.update, ref=acc, value=value))
        new = Apply(ADD, (Load(target), cast_to(Load(acc), self.sum_precision))) if is_wide else Load(acc)
        return FusionGroup(output_loops, TRUE, (total,), (Store(target, new),)).stmt()

    def final_stores(self, cell: Ref) -> Epilogue:
        accumulated = Load(self.reduction.update.ref)

        def leaf(node: Expr) -> Expr:
            return cast_to(Load(cell), self.reduction.acc.precision) if node == accumulated else node

        return tuple([replace(stmt, value=map_expr(stmt.value, leaf)) for stmt in self.consumer.group.epilogue])
