"""Random fusion groups with random plans, on numbers whose sums are exact in any order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any

import numpy as np

from ocannl.ir.affine import TRUE, Affine, Cond, Sym, bounds_condition
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    Const,
    Expr,
    IndexValue,
    Let,
    Load,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, AND, BY_NAME, MAX, MIN, MUL, OR, SUB, Op
from ocannl.ir.precision import Family, Precision, bfloat16, bool_, float16, float32, float64, int32, int64, uint8
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.walk import walk
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.analysis.nests import as_statement, bound_names
from ocannl.opt.schedule.loop_generation import build_loops, pack_operands
from ocannl.opt.schedule.plan import Plan, ScalarPlan, TilePlan
from ocannl.opt.schedule.plan.loop_order import can_reorder
from ocannl.opt.schedule.plan.packing import can_block, packable_operands, panel_loops
from ocannl.opt.schedule.plan.register_tiles import bounds_guards
from ocannl.opt.schedule.plan.scalar_plans import REASSOCIABLE, ReductionPlan

Array = np.ndarray[Any, Any]

KINDS = (*(float32,) * 6, float64, int32, int64, uint8, bool_)
NARROW = (float16, bfloat16)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 19)
POINTWISE = ("add", "add", "sub", "mul", "mul", "max", "min", "neg", "relu", "where", "lt", "abs")
LOGICAL = ("and", "or", "not", "where", "eq")
ITERATIONS = 600


@dataclass(frozen=True)
class GroupSample:
    """A group with the contents of its arrays."""

    group: FusionGroup
    bufs: tuple[Buf, ...]
    arrays: dict[TNode, Array]

    def proc(self, stmt: Stmt, name: str = "made") -> Proc:
        """A routine that is this statement."""
        return Proc(name, self.bufs, (), (stmt,))


def group(random: Random) -> GroupSample:
    return _Maker(random).group_sample()


def plain_plan(random: Random, group: FusionGroup) -> ScalarPlan:
    """Any order of the loops, and any number of partial sums."""

    def reduced(reduction: Reduction) -> ReductionPlan:
        order = random.sample(reduction.syms, len(reduction.syms))
        accumulators = random.randint(1, 5) if order and reduction.update.op in REASSOCIABLE else 1
        return ReductionPlan(tuple(order), accumulators)

    return ScalarPlan(tuple(random.sample(group.syms, len(group.syms))), tuple(map(reduced, group.reductions)))


def tiled_plan(random: Random, group: FusionGroup) -> TilePlan | None:
    """Any tile of any size, in vectors of any width; None where nothing can be in lanes."""
    total = next(iter(group.reductions), None)
    if total is not None and total.update.op not in REASSOCIABLE:
        return None
    ragged = [] if total is None else [total.cond, *bounds_guards(total.update.value)]
    conds = [group.cond, *(cond for value in group.values for cond in bounds_guards(value) if cond not in ragged)]
    fixed = {s for cond in conds for s in cond.syms} | {s for cond in ragged for fact in cond.eq0 for s in fact.syms}
    reduced = list(total.syms) if total is not None else []
    free = [s for s in (*group.syms, *reduced) if s not in fixed]
    wide = [s for s in free if s.extent > 1 and not any(s in cond.syms for cond in ragged)]
    if not wide:
        return None
    vector = random.choice(wide)
    lanes, vectors = random.choice((2, 3, 4, 8, 16)), random.choice((1, 1, 2, 3))
    rows = [s for s in group.syms if s in free and s is not vector]
    tiled = random.sample(rows, random.randint(0, min(2, len(rows))))
    tiles = [(s, random.randint(1, s.extent + 1)) for s in tiled]
    random.shuffle(reduced)
    if vector in reduced:
        reduced.remove(vector)
        reduced.append(vector)
    else:
        tiles.append((vector, random.randint(1, vector.extent + 3)))
    outer = [s for s in group.syms if s is not vector and s not in tiled]
    across = random.choice([None, *tiled])
    order = [(s, 0) for s in random.sample(outer, len(outer))]
    plan = TilePlan((*order, *tiles), tuple(reduced), vector, lanes, vectors, across)
    if can_reorder(group, plan) and random.random() < 0.5:
        plan = _arranged(random, plan)
    packed = tuple([ref for ref in packable_operands(group, plan) if random.random() < 0.3])
    block = random.randint(1, reduced[0].extent + 1) if can_block(group, plan) and random.random() < 0.3 else 0
    plan = replace(plan, k_block=block, blocked_loops=random.randint(1, max(1, len(plan.loops))))
    packable = [ref for ref in packable_operands(group, plan) if ref not in packed and panel_loops(ref, plan)]
    panels = tuple([ref for ref in packable if plan.reduction_syms and random.random() < 0.5])
    return replace(plan, packed_operands=packed, panels=panels)


def _arranged(random: Random, plan: TilePlan) -> TilePlan:
    """The loops in any order, one of them in stretches of any length."""
    last = random.choice([*plan.tile_sizes.items()])
    before = [reduction for reduction in plan.loops if reduction != last]
    ordered = replace(plan, loops=(*random.sample(before, len(before)), last))
    strips = [(sym, random.randint(1, trips + 1)) for sym, trips in ordered.trip_counts.items() if trips > 1]
    return replace(ordered, strip=random.choice([None, *strips]))


def with_scheduled_group(proc: Proc, group: FusionGroup, plan: Plan) -> Proc:
    """The routine `proc`, which is this group, with its loops as planned; copies that it needs have theirs as they
    are."""
    names = Namer(bound_names(proc))
    if not isinstance(plan, TilePlan) or not plan.needs_buffers:
        return replace(proc, body=(build_loops(group, plan, names),))
    new = pack_operands(group, plan, names)
    body = (*(copy.stmt() for copy in new.copies), as_statement(new.body))
    return replace(proc, bufs=(*proc.bufs, *new.bufs), body=body)


class _Maker:
    """Generates a group."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0
        self.kind: Precision = random.choice(KINDS)
        self.arrays: dict[TNode, Array] = {}
        self.bufs: list[Buf] = []
        self.seen: list[Expr] = []  # cells that have been read
        self.written_cells: list[Ref] = []  # cells that the group writes
        self.loops: list[Sym] = []  # in scope

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def group_sample(self) -> GroupSample:
        random = self.random
        kept = self.syms(random.choice((0, 1, 1, 2, 2, 2, 3)), ITERATIONS)
        self.loops = kept
        reduced = self.syms(random.choice((0, 1, 1, 1, 2, 3)), ITERATIONS // prod(s.extent for s in kept))
        self.written_cells = [self.written(kept) for _ in range(random.choice((1, 1, 2, 3)))]
        sums = (self.total(kept, reduced),) if reduced or self.chance(0.2) else ()
        self.loops = kept
        cond = self.guard(kept)
        tail = self.tail([Load(reduction.update.ref) for reduction in sums])
        group = FusionGroup(tuple([loop(s, ()) for s in kept]), cond, sums, tail)
        return GroupSample(group, tuple(self.bufs), self.arrays)

    # --- loops and indices ---

    def syms(self, number: int, room: int) -> list[Sym]:
        out: list[Sym] = []
        for _ in range(number):
            extent = self.random.choice([n for n in EXTENTS if n <= max(1, room)])
            low = 1 if self.chance(0.1) else 0
            out.append(Sym(self.name("i"), low, low + extent - 1))
            room //= extent
        return out

    def guard(self, syms: list[Sym]) -> Cond:
        """Usually none."""
        if not syms or self.chance(0.85):
            return TRUE
        sym = self.random.choice(syms)
        match self.random.choice(("from", "to", "other", "one")):
            case "from":
                return Cond((Affine.of(sym) - (sym.lo + 1),))
            case "to":
                return Cond((Affine.of(sym.hi - 1) - sym,))
            case "other":
                return Cond((Affine.of(sym) - self.random.choice(self.loops) + 1,))
            case _:
                return Cond((), (Affine.of(sym) - sym.hi,))

    def index(self) -> Affine:
        out = Affine.of(self.random.randrange(2))
        for _ in range(self.random.choice((0, 1, 1, 1, 1, 2))):
            if self.loops:
                out = out + Affine.of(self.random.choice(self.loops)) * self.random.choice((1, 1, 1, 1, 2, 3, -1))
        return out

    # --- arrays ---

    def array(self, shape: tuple[int, ...], kind: Precision, access: AccessMode = AccessMode.IN) -> Buf:
        node = TNode(self.name("x"), Role.PLACEHOLDER, lambda: shape, lambda: kind)
        low = 0 if kind.family in (Family.BOOL, Family.UNSIGNED) else -2
        numbers = [self.random.randint(low, 1 if kind is bool_ else 2) for _ in range(prod(shape))]
        self.arrays[node] = np.array(numbers, np.float64).reshape(shape).astype(kind.numpy)
        self.bufs.append(Buf(node.label, kind, shape, row_major(shape), MemorySpace.GLOBAL, access, node))
        return self.bufs[-1]

    def written(self, kept: list[Sym]) -> Ref:
        """A cell for each iteration, and for no other."""
        at = []
        for sym in self.random.sample(kept, len(kept)):
            step = self.random.choice((1, 1, 1, 2))
            at.append((Affine.of(sym) - sym.lo) * step + self.random.choice((0, 0, 0, 1)))
        if self.chance(0.1):
            at.insert(self.random.randint(0, len(at)), Affine())
        shape = tuple(index.range()[1] + 1 for index in at)
        return Ref(self.array(shape, self.kind, AccessMode.INOUT), tuple(at))

    def read(self) -> Expr:
        """Some cell that others may read as well."""
        random = self.random
        if self.written_cells and self.chance(0.15):
            return Load(random.choice(self.written_cells))
        operands = [e for e in self.seen if all(s in self.loops for n in walk(e) if isinstance(n, Load)
                                             for i in n.ref.indices for s in i.syms)]  # fmt: skip
        if operands and self.chance(0.3):
            return random.choice(operands)
        kind = random.choice(NARROW) if self.kind is float32 and self.chance(0.1) else self.kind
        at = [self.index() for _ in range(random.choice((0, 1, 1, 2, 2, 3)))]
        guards = TRUE
        for n, index in enumerate(at):
            low, high = index.range()
            if self.chance(0.9):
                at[n] = index = index - min(low, 0)
                low, high = index.range()
            guards = guards & bounds_condition(index, max(high, 1) if low < 0 else high + 1)
        shape = tuple(max(index.range()[1], 1) if index.range()[0] < 0 else index.range()[1] + 1 for index in at)
        if prod(shape) > 4000:
            return self.number()
        load: Expr = Load(Ref(self.array(shape, kind), tuple(at)))
        if not guards.is_true:
            load = When(guards, load, Const(1, kind))
        load = load if kind is self.kind else Cast(load, self.kind)
        self.seen.append(load)
        return load

    # --- values ---

    def number(self) -> Expr:
        return Const(self.random.choice((0, 1) if self.kind is bool_ else (0, 1, 2, 3)), self.kind)

    def value(self, depth: int, operands: list[Expr]) -> Expr:
        random = self.random
        if depth == 0 or self.chance(0.15):
            if operands and self.chance(0.5):
                return random.choice(operands)
            if self.loops and self.kind not in (bool_, uint8) and self.chance(0.08):
                return IndexValue(Affine.of(random.choice(self.loops)), self.kind)
            return self.number() if self.chance(0.1) else self.read()
        if self.loops and self.chance(0.08):
            cond = Cond((Affine.of(random.choice(self.loops)) - random.choice(self.loops),))
            if self.chance(0.5):
                return When(cond, self.number(), self.number())
            return When(cond, self.value(depth - 1, operands), self.value(depth - 1, operands))
        op = BY_NAME[random.choice(LOGICAL if self.kind is bool_ else POINTWISE)]
        return Apply(op, tuple([self.value(depth - 1, operands) for _ in range(op.arity)]))

    def accumulator(self) -> Op:
        if self.kind is bool_:
            return self.random.choice((AND, OR, MAX, MIN))
        return self.random.choice((ADD, ADD, ADD, ADD, MAX, MIN, MUL))

    def total(self, kept: list[Sym], reduced: list[Sym]) -> Reduction:
        op, acc = self.accumulator(), local_buffer(self.name("acc"), self.kind, ())
        start = self.value(self.random.choice((0, 0, 1)), []) if self.chance(0.7) else Load(self.written_cells[0])
        self.loops = kept + reduced
        term = self.value(self.random.choice((0, 1, 1, 2)), [])
        if op is MUL and self.kind.is_float:  # of ones and zeros
            term = Apply(MIN, (Apply(MAX, (term, Const(-1, self.kind))), Const(1, self.kind)))
        cond = self.guard(self.loops)
        return Reduction(start, tuple([loop(s, ()) for s in reduced]), cond, Update(Ref(acc, ()), op, term))

    def tail(self, operands: list[Expr]) -> tuple[Let | Store | Update, ...]:
        out: list[Let | Store | Update] = []
        for ref in self.written_cells:
            if self.chance(0.3):
                let = Let(self.name("h"), self.value(1, operands))
                out.append(let)
                operands = [*operands, Var(let.name, let.value.precision)]
            value = self.value(self.random.choice((0, 1, 2)), operands)
            if operands and self.chance(0.6):
                operation = self.random.choice((MAX, OR) if self.kind is bool_ else (ADD, SUB))
                value = Apply(operation, (operands[-1], value))
            out.append(Update(ref, self.accumulator(), value) if self.chance(0.3) else Store(ref, value))
        return tuple(out)
