"""The oracle itself, against numbers written down by hand and against plain NumPy."""

from __future__ import annotations

from math import fsum

import numpy as np
import pytest

from ocannl.ir import precision as P
from ocannl.ir.affine import TRUE, Affine, Cond, Sym, SymKind
from ocannl.ir.assign import Assign, Call, Convert, Index, LabeledBlock, Number, Piece, Read, Seq, Value
from ocannl.ir.ops import ADD, BY_NAME, MUL, SUB, WHERE
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import Role, TNode
from ocannl.testing.evaluate import evaluate

I, J, K = Sym("i", 0, 2), Sym("j", 0, 3), Sym("k", 0, 1)
N = Sym("n", 0, 5, SymKind.STATIC)
i, j, k, n = map(Affine.of, (I, J, K, N))


def node(*dims: int, kind: Precision = P.float32) -> TNode:
    return TNode("x", Role.RESULT, lambda: dims, lambda: kind)


def assign(
    lhs: TNode, at: tuple[Affine, ...], value: Value, *loops: Sym, op: str = "", clear: bool = False, when: Cond = TRUE
) -> Assign:
    return Assign(lhs, BY_NAME[op] if op else None, clear, (Piece(loops, at, value, when),))


def test_matrix_product() -> None:
    a, b, c = node(3, 4), node(4, 2), node(3, 2)
    x, y = np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(4, 2) - 3
    code = assign(c, (i, k), Call(MUL, (Read(a, (i, j)), Read(b, (j, k)))), I, J, K, op="add", clear=True)
    got = evaluate(code, {a: x, b: y})
    np.testing.assert_array_equal(got[c], x @ y)
    assert got[c].dtype == np.float32 and set(got) == {a, b, c}


@pytest.mark.skipif(np.finfo(np.longdouble).eps == np.finfo(np.float64).eps, reason="no wider type")
def test_long_sums_in_float64_are_correctly_rounded() -> None:
    cell = Sym("i", 0, 19_999)
    x, total = node(20_000, kind=P.float64), node(kind=P.float64)
    numbers = np.random.default_rng(1).normal(3.0, 1.0, 20_000)
    got = evaluate(assign(total, (), Read(x, (Affine.of(cell),)), cell, op="add", clear=True), {x: numbers})
    assert got[total] == fsum(numbers)


def test_arguments_are_not_changed() -> None:
    x, old = node(3), np.arange(3, dtype=np.float32)
    got = evaluate(assign(x, (i,), Call(ADD, (Read(x, (i,)), Number(1))), I), {x: old})
    assert old.tolist() == [0, 1, 2] and got[x].tolist() == [1, 2, 3]


# accumulator, cleared: what [2, 5] becomes when its first cell meets 3, then 4
ACCUMULATED = [
    ("", False, [4, 5]), ("", True, [4, 0]), ("add", False, [9, 5]), ("add", True, [7, 0]), ("sub", False, [-5, 5]),
    ("sub", True, [-7, 0]), ("mul", False, [24, 5]), ("mul", True, [12, 1]), ("max", False, [4, 5]),
    ("max", True, [4, -np.inf]), ("min", False, [2, 5]), ("min", True, [3, np.inf]), ("and", False, [1, 5]),
    ("and", True, [1, 1]), ("or", False, [1, 5]), ("or", True, [1, 0]), ("div", False, [2 / 12, 5]),
    ("div", True, [1 / 12, 1]), ("pow", False, [4096, 5]), ("pow", True, [1, 1]), ("mod", False, [2, 5]),
    ("relu_gate", False, [4, 5]), ("relu_gate", True, [4, 1]), ("sat01_gate", False, [0, 5]),
    ("sat01_gate", True, [0, 0.5]), ("fst", False, [2, 5]), ("snd", False, [4, 5]), ("lt", False, [1, 5]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "clear", "result"), ACCUMULATED)
def test_accumulation(op: str, clear: bool, result: list[float]) -> None:
    x, v = node(2), node(2)
    code = assign(x, (Affine.of(0),), Read(v, (k,)), K, op=op, clear=clear)
    got = evaluate(code, {x: np.array([2.0, 5.0]), v: np.array([3.0, 4.0])})
    np.testing.assert_allclose(got[x], result, rtol=1e-6)


@pytest.mark.parametrize(("op", "clear", "result"), ACCUMULATED)
def test_accumulation_into_a_number(op: str, clear: bool, result: list[float]) -> None:
    x, v = node(), node(2)
    got = evaluate(assign(x, (), Read(v, (k,)), K, op=op, clear=clear), {x: np.array(2.0), v: np.array([3.0, 4.0])})
    np.testing.assert_allclose(got[x], result[0], rtol=1e-6)


def test_right_sides_see_what_was_before() -> None:
    x = node(3)
    back = assign(x, (i,), Read(x, (-i + 2,)), I)
    assert evaluate(back, {x: np.array([1.0, 2, 3])})[x].tolist() == [3, 2, 1]
    total = assign(x, (Affine.of(0),), Read(x, (i,)), I, op="add", clear=True)
    assert evaluate(total, {x: np.array([1.0, 2, 3])})[x].tolist() == [6, 0, 0]
    twice = Seq((LabeledBlock("a", back), back))
    assert evaluate(twice, {x: np.array([1.0, 2, 3])})[x].tolist() == [1, 2, 3]


def test_pieces_do_not_see_each_other() -> None:
    x = node(3)
    pieces = (
        Piece((), (Affine.of(0),), Read(x, (Affine.of(1),))),
        Piece((), (Affine.of(1),), Read(x, (Affine.of(0),))),
    )
    assert evaluate(Assign(x, None, False, pieces), {x: np.array([1.0, 2, 3])})[x].tolist() == [2, 1, 3]


def test_windows_masks_symbols_and_merge_buffers() -> None:
    x, y = node(3), node(3)
    data = {x: np.array([1.0, 2, 3]), y: np.zeros(3)}
    window = assign(y, (i,), Read(x, (i + k - 1,), outside=10.0), I, K, op="add", clear=True)
    assert evaluate(window, data)[y].tolist() == [11, 3, 5]
    masked = assign(y, (i,), Read(x, (i - 1,)), I, when=Cond((i - 1,)))
    assert evaluate(masked, data)[y].tolist() == [0, 1, 2]
    diagonal = assign(y, (i,), Number(7), I, when=Cond((), (i - n,)))
    assert evaluate(diagonal, data, {N: 2})[y].tolist() == [0, 0, 7]
    merged = assign(y, (i,), Call(SUB, (Read(x, (i,), merge=True), Read(x, (i,)))), I)
    assert evaluate(merged, data, merged={x: np.array([5.0, 5, 5])})[y].tolist() == [4, 3, 2]


def test_reading_outside_is_refused_where_nobody_allowed_it() -> None:
    x, y = node(3), node(3)
    with pytest.raises(IndexError, match="`x` is read outside"):
        evaluate(assign(y, (i,), Read(x, (i + 1,)), I), {x: np.zeros(3)})


def test_empty_loops_and_arrays() -> None:
    e = Sym("e", 0, -1)
    x, y = node(3, 0), node(3)
    total = assign(y, (i,), Read(x, (i, Affine.of(e))), I, e, op="add", clear=True)
    assert evaluate(total, {x: np.zeros((3, 0)), y: np.ones(3)})[y].tolist() == [0, 0, 0]
    padded = assign(y, (i,), Read(x, (i, i), outside=4.0), I)
    assert evaluate(padded, {x: np.zeros((3, 0))})[y].tolist() == [4, 4, 4]


def test_what_nothing_wrote_is_no_number() -> None:
    x, m = node(2), node(2, kind=P.int32)
    got = evaluate(Seq((assign(x, (Affine.of(0),), Number(1)), assign(m, (Affine.of(0),), Number(1)))), {})
    assert got[x][0] == 1 and np.isnan(got[x][1]) and got[m].tolist() == [1, 2**31 - 1]



def test_types() -> None:
    u, h, f = node(kind=P.uint8), node(kind=P.float16), node(kind=P.float32)
    data = {u: np.array(200), h: np.array(2049.0), f: np.array(0.3)}

    def is_(expr: Value, kind: Precision) -> float:
        out = node(kind=kind)
        return evaluate(assign(out, (), expr), data)[out].item()

    at_u, at_h, at_f = Read(u, ()), Read(h, ()), Read(f, ())
    assert is_(Call(ADD, (at_u, Number(100))), P.int32) == 44  # wraps in uint8
    assert is_(Call(ADD, (at_u, Number(300))), P.int32) == 500  # does not fit in uint8
    assert is_(Call(MUL, (at_u, Number(0.5))), P.float32) == 100
    assert is_(Call(ADD, (at_h, at_h)), P.float32) == 4096  # 2049 is no half
    assert is_(Call(ADD, (at_h, Number(1))), P.float32) == 2049  # float32, not a half
    assert is_(Convert(Call(ADD, (at_h, Number(1))), P.float16), P.float32) == 2048
    assert is_(Call(BY_NAME["div"], (at_u, Number(7))), P.float32) == pytest.approx(200 / 7)
    assert is_(at_f, P.bool_) is True
    assert is_(at_f, P.int32) == 0
    assert is_(Number(-2.7), P.int32) == -2
    assert is_(Call(WHERE, (at_f, Number(3), at_u)), P.int32) == 3
    assert is_(Call(ADD, (Index(Affine.of(5)), Number(1))), P.int64) == 6
    assert is_(Call(MUL, (Convert(at_f, P.bool_), Convert(at_f, P.bool_))), P.float32) == 1
