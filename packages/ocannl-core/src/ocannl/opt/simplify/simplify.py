"""Simplification of scalar expressions and guards: constant folding and algebraic identities valid for all values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor, isinf, isnan

from ocannl.ir.affine import TRUE, Affine, Cond
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Cast,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Proc,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.ops import ADD, AND, MUL, NEG, OR, SUB, WHERE, Op
from ocannl.ir.precision import Family, Precision
from ocannl.opt.analysis.conditions import negate_condition, simplify_condition
from ocannl.opt.analysis.constant_folding import (
    as_index,
    convert_const,
    equals_const,
    evaluate,
    is_lossless_conversion,
    is_representable,
    make_const,
    round_to_precision,
)
from ocannl.opt.analysis.nests import same_objects, writes_kept_buffer
from ocannl.opt.simplify.identities import IDENTITIES, are_equal

MIRRORED_COMPARISONS = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def simplify(proc: Proc) -> Proc:
    """Simplifies every expression and guard. NaN and infinities are preserved; the sign of a zero may change.

        proc step                                              proc step
          x : f32[5]  in                                         x : f32[5]  in
          y : f32[5]  out                                ==>     y : f32[5]  out
          for i in 0..5:                                         for i in 0..5:
            y[i] = where(f32(i <= 2), x[i] * 1, 2 * 3)             y[i] = x[i] if -i+2 >= 0 else 6

    Comparisons of indices become conditions; conditions that the loop ranges decide are eliminated.
    """
    out: list[Stmt] = []
    for stmt in proc.body:
        out.extend(_stmt(stmt, TRUE) or ((stmt,) if writes_kept_buffer(stmt) else ()))
    body = tuple(out)
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def simplify_expr(expr: Expr, assumptions: Cond = TRUE) -> Expr:
    """Returns an expression that equals `expr` wherever `assumptions` holds; `expr` itself if nothing is simpler."""
    match expr:
        case Load() | Const() | Var():
            return expr
        case IndexValue(index, precision):
            return make_const(index.const, precision) if index.is_const else expr
        case Apply(op, args):
            new = tuple([simplify_expr(a, assumptions) for a in args])
            return _apply(op, new, expr if same_objects(new, args) else None)
        case Cast(value, precision):
            inner = simplify_expr(value, assumptions)
            return _cast(inner, precision) or (expr if inner is value else Cast(inner, precision))
        case When(cond, on_true, on_false):
            facts = simplify_condition(cond, assumptions)
            if facts is None:
                return simplify_expr(on_false, assumptions)
            if facts.is_true:
                return simplify_expr(on_true, assumptions)
            a = simplify_expr(on_true, assumptions & facts)
            b = simplify_expr(on_false, assumptions & negate_condition(facts))
            is_same = a is on_true and b is on_false and facts is cond
            return _when(facts, a, b) or (expr if is_same else When(facts, a, b))


def _body(body: Body, assumptions: Cond) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        out.extend(_stmt(stmt, assumptions))
    return body if same_objects(out, body) else tuple(out)


def _stmt(stmt: Stmt, assumptions: Cond) -> Body:
    match stmt:
        case For(body=body):
            inner = _body(body, assumptions)
            if inner is body:
                return (stmt,)
            return (replace(stmt, body=inner),) if inner else ()
        case If(cond, on_true, on_false):
            facts = simplify_condition(cond, assumptions)
            if facts is None:
                return _body(on_false, assumptions)
            if facts.is_true:
                return _body(on_true, assumptions)
            a, b = _body(on_true, assumptions & facts), _body(on_false, assumptions & negate_condition(facts))
            if not a and not b:
                return ()
            return (stmt,) if a is on_true and b is on_false and facts is cond else (If(facts, a, b),)
        case BindIndex(sym, value, body):
            new, inner = simplify_expr(value, assumptions), _body(body, assumptions)
            if not inner:
                return ()
            return (stmt,) if new is value and inner is body else (BindIndex(sym, new, inner),)
        case Store(ref, value):
            new = simplify_expr(value, assumptions)
            return (stmt,) if new is value else (replace(stmt, value=new),)
        case Update(ref, op, value, origin):
            new = simplify_expr(value, assumptions)
            if equals_const(new, op.neutral) and op not in (AND, OR):  # these convert the target to a truth value
                return ()
            return (stmt,) if new is value else (Update(ref, op, new, origin),)
        case Let(name, value):
            new = simplify_expr(value, assumptions)
            return (stmt,) if new is value else (Let(name, new),)
        case _:
            return (stmt,)


# --- operations ------------------------------------------------------------------------------------------------------


def _apply(op: Op, args: tuple[Expr, ...], old: Apply | None) -> Expr:
    """Applies `op` to simplified operands; `old` is the existing application of the same operands, if any."""
    result = evaluate(op, args) or _compare_indices(op, args)
    result = result or _index_arithmetic(op, args) or _apply_to_selects(op, args)
    if result is None and op.name in IDENTITIES:
        result = IDENTITIES[op.name](*args)
    if result is not None:
        return result
    return old if old is not None else Apply(op, args)


def _compare_indices(op: Op, args: tuple[Expr, ...]) -> Expr | None:
    """Rewrites a comparison of indices to a select between 1 and 0."""
    if op.name not in MIRRORED_COMPARISONS:
        return None
    name, (left, right) = op.name, args
    if isinstance(left, Const):
        name, left, right = MIRRORED_COMPARISONS[name], right, left
    yes, no = make_const(1, left.precision), make_const(0, left.precision)
    a, b = as_index(left), as_index(right)
    if a is not None and b is None and isinstance(right, Const) and not isnan(right.value) and not isinf(right.value):
        threshold = round_to_precision(right)  # may lie between two integers
        if name in ("eq", "ne") and not float(threshold).is_integer():
            return no if name == "eq" else yes
        b = Affine((), ceil(threshold) if name in ("lt", "ge") else floor(threshold))
    if a is None or b is None:
        return None
    match name:
        case "lt":
            return select(Cond((b - a - 1,)), yes, no)
        case "le":
            return select(Cond((b - a,)), yes, no)
        case "gt":
            return select(Cond((a - b - 1,)), yes, no)
        case "ge":
            return select(Cond((a - b,)), yes, no)
        case "eq":
            return select(Cond((), (a - b,)), yes, no)
        case _:
            return select(Cond((), (a - b,)), no, yes)


def _scaled_index(factors: Sequence[Affine]) -> tuple[Affine, int] | None:
    """Returns the factors as an index and a constant, if one of them is constant."""
    index, factor = factors if factors[1].is_const else reversed(factors)
    return (index, factor.const) if factor.is_const else None


def _may_be_negative_zero(index: Affine, factor: int) -> bool:
    """Whether the product of floating-point numbers may be -0, which no index is."""
    low, high = index.range()
    return low <= 0 <= high if factor < 0 else factor == 0 and low < 0


def _index_arithmetic(op: Op, args: tuple[Expr, ...]) -> Expr | None:
    """Folds sums, differences and constant multiples of indices whose values are exactly representable."""
    if op not in (ADD, SUB, MUL, NEG) or not any(isinstance(a, IndexValue) for a in args):
        return None
    precision = args[-1].precision
    indices = [i for i in map(as_index, args) if i is not None]
    if len(indices) != len(args):
        return None
    if op is ADD:
        result = indices[0] + indices[1]
    elif op is SUB:
        result = indices[0] - indices[1]
    else:
        scaled = _scaled_index([*indices, Affine((), -1)] if op is NEG else indices)
        if scaled is None or (precision.is_float and _may_be_negative_zero(*scaled)):
            return None
        result = scaled[0] * scaled[1]
    if not is_representable(result, precision):
        return None
    return make_const(result.const, precision) if result.is_const else IndexValue(result, precision)


def _apply_to_selects(op: Op, args: tuple[Expr, ...]) -> Expr | None:
    """Distributes an operation over selects between constants, and turns a `where` on such a select into a select.

    Sums of constants that are guarded by different conditions are preserved: `one_hot_to_gather` eliminates the loop
    that such conditions select from.
    """
    if op is WHERE:
        match args[0]:
            case Const(value, _):
                return args[1] if value != 0 else args[2]
            case When(cond, Const(yes, _), Const(no, _)):
                return select(cond, args[1] if yes != 0 else args[2], args[1] if no != 0 else args[2])
    selects = [a for a in args if _is_constant_select(a)]
    if not selects or len(selects) > 2 or any(not isinstance(a, Const) and not _is_constant_select(a) for a in args):
        return None
    if op is ADD and len(selects) == 2 and all(isinstance(s, When) and equals_const(s.on_false, 0) for s in selects):
        return None
    n = next(i for i, a in enumerate(args) if a is selects[0])
    first = args[n]
    assert isinstance(first, When)
    on_true = _apply(op, (*args[:n], first.on_true, *args[n + 1 :]), None)
    on_false = _apply(op, (*args[:n], first.on_false, *args[n + 1 :]), None)
    return select(first.cond, on_true, on_false)


def _is_constant_select(expr: Expr) -> bool:
    return isinstance(expr, When) and isinstance(expr.on_true, Const) and isinstance(expr.on_false, Const)


def select(cond: Cond, on_true: Expr, on_false: Expr) -> Expr:
    """Returns a `When`, simplified if the condition is decided or the sides are equal."""
    facts = simplify_condition(cond)
    if facts is None:
        return on_false
    if facts.is_true:
        return on_true
    return _when(facts, on_true, on_false) or When(facts, on_true, on_false)


def _when(cond: Cond, on_true: Expr, on_false: Expr) -> Expr | None:
    if are_equal(on_true, on_false):
        return on_true
    match on_true:
        case When(inner, value, inner_on_false) if are_equal(inner_on_false, on_false):
            return When(cond & inner, value, on_false)
        case Cast(Load() as narrow, wide) if (
            isinstance(on_false, Const) and on_false.value == 0 and wide.is_float == narrow.precision.is_float
            and is_lossless_conversion(narrow.precision, wide)
        ):  # a guarded load, which may become one of a padded copy
            zero = convert_const(on_false, narrow.precision)
            return None if zero is None else Cast(When(cond, narrow, zero), wide)
    return None


def _cast(value: Expr, precision: Precision) -> Expr | None:
    if value.precision is precision:
        return value
    match value:
        case Const():
            return convert_const(value, precision)
        case IndexValue(index, source) if precision.arithmetic is precision and precision.family is not Family.BOOL:
            is_exact = is_representable(index, source) and is_representable(index, precision)
            return IndexValue(index, precision) if is_exact else None
        case When(cond, Const() as on_true, Const() as on_false):
            a, b = convert_const(on_true, precision), convert_const(on_false, precision)
            return None if a is None or b is None else select(cond, a, b)
        case Cast(inner, between) if inner.precision is precision and is_lossless_conversion(precision, between):
            return inner
        case Apply(op, (test, Const() as on_true, Const() as on_false)) if op is WHERE:
            a, b, truth = convert_const(on_true, precision), convert_const(on_false, precision), _truth_value(test)
            if a is None or b is None or truth is None or precision.arithmetic is not precision:
                return None
            return Apply(WHERE, (truth if truth.precision is precision else Cast(truth, precision), a, b))
        case _:
            return None


def _truth_value(expr: Expr) -> Expr | None:
    """The expression without casts if it is a test, whose value is 0 or 1."""
    while isinstance(expr, Cast):
        expr = expr.value
    is_test = isinstance(expr, Apply) and (expr.op.name in MIRRORED_COMPARISONS or expr.op in (AND, OR))
    return expr if is_test else None
