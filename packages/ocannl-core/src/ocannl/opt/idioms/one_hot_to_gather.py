"""Replaces a sum over a one-hot mask by an indirect load (gather) or an indirect update (scatter)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from ocannl.ir.affine import TRUE, Affine, Cond, Sym, SymKind, bounds_condition
from ocannl.ir.free_symbols import free_symbols
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Cast,
    Expr,
    For,
    Load,
    Proc,
    Stmt,
    Store,
    Update,
    When,
    is_full,
)
from ocannl.ir.ops import ADD, BY_NAME, MUL, WHERE
from ocannl.ir.precision import int64
from ocannl.opt.analysis.constant_folding import as_index, equals_const, make_const
from ocannl.opt.analysis.nests import AccessTable, PerfectNest, loads, nest_of, unit_covering_loops, wrap_in_loops
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.fusion.inline_producers import inline_producers, match_indices
from ocannl.opt.fusion.merge_initialization import merge_initialization
from ocannl.opt.simplify.simplify import select, simplify_expr

EQ, NEG = BY_NAME["eq"], BY_NAME["neg"]


def one_hot_to_gather(proc: Proc, has_cse: bool = True) -> Proc:
    """Eliminates a reduction loop of which only one iteration adds a term: at an affine index, or at a loaded integer.

        proc step                                           proc step
          y   : f32[3]  out                                   y   : f32[3]  out
          ids : i32[3]  in                                    ids : i32[3]  in
          x   : f32[5]  in                                    x   : f32[5]  in
          for i in 0..3:                                      for i in 0..3:
            y[i] = 0                                  ==>       y[i] = 0
          for b in 0..3:                                      for b in 0..3:
            for v in 0..5:                                      bind v in 0..5 = i64(ids[b]):
              y[b] += where(f32(ids[b] == v), x[v], 0)            y[b] += x[v]

    A loop over the cells of the result is eliminated likewise if each term of a sum is added only to the cell that its
    test selects, such as in the gradient of `x`. The test may be stored in a temporary, such as a one-hot tensor.
    Unselected terms count as 0 even if they are NaN or infinite; products with 0 and 1 are therefore rewritten for
    integers only. Sums that become copies, such as a reversed axis, are inlined as by `inline_producers`.
    """
    nests = [nest_of(stmt) for stmt in proc.body]
    tests = StoredTests(AccessTable(proc.body), nests)
    body = list(proc.body)
    for position, nest in enumerate(nests):
        while nest is not None and (shorter := _eliminate_loop(nest, position, tests)) is not None:
            body[position], nest = shorter, nest_of(shorter)
    if all(new is old for new, old in zip(body, proc.body, strict=True)):
        return proc
    proc = merge_initialization(replace(proc, body=tuple(body)))  # sums of one term become stores
    return inline_producers(proc, has_cse)


def _eliminate_loop(nest: PerfectNest, at: int, tests: StoredTests) -> Stmt | None:
    """The nest without one of its loops, if one can be eliminated, else None."""
    leaf = nest.leaf
    if not isinstance(leaf, Update) or leaf.op is not ADD or not nest.cond.is_true:
        return None
    if any(ref.buf is leaf.ref.buf for ref in loads(leaf.value)):
        return None
    if not all(is_full(loop) and loop.sym.extent and loop.sym.lo == 0 for loop in nest.loops):
        return None
    kept = set(nest.leaf.ref.syms)
    for loop in nest.loops:
        if loop.sym not in kept:
            remaining = tuple(candidate for candidate in nest.loops if candidate is not loop)
            rewritten = _substitute_affine_index(nest, loop.sym, remaining)
            rewritten = rewritten or _substitute_integer_index(nest, loop.sym, remaining, at, tests)
            if rewritten is not None:
                return rewritten
    scatters = (_scatter(nest, loop.sym, at, tests) for loop in nest.loops if loop.sym in kept)
    return next((scatter for scatter in scatters if scatter is not None), None)


# --- affine indices --------------------------------------------------------------------------------------------------


def _substitute_affine_index(nest: PerfectNest, sym: Sym, loops: Sequence[For]) -> Stmt | None:
    """The nest with each addend evaluated at the index that its guard selects, if all guards select one."""
    terms = [_selected_term(term, sym) for term in _addends(nest.leaf.value)]
    selected = [term for term in terms if term is not None]
    if len(selected) < len(terms):
        return None
    value = simplify_expr(reduce(lambda x, y: Apply(ADD, (x, y)), selected))
    (stmt,) = wrap_in_loops(loops, TRUE, (replace(nest.leaf, value=value),))
    return stmt


def _addends(value: Expr) -> list[Expr]:
    match value:
        case Apply(op, (x, y)) if op is ADD:
            return _addends(x) + _addends(y)
        case _:
            return [value]


def _selected_term(term: Expr, sym: Sym) -> Expr | None:
    cond, value = _guarded_value(term) or (None, term)
    if not isinstance(cond, Cond):
        return None
    for equation in cond.eq0:
        coef = equation.coef(sym)
        if abs(coef) == 1:
            index = (equation - Affine.of(sym) * coef) * -coef
            remaining = Cond(cond.ge0, tuple(fact for fact in cond.eq0 if fact is not equation))
            values = {sym: index}
            guard = bounds_condition(index, sym.extent) & remaining.substitute(values)
            return select(guard, substitute(value, values), make_const(0, value.precision))
    return None


def _guarded_value(value: Expr) -> tuple[Cond | Expr, Expr] | None:
    """The test and the guarded value, if the value is 0 wherever the test fails."""
    match value:
        case When(cond, then, orelse) if equals_const(orelse, 0):
            return cond, then
        case Apply(op, (test, then, orelse)) if op is WHERE and equals_const(orelse, 0):
            return test, then
        case Cast(inner, precision):
            guarded = _guarded_value(inner)
            return None if guarded is None else (guarded[0], Cast(guarded[1], precision))
        case Apply(op, (inner,)) if op is NEG:
            guarded = _guarded_value(inner)
            return None if guarded is None else (guarded[0], Apply(NEG, (guarded[1],)))
        case _:
            return None


# --- loaded indices -------------------------------------------------------------------------------------------


class StoredTests:
    """Definitions of temporaries that are read as tests (reaching definitions)."""

    def __init__(self, table: AccessTable, nests: Sequence[PerfectNest | None]) -> None:
        self.table = table
        self.nests = nests

    def definition(self, test: Expr, at: int) -> Expr:
        """The expression that defines a stored test, as read by the statement at the given position."""
        while isinstance(test, Cast):
            test = test.value  # casts preserve truth values
        if not isinstance(test, Load):
            return test
        writers = [w for w in self.table.writers.get(test.ref.buf, ()) if w < at]
        nest = self.nests[writers[-1]] if writers else None
        if nest is None or not isinstance(nest.leaf, Store) or not nest.cond.is_true:
            return test
        reads = (test.ref, *loads(nest.leaf.value))
        if any(self.table.written_between(ref.buf, writers[-1], at + 1) for ref in reads):
            return test
        if unit_covering_loops(nest.leaf.ref, nest.loops) != {loop.sym for loop in nest.loops}:
            return test
        value = nest.leaf.value
        while isinstance(value, Cast):
            value = value.value
        return substitute(value, match_indices(nest.leaf.ref, test.ref))


def _substitute_integer_index(
    nest: PerfectNest, sym: Sym, loops: Sequence[For], at: int, tests: StoredTests
) -> Stmt | None:
    """The nest with the loop replaced by an indirect index, if a test compares the symbol with an integer."""
    for test, value in _test_candidates(nest.leaf.value):
        index = _tested_index(tests.definition(test, at), sym)
        if index is not None and all(ref.buf is not nest.leaf.ref.buf for ref in loads(index)):
            return _bind_index(nest, sym, loops, index, value)
    return None


def _scatter(nest: PerfectNest, sym: Sym, at: int, tests: StoredTests) -> Stmt | None:
    """The nest that adds each term to the only cell that a test selects, instead of to all cells along an axis."""
    leaf = nest.leaf
    if sum(sym in index.syms for index in leaf.ref.indices) != 1 or Affine.of(sym) not in leaf.ref.indices:
        return None
    for test, value in _test_candidates(leaf.value):
        index = _tested_index(tests.definition(test, at), sym)
        if index is None or any(ref.buf is leaf.ref.buf for ref in loads(index)):
            continue
        index_syms = free_symbols(index)
        if index_syms <= set(leaf.ref.syms):
            continue  # no reduction: a map over all cells is fused and vectorized
        loops = [loop for loop in nest.loops if loop.sym is not sym]
        return _bind_index(nest, sym, sorted(loops, key=lambda loop: loop.sym not in index_syms), index, value)
    return None


def _bind_index(nest: PerfectNest, sym: Sym, loops: Sequence[For], index: Expr, value: Expr) -> Stmt:
    """The loops around the value, with the index bound at the outermost position where it is defined."""
    indirect = Sym(sym.name, 0, sym.hi, SymKind.INDIRECT)
    values = {sym: Affine.of(indirect)}
    ref = nest.leaf.ref.substitute(values)
    leaf = replace(nest.leaf, ref=ref, value=substitute(value, values))
    index_syms = free_symbols(index)
    depth = max((n + 1 for n, loop in enumerate(loops) if loop.sym in index_syms), default=0)
    index = index if index.precision is int64 else Cast(index, int64)
    binding = BindIndex(indirect, index, wrap_in_loops(loops[depth:], TRUE, (leaf,)))
    (stmt,) = wrap_in_loops(loops[:depth], TRUE, (binding,))
    return stmt


def _test_candidates(value: Expr) -> list[tuple[Expr, Expr]]:
    """Candidate tests, each with the value where the test holds; the value is 0 where it fails."""
    test, guarded = _guarded_value(value) or (None, value)
    if test is not None:
        return [] if isinstance(test, Cond) else [(test, guarded)]
    match value:
        case Apply(op, (x, y)) if op is MUL and not value.precision.is_float:
            return [(x, y), (y, x)]
        case _:
            return []


def _tested_index(test: Expr, sym: Sym) -> Expr | None:
    """The integer that the test compares the symbol with."""
    match test:
        case Apply(op, (x, y)) if op is EQ and not x.precision.is_float:
            return next((b for a, b in ((x, y), (y, x)) if _is_symbol(a, sym) and sym not in free_symbols(b)), None)
        case _:
            return None


def _is_symbol(value: Expr, sym: Sym) -> bool:
    index = as_index(value)
    return index is not None and index.only_sym is sym
