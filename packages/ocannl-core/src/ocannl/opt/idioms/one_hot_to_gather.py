"""Goes to the one cell that a sum takes, instead of looking for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from ocannl.ir.index import TRUE, Affine, Cond, Sym, SymKind, bounds_condition
from ocannl.ir.loops import Apply, Cast, Expr, For, IndexValue, Load, Const, BindIndex, Proc, Ref, Stmt, Store, Update, When
from ocannl.ir.ops import ADD, BY_NAME, MUL, WHERE
from ocannl.ir.precision import int64
from ocannl.ir.walk import walk
from ocannl.opt.analysis.nests import Nest, AccessTable, wrap_in_loops, unit_covering_loops, is_full, loads, nest_of
from ocannl.opt.analysis.representable import as_index, equals_const, make_const
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.fusion.inline_producers import matching
from ocannl.opt.fusion.merge_initialization import merge_initialization
from ocannl.opt.simplify.simplify import select, simplify_expr

EQ = BY_NAME["eq"]


def one_hot_to_gather(proc: Proc) -> Proc:
    """Replaces a loop whose sum takes only what stands at one place of it: at an index, or where an integer says.

        proc step                                           proc step
          y   : f32[3]  out                                   y   : f32[3]  out
          ids : i32[3]  in                                    ids : i32[3]  in
          x   : f32[5]  in                                    x   : f32[5]  in
          for i in 0..3:                                      for i in 0..3:
            y[i] = 0                                  ==>       y[i] = 0
          for b in 0..3:                                      for b in 0..3:
            for v in 0..5:                                      pick v in 0..5 = i64(ids[b]):
              y[b] += where(f32(ids[b] == v), x[v], 0)            y[b] += x[v]

    The test may stand in a temporary, as one-hot tensors do. What the sum does not take counts as 0, be it NaN: so
    products with 0 and 1 are left alone, unless what they are of are integers.
    """
    nests = [nest_of(stmt) for stmt in proc.body]
    tests = Tests(AccessTable(proc.body), nests)
    body = list(proc.body)
    for at, nest in enumerate(nests):
        while nest is not None and (shorter := _without_search(nest, at, tests)) is not None:
            body[at], nest = shorter, nest_of(shorter)
    if all(new is old for new, old in zip(body, proc.body, strict=True)):
        return proc
    return merge_initialization(replace(proc, body=tuple(body)))  # sums of one term are values


def _without_search(nest: Nest, at: int, tests: Tests) -> Stmt | None:
    """The nest without one of its loops, if there is one that need not be searched."""
    leaf = nest.leaf
    if not isinstance(leaf, Update) or leaf.op is not ADD or not nest.cond.is_true:
        return None
    if any(ref.buf is leaf.ref.buf for ref in loads(leaf.value)):
        return None
    if not all(is_full(loop) and loop.sym.extent and loop.sym.lo == 0 for loop in nest.loops):
        return None
    kept = {sym for place in nest.leaf.ref.indices for sym in place.syms}
    for loop in nest.loops:
        if loop.sym not in kept:
            left = tuple(other for other in nest.loops if other is not loop)
            found = _at_index(nest, loop.sym, left) or _where_told(nest, loop.sym, left, at, tests)
            if found is not None:
                return found
    return None


# --- at an index -----------------------------------------------------------------------------------------------------


def _at_index(nest: Nest, sym: Sym, loops: Sequence[For]) -> Stmt | None:
    """The sum of what each term has at its place, where all terms have one."""
    terms = [_term(term, sym) for term in _terms(nest.leaf.value)]
    found = [term for term in terms if term is not None]
    if len(found) < len(terms):
        return None
    value = simplify_expr(reduce(lambda x, y: Apply(ADD, (x, y)), found))
    (stmt,) = wrap_in_loops(loops, TRUE, (replace(nest.leaf, value=value),))
    return stmt


def _terms(value: Expr) -> list[Expr]:
    match value:
        case Apply(op, (x, y)) if op is ADD:
            return _terms(x) + _terms(y)
        case _:
            return [value]


def _term(term: Expr, sym: Sym) -> Expr | None:
    cond, value = _taken(term) or (None, term)
    if not isinstance(cond, Cond):
        return None
    for fact in cond.eq0:
        coef = fact.coef(sym)
        if abs(coef) == 1:
            place = (fact - Affine.of(sym) * coef) * -coef
            rest = Cond(cond.ge0, tuple(f for f in cond.eq0 if f is not fact))
            there = {sym: place}
            left = bounds_condition(place, sym.extent) & rest.substitute(there)
            return select(left, substitute(value, there), make_const(0, value.precision))
    return None


def _taken(value: Expr) -> tuple[Cond | Expr, Expr] | None:
    """The test, and what is taken where it holds, of a value that else is 0."""
    match value:
        case When(cond, then, orelse) if equals_const(orelse, 0):
            return cond, then
        case Apply(op, (test, then, orelse)) if op is WHERE and equals_const(orelse, 0):
            return test, then
        case Cast(inner, precision):
            found = _taken(inner)
            return None if found is None else (found[0], Cast(found[1], precision))
        case _:
            return None


# --- where an integer says -------------------------------------------------------------------------------------------


class Tests:
    """What temporaries hold that are read as tests."""

    def __init__(self, table: AccessTable, nests: Sequence[Nest | None]) -> None:
        self.table = table
        self.nests = nests

    def said(self, test: Expr, at: int) -> Expr:
        """The test itself, of one that was stored and is read by the statement at this position."""
        while isinstance(test, Cast):
            test = test.value  # truth values keep theirs
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
        return substitute(value, matching(nest.leaf.ref, test.ref))


def _where_told(nest: Nest, sym: Sym, loops: Sequence[For], at: int, tests: Tests) -> Stmt | None:
    """The nest around what stands where an integer says."""
    for test, value in _choices(nest.leaf.value):
        said = _said(tests.said(test, at), sym)
        if said is not None and all(ref.buf is not nest.leaf.ref.buf for ref in loads(said)):
            return _picking(nest, sym, loops, said, value)
    return None


def _picking(nest: Nest, sym: Sym, loops: Sequence[For], said: Expr, value: Expr) -> Stmt:
    """The loops around the value, the pick as far out as its integer is known."""
    picked = Sym(sym.name, 0, sym.hi, SymKind.INDIRECT)
    leaf = replace(nest.leaf, value=substitute(value, {sym: Affine.of(picked)}))
    known = _mentioned(said)
    depth = max((n + 1 for n, loop in enumerate(loops) if loop.sym in known), default=0)
    pick = BindIndex(picked, said if said.precision is int64 else Cast(said, int64), wrap_in_loops(loops[depth:], TRUE, (leaf,)))
    (stmt,) = wrap_in_loops(loops[:depth], TRUE, (pick,))
    return stmt


def _choices(value: Expr) -> list[tuple[Expr, Expr]]:
    """What may be a test, and what the value is where it holds; where it does not, the value is 0."""
    test, taken = _taken(value) or (None, value)
    if test is not None:
        return [] if isinstance(test, Cond) else [(test, taken)]
    match value:
        case Apply(op, (x, y)) if op is MUL and not value.precision.is_float:
            return [(x, y), (y, x)]
        case _:
            return []


def _said(test: Expr, sym: Sym) -> Expr | None:
    """The integer that the test wants the symbol to be."""
    match test:
        case Apply(op, (x, y)) if op is EQ and not x.precision.is_float:
            return next((b for a, b in ((x, y), (y, x)) if _is(a, sym) and sym not in _mentioned(b)), None)
        case _:
            return None


def _is(value: Expr, sym: Sym) -> bool:
    index = as_index(value)
    return index is not None and index.only_sym is sym


def _mentioned(value: Expr) -> set[Sym]:
    found: set[Sym] = set()
    for node in walk(value):
        match node:
            case Load(Ref(_, places)): found.update(sym for place in places for sym in place.syms)
            case IndexValue(index, _): found.update(index.syms)
            case When(cond, _, _): found.update(cond.syms)
            case Const() | _: pass
    return found
