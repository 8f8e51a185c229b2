"""The nest of a softmax in one walk over its keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ocannl.ir.index import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import (
    Apply,
    Body,
    Buf,
    Cast,
    Expr,
    For,
    If,
    Let,
    Load,
    Local,
    Const,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
    loop,
)
from ocannl.ir.names import Namer
from ocannl.ir.ops import ADD, BY_NAME, DIV, MAX, MUL, SUB, WHERE
from ocannl.ir.precision import Precision
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.analysis.nests import wrap_in_loops, as_statement
from ocannl.opt.analysis.substitution import map_expr, substitute
from ocannl.opt.idioms.attention.masked_blocks import reached
from ocannl.opt.idioms.attention.match_softmax import EXP, NEG_INF, WeightedSum, Softmax, bare
from ocannl.opt.parallel.split_reductions import renamed

EQ = BY_NAME["eq"]


@dataclass(frozen=True, slots=True)
class Source:
    """Who makes the scores: `ref` is what is read of it, the group is in symbols of the rows and of the key."""

    place: int
    ref: Ref
    group: FusionGroup


class Running:
    """`size` keys are gone through at a time; of the arrays of the softmax, only those that are `kept` are written."""

    def __init__(self, found: Softmax, source: Source | None, kept: frozenset[Buf], size: int, names: Namer) -> None:
        self.found, self.source, self.kept, self.size, self.names = found, source, kept, size, names
        self.words = words = found.match
        self.wide = found.reduction.acc.precision
        self.power = self.wide if words.exponentials is None else words.exponentials.ref.buf.precision
        self.top, self.total = self.number("top"), self.number("total")
        self.mixed = [local_buffer(names("mixed"), self.wide, self.shape(each)) for each in found.weighted_sums]

    def stmt(self) -> Stmt:
        body: list[Stmt] = []
        for ref, start in ((self.top, NEG_INF), (self.total, 0.0)):
            body += (Local(ref.buf), Store(ref, Const(start, self.wide)))
        for each, buf in zip(self.found.weighted_sums, self.mixed, strict=True):
            own, known = renamed(each.output_loops, self.names)
            start_all = FusionGroup(own, TRUE, (), (Store(self.cell(buf, each, known), Const(0.0, self.wide)),))
            body += (Local(buf), start_all.stmt())
        keys = self.keys()
        body.append(replace(self.seen(keys), body=self.walked(keys)))
        body += self.ends()
        if any(store.ref.buf in self.kept for store in (self.words.exponentials, self.words.probabilities) if store is not None):
            keys = self.keys()
            body.append(loop(keys, self.again(keys)))
        return as_statement(wrap_in_loops(self.found.rows, TRUE, tuple(body)))

    # ------------------------------------------------------------------------------------------------------- symbols

    def number(self, name: str) -> Ref:
        return Ref(local_buffer(self.names(name), self.wide, ()), ())

    def shape(self, each: WeightedSum) -> tuple[int, ...]:
        return tuple([turn.sym.extent for turn in each.output_loops])

    def cell(self, buf: Buf, each: WeightedSum, known: dict[Sym, Affine]) -> Ref:
        return Ref(buf, tuple([known[turn.sym] - turn.sym.lo for turn in each.output_loops]))

    def keys(self) -> Sym:
        """For blocks of keys."""
        sym = self.found.key.sym
        return Sym(self.names(f"{sym.name}_block"), 0, -(-sym.extent // self.size) - 1)

    def turn(self) -> Sym:
        """For the keys of a block."""
        return Sym(self.names(self.found.key.sym.name), 0, self.size - 1)

    def key(self, keys: Sym, turn: Sym) -> dict[Sym, Affine]:
        return {self.found.key.sym: Affine(((self.size, keys),), self.found.key.sym.lo) + turn}

    def inside(self, keys: Sym, turn: Sym) -> Cond:
        """That there is such a key."""
        extent = self.found.key.sym.extent
        return TRUE if extent % self.size == 0 else Cond((Affine.of(extent - 1) - turn - Affine(((self.size, keys),)),))

    # -------------------------------------------------------------------------------------------------------- scores

    @property
    def score(self) -> Expr:
        """In symbols of the rows and of the key, of the sum that makes it."""
        score = self.words.score
        if self.source is not None:
            (store,), ref = self.source.group.epilogue, self.source.ref
            score = map_expr(score, lambda leaf: store.value if leaf == Load(ref) else leaf)
        return _as(bare(score), self.wide)

    def scores(self, buf: Buf, keys: Sym) -> Stmt:
        """A block of them, the lowest of all where there is no such key."""
        turn = self.turn()
        known, inside = self.key(keys, turn), self.inside(keys, turn)
        score = substitute(self.score, known)
        sums: tuple[Reduction, ...] = ()
        if self.source is not None:
            (each,) = self.source.group.reductions
            loops, mine = renamed(each.loops, self.names)
            acc = Ref(local_buffer(self.names("acc"), each.acc.precision, ()), ())
            old = Load(each.update.ref)
            score = map_expr(score, lambda leaf: Load(acc) if leaf == old else leaf)
            update = replace(each.update, ref=acc, value=substitute(each.update.value, mine | known))
            sums = (Reduction(each.init, loops, each.cond.substitute(mine | known) & inside, update),)
        if not inside.is_true:
            score = When(inside, score, Const(NEG_INF, self.wide))
        return FusionGroup((loop(turn, ()),), TRUE, sums, (Store(Ref(buf, (Affine.of(turn),)), score),)).stmt()

    def seen(self, keys: Sym) -> For:
        """The loop over the blocks in which a row may have a score that is not the lowest of all."""
        match bare(self.score):
            case When(cond, _, Const(least)) if least == NEG_INF:
                return reached(keys, self.found.key.sym, self.size, cond)
        return loop(keys, ())

    # ---------------------------------------------------------------------------------------------------------- walk

    def walked(self, keys: Sym) -> Body:
        """What a block of keys adds. What was added before is multiplied by what the new maximum leaves of it."""
        score = local_buffer(self.names("score"), self.wide, (self.size,))
        power = local_buffer(self.names("power"), self.power, (self.size,))
        peak, turn = self.number("peak"), self.turn()
        base, scale = (Var(self.names(name), self.wide) for name in ("base", "scale"))
        lowest, zero = Const(NEG_INF, self.wide), Const(0.0, self.wide)
        body: list[Stmt] = [Local(score), self.scores(score, keys), Local(peak.buf), Store(peak, Load(self.top))]
        body.append(loop(turn, (Update(peak, MAX, Load(Ref(score, (Affine.of(turn),)))),)))
        body.append(Let(base.name, Apply(WHERE, (Apply(EQ, (Load(peak), lowest)), zero, Load(peak)))))
        body.append(Let(scale.name, Apply(EXP, (Apply(SUB, (Load(self.top), base)),))))
        body.append(Store(self.top, Load(peak)))
        at = (Affine.of(turn := self.turn()),)
        below = Apply(EXP, (Apply(SUB, (Load(Ref(score, at)), base)),))
        body += (Local(power), loop(turn, (Store(Ref(power, at), _as(below, self.power)),)))
        at = (Affine.of(turn := self.turn()),)
        body.append(self.rescaled(self.total, scale, (), turn, TRUE, _as(Load(Ref(power, at)), self.wide)))
        for each, buf in zip(self.found.weighted_sums, self.mixed, strict=True):
            at = (Affine.of(turn := self.turn()),)
            own, known = renamed(each.output_loops, self.names)
            cell, factor = self.cell(buf, each, known), substitute(each.factor, known | self.key(keys, turn))
            value = Apply(MUL, (_as(Load(Ref(power, at)), each.weight.precision), factor))
            body.append(self.rescaled(cell, scale, own, turn, self.inside(keys, turn), value))
        return tuple(body)

    def rescaled(self, cell: Ref, scale: Expr, own: tuple[For, ...], turn: Sym, inside: Cond, value: Expr) -> Stmt:
        acc = Ref(local_buffer(self.names("acc"), self.wide, ()), ())
        added = Reduction(Apply(MUL, (Load(cell), scale)), (loop(turn, ()),), inside, Update(acc, ADD, value))
        return FusionGroup(own, TRUE, (added,), (Store(cell, Load(acc)),)).stmt()

    # ----------------------------------------------------------------------------------------------------------- end

    def ends(self) -> Body:
        """What is known when all keys are through. A row without a finite maximum has no sum."""
        top, total = Load(self.top), Load(self.total)
        body: list[Stmt] = [Store(self.total, Apply(ADD, (total, Apply(SUB, (top, top)))))]
        for store, value in ((self.words.maximum, top), (self.found.denominator, total)):
            if store.ref.buf in self.kept:
                body.append(replace(store, value=_as(value, store.ref.buf.precision)))
        for each, buf in zip(self.found.weighted_sums, self.mixed, strict=True):
            own, known = renamed(each.output_loops, self.names)
            old, mixed = Load(each.reduction.update.ref), Load(self.cell(buf, each, known))
            made = Apply(DIV, (mixed, total)) if each.is_normalized else mixed

            def leaf(node: Expr, old: Load = old, made: Expr = made, known: dict[Sym, Affine] = known) -> Expr:
                return made if node == old else substitute(node, known)

            tail = FusionGroup(own, TRUE, (), each.epilogue).substituted(known).epilogue
            named = [replace(stmt, value=map_expr(stmt.value, leaf, known)) for stmt in tail]
            body.append(FusionGroup(own, TRUE, (), tuple(named)).stmt())
        return tuple(body)

    def again(self, keys: Sym) -> Body:
        """Powers and parts for those who read them, of scores that are made once more."""
        score, turn = local_buffer(self.names("score"), self.wide, (self.size,)), self.turn()
        known = self.key(keys, turn)
        power = Var(self.names("power"), self.power)
        below = Apply(SUB, (Load(Ref(score, (Affine.of(turn),))), Load(self.top)))
        stmts: list[Stmt] = [Let(power.name, _as(Apply(EXP, (below,)), self.power))]
        values: tuple[Expr, Expr] = (power, Apply(DIV, (_as(power, self.wide), Load(self.total))))
        for store, value in zip((self.words.exponentials, self.words.probabilities), values, strict=True):
            if store is not None and store.ref.buf in self.kept:
                ref = Ref(store.ref.buf, tuple([at.substitute(known) for at in store.ref.indices]))
                stmts.append(replace(store, ref=ref, value=_as(value, ref.buf.precision)))
        inside = self.inside(keys, turn)
        body = tuple(stmts) if inside.is_true else (If(inside, tuple(stmts)),)
        return (Local(score), self.scores(score, keys), loop(turn, body))


def _as(value: Expr, precision: Precision) -> Expr:
    return value if value.precision is precision else Cast(value, precision)
