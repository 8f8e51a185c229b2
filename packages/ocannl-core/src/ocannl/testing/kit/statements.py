"""Programs that contain every statement and expression; the interpreter is the oracle.

Each program is a function of its arithmetic type; values are small integers, so all results are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from ocannl.ir.affine import Bound, Cond, Sym, SymKind, bounds_condition
from ocannl.ir.assign import Origin
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Comment,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    Poll,
    Proc,
    Stmt,
    Store,
    Update,
    Var,
    When,
    loop,
)
from ocannl.ir.ops import ADD, BY_NAME, MAX, MUL
from ocannl.ir.precision import Precision
from ocannl.testing.kit.cases import A, Array, Case, case, cell, load, local, pool, sym

BOUNDS: dict[str, tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...], int]] = {
    # lower bounds and inclusive upper bounds, each an index in `o` and a divisor; the step
    "whole": ((("0", 1),), (("9", 1),), 1),
    "inner": ((("3", 1),), (("7", 1),), 1),
    "one": ((("4", 1),), (("4", 1),), 1),
    "empty": ((("5", 1),), (("4", 1),), 1),
    "far_empty": ((("9", 1),), (("0", 1),), 1),
    "steps": ((("0", 1),), (("9", 1),), 3),
    "steps_that_end_early": ((("1", 1),), (("8", 1),), 4),
    "steps_from_a_bound": ((("o", 1),), (("9", 1),), 2),
    "below_the_diagonal": ((("0", 1),), (("o", 1),), 1),
    "above_the_diagonal": ((("o", 1),), (("9", 1),), 1),
    "beyond_the_diagonal": ((("o+1", 1),), (("9", 1),), 1),
    "backwards": ((("-o+9", 1),), (("9", 1),), 1),
    "band": ((("o-1", 1), ("0", 1)), (("o+1", 1), ("9", 1)), 1),
    "quotient_above": ((("o", 2),), (("9", 1),), 1),
    "quotient_below": ((("0", 1),), (("2*o", 3),), 1),
    "negative_quotients": ((("o-9", 2), ("0", 1)), (("3*o-4", 2), ("9", 1)), 1),
    "several": ((("o", 3), ("o-4", 1), ("1", 1)), (("o+7", 2), ("2*o+1", 1), ("8", 1)), 1),
    "constants_of_extremes": ((("-7", 2), ("-13", 3), ("2", 5)), (("19", 4), ("31", 5), ("40", 9)), 1),
}


def bounded(name: str, p: Precision) -> Case:
    """Counts the iterations `[o, i]` of a loop with these bounds."""
    low, high, step = BOUNDS[name]
    o, i = sym("o", 10), sym("i", 10)
    scope = {"o": A(o)}
    lo = Bound(tuple((A(eval(text, scope)), d) for text, d in low))
    hi = Bound(tuple((A(eval(text, scope)), d) for text, d in high))
    y = pool("y", np.zeros((10, 10), p.numpy))
    body = (loop(o, (For(i, lo, hi, (Update(cell(y, o, i), ADD, Const(1, p)),), step),)),)
    return case(name, [(y, np.zeros((10, 10), p.numpy))], body)


def numbers(p: Precision, *shape: int) -> Array:
    return np.random.default_rng(len(shape)).integers(1, 9, shape).astype(p.numpy)


PROGRAMS: dict[str, Callable[[Precision], Case]] = {}


def program(build: Callable[[Precision], Case]) -> Callable[[Precision], Case]:
    PROGRAMS[build.__name__] = build
    return build


@program
def counters_below_zero(p: Precision) -> Case:
    y, i = pool("y", numbers(p, 11)), Sym("i", -5, 5)
    lo, hi = Bound(((A(-7), 3),)), Bound(((A(4), 3),))
    return case("below", [(y, numbers(p, 11))], (For(i, lo, hi, (Update(cell(y, A(i) + 5), ADD, Const(1, p)),)),))


@program
def a_matrix_product(p: Precision) -> Case:
    a, b, c = numbers(p, 3, 5), numbers(p, 5, 4), numbers(p, 3, 4)
    x, w, y = pool("x", a, AccessMode.IN), pool("w", b, AccessMode.CONST), pool("y", c)
    i, j, k = sym("i", 3), sym("j", 4), sym("k", 5)
    term = Apply(MUL, (load(x, i, k), load(w, k, j)))
    body = (loop(i, (loop(j, (loop(k, (Update(cell(y, i, j), ADD, term),)),)),)),)
    return case("product", [(x, a), (w, b), (y, c)], body, want=(a, b, c + a @ b))


@program
def a_reduction_outside(p: Precision) -> Case:
    """The reduction loop is the outermost one."""
    a = numbers(p, 6, 4)
    x, y, k, i = pool("x", a, AccessMode.IN), pool("y", a[0]), sym("k", 6), sym("i", 4)
    body = (loop(k, (loop(i, (Update(cell(y, i), ADD, load(x, k, i)),)),)),)
    return case("outside", [(x, a), (y, a[0])], body)


@program
def a_recurrence(p: Precision) -> Case:
    """`y[i] += y[i - 1]`, in order."""
    a = numbers(p, 9)
    y, i = pool("y", a), Sym("i", 1, 8)
    value = Apply(ADD, (load(y, A(i) - 1), load(y, i)))
    return case("recurrence", [(y, a)], (loop(i, (Store(cell(y, i), value),)),), want=(np.cumsum(a, dtype=p.numpy),))


@program
def overlapping_updates(p: Precision) -> Case:
    """The gradient of a window: iterations update common cells."""
    a, b = numbers(p, 4), numbers(p, 6)
    x, y, o, k = pool("x", a, AccessMode.IN), pool("y", b), sym("o", 4), sym("k", 3)
    body = (loop(o, (loop(k, (Update(cell(y, A(o) + k), ADD, load(x, o)),)),)),)
    return case("window", [(x, a), (y, b)], body)


@program
def statements_in_order(p: Precision) -> Case:
    """Long sequences of dependent statements between loops."""
    a = np.array([1, 0, 1]).astype(p.numpy)
    y = pool("y", a)
    body: list[Stmt] = []
    for n in range(90):
        body.append(Store(cell(y, n % 3), Apply(ADD, (load(y, (n + 1) % 3), Const(n % 2, p)))))
        if n % 40 == 39:
            body += [Comment("again"), Poll(), loop(sym(f"i{n}", 3), (Update(cell(y, 0), ADD, Const(1, p)),))]
    return case("order", [(y, a)], tuple(body))


@program
def conditions(p: Precision) -> Case:
    y, i, j = pool("y", numbers(p, 6, 6)), sym("i", 6), sym("j", 6)
    both = Cond((A(i) - j, A(j) - 1), (A(i) + j - 6,))
    target = cell(y, i, j)
    alternative = If(Cond((A(i) - 4,)), (Store(target, Const(5, p)),), (Update(target, ADD, Const(7, p)),))
    branches = If(both, (Store(target, Const(3, p)),), (alternative,))
    body = (loop(i, (loop(j, (branches, Update(target, ADD, Const(1, p)))),)),)
    return case("conditions", [(y, numbers(p, 6, 6))], body)


@program
def conditions_without_symbols(p: Precision) -> Case:
    y = pool("y", numbers(p, 10))
    conds = [Cond((A(3),)), Cond((A(-1),)), Cond((), (A(0),)), Cond((), (A(2),)), Cond((A(0),), (A(-2),)), Cond()]
    first, second = Const(1, p), Const(2, p)
    body = tuple(If(c, (Store(cell(y, n), first),), (Store(cell(y, n), second),)) for n, c in enumerate(conds))
    values = tuple(Store(cell(y, n + 6), When(c, Const(1, p), Const(2, p))) for n, c in enumerate(conds[:4]))
    return case("decided", [(y, numbers(p, 10))], (*body, *values))


@program
def a_condition_around_a_loop(p: Precision) -> Case:
    y, i, j = pool("y", numbers(p, 5, 5)), sym("i", 5), sym("j", 5)
    inner = loop(j, (Update(cell(y, i, j), ADD, Const(1, p)),))
    return case("around", [(y, numbers(p, 5, 5))], (loop(i, (If(Cond((A(i) - 2,)), (inner,)),)),))


@program
def padding(p: Precision) -> Case:
    """A window that exceeds the array; loads under a false condition are not executed, however far out of bounds."""
    a = numbers(p, 5)
    x, y, i = pool("x", a, AccessMode.IN), pool("y", numbers(p, 9), AccessMode.OUT), sym("i", 9)
    index = A(i) - 2
    inner_value = When(bounds_condition(index, 5), load(x, index), Const(7, p))
    outer_value = When(Cond((A(i) - 100,)), load(x, A(i) * (1 << 40)), inner_value)
    return case("padding", [(x, a), (y, numbers(p, 9))], (loop(i, (Store(cell(y, i), outer_value),)),))


@program
def a_choice_among_cells(p: Precision) -> Case:
    """Concatenation: each side exists on its part only."""
    a, b = numbers(p, 3), numbers(p, 4)
    x, w = pool("x", a, AccessMode.IN), pool("w", b, AccessMode.IN)
    y, i = pool("y", numbers(p, 7), AccessMode.OUT), sym("i", 7)
    value = When(Cond((A(2) - i,)), load(x, i), load(w, A(i) - 3))
    return case("joined", [(x, a), (w, b), (y, numbers(p, 7))], (loop(i, (Store(cell(y, i), value),)),))


@program
def the_other_side_of_where_is_there(p: Precision) -> Case:
    """Both sides of `where` are computed without harm."""
    a = np.array([0, 1, 2, 0, 5]).astype(p.numpy)
    x, y, i = pool("x", a, AccessMode.IN), pool("y", a, AccessMode.OUT), sym("i", 5)
    value = Apply(BY_NAME["where"], (load(x, i), Apply(BY_NAME["mod"], (Const(6, p), load(x, i))), Const(9, p)))
    return case("where", [(x, a), (y, a)], (loop(i, (Store(cell(y, i), value),)),))


@program
def a_value_is_what_it_was(p: Precision) -> Case:
    a = numbers(p, 4)
    y, i = pool("y", a), sym("i", 4)
    body = (
        Let("old", load(y, i)),
        Store(cell(y, i), Const(0, p)),
        Store(cell(y, i), Apply(ADD, (Var("old", p), load(y, i)))),
    )
    return case("let", [(y, a)], (loop(i, body),), want=(a,))


@program
def values_of_values(p: Precision) -> Case:
    a = numbers(p, 3, 4)
    x, y, i, j = pool("x", a, AccessMode.IN), pool("y", a, AccessMode.OUT), sym("i", 3), sym("j", 4)
    inner = (Let("v", Apply(ADD, (Var("u", p), load(x, i, j)))), Store(cell(y, i, j), Apply(ADD, (Var("v", p),) * 2)))
    return case("lets", [(x, a), (y, a)], (loop(i, (Let("u", load(x, i, 3)), loop(j, inner))),))


@program
def locals_begin_anew(p: Precision) -> Case:
    """Combines a row with its maximum, using a local scalar, a local array and a `Let`."""
    a = numbers(p, 4, 20)
    x, y = pool("x", a, AccessMode.IN), pool("y", a, AccessMode.OUT)
    i, j, k = sym("i", 4), sym("j", 20), sym("k", 20)
    top, row = local("top", p), local("row", p, 20)
    body = (
        Local(top, 0),
        Local(row, 2),
        loop(j, (Update(cell(top), MAX, load(x, i, j)), Update(cell(row, j), ADD, load(x, i, j)))),
        Let("m", Load(cell(top))),
        loop(k, (Store(cell(y, i, k), Apply(ADD, (Load(cell(row, k)), Var("m", p)))),)),
    )
    return case("rows", [(x, a), (y, a)], (loop(i, body),))


@program
def a_local_without_a_start(p: Precision) -> Case:
    y, i, j = pool("y", numbers(p, 6), AccessMode.OUT), sym("i", 6), sym("j", 6)
    tile = local("tile", p, 6)
    body = (
        Local(tile),
        loop(i, (Store(cell(tile, i), IndexValue(A(i) * 2, p)),)),
        loop(j, (Store(cell(y, j), Load(cell(tile, A(5) - j))),)),
    )
    return case("tile", [(y, numbers(p, 6))], body)


@program
def static_symbols(p: Precision) -> Case:
    """Symbols in indices, bounds, conditions and values; unused symbols are passed as well."""
    n, m, unused, k = (Sym(name, -20, 20, SymKind.STATIC) for name in ("n", "m", "unused", "k"))
    y, i = pool("y", numbers(p, 10)), sym("i", 10)
    body = (
        For(i, Bound(((A(m) + 8, 1), (A(0), 1))), Bound(((A(k) - 1, 1), (A(9), 1))), (Store(cell(y, i), Const(9, p)),)),
        If(Cond((A(n) - 5,)), (Store(cell(y, 0), IndexValue(A(n) + 3, p)),)),
        Store(cell(y, 9), When(Cond((), (A(m) + 6,)), IndexValue(A(k) + n, p), Const(1, p))),
    )
    return case("symbols", [(y, numbers(p, 10))], body, syms=(n, m, unused, k), values=(5, -6, 11, 8))


@program
def a_static_slice(p: Precision) -> Case:
    n, i = Sym("n", 0, 4, SymKind.STATIC), sym("i", 3)
    a, b = numbers(p, 5, 3), numbers(p, 5, 3)[:1]
    x, y = pool("x", a, AccessMode.IN), pool("y", b)
    return case("slice", [(x, a), (y, b)], (loop(i, (Store(cell(y, 0, i), load(x, n, i)),)),), syms=(n,), values=(3,))


@program
def nothing_at_all(p: Precision) -> Case:
    return case("nothing", [], ())


@program
def words_and_places_to_leave(p: Precision) -> Case:
    return case("words", [], (Comment("only words"), Poll(), Comment('*/ """ \n \\ \u2028 é')))


@program
def a_deep_nest(p: Precision) -> Case:
    syms = [sym(f"i{n}", 2) for n in range(8)]
    y = pool("y", numbers(p, *(2,) * 8))
    body: Stmt = Update(cell(y, *syms), ADD, IndexValue(sum((A(s) for s in syms), A(0)), p))
    for s in reversed(syms):
        body = loop(s, (body,))
    return case("deep", [(y, numbers(p, *(2,) * 8))], (body,))


@program
def a_deep_expression(p: Precision) -> Case:
    x, y = pool("x", numbers(p, 3), AccessMode.IN), pool("y", numbers(p, 3))
    deep: Expr = load(x, 0)
    for n in range(60):
        deep = Apply(BY_NAME["sub" if n % 2 else "add"], (deep, Const(n % 5, p)))
    return case("expression", [(x, numbers(p, 3)), (y, numbers(p, 3))], (Store(cell(y, 1), deep),))


NAMES = ("for", "if", "int", "double", "lambda", "None", "NULL", "main", "printf", "define", "x0", "entry", "def")


@program
def hostile_names(p: Precision) -> Case:
    """Keywords of several languages as names, and comments that contain comment delimiters."""
    arrays = [(pool(name, numbers(p, 2)), numbers(p, 2)) for name in NAMES]
    body: list[Stmt] = []
    for n, (buf, _) in enumerate(arrays):
        i = Sym(f"{NAMES[n - 1]}_", 0, 1)
        where = Origin('"""; } */\n', "\\\n#include <x>")
        update = Update(cell(buf, i), ADD, load(arrays[n - 1][0], i), where)
        body += [Comment(NAMES[n] + " */ -->"), loop(i, (update,), where)]
    s = Sym("while", 0, 5, SymKind.STATIC)
    body += [Let("return", IndexValue(A(s), p)), Store(cell(arrays[0][0], 0), Var("return", p))]
    return case("main", arrays, tuple(body), syms=(s,), values=(5,))


@cache
def cases(p: Precision) -> dict[str, Case]:
    """All programs in a type, under distinct names."""
    programs = {name: bounded(name, p) for name in BOUNDS} | {name: build(p) for name, build in PROGRAMS.items()}
    return {name: example if name == "hostile_names" else rename(example, name) for name, example in programs.items()}


def rename(example: Case, name: str) -> Case:
    proc = example.proc
    return replace(example, proc=Proc(name, proc.bufs, proc.syms, proc.body, arena=proc.arena))
