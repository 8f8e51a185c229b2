"""Makes one store of a store and what meets it."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.index import TRUE
from ocannl.ir.loops import Apply, Expr, IndexValue, Const, Proc, Stmt, Store, Update, When
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.affine_equations import solve_affine_equations
from ocannl.opt.analysis.cost import cost
from ocannl.opt.analysis.initial_stores import InitialStore, InitialStores
from ocannl.opt.analysis.nests import Nest, AccessTable, wrap_in_loops, is_full, nest_of, same_objects, covering_loops
from ocannl.opt.analysis.representable import is_representable
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.schedule.plan.register_tiles import bounds_guards
from ocannl.opt.simplify.simplify import simplify_expr


def merge_initialization(proc: Proc) -> Proc:
    """Puts the first value of cells into the pointwise update that meets them.

        proc step                        proc step
          g : f32[5]  out                  g : f32[5]  out
          x : f32[5]  in                   x : f32[5]  in
          y : f32[5]  in                   y : f32[5]  in
          for i in 0..5:                   for i_3 in 0..5:
            g[i] = 0               ==>       g[i_3] = x[i_3] + y[i_3]
          for i_2 in 0..5:
            g[i_2] += x[i_2]
          for i_3 in 0..5:
            g[i_3] += y[i_3]

    Gradients, which begin at zero and gather from every use, become values that can be inlined; so does what is written
    in part, such as a diagonal among zeros: in each cell a guard picks what was written last. If what it guards exists
    only there, it must not differ between neighbours, which are computed together.
    """
    starts = InitialStores(AccessTable(proc.body))
    body: list[Stmt | None] = list(proc.body)
    for at, stmt in enumerate(proc.body):
        nest = nest_of(stmt)
        if nest is None:
            continue
        found = _whole(starts, at, nest) or _in_part(starts, at, nest)
        if found is not None:
            fill, nest = found
            (body[at],) = wrap_in_loops(nest.loops, TRUE, (nest.leaf,))
            body[fill] = None
        starts.record(at, nest)
    left = tuple([stmt for stmt in body if stmt is not None])
    return proc if same_objects(left, proc.body) else replace(proc, body=left)


def _whole(starts: InitialStores, at: int, nest: Nest) -> tuple[int, Nest] | None:
    """The place of the fill of an update of every cell, and the store that does what both do."""
    start = starts.initial_store(at, nest)
    if start is None or covering_loops(nest.leaf.ref, nest.loops) != {loop.sym for loop in nest.loops}:
        return None
    store = _joined(start, nest)
    return (start.position, Nest(nest.loops, TRUE, store)) if store is not None else None


def _joined(start: InitialStore, nest: Nest) -> Store | None:
    """The store that does what the fill and the update do, unless it would be too much at once."""
    update = nest.leaf
    assert isinstance(update, Update)
    if cost(start.value).nodes + cost(update.value).nodes > machine.MAX_EXPR_NODES:
        return None
    met: Expr = Apply(update.op, (start.value, update.value))
    if not nest.cond.is_true:
        if not isinstance(start.value, Const):
            return None  # it would stand there twice
        met = When(nest.cond, met, start.value)
    return Store(update.ref, simplify_expr(met), update.origin)


def _in_part(starts: InitialStores, at: int, nest: Nest) -> tuple[int, Nest] | None:
    """The same of a write of some of the cells, each at one point of its loops."""
    found, leaf = starts.reaching_initialization(at, nest), nest.leaf
    if found is None or not all(map(is_full, nest.loops)):
        return None
    place, fill = found
    solution = solve_affine_equations(leaf.ref.indices, fill.leaf.ref.indices, nest.loops)
    if solution is None:
        return None
    values, there = solution
    there = there & nest.cond.substitute(values)
    first, value = fill.leaf.value, substitute(leaf.value, values)
    if cost(value).work > machine.MAX_RECOMPUTED_OPS:
        return None  # vectors compute both sides of a guard
    if not all(is_representable(e.index, e.precision) for e in walk(value) if isinstance(e, IndexValue)):
        return None  # outside of the guard, an index of a narrow type would overflow
    if isinstance(leaf, Update):
        begun = simplify_expr(first, there)
        if not isinstance(begun, Const):
            return None  # it would stand there twice
        value = Apply(leaf.op, (begun, value))
    whole = simplify_expr(When(there, value, first))
    apart = {s for guard in bounds_guards(whole) for s in guard.syms}
    if cost(whole).nodes > machine.MAX_EXPR_NODES or any(fill.leaf.ref.stride(sym) == 1 for sym in apart):
        return None
    return place, Nest(fill.loops, TRUE, Store(fill.leaf.ref, whole, leaf.origin))
