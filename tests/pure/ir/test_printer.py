"""Printed programs: precedence, every statement, and computations."""

from __future__ import annotations

from textwrap import dedent

import pytest

from ocannl.ir import assign as comp
from ocannl.ir import precision as P
from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.assign import Origin
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    Comment,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    MemorySpace,
    Proc,
    Ref,
    Store,
    Update,
    Var,
    When,
    loop,
    row_major,
)  # fmt: skip
from ocannl.ir.ops import ADD, BY_NAME, MAX
from ocannl.ir.printer import format_expr, format_number, format_stmt, print_comp, print_proc, short_name
from ocannl.ir.tnode import Role, TNode

F32 = P.float32
I, J, N = Sym("i", 0, 3), Sym("j", 0, 3), Sym("n", 0, 9, SymKind.STATIC)
i, j = Affine.of(I), Affine.of(J)
X = Buf("x", F32, (4,), (1,), MemorySpace.GLOBAL, AccessMode.IN)
A, B, C = Var("a", F32), Var("b", F32), Var("c", F32)


def op(name: str, *args: Expr) -> Apply:
    return Apply(BY_NAME[name], args)


EXPRESSIONS = [
    (op("add", op("mul", A, B), C), "a * b + c"),
    (op("mul", op("add", A, B), C), "(a + b) * c"),
    (op("sub", A, op("sub", B, C)), "a - (b - c)"),
    (op("sub", op("sub", A, B), C), "a - b - c"),
    (op("div", A, op("mul", B, C)), "a / (b * c)"),
    (op("pow", op("pow", A, B), C), "(a ** b) ** c"),
    (op("pow", A, op("pow", B, C)), "a ** (b ** c)"),
    (op("neg", op("add", A, B)), "-(a + b)"),
    (op("mul", op("neg", A), B), "-a * b"),
    (op("and", op("lt", A, B), op("or", B, C)), "a < b && (b || c)"),
    (op("not", op("eq", A, B)), "!(a == b)"),
    (op("max", op("add", A, B), C), "max(a + b, c)"),
    (op("pow", Const(-2, F32), A), "(-2) ** a"),
    (op("mul", IndexValue(i + 1, F32), A), "(i+1) * a"),
    (op("add", When(Cond((i - 1,)), A, B), C), "(a if i-1 >= 0 else b) + c"),
    (Cast(op("add", A, B), P.float16), "f16(a + b)"),
    (Load(Ref(X, (2 * i - 1,))), "x[2*i-1]"),
    (op("where", A, B, C), "where(a, b, c)"),
    (op("fma", A, B, C), "fma(a, b, c)"),
]


@pytest.mark.parametrize(("expr", "text"), EXPRESSIONS)
def test_expression(expr: Expr, text: str) -> None:
    assert format_expr(expr) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (1.0, "1"), (0.1, "0.1"), (-0.0, "-0.0"), (1e300, "1e+300"), (float("inf"), "inf"), (-2.5, "-2.5")],
)
def test_number(value: float, text: str) -> None:
    assert format_number(value) == text
    assert float(text) == value


def test_short_names_of_types() -> None:
    assert " ".join(short_name(p) for p in P.PRECISIONS) == (
        "bool u8 u16 u32 u64 i8 i16 i32 i64 float8_e5m2 float8_e4m3fn f16 bfloat16 f32 f64"
    )


def test_every_statement() -> None:
    acc = Buf("acc", F32, (2,), (1,), MemorySpace.LOCAL, AccessMode.TEMP)
    y = Buf("y", F32, (4,), (1,), MemorySpace.ARENA, AccessMode.TEMP, offset=64)
    scalar = Buf("loss", P.float16, (), (), MemorySpace.GLOBAL, AccessMode.OUT)
    body = (
        Comment("a heading\nof two lines"),
        For(I, Bound(((Affine.of(0), 1), (Affine.of(N), 2))), Bound(((Affine.of(3), 1), (Affine.of(N), 3))), (
            Local(acc, 0.5),
            Local(Buf("raw", F32, (), (), MemorySpace.LOCAL, AccessMode.TEMP)),
            Let("v", Load(Ref(X, (i,)))),
            If(Cond((i - 1,), (i - 2,)), (Store(Ref(y, (i,)), A),), (Update(Ref(y, (i,)), ADD, Const(1, F32)),)),
            Update(Ref(y, (i,)), MAX, Const(1, F32)),
        ), step=2),
        Store(Ref(scalar, ()), Const(0, P.float16)),
    )  # fmt: skip
    assert print_proc(Proc("step", (X, y, scalar), (N,), body)) == dedent("""\
        proc step(n in 0..10)
          x    : f32[4]  in
          y    : f32[4]  arena at 64
          loss : f16     out
          # a heading of two lines
          for i in max(0, ceildiv(n, 2))..min(4, floordiv(n, 3)+1) step 2:
            local acc: f32[2] = 0.5
            local raw: f32
            let v = x[i]
            if i-1 >= 0 && i-2 == 0:
              y[i] = a
            else:
              y[i] += 1
            y[i] = max(y[i], 1)
          loss = 0
        """)
    assert format_stmt(body[1]) == "for i in max(0, ceildiv(n, 2))..min(4, floordiv(n, 3)+1) step 2:"


def test_origins_stand_once_at_the_margin() -> None:
    origin, nameless = Origin("y", "net.py:3"), Origin("z")
    store = Store(Ref(X, (i,)), A, origin)
    body = (loop(I, (store,), origin), Store(Ref(X, (Affine.of(0),)), A, nameless), Store(Ref(X, (Affine.of(1),)), A))
    text = print_proc(Proc("p", (), (), body), origins=True)
    assert [line.rstrip() for line in text.splitlines()] == [
        "proc p",
        f"{'  for i in 0..4:':<60}  # y  net.py:3",
        "    x[i] = a",
        f"{'  x[0] = a':<60}  # z",
        "  x[1] = a",
    ]


def node(label: str, *dims: int) -> TNode:
    return TNode(label, Role.RESULT, lambda: dims, lambda: F32)


def test_computations() -> None:
    w, x = node("w", 4, 4), node("x y", 4)
    y = TNode("", Role.GRADIENT, lambda: (4,), lambda: F32, gradient_of=x)
    product = comp.Call(BY_NAME["mul"], (comp.Read(w, (i, j)), comp.Read(x, (j,))))
    window = comp.Call(BY_NAME["max"], (comp.Read(x, (i - 1,), outside=0.0), comp.Read(x, (i,), merge=True)))
    code = comp.Seq((
        comp.LabeledBlock("forward", comp.Assign(x, ADD, True, (comp.Piece((I, J), (i,), product),))),
        comp.Assign(y, MAX, False, (comp.Piece((I,), (i,), window, Cond((i - 2,))),)),
        comp.Assign(node("s"), None, False, (comp.Piece((), (), comp.Convert(comp.Number(0.5), P.float16)),)),
        comp.Assign(x, BY_NAME["sub"], False, (comp.Piece((I,), (i,), comp.Index(2 * i)),)),
    ))  # fmt: skip
    assert print_comp(code) == dedent("""\
        # forward
          x_y[i] =:+ w[i, j] * x_y[j]    over i<4 j<4
        x_y.grad[i] =@^ max(x_y[i-1 else 0], x_y.merge[i]) when i-2 >= 0    over i<4
        s =: f16(0.5)
        x_y[i] =- 2*i    over i<4
        """)


def test_row_major_strides() -> None:
    assert row_major((2, 3, 4)) == (12, 4, 1)
    assert row_major(()) == () and row_major((3, 0, 2)) == (2, 2, 1)
    assert (X.size, X.nbytes, Buf("e", F32, (3, 0), (1, 1), MemorySpace.GLOBAL, AccessMode.IN).nbytes) == (4, 16, 0)
