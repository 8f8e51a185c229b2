"""What lowered programs look like, for one computation of each kind; each is also run against its meaning."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import numpy as np
import pytest

from ocannl.base.errors import CodeError, DtypeError
from ocannl.ir import precision as P
from ocannl.ir.affine import TRUE, Affine, Cond, Sym, SymKind, bounds_condition
from ocannl.ir.assign import Assign, Call, Comp, Convert, Index, LabeledBlock, Number, Origin, Piece, Read, Seq, Value
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, MemorySpace, Proc
from ocannl.ir.ops import ADD, AND, BY_NAME, DIV, MAX, MUL, SUB, WHERE, Op
from ocannl.ir.precision import Precision
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.testing.evaluate import evaluate

I, J, K, B = Sym("i", 0, 1), Sym("j", 0, 2), Sym("k", 0, 3), Sym("b", 0, 4)
N = Sym("n", 0, 1, SymKind.STATIC)


def node(label: str, *dims: int, kind: Precision = P.float32, role: Role = Role.RESULT) -> TNode:
    return TNode(label, role, lambda: dims, lambda: kind)


def at(*indices: Affine | Sym | int) -> tuple[Affine, ...]:
    return tuple(map(Affine.of, indices))


def read(of: TNode, *indices: Affine | Sym | int, outside: float | None = None, merge: bool = False) -> Read:
    return Read(of, at(*indices), outside, merge)


def mul(a: Value, b: Value) -> Call:
    return Call(MUL, (a, b))


def assign(
    lhs: TNode, index: tuple[Affine, ...], value: Value, *loops: Sym, op: Op | None = None, clear: bool = False,
    when: Cond = TRUE,
) -> Assign:  # fmt: skip
    return Assign(lhs, op, clear, (Piece(loops, index, value, when),), Origin(lhs.label, "net.py:7"))


def matrix_product() -> Comp:
    w, x, y = node("w", 2, 3, role=Role.PARAMETER), node("x", 3, role=Role.DATA), node("y", 2)
    return LabeledBlock("y fwd", assign(y, at(I), mul(read(w, I, J), read(x, J)), J, I, op=ADD, clear=True))


def pointwise() -> Comp:
    x, y = node("x", 2, 3), node("y", 2, 3)
    return assign(y, at(I, J), Call(BY_NAME["relu"], (read(x, I, J),)), I, J)


def accumulated_gradient() -> Comp:
    g, w = node("g", 2), TNode("", Role.GRADIENT, lambda: (2,), lambda: P.float32, gradient_of=node("w", 2))
    return assign(w, at(I), mul(read(g, I), Number(2)), I, op=ADD)


def descent() -> Comp:
    w, g = node("w", 2, role=Role.PARAMETER), node("w.grad", 2)
    return assign(w, at(I), mul(Number(0.1), read(g, I)), I, op=SUB)


def diagonal() -> Comp:
    x, y = node("x", 2), node("y", 2, 2)
    return assign(y, at(I, I), read(x, I), I, clear=True)


def concatenation() -> Comp:
    a, b, y = node("a", 2), node("b", 3), node("y", 5)
    pieces = (Piece((I,), at(I), read(a, I)), Piece((J,), (Affine.of(J) + 2,), read(b, J)))
    return Assign(y, None, True, pieces)


def padded_pooling() -> Comp:
    x, y = node("x", 4), node("y", 2)
    window = Affine.of(I) * 2 + J - 1
    return assign(y, at(I), read(x, window, outside=float("-inf")), I, J, op=MAX, clear=True)


def scattered_windows() -> Comp:
    g, x = node("g", 2), node("x", 4)
    window = Affine.of(I) * 2 + J - 1
    return assign(x, (window,), read(g, I), J, I, op=ADD, when=bounds_condition(window, 4))


def aliased_reversal() -> Comp:
    x = node("x", 3)
    return assign(x, at(J), read(x, -Affine.of(J) + 2), J)


def aliased_update() -> Comp:
    x = node("x", 3)
    return assign(x, at(J), mul(read(x, J), read(x, J)), J)


def sum_in_half_precision() -> Comp:
    x, y = node("x", 2, 3, kind=P.float16), node("y", 2, kind=P.float16)
    return assign(y, at(I), read(x, I, J), I, J, op=ADD, clear=True)


def running_sum_in_half_precision() -> Comp:
    x, y = node("x", 2, kind=P.bfloat16), node("y", 2, kind=P.bfloat16)
    return assign(y, at(I), mul(read(x, I), Number(0.5)), I, op=ADD)


def repeated_division() -> Comp:
    x, y = node("x", 2, 3), node("y", 2)
    return assign(y, at(I), Call(ADD, (Number(1), Call(BY_NAME["abs"], (read(x, I, J),)))), J, I, op=DIV)


def slice_by_a_static_symbol() -> Comp:
    x, y = node("x", 2, 3), node("y", 2, 3)
    return assign(y, at(N, J), Call(ADD, (read(x, N, J), Index(Affine.of(N) + 1))), J)


def everything_true() -> Comp:
    x, y = node("x", 2, 3), node("y", 2)
    test = Call(BY_NAME["lt"], (read(x, I, J), Number(0.5)))
    return assign(y, at(I), test, I, J, op=AND, clear=True)


def mixed_types() -> Comp:
    c, a, b = node("c", 2, kind=P.float64), node("a", 2, kind=P.uint8), node("b", 2, kind=P.bfloat16)
    y = node("y", 2, kind=P.float32)
    scaled = mul(Call(ADD, (read(a, I), Number(0.5))), Index(Affine.of(I)))
    chosen = Call(WHERE, (read(c, I), Call(ADD, (scaled, read(b, I))), Convert(read(a, I), P.int32)))
    return assign(y, at(I), chosen, I)


def empty_sum() -> Comp:
    nothing = Sym("e", 0, -1)
    x, y = node("x", 2, 0), node("y", 2)
    return assign(y, at(I), read(x, I, nothing), I, nothing, op=ADD, clear=True)


def merged_average() -> Comp:
    w = node("w", 2, role=Role.PARAMETER)
    return Seq((
        assign(w, at(I), mul(Number(0.5), read(w, I, merge=True)), I, op=ADD),
        assign(node("done", kind=P.bool_), (), Number(1)),
    ))  # fmt: skip


def same_names() -> Comp:
    x, y, z = node("h", 2), node("h", 2), node("i", 2)
    return Seq((assign(y, at(I), read(x, I), I), assign(z, at(I), read(y, I), I)))


PROGRAMS: dict[Callable[[], Comp], str] = {
    matrix_product: """
        proc matrix_product
          y : f32[2]    out
          w : f32[2,3]  in
          x : f32[3]    const
          # y fwd
          for i in 0..2:
            y[i] = 0
          for i_2 in 0..2:
            for j in 0..3:
              y[i_2] += w[i_2, j] * x[j]
        """,
    pointwise: """
        proc pointwise
          x : f32[2,3]  in
          y : f32[2,3]  out
          for i in 0..2:
            for j in 0..3:
              y[i, j] = relu(x[i, j])
        """,
    accumulated_gradient: """
        proc accumulated_gradient
          g      : f32[2]  in
          w_grad : f32[2]  inout
          for i in 0..2:
            w_grad[i] += g[i] * 2
        """,
    descent: """
        proc descent
          w_grad : f32[2]  in
          w      : f32[2]  inout
          for i in 0..2:
            w[i] += -(0.1 * w_grad[i])
        """,
    diagonal: """
        proc diagonal
          y : f32[2,2]  out
          x : f32[2]    in
          for i in 0..2:
            for j in 0..2:
              y[i, j] = 0
          for i_2 in 0..2:
            y[i_2, i_2] = x[i_2]
        """,
    concatenation: """
        proc concatenation
          a : f32[2]  in
          y : f32[5]  out
          b : f32[3]  in
          for i in 0..2:
            y[i] = a[i]
          for j in 0..3:
            y[j+2] = b[j]
        """,
    padded_pooling: """
        proc padded_pooling
          y : f32[2]  out
          x : f32[4]  in
          for i in 0..2:
            y[i] = -inf
          for i_2 in 0..2:
            for j in 0..3:
              y[i_2] = max(y[i_2], x[2*i_2+j-1] if 2*i_2+j-1 >= 0 else -inf)
        """,
    scattered_windows: """
        proc scattered_windows
          g : f32[2]  in
          x : f32[4]  inout
          for i in 0..2:
            for j in 0..3:
              if 2*i+j-1 >= 0:
                x[2*i+j-1] += g[i]
        """,
    aliased_reversal: """
        proc aliased_reversal
          x        : f32[3]  inout
          x_before : f32[3]  arena
          for i in 0..3:
            x_before[i] = x[i]
          for j in 0..3:
            x[j] = x_before[-j+2]
        """,
    aliased_update: """
        proc aliased_update
          x : f32[3]  inout
          for j in 0..3:
            x[j] = x[j] * x[j]
        """,
    sum_in_half_precision: """
        proc sum_in_half_precision
          y_sum : f32[2]    arena
          x     : f16[2,3]  in
          y     : f16[2]    out
          for i in 0..2:
            y_sum[i] = 0
          for i_2 in 0..2:
            for j in 0..3:
              y_sum[i_2] += f32(x[i_2, j])
          for i_3 in 0..2:
            y[i_3] = f16(y_sum[i_3])
        """,
    running_sum_in_half_precision: """
        proc running_sum_in_half_precision
          x : bfloat16[2]  in
          y : bfloat16[2]  inout
          for i in 0..2:
            y[i] = bfloat16(f32(y[i]) + f32(x[i]) * 0.5)
        """,
    repeated_division: """
        proc repeated_division
          x : f32[2,3]  in
          y : f32[2]    inout
          for j in 0..3:
            for i in 0..2:
              y[i] = y[i] / (1 + abs(x[i, j]))
        """,
    slice_by_a_static_symbol: """
        proc slice_by_a_static_symbol(n in 0..2)
          x : f32[2,3]  in
          y : f32[2,3]  inout
          for j in 0..3:
            y[n, j] = x[n, j] + (n+1)
        """,
    everything_true: """
        proc everything_true
          y : f32[2]    out
          x : f32[2,3]  in
          for i in 0..2:
            y[i] = 1
          for i_2 in 0..2:
            for j in 0..3:
              y[i_2] &&= x[i_2, j] < 0.5
        """,
    mixed_types: """
        proc mixed_types
          c : f64[2]       in
          a : u8[2]        in
          b : bfloat16[2]  in
          y : f32[2]       out
          for i in 0..2:
            y[i] = where(f32(c[i] != 0), (f32(a[i]) + 0.5) * i + f32(b[i]), f32(i32(a[i])))
        """,
    empty_sum: """
        proc empty_sum
          y : f32[2]    out
          x : f32[2,0]  in
          for i in 0..2:
            y[i] = 0
          for i_2 in 0..2:
            for e in 0..0:
              y[i_2] = x[i_2, e]
        """,
    merged_average: """
        proc merged_average
          w_merge : f32[2]  merge
          w       : f32[2]  inout
          done    : bool    out
          for i in 0..2:
            w[i] += 0.5 * w_merge[i]
          done = 1
        """,
    same_names: """
        proc same_names
          h   : f32[2]  in
          h_2 : f32[2]  out
          i   : f32[2]  out
          for i_2 in 0..2:
            h_2[i_2] = h[i_2]
          for i_3 in 0..2:
            i[i_3] = h_2[i_3]
        """,
}


def run(code: Comp, proc: Proc) -> None:
    """The program does what the computation means."""
    of = {b.node: b for b in proc.bufs if b.node is not None}
    arrays = {n: np.linspace(-1, 2, b.size).reshape(n.dims).astype(n.precision.numpy) for n, b in of.items()}
    merged = {n: np.full(n.dims, 3, n.precision.numpy) for n in of}
    want = evaluate(code, arrays, {N: 1}, merged)
    for n, got in interpret(proc, arrays, {N: 1}, merged).items():
        np.testing.assert_allclose(got.astype(float), want[n].astype(float), rtol=1e-6, err_msg=n.label)


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda b: b.__name__)
def test_program(build: Callable[[], Comp]) -> None:
    code = build()
    proc = lower(code, build.__name__)
    verify(proc, "lowered")
    run(code, proc)
    assert print_proc(proc) == dedent(PROGRAMS[build]).lstrip("\n")


def test_origins_stay() -> None:
    text = print_proc(lower(matrix_product(), "step"), origins=True)
    assert text.count("# y  net.py:7") == 1


def test_nodes_live_in_pools_and_copies_in_the_arena() -> None:
    bufs = {b.name: b for b in lower(aliased_reversal(), "step").bufs}
    assert (bufs["x"].space, bufs["x"].access) == (MemorySpace.GLOBAL, AccessMode.INOUT)
    before = bufs["x_before"]
    assert (before.space, before.access, before.node) == (MemorySpace.ARENA, AccessMode.TEMP, None)


@pytest.mark.parametrize(
    ("build", "access"),
    [
        (matrix_product, {"y": "out", "w": "in", "x": "const"}),
        (pointwise, {"x": "in", "y": "out"}),
        (descent, {"w": "inout", "w_grad": "in"}),
        (diagonal, {"y": "out", "x": "in"}),
        (scattered_windows, {"x": "inout", "g": "in"}),
        (slice_by_a_static_symbol, {"x": "in", "y": "inout"}),
        (merged_average, {"w_merge": "merge", "w": "inout", "done": "out"}),
    ],
)
def test_access(build: Callable[[], Comp], access: dict[str, str]) -> None:
    assert {b.name: b.access.value for b in lower(build(), "step").bufs} == access


def test_long_and_deep_programs() -> None:
    x = node("x", 2)
    code: Comp = assign(x, at(I), Number(0), I)
    for n in range(5000):
        code = LabeledBlock(f"{n}", Seq((code, assign(x, at(I), Number(1), I, op=ADD))))
    proc = lower(code, "deep")
    verify(proc, "lowered")
    assert len(proc.body) == 10001


def clash() -> Comp:
    second = Sym("n", 0, 1, SymKind.STATIC)
    x = node("x", 2, 2)
    return assign(x, at(N, second), Number(1))


REFUSED: list[tuple[Callable[[], Comp], type[Exception], str]] = [
    (clash, CodeError, "two different static symbols are called `n`; rename one of them"),
    (
        lambda: assign(node("x", 2), at(Sym("batch no", 0, 1, SymKind.STATIC)), Number(1)),
        CodeError,
        "a static symbol has the invalid name 'batch no'; use letters, digits and underscores",
    ),
    (lambda: assign(node("x", 2), at(I), Number(1)), CodeError, "`i` is not a loop of the piece that uses it"),
    (lambda: assign(node("x", 2), at(I), Number(1), I, I), CodeError, "a piece has a duplicate loop: i, i"),
    (lambda: assign(node("x", 2), at(), Number(1)), CodeError, "`x` has 1 axes, but is written with 0 indices"),
    (
        lambda: assign(node("x", 2), at(I), read(node("y", 2), I, I), I),
        CodeError,
        "`y` has 1 axes, but is read with 2 indices",
    ),
    (
        lambda: assign(node("x", 2), at(I), Number(1), I, op=BY_NAME["lt"], clear=True),
        CodeError,
        "`lt` has no neutral element to start from; write the statement without clearing",
    ),
    (
        lambda: assign(node("x", 2), at(I), Number(1), I, op=BY_NAME["neg"]),
        CodeError,
        "`neg` cannot accumulate into `x`: it takes 1 operands, not 2",
    ),
    (lambda: assign(node("x", 2), at(I), Call(ADD, (Number(1),)), I), CodeError, "`add` takes 2 operands, not 1"),
]


@pytest.mark.parametrize(("build", "kind", "message"), REFUSED)
def test_refusal(build: Callable[[], Comp], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        lower(build(), "step")
    assert str(caught.value) == message


def test_an_operation_on_integers_refuses_floats() -> None:
    from ocannl.ir.ops import Domain

    shift = Op("shift", 2, "A shift.", np.left_shift, domain=Domain.INTEGER)
    with pytest.raises(DtypeError) as caught:
        lower(assign(node("x", 2), at(I), Call(shift, (read(node("y", 2), I), Number(1))), I), "step")
    assert str(caught.value) == "`shift` is an operation on integers, not on float32"
