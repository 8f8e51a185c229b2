"""Merges an initializing store with the first update of its cells (store forwarding)."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.loops import Apply, Cast, Const, Expr, IndexValue, Proc, Ref, Stmt, Store, Update, When, is_full
from ocannl.ir.ops import BY_NAME, WHERE
from ocannl.ir.precision import Family
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.affine_equations import solve_affine_equations
from ocannl.opt.analysis.constant_folding import is_representable
from ocannl.opt.analysis.expression_cost import cost
from ocannl.opt.analysis.indirect_nests import IndirectNest, indirect_nest_of
from ocannl.opt.analysis.initial_stores import InitialStore, InitialStores
from ocannl.opt.analysis.nests import AccessTable, PerfectNest, covering_loops, nest_of, same_objects, wrap_in_loops
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.schedule.plan.register_tiles import bounds_guards
from ocannl.opt.simplify.simplify import simplify_expr


def merge_initialization(proc: Proc) -> Proc:
    """Replaces an initializing store and a pointwise update of its cells by one store.

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

    Gradients, which start at zero and accumulate one term per use, become values that can be inlined. A write of part
    of the cells, such as the diagonal of a zero matrix, becomes a guarded value. If the guarded value exists only where
    the guard holds, the guard must not differ between cells that are adjacent in memory: vectors compute them together.
    A scatter that writes each cell at most once, such as the gradient of one class per example, becomes a comparison of
    the loaded index with that of the cell.
    """
    initial_stores = InitialStores(AccessTable(proc.body))
    body: list[Stmt | None] = list(proc.body)
    for position, stmt in enumerate(proc.body):
        nest = nest_of(stmt)
        if nest is not None:
            merged = _merge_full_update(initial_stores, position, nest)
            merged = merged or _merge_partial_write(initial_stores, position, nest)
        else:
            scatter = indirect_nest_of(stmt)
            merged = None if scatter is None else _merge_scatter(initial_stores, position, scatter)
        if merged is not None:
            fill, nest = merged
            (body[position],) = wrap_in_loops(nest.loops, TRUE, (nest.leaf,))
            body[fill] = None
        if nest is not None:
            initial_stores.record(position, nest)
    remaining = tuple([stmt for stmt in body if stmt is not None])
    return proc if same_objects(remaining, proc.body) else replace(proc, body=remaining)


def _merge_full_update(initial_stores: InitialStores, at: int, nest: PerfectNest) -> tuple[int, PerfectNest] | None:
    """The position of the initializing store of an update of every cell, and the merged nest."""
    initial = initial_stores.initial_store(at, nest)
    if initial is None or covering_loops(nest.leaf.ref, nest.loops) != {loop.sym for loop in nest.loops}:
        return None
    store = _merged_store(initial, nest)
    return (initial.position, PerfectNest(nest.loops, TRUE, store)) if store is not None else None


def _merged_store(initial: InitialStore, nest: PerfectNest) -> Store | None:
    """The store equal to the initializing store and the update, or None if its expression is too large."""
    update = nest.leaf
    assert isinstance(update, Update)
    if cost(initial.value).nodes + cost(update.value).nodes > machine.MAX_EXPR_NODES:
        return None
    combined: Expr = Apply(update.op, (initial.value, update.value))
    if not nest.cond.is_true:
        if not isinstance(initial.value, Const):
            return None  # a guard would duplicate the value
        combined = When(nest.cond, combined, initial.value)
    return Store(update.ref, simplify_expr(combined), update.origin)


def _merge_partial_write(initial_stores: InitialStores, at: int, nest: PerfectNest) -> tuple[int, PerfectNest] | None:
    """`_merge_full_update` for a write of some of the cells, each of them in one iteration."""
    reaching, leaf = initial_stores.reaching_initialization(at, nest), nest.leaf
    if reaching is None or not all(map(is_full, nest.loops)):
        return None
    fill_position, fill = reaching
    solution = solve_affine_equations(leaf.ref.indices, fill.leaf.ref.indices, nest.loops)
    if solution is None:
        return None
    values, in_range = solution
    in_range = in_range & nest.cond.substitute(values)
    first, value = fill.leaf.value, substitute(leaf.value, values)
    if cost(value).work > machine.MAX_RECOMPUTED_OPS:
        return None  # vectors compute both sides of a guard
    if _has_narrow_index(value):
        return None
    if isinstance(leaf, Update):
        initial = simplify_expr(first, in_range)
        if not isinstance(initial, Const):
            return None  # a guard would duplicate the value
        value = Apply(leaf.op, (initial, value))
    merged = simplify_expr(When(in_range, value, first))
    guarded_syms = {s for guard in bounds_guards(merged) for s in guard.syms}
    if cost(merged).nodes > machine.MAX_EXPR_NODES or any(fill.leaf.ref.stride(sym) == 1 for sym in guarded_syms):
        return None
    return fill_position, PerfectNest(fill.loops, TRUE, Store(fill.leaf.ref, merged, leaf.origin))


def _has_narrow_index(value: Expr) -> bool:
    """Whether an index overflows its type where a guard, or a comparison, ignores the value."""
    return not all(is_representable(e.index, e.precision) for e in walk(value) if isinstance(e, IndexValue))


def _merge_scatter(initial_stores: InitialStores, at: int, scatter: IndirectNest) -> tuple[int, PerfectNest] | None:
    """`_merge_partial_write` for cells at loaded indices, if each loop and each of the indices is along an axis of its
    own, so that no cell is written twice."""
    leaf = scatter.leaf
    reaching = initial_stores.reaching_initialization(at, PerfectNest(scatter.loops, TRUE, leaf))
    if reaching is None or any(ref.buf is leaf.ref.buf for ref in scatter.reads):
        return None
    fill_position, fill = reaching
    first, values = fill.leaf.value, _cell_of_symbols(leaf.ref, fill.leaf.ref)
    if values is None or set(values) != scatter.syms:
        return None
    if not isinstance(first, Const) or cost(leaf.value).work > machine.MAX_RECOMPUTED_OPS:
        return None
    value = substitute(leaf.value, values)
    if _has_narrow_index(value):
        return None
    if isinstance(leaf, Update):
        value = Apply(leaf.op, (first, value))
    for index in scatter.indices:
        test = _is_selected(substitute(index.value, values), values[index.sym])
        value = Apply(WHERE, (Cast(test, first.precision), value, first))
    return fill_position, PerfectNest(fill.loops, TRUE, Store(fill.leaf.ref, simplify_expr(value), leaf.origin))


def _cell_of_symbols(ref: Ref, cell: Ref) -> dict[Sym, Affine] | None:
    """The index of the cell along the axis of each symbol, if each axis with more than one cell has its own symbol,
    which takes all values along it."""
    values: dict[Sym, Affine] = {}
    for index, at, size in zip(ref.indices, cell.indices, ref.buf.shape, strict=True):
        sym = index.only_sym
        if sym is not None and sym not in values and (sym.lo, sym.extent) == (0, size):
            values[sym] = at
        elif not (index.is_const and size == 1):
            return None
    return values


def _is_selected(loaded: Expr, index: Affine) -> Expr:
    """Whether a loaded index equals another one; compared in the type of the memory, of which vectors have more lanes,
    if it is an integer that can hold the other."""
    if isinstance(loaded, Cast):
        kind = loaded.value.precision
        is_widening = kind.family in (Family.SIGNED, Family.UNSIGNED) and kind.nbytes <= loaded.precision.nbytes
        if is_widening and is_representable(index, kind):
            loaded = loaded.value
    return Apply(BY_NAME["eq"], (loaded, IndexValue(index, loaded.precision)))
