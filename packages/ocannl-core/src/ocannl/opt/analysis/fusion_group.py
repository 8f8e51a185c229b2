"""Fusion groups, the unit of scheduling: parallel loops around reductions in registers and a pointwise epilogue.

    for i in 0..5:
      local acc: f32                a reduction: its accumulator, initial value,
      acc = 0
      for k in 0..7:                and reduction loops
        acc += w[i, k]
      let h = tanh(acc)             the epilogue: definitions, stores and updates
      y[i] = h
      z[i] = h * h

The outer loops carry no dependence, unless the group consists of a single update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.cached_analyses import Analyzed, cached_on_argument
from ocannl.ir.loops import (
    AccessMode,
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
    MemorySpace,
    Ref,
    Stmt,
    Store,
    Update,
    is_full,
    is_tensorized,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD
from ocannl.ir.precision import Precision
from ocannl.ir.projections import is_injective
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import PerfectNest, as_statement, loads, nest_of, split_condition, wrap_in_loops
from ocannl.opt.analysis.substitution import substitute


@dataclass(frozen=True, slots=True)
class Reduction:
    """Accumulates into the target of `update`, from `init`, over the iterations of `loops` that satisfy `cond`."""

    init: Expr
    loops: tuple[For, ...]
    cond: Cond
    update: Update

    @property
    def acc(self) -> Buf:
        return self.update.ref.buf

    @property
    def syms(self) -> tuple[Sym, ...]:
        return tuple([loop.sym for loop in self.loops])


@dataclass(frozen=True, slots=True)
class FusionGroup(Analyzed):
    """Parallel `loops`, guarded by `cond`, around reductions and the `epilogue` that consumes their results."""

    loops: tuple[For, ...]
    cond: Cond
    reductions: tuple[Reduction, ...]
    epilogue: tuple[Let | Store | Update, ...]

    @property
    def syms(self) -> tuple[Sym, ...]:
        return tuple([loop.sym for loop in self.loops])

    @property
    def writes(self) -> list[Ref]:
        return [stmt.ref for stmt in self.epilogue if not isinstance(stmt, Let)]

    @property
    def values(self) -> Iterator[Expr]:
        """Yields every expression of the group in program order."""
        for reduction in self.reductions:
            yield reduction.init
            yield reduction.update.value
        for stmt in self.epilogue:
            yield stmt.value

    @property
    @cached_on_argument
    def reads(self) -> tuple[Ref, ...]:
        """The cells that the group may read, except accumulators, with repetitions."""
        accs = {reduction.acc for reduction in self.reductions}
        return tuple([ref for value in self.values for ref in loads(value) if ref.buf not in accs])

    def substituted(self, values: Mapping[Sym, Affine]) -> FusionGroup:
        """Substitutes `values` for symbols of the parallel loops."""

        def ref(old: Ref) -> Ref:
            return old.substitute(values)

        def in_loop(loop: For) -> For:
            return replace(loop, lo=loop.lo.substitute(values), hi=loop.hi.substitute(values))

        def in_reduction(old: Reduction) -> Reduction:
            update = replace(old.update, value=substitute(old.update.value, values))
            loops = tuple([in_loop(loop) for loop in old.loops])
            return Reduction(substitute(old.init, values), loops, old.cond.substitute(values), update)

        def in_epilogue(stmt: Let | Store | Update) -> Let | Store | Update:
            value = substitute(stmt.value, values)
            if isinstance(stmt, Let):
                return replace(stmt, value=value)
            return replace(stmt, ref=ref(stmt.ref), value=value)

        reductions, epilogue = map(in_reduction, self.reductions), map(in_epilogue, self.epilogue)
        return FusionGroup(self.loops, self.cond.substitute(values), tuple(reductions), tuple(epilogue))

    def stmt(self) -> Stmt:
        """Returns the group as an unscheduled statement."""
        body: list[Stmt] = []
        for reduction in self.reductions:
            body += (Local(reduction.acc), Store(reduction.update.ref, reduction.init, reduction.update.origin))
            body += wrap_in_loops(reduction.loops, reduction.cond, (reduction.update,))
        return as_statement(wrap_in_loops(self.loops, self.cond, (*body, *self.epilogue)))


def is_rounded_sum(update: Update) -> bool:
    """Whether the update adds floating-point numbers."""
    return update.op is ADD and update.ref.buf.precision.is_float


def may_combine_parts(reduction: Reduction) -> bool:
    """Whether the reduction may be the second stage of a split reduction: its terms are few cells of a temporary."""
    is_short = prod(sym.extent for sym in reduction.syms) <= machine.MAX_REDUCTION_PARTS
    value = reduction.update.value
    return is_short and isinstance(value, Load) and value.ref.buf.access is AccessMode.TEMP


def is_matmul_like(group: FusionGroup) -> bool:
    """Whether a reduction has terms of two operands, each of which depends on a loop that the other does not."""
    for reduction in group.reductions:
        match reduction.update.value:
            case Apply(_, (left, right)):
                left_syms, right_syms = _index_symbols(left), _index_symbols(right)
                if left_syms - right_syms and right_syms - left_syms:
                    return True
            case _:
                pass
    return False


def _index_symbols(expr: Expr) -> set[Sym]:
    return {sym for ref in loads(expr) for sym in ref.syms}


def local_buffer(name: str, precision: Precision, shape: tuple[int, ...]) -> Buf:
    """Creates a dense local buffer, to be declared by a `Local`."""
    return Buf(name, precision, shape, row_major(shape), MemorySpace.LOCAL, AccessMode.TEMP)


def group_of_nest(nest: PerfectNest, names: Namer, init: Expr | None = None) -> FusionGroup | None:
    """Converts a nest to a group that accumulates in a register; None if the order of iterations is observable.

    With `init`, every cell that the nest could update starts from this value and is written, whatever the guard. A sum
    of numbers that are rounded starts from 0, and the value is added at the end, so that terms are not rounded at its
    size.
    """
    leaf, syms = nest.leaf, tuple([loop.sym for loop in nest.loops])
    self_reads = [ref for ref in loads(leaf.value) if ref.buf is leaf.ref.buf]
    if any(ref != leaf.ref for ref in self_reads) or not all(map(is_full, nest.loops)):
        return None
    if isinstance(leaf, Store) or self_reads:  # the order is observable if a cell is written twice
        return FusionGroup(nest.loops, nest.cond, (), (leaf,)) if is_injective(leaf.ref.indices, syms) else None
    indexing = set(leaf.ref.syms)
    parallel_loops = tuple([loop for loop in nest.loops if loop.sym in indexing])
    reduction_loops = tuple([loop for loop in nest.loops if loop.sym not in indexing])
    if not reduction_loops and init is None:
        return FusionGroup(parallel_loops, nest.cond, (), (leaf,))
    if not is_injective(leaf.ref.indices, tuple([loop.sym for loop in parallel_loops])):
        return None
    cond, reduction_cond = TRUE, nest.cond
    if init is None:
        cond, reduction_cond = split_condition(nest.cond, [loop.sym for loop in reduction_loops])
    acc = Ref(local_buffer(names("acc"), leaf.ref.buf.precision, ()), ())
    first: Expr = init or Load(leaf.ref)
    total: Expr = Load(acc)
    update = Update(acc, leaf.op, leaf.value, leaf.origin)
    starts_from_zero = isinstance(init, Const) and not init.value
    if init is not None and not starts_from_zero and reduction_loops and is_rounded_sum(update):
        first, total = Const(0.0, total.precision), Apply(ADD, (init, total))
    reduction = Reduction(first, reduction_loops, reduction_cond, update)
    return FusionGroup(parallel_loops, cond, (reduction,), (Store(leaf.ref, total, leaf.origin),))


def group_of(stmt: Stmt, names: Namer) -> FusionGroup | None:
    """Recognizes a group in the form of `FusionGroup.stmt`, or a nest that can be one; None otherwise, such as for a
    product of tiles."""
    if is_tensorized(stmt):
        return None
    nest = nest_of(stmt)
    if nest is not None:
        return group_of_nest(nest, names)
    loops: list[For] = []
    cond = TRUE
    body: Body = (stmt,)
    while len(body) == 1:
        match body[0]:
            case For(body=inner) as loop if is_full(loop):
                loops.append(loop)
            case If(guard, inner, ()):
                cond = cond & guard
            case _:
                return None
        body = inner
    reductions: list[Reduction] = []
    while body and isinstance(body[0], Local):
        match body[:3]:
            case (Local(acc, None), Store(Ref(target, ()), init), accumulation) if target is acc:
                inner_nest = nest_of(accumulation)
            case _:
                return None
        if inner_nest is None or not isinstance(inner_nest.leaf, Update) or inner_nest.leaf.ref.buf is not acc:
            return None
        reductions.append(Reduction(init, inner_nest.loops, inner_nest.cond, inner_nest.leaf))
        body = body[3:]
    if not all(isinstance(stmt, Let | Store | Update) for stmt in body):
        return None
    return FusionGroup(tuple(loops), cond, tuple(reductions), body)  # type: ignore[arg-type]
