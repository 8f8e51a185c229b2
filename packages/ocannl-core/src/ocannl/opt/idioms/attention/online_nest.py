"""The loop nest of an online softmax: one pass over the keys (Milakov and Gimelshein 2018)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import (
    Apply,
    Body,
    Buf,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Local,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
    loop,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, BY_NAME, DIV, MAX, MUL, SUB, WHERE
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.analysis.nests import as_statement, wrap_in_loops
from ocannl.opt.analysis.substitution import map_expr, substitute
from ocannl.opt.idioms.attention.block_sum_types import block_sum_precision, cast_to
from ocannl.opt.idioms.attention.masked_blocks import unmasked_blocks
from ocannl.opt.idioms.attention.match_softmax import EXP, NEG_INF, Softmax, WeightedSum, strip_float_casts
from ocannl.opt.parallel.split_reductions import with_fresh_symbols

EQ = BY_NAME["eq"]


@dataclass(frozen=True, slots=True)
class ScoreProducer:
    """The group that computes the scores, in symbols of the rows and the key; `ref` is the load that reads them."""

    position: int
    ref: Ref
    group: FusionGroup


class OnlineSoftmaxNest:
    """Builds the nest with `key_block` keys per block; only the softmax arrays in `stored_bufs` are written."""

    def __init__(
        self,
        softmax: Softmax,
        producer: ScoreProducer | None,
        stored_bufs: frozenset[Buf],
        key_block: int,
        names: Namer,
    ) -> None:
        self.softmax, self.producer, self.stored_bufs = softmax, producer, stored_bufs
        self.key_block, self.names, self.match = key_block, names, softmax.match
        self.accumulator_precision = softmax.reduction.acc.precision
        exponentials = softmax.match.exponentials
        stored = exponentials.ref.buf if exponentials is not None else softmax.reduction.acc
        self.exponential_precision = stored.precision
        self.sum_precision = block_sum_precision(self.accumulator_precision, -(-softmax.key.sym.extent // key_block))
        self.running_max = self.new_scalar("top")
        self.running_sum = Ref(local_buffer(names("total"), self.sum_precision, ()), ())
        self.accumulators = [
            local_buffer(names("mixed"), self.sum_precision, self.output_shape(weighted_sum))
            for weighted_sum in softmax.weighted_sums
        ]

    def stmt(self) -> Stmt:
        body: list[Stmt] = []
        for ref, initial in ((self.running_max, NEG_INF), (self.running_sum, 0.0)):
            body += (Local(ref.buf), Store(ref, Const(initial, ref.buf.precision)))
        for weighted_sum, buf in zip(self.softmax.weighted_sums, self.accumulators, strict=True):
            output_loops, renaming = with_fresh_symbols(weighted_sum.output_loops, self.names)
            cell = self.accumulator_cell(buf, weighted_sum, renaming)
            clear = Store(cell, Const(0.0, self.sum_precision))
            body += (Local(buf), FusionGroup(output_loops, TRUE, (), (clear,)).stmt())
        block_sym = self.new_block_sym()
        body.append(replace(self.block_loop(block_sym), body=self.block_update(block_sym)))
        body += self.final_stores()
        if any(
            store.ref.buf in self.stored_bufs
            for store in (self.match.exponentials, self.match.probabilities)
            if store is not None
        ):
            block_sym = self.new_block_sym()
            body.append(loop(block_sym, self.store_weights(block_sym)))
        return as_statement(wrap_in_loops(self.softmax.rows, TRUE, tuple(body)))

    # ------------------------------------------------------------------------------------------------------- symbols

    def new_scalar(self, name: str) -> Ref:
        return Ref(local_buffer(self.names(name), self.accumulator_precision, ()), ())

    def output_shape(self, weighted_sum: WeightedSum) -> tuple[int, ...]:
        return tuple([output_loop.sym.extent for output_loop in weighted_sum.output_loops])

    def accumulator_cell(self, buf: Buf, weighted_sum: WeightedSum, values: dict[Sym, Affine]) -> Ref:
        return Ref(
            buf, tuple([values[output_loop.sym] - output_loop.sym.lo for output_loop in weighted_sum.output_loops])
        )

    def new_block_sym(self) -> Sym:
        """A new symbol for the blocks of keys."""
        sym = self.softmax.key.sym
        return Sym(self.names(f"{sym.name}_block"), 0, -(-sym.extent // self.key_block) - 1)

    def new_key_sym(self) -> Sym:
        """A new symbol for the keys of a block."""
        return Sym(self.names(self.softmax.key.sym.name), 0, self.key_block - 1)

    def key_substitution(self, block_sym: Sym, key_sym: Sym) -> dict[Sym, Affine]:
        return {self.softmax.key.sym: Affine(((self.key_block, block_sym),), self.softmax.key.sym.lo) + key_sym}

    def in_range(self, block_sym: Sym, key_sym: Sym) -> Cond:
        """The condition that the key exists: the last block may be partial."""
        extent = self.softmax.key.sym.extent
        if extent % self.key_block == 0:
            return TRUE
        return Cond((Affine.of(extent - 1) - key_sym - Affine(((self.key_block, block_sym),)),))

    # -------------------------------------------------------------------------------------------------------- scores

    @property
    def score_expr(self) -> Expr:
        """The score in symbols of the rows and the key, as a function of the reduction that computes it."""
        score = self.match.score
        if self.producer is not None:
            (store,), score_ref = self.producer.group.epilogue, self.producer.ref
            score = map_expr(score, lambda leaf: store.value if leaf == Load(score_ref) else leaf)
        return cast_to(strip_float_casts(score), self.accumulator_precision)

    def compute_scores(self, buf: Buf, block_sym: Sym) -> Stmt:
        """Computes one block of scores, with -inf for keys out of range."""
        key_sym = self.new_key_sym()
        values, in_range = self.key_substitution(block_sym, key_sym), self.in_range(block_sym, key_sym)
        score = substitute(self.score_expr, values)
        sums: tuple[Reduction, ...] = ()
        if self.producer is not None:
            (reduction,) = self.producer.group.reductions
            loops, renaming = with_fresh_symbols(reduction.loops, self.names)
            acc = Ref(local_buffer(self.names("acc"), reduction.acc.precision, ()), ())
            accumulated = Load(reduction.update.ref)
            score = map_expr(score, lambda leaf: Load(acc) if leaf == accumulated else leaf)
            update = replace(reduction.update, ref=acc, value=substitute(reduction.update.value, renaming | values))
            sums = (Reduction(reduction.init, loops, reduction.cond.substitute(renaming | values) & in_range, update),)
        if not in_range.is_true:
            score = When(in_range, score, Const(NEG_INF, self.accumulator_precision))
        return FusionGroup((loop(key_sym, ()),), TRUE, sums, (Store(Ref(buf, (Affine.of(key_sym),)), score),)).stmt()

    def block_loop(self, block_sym: Sym) -> For:
        """The loop over the blocks in which a row may have a score other than -inf."""
        match strip_float_casts(self.score_expr):
            case When(cond, _, Const(fallback)) if fallback == NEG_INF:
                return unmasked_blocks(block_sym, self.softmax.key.sym, self.key_block, cond)
        return loop(block_sym, ())

    # ----------------------------------------------------------------------------------------------------- block update

    def block_update(self, block_sym: Sym) -> Body:
        """Adds one block of keys to the running sums, after rescaling these to the new maximum."""
        score = local_buffer(self.names("score"), self.accumulator_precision, (self.key_block,))
        power = local_buffer(self.names("power"), self.exponential_precision, (self.key_block,))
        peak, key_sym = self.new_scalar("peak"), self.new_key_sym()
        base, scale = (Var(self.names(name), self.accumulator_precision) for name in ("base", "scale"))
        lowest, zero = Const(NEG_INF, self.accumulator_precision), Const(0.0, self.accumulator_precision)
        body: list[Stmt] = [
            Local(score),
            self.compute_scores(score, block_sym),
            Local(peak.buf),
            Store(peak, Load(self.running_max)),
        ]
        body.append(loop(key_sym, (Update(peak, MAX, Load(Ref(score, (Affine.of(key_sym),)))),)))
        body.append(Let(base.name, Apply(WHERE, (Apply(EQ, (Load(peak), lowest)), zero, Load(peak)))))
        body.append(Let(scale.name, Apply(EXP, (Apply(SUB, (Load(self.running_max), base)),))))
        body.append(Store(self.running_max, Load(peak)))
        index = (Affine.of(key_sym := self.new_key_sym()),)
        exponential = Apply(EXP, (Apply(SUB, (Load(Ref(score, index)), base)),))
        body += (
            Local(power),
            loop(key_sym, (Store(Ref(power, index), cast_to(exponential, self.exponential_precision)),)),
        )
        index = (Affine.of(key_sym := self.new_key_sym()),)
        value = cast_to(Load(Ref(power, index)), self.accumulator_precision)
        body.append(self.rescale_and_add(self.running_sum, scale, (), key_sym, TRUE, value))
        for weighted_sum, buf in zip(self.softmax.weighted_sums, self.accumulators, strict=True):
            index = (Affine.of(key_sym := self.new_key_sym()),)
            output_loops, renaming = with_fresh_symbols(weighted_sum.output_loops, self.names)
            cell = self.accumulator_cell(buf, weighted_sum, renaming)
            factor = substitute(weighted_sum.factor, renaming | self.key_substitution(block_sym, key_sym))
            value = Apply(MUL, (cast_to(Load(Ref(power, index)), weighted_sum.weight.precision), factor))
            body.append(
                self.rescale_and_add(cell, scale, output_loops, key_sym, self.in_range(block_sym, key_sym), value)
            )
        return tuple(body)

    def rescale_and_add(
        self, cell: Ref, scale: Expr, output_loops: tuple[For, ...], key_sym: Sym, inside: Cond, value: Expr
    ) -> Stmt:
        acc = Ref(local_buffer(self.names("acc"), self.accumulator_precision, ()), ())
        rescaled = Apply(MUL, (Load(cell), cast_to(scale, self.sum_precision)))
        is_wide = self.sum_precision is not self.accumulator_precision
        init = Const(0.0, self.accumulator_precision) if is_wide else rescaled
        total = Apply(ADD, (rescaled, cast_to(Load(acc), self.sum_precision))) if is_wide else Load(acc)
        added = Reduction(init, (loop(key_sym, ()),), inside, Update(acc, ADD, value))
        return FusionGroup(output_loops, TRUE, (added,), (Store(cell, total),)).stmt()

    # ------------------------------------------------------------------------------------------------------- results

    def final_stores(self) -> Body:
        """Normalizes and stores the results after the last block. If the maximum is not finite, the sum becomes NaN."""
        top, total = Load(self.running_max), cast_to(Load(self.running_sum), self.accumulator_precision)
        not_a_number = cast_to(Apply(SUB, (top, top)), self.sum_precision)
        body: list[Stmt] = [Store(self.running_sum, Apply(ADD, (Load(self.running_sum), not_a_number)))]
        for store, value in ((self.match.maximum, top), (self.softmax.denominator, total)):
            if store.ref.buf in self.stored_bufs:
                body.append(replace(store, value=cast_to(value, store.ref.buf.precision)))
        for weighted_sum, buf in zip(self.softmax.weighted_sums, self.accumulators, strict=True):
            output_loops, renaming = with_fresh_symbols(weighted_sum.output_loops, self.names)
            old = Load(weighted_sum.reduction.update.ref)
            cell = self.accumulator_cell(buf, weighted_sum, renaming)
            accumulated = cast_to(Load(cell), self.accumulator_precision)
            normalized = Apply(DIV, (accumulated, total)) if weighted_sum.is_normalized else accumulated

            def leaf(
                node: Expr, old: Load = old, normalized: Expr = normalized, renaming: dict[Sym, Affine] = renaming
            ) -> Expr:
                return normalized if node == old else substitute(node, renaming)

            epilogue = FusionGroup(output_loops, TRUE, (), weighted_sum.epilogue).substituted(renaming).epilogue
            stores = [replace(stmt, value=map_expr(stmt.value, leaf, renaming)) for stmt in epilogue]
            body.append(FusionGroup(output_loops, TRUE, (), tuple(stores)).stmt())
        return tuple(body)

    def store_weights(self, block_sym: Sym) -> Body:
        """Stores exponentials and probabilities that are read elsewhere, from recomputed scores."""
        score = local_buffer(self.names("score"), self.accumulator_precision, (self.key_block,))
        key_sym = self.new_key_sym()
        key_values = self.key_substitution(block_sym, key_sym)
        power = Var(self.names("power"), self.exponential_precision)
        total = cast_to(Load(self.running_sum), self.accumulator_precision)
        shifted = Apply(SUB, (Load(Ref(score, (Affine.of(key_sym),))), Load(self.running_max)))
        stmts: list[Stmt] = [Let(power.name, cast_to(Apply(EXP, (shifted,)), self.exponential_precision))]
        values: tuple[Expr, Expr] = (
            power,
            Apply(DIV, (cast_to(power, self.accumulator_precision), total)),
        )
        for store, value in zip((self.match.exponentials, self.match.probabilities), values, strict=True):
            if store is not None and store.ref.buf in self.stored_bufs:
                ref = store.ref.substitute(key_values)
                stmts.append(replace(store, ref=ref, value=cast_to(value, ref.buf.precision)))
        in_range = self.in_range(block_sym, key_sym)
        body = tuple(stmts) if in_range.is_true else (If(in_range, tuple(stmts)),)
        return (Local(score), self.compute_scores(score, block_sym), loop(key_sym, body))
