"""Simplifies scalars: what is known before the program runs, and algebra that holds for every number."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor, isinf, isnan

from ocannl.ir.index import TRUE, Affine, Cond
from ocannl.ir.loops import (
    Apply,
    Body,
    Cast,
    Expr,
    For,
    Idx,
    If,
    Let,
    Load,
    Num,
    Pick,
    Proc,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.ops import ADD, AND, MUL, NEG, OR, SUB, WHERE, Op
from ocannl.ir.precision import Family, Precision
from ocannl.opt.algebra import ALGEBRA, agree
from ocannl.opt.decide import decide, negated
from ocannl.opt.exact import constant, converted, index_of, is_exact, is_number, number, rounded, widens
from ocannl.opt.nest import same, writes_kept

MIRROR = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def fold(proc: Proc) -> Proc:
    """Simplifies every expression and guard. NaN and infinities stay what they are; the sign of a zero may change.

        proc step                                              proc step
          x : f32[5]  in                                         x : f32[5]  in
          y : f32[5]  out                                ==>     y : f32[5]  out
          for i in 0..5:                                         for i in 0..5:
            y[i] = where(f32(i <= 2), x[i] * 1, 2 * 3)             y[i] = x[i] if -i+2 >= 0 else 6

    Comparisons of indices become conditions, and those that the ranges of loops decide are gone.
    """
    out: list[Stmt] = []
    for stmt in proc.body:
        out.extend(_stmt(stmt, TRUE) or ((stmt,) if writes_kept(stmt) else ()))
    body = tuple(out)
    return proc if same(body, proc.body) else replace(proc, body=body)


def fold_expr(expr: Expr, given: Cond = TRUE) -> Expr:
    """A simpler expression with the same value wherever `given` holds; the same object if there is none."""
    match expr:
        case Load() | Num() | Var():
            return expr
        case Idx(index, precision):
            return number(index.const, precision) if index.is_const else expr
        case Apply(op, args):
            new = tuple([fold_expr(a, given) for a in args])
            return _apply(op, new, expr if same(new, args) else None)
        case Cast(value, precision):
            inner = fold_expr(value, given)
            return _cast(inner, precision) or (expr if inner is value else Cast(inner, precision))
        case When(cond, then, orelse):
            left = decide(cond, given)
            if left is None:
                return fold_expr(orelse, given)
            if left.is_true:
                return fold_expr(then, given)
            a, b = fold_expr(then, given & left), fold_expr(orelse, given & negated(left))
            return _when(left, a, b) or (expr if a is then and b is orelse and left is cond else When(left, a, b))


def _body(body: Body, given: Cond) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        out.extend(_stmt(stmt, given))
    return body if same(out, body) else tuple(out)


def _stmt(stmt: Stmt, given: Cond) -> Body:
    match stmt:
        case For(body=body):
            inner = _body(body, given)
            if inner is body:
                return (stmt,)
            return (replace(stmt, body=inner),) if inner else ()
        case If(cond, then, orelse):
            left = decide(cond, given)
            if left is None:
                return _body(orelse, given)
            if left.is_true:
                return _body(then, given)
            a, b = _body(then, given & left), _body(orelse, given & negated(left))
            if not a and not b:
                return ()
            return (stmt,) if a is then and b is orelse and left is cond else (If(left, a, b),)
        case Pick(sym, value, body):
            new, inner = fold_expr(value, given), _body(body, given)
            if not inner:
                return ()
            return (stmt,) if new is value and inner is body else (Pick(sym, new, inner),)
        case Store(ref, value):
            new = fold_expr(value, given)
            return (stmt,) if new is value else (replace(stmt, value=new),)
        case Update(ref, op, value, origin):
            new = fold_expr(value, given)
            if is_number(new, op.neutral) and op not in (AND, OR):  # those make truth values of what they meet
                return ()
            return (stmt,) if new is value else (Update(ref, op, new, origin),)
        case Let(name, value):
            new = fold_expr(value, given)
            return (stmt,) if new is value else (Let(name, new),)
        case _:
            return (stmt,)


# --- operations ------------------------------------------------------------------------------------------------------


def _apply(op: Op, args: tuple[Expr, ...], old: Apply | None) -> Expr:
    """`op` of simple operands; `old` is the application if it exists already."""
    found = constant(op, args) or _compare(op, args) or _of_indices(op, args) or _of_choices(op, args)
    if found is None and op.name in ALGEBRA:
        found = ALGEBRA[op.name](*args)
    if found is not None:
        return found
    return old if old is not None else Apply(op, args)


def _compare(op: Op, args: tuple[Expr, ...]) -> Expr | None:
    """A comparison of indices, as a choice between 1 and 0."""
    if op.name not in MIRROR:
        return None
    name, (left, right) = op.name, args
    if isinstance(left, Num):
        name, left, right = MIRROR[name], right, left
    yes, no = number(1, left.precision), number(0, left.precision)
    a, b = index_of(left), index_of(right)
    if a is not None and b is None and isinstance(right, Num) and not isnan(right.value) and not isinf(right.value):
        between = rounded(right)  # two indices, perhaps
        if name in ("eq", "ne") and not float(between).is_integer():
            return no if name == "eq" else yes
        b = Affine((), ceil(between) if name in ("lt", "ge") else floor(between))
    if a is None or b is None:
        return None
    match name:
        case "lt":
            return choose(Cond((b - a - 1,)), yes, no)
        case "le":
            return choose(Cond((b - a,)), yes, no)
        case "gt":
            return choose(Cond((a - b - 1,)), yes, no)
        case "ge":
            return choose(Cond((a - b,)), yes, no)
        case "eq":
            return choose(Cond((), (a - b,)), yes, no)
        case _:
            return choose(Cond((), (a - b,)), no, yes)


def _of_indices(op: Op, args: tuple[Expr, ...]) -> Expr | None:
    """Sums and multiples of indices are indices, while they exist in their type."""
    if op not in (ADD, SUB, MUL, NEG) or not any(isinstance(a, Idx) for a in args):
        return None
    precision = args[-1].precision
    indices = [i for i in map(index_of, args) if i is not None]
    if len(indices) != len(args):
        return None
    if op is ADD:
        result = indices[0] + indices[1]
    elif op is SUB:
        result = indices[0] - indices[1]
    elif op is NEG:
        result = -indices[0]
    elif indices[1].is_const:
        result = indices[0] * indices[1].const
    elif indices[0].is_const:
        result = indices[1] * indices[0].const
    else:
        return None
    if not is_exact(result, precision):
        return None
    return number(result.const, precision) if result.is_const else Idx(result, precision)


def _of_choices(op: Op, args: tuple[Expr, ...]) -> Expr | None:
    """`where` by a choice between numbers is a choice; so is what is computed from numbers and such choices."""
    if op is WHERE:
        match args[0]:
            case Num(value, _):
                return args[1] if value != 0 else args[2]
            case When(cond, Num(yes, _), Num(no, _)):
                return choose(cond, args[1] if yes != 0 else args[2], args[1] if no != 0 else args[2])
    choices = [a for a in args if _is_choice(a)]
    if not choices or len(choices) > 2 or any(not isinstance(a, Num) and not _is_choice(a) for a in args):
        return None
    at = next(i for i, a in enumerate(args) if a is choices[0])
    picked = args[at]
    assert isinstance(picked, When)
    then = _apply(op, (*args[:at], picked.then, *args[at + 1 :]), None)
    orelse = _apply(op, (*args[:at], picked.orelse, *args[at + 1 :]), None)
    return choose(picked.cond, then, orelse)


def _is_choice(expr: Expr) -> bool:
    return isinstance(expr, When) and isinstance(expr.then, Num) and isinstance(expr.orelse, Num)


def choose(cond: Cond, then: Expr, orelse: Expr) -> Expr:
    """`When`, or less if the condition is decided or the sides agree."""
    left = decide(cond)
    if left is None:
        return orelse
    if left.is_true:
        return then
    return _when(left, then, orelse) or When(left, then, orelse)


def _when(cond: Cond, then: Expr, orelse: Expr) -> Expr | None:
    if agree(then, orelse):
        return then
    match then:
        case When(inner, value, other) if agree(other, orelse):
            return When(cond & inner, value, orelse)
    return None


def _cast(value: Expr, precision: Precision) -> Expr | None:
    if value.precision is precision:
        return value
    match value:
        case Num():
            return converted(value, precision)
        case Idx(index, source) if precision.arithmetic is precision and precision.family is not Family.BOOL:
            return Idx(index, precision) if is_exact(index, source) and is_exact(index, precision) else None
        case When(cond, Num() as then, Num() as orelse):
            a, b = converted(then, precision), converted(orelse, precision)
            return None if a is None or b is None else choose(cond, a, b)
        case Cast(inner, between) if inner.precision is precision and widens(precision, between):
            return inner
        case _:
            return None
