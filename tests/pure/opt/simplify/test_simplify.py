"""Simplification of scalars: a table of expressions and results, and equality of values in every precision."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from ocannl.ir import precision as P
from ocannl.ir.affine import Affine, Cond, Sym, SymKind
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    Const,
    Expr,
    If,
    IndexValue,
    Load,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    When,
    loop,
)
from ocannl.ir.ops import ADD, AND, BY_NAME, MUL, OPS, Domain
from ocannl.ir.precision import Precision, float32, int32, uint8
from ocannl.ir.printer import format_expr, print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.opt.simplify.simplify import simplify, simplify_expr

I, J, N = Sym("i", 0, 4), Sym("j", 0, 4), Sym("n", 0, 9, SymKind.STATIC)


def buf(name: str, kind: Precision = float32, *shape: int, access: AccessMode = AccessMode.IN) -> Buf:
    node = TNode(name, Role.PLACEHOLDER, lambda: shape, lambda: kind)
    strides = tuple(int(np.prod(shape[n + 1 :])) for n in range(len(shape)))
    return Buf(name, kind, shape, strides, MemorySpace.GLOBAL, access, node)


X, Y, Z = (Load(Ref(buf(name), ())) for name in "xyz")
K, L = Load(Ref(buf("k", int32), ())), Load(Ref(buf("h", P.float16), ()))


def op(name: str, *args: Expr) -> Expr:
    return Apply(BY_NAME[name], args)


def num(value: float, kind: Precision = float32) -> Const:
    return Const(value, kind)


def idx(*syms: Sym, const: int = 0, kind: Precision = float32) -> IndexValue:
    return IndexValue(Affine.sum(((1, s) for s in syms), const), kind)


def ge0(index: Affine) -> Cond:
    return Cond((index,))


i, j, n = Affine.of(I), Affine.of(J), Affine.of(N)

TABLE: list[tuple[Expr, str]] = [
    # numbers
    (op("add", num(2), num(3)), "5"),
    (op("exp", num(0)), "1"),
    (op("where", op("lt", num(1), num(2)), X, Y), "x"),
    (op("div", num(1, float32), num(0)), "inf"),
    (op("div", num(0), num(0)), "0 / 0"),  # no number
    (op("add", num(2**31 - 1, int32), num(1, int32)), "-2147483648"),
    # neutral elements
    (op("add", X, num(0)), "x"),
    (op("add", num(0), X), "x"),
    (op("sub", X, num(0)), "x"),
    (op("sub", num(0), X), "0 - x"),  # which is another zero where x is zero
    (op("mul", X, num(1)), "x"),
    (op("mul", num(-1), X), "-x"),
    (op("div", X, num(1)), "x"),
    (op("div", X, num(4)), "x * 0.25"),
    (op("div", X, num(3)), "x / 3"),
    (op("pow", X, num(1)), "x"),
    (op("pow", X, num(2)), "x * x"),
    (op("pow", op("exp", X), num(2)), "exp(x) ** 2"),
    (op("pow", X, num(-1)), "recip(x)"),
    (op("neg", op("neg", X)), "x"),
    (op("neg", op("sub", X, Y)), "y - x"),
    (op("add", X, op("neg", Y)), "x - y"),
    (op("sub", X, op("neg", Y)), "x + y"),
    (op("max", X, num(float("-inf"))), "x"),
    (op("fma", X, num(1), Y), "x + y"),
    (op("fma", X, Y, num(0)), "x * y"),
    (op("id", X), "x"),
    (op("fst", X, Y), "x"),
    (op("snd", X, Y), "y"),
    (op("relu_gate", op("relu", X), Y), "relu_gate(x, y)"),
    (op("where", X, Y, Y), "y"),
    # what NaN and infinities forbid
    (op("mul", X, num(0)), "x * 0"),
    (op("sub", X, X), "x - x"),
    (op("div", X, X), "x / x"),
    (op("eq", X, X), "x == x"),
    (op("max", X, num(0)), "max(x, 0)"),
    # casts
    (Cast(X, float32), "x"),
    (Cast(num(2.5), P.float16), "2.5"),
    (Cast(num(2.5), int32), "2"),
    (Cast(num(-1), uint8), "u8(-1)"),  # targets differ
    (Cast(Cast(L, float32), P.float16), "h"),
    (Cast(Cast(X, P.float16), float32), "f32(f16(x))"),
    (Cast(Cast(K, float32), int32), "i32(f32(k))"),
    (Cast(Cast(K, P.float64), int32), "k"),
    (Cast(idx(I, kind=int32), float32), "i"),
    (Cast(idx(I, kind=int32), P.float16), "f16(i)"),  # nothing computes in float16
    # indices
    (op("add", idx(I), num(2)), "i+2"),
    (op("mul", idx(I), num(3)), "3*i"),
    (op("sub", idx(I, J), idx(J)), "i"),
    (op("mul", idx(I), num(0.5)), "i * 0.5"),
    (op("mul", idx(I, kind=int32), num(2**30, int32)), "i * 1073741824"),
    (op("lt", idx(I), num(9)), "1"),
    (op("lt", idx(I), num(0)), "0"),
    (op("le", idx(I), idx(J)), "1 if -i+j >= 0 else 0"),
    (op("gt", num(2), idx(I)), "1 if -i+1 >= 0 else 0"),
    (op("lt", idx(I), num(2.5)), "1 if -i+2 >= 0 else 0"),
    (op("ge", idx(I), num(2.5)), "1 if i-3 >= 0 else 0"),
    (op("eq", idx(I), num(2.5)), "0"),
    (op("ne", idx(I), idx(J)), "0 if i-j == 0 else 1"),
    (op("le", idx(I), num(2.99999999)), "1 if -i+3 >= 0 else 0"),  # which is 3 in float32
    (op("lt", idx(I), X), "i < x"),
    # choices
    (op("where", op("le", idx(I), idx(J)), X, Y), "x if -i+j >= 0 else y"),
    (op("not", op("le", idx(I), idx(J))), "0 if -i+j >= 0 else 1"),
    (op("sub", num(1), op("lt", idx(I), num(2))), "0 if -i+1 >= 0 else 1"),
    (op("and", op("lt", idx(I), num(2)), op("lt", idx(J), num(2))), "1 if -i+1 >= 0 && -j+1 >= 0 else 0"),
    (op("mul", op("lt", idx(I), num(2)), X), "(1 if -i+1 >= 0 else 0) * x"),
    (When(ge0(i), X, Y), "x"),
    (When(ge0(i - 5), X, Y), "y"),
    (When(ge0(i - 2), X, X), "x"),
    (When(ge0(n - 2), X, Y), "x if n-2 >= 0 else y"),
    (When(ge0(i - 2), When(ge0(i - 1), X, Y), Z), "x if i-2 >= 0 else z"),
    (When(ge0(i - 2), X, When(ge0(-i + 1), Y, Z)), "x if i-2 >= 0 else y"),
    (When(ge0(i - 2), When(ge0(j - 1), X, num(0)), num(0)), "x if i-2 >= 0 && j-1 >= 0 else 0"),
    (When(Cond((), (i - j,)), When(Cond((), (i - j - 1,)), X, Y), Z), "y if i-j == 0 else z"),
]


@pytest.mark.parametrize(("expr", "text"), TABLE, ids=[format_expr(e) for e, _ in TABLE])
def test_simplified_expressions(expr: Expr, text: str) -> None:
    simplified = simplify_expr(expr)
    assert format_expr(simplified) == text
    assert simplified.precision is expr.precision
    assert simplify_expr(simplified) is simplified  # once is enough, and what does not change stays the same object


def test_operations_undefined_in_numpy_are_not_folded() -> None:
    expr = op("pow", num(2, int32), num(-1, int32))
    assert simplify_expr(expr) is expr


SPECIAL = [0.0, 1.0, -1.0, 2.0, 2.5, -3.0, float("inf"), float("-inf"), float("nan")]


def value(expr: Expr, arrays: dict[TNode, np.ndarray], syms: dict[Sym, int]) -> float:
    out = buf("out", expr.precision, access=AccessMode.OUT)
    used = [load.ref.buf for load in (X, Y, Z, K, L)]
    proc = Proc("p", (*used, out), tuple(syms), (Store(Ref(out, ()), expr),))
    assert out.node is not None
    return float(interpret(proc, arrays, syms)[out.node])


def same(a: float, b: float) -> bool:
    return a == b or (np.isnan(a) and np.isnan(b)) or bool(np.isclose(a, b, rtol=1e-6))


@pytest.mark.parametrize(("expr", "text"), TABLE, ids=[format_expr(e) for e, _ in TABLE])
def test_values_are_preserved(expr: Expr, text: str) -> None:
    simplified = simplify_expr(expr)
    for x, y in product(SPECIAL, SPECIAL[3:]):
        arrays = {
            load.ref.buf.node: np.array(v if load.precision.is_float else 7, load.precision.numpy)
            for load, v in ((X, x), (Y, y), (Z, 5.0), (K, 0), (L, x))
            if load.ref.buf.node is not None
        }
        for point in ({I: 0, J: 0, N: 3}, {I: 2, J: 4, N: 1}, {I: 3, J: 1, N: 9}, {I: 4, J: 4, N: 0}):
            assert same(value(expr, arrays, point), value(simplified, arrays, point))


def random_expr(random: Random, depth: int) -> Expr:
    if depth == 0:
        leaves: list[Expr] = [X, Y, num(random.choice([0, 1, -1, 2, 0.5, float("inf")])), idx(I), idx(I, J, const=-2)]
        return random.choice(leaves)
    if random.random() < 0.25:
        fact = random.choice([i - 2, j - i, i + j - 3, n - 4, -i + 1])
        cond = ge0(fact) if random.random() < 0.7 else Cond((), (fact,))
        return When(cond, random_expr(random, depth - 1), random_expr(random, depth - 1))
    rough = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "pow", "mod")
    floats = [o for o in OPS if o.domain in (Domain.ANY, Domain.FLOAT) and o.name not in rough]
    chosen = random.choice(floats)
    return Apply(chosen, tuple(random_expr(random, random.randrange(depth)) for _ in range(chosen.arity)))


@pytest.mark.parametrize("block", range(4))
def test_values_of_random_expressions_are_preserved(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        random = Random(seed)
        expr = random_expr(random, 4)
        simplified = simplify_expr(expr)
        for _ in range(6):
            arrays = {load.ref.buf.node: np.array(random.choice(SPECIAL)) for load in (X, Y) if load.ref.buf.node}
            point = {I: random.randrange(5), J: random.randrange(5), N: random.randrange(10)}
            a, b = value(expr, arrays, point), value(simplified, arrays, point)
            assert same(a, b), f"{format_expr(expr)} = {a}, {format_expr(simplified)} = {b} at {point} {arrays}"


def statement(*body: Stmt) -> str:
    y = buf("y", access=AccessMode.INOUT)
    proc = Proc("p", (y, X.ref.buf), (N,), tuple(body))
    return print_proc(simplify(proc)).split("\n", 3)[3]


def test_statements() -> None:
    y = Ref(buf("y", access=AccessMode.TEMP), ())
    store = Store(y, X)
    assert statement(If(ge0(n), (store,))) == "  y = x\n"
    assert statement(If(ge0(n - 10), (store,), (Store(y, Y),))) == "  y = y\n"
    assert statement(loop(I, (If(ge0(i - 2), (If(ge0(i - 1), (store,)),)),))) == (
        "  for i in 0..5:\n    if i-2 >= 0:\n      y = x\n"
    )


def test_updates_by_the_neutral_element_are_removed_except_for_results() -> None:
    kept = Ref(buf("kept", access=AccessMode.INOUT), ())
    temp = Ref(Buf("t", float32, (), (), MemorySpace.ARENA, AccessMode.TEMP), ())
    proc = Proc("p", (kept.buf, temp.buf), (), (
        Update(temp, ADD, num(0)), Update(temp, MUL, num(1)), Update(temp, AND, num(1)), Update(kept, ADD, num(0)),
    ))  # fmt: skip
    assert [s.ref.buf.name for s in simplify(proc).body if isinstance(s, Update)] == ["t", "kept"]


def test_an_unchanged_program_is_returned_by_identity() -> None:
    proc = Proc("p", (X.ref.buf,), (), (Store(Ref(buf("y", access=AccessMode.OUT), ()), op("add", X, Y)),))
    assert simplify(proc) is proc


@pytest.mark.parametrize(("op", "args", "is_folded"), [
    ("neg", (IndexValue(Affine.of(I), float32),), False),
    ("neg", (IndexValue(Affine.of(I) + 1, float32),), True),
    ("neg", (IndexValue(Affine.of(I), int32),), True),
    ("mul", (IndexValue(Affine.of(I), float32), Const(-2, float32)), False),
    ("mul", (Const(-2, float32), IndexValue(Affine.of(I) + 1, float32)), True),
    ("mul", (IndexValue(Affine.of(I), float32), Const(2, float32)), True),
])  # fmt: skip
def test_products_of_indices_keep_the_sign_of_zero(op: str, args: tuple[Expr, ...], is_folded: bool) -> None:
    assert isinstance(simplify_expr(Apply(BY_NAME[op], args)), IndexValue) == is_folded
