"""The interpreter itself: every statement and expression, on programs that say their result."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ocannl.ir import precision as P
from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.interpret import Cell, Write, interpret
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
    Stmt,
    Store,
    Update,
    Var,
    When,
    loop,
    row_major,
)
from ocannl.ir.ops import ADD, BY_NAME, DIV, MAX, MUL
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import Role, TNode

F32 = P.float32
I, J, N = Sym("i", 0, 3), Sym("j", 0, 3), Sym("n", 0, 9, SymKind.STATIC)
i, j, n = map(Affine.of, (I, J, N))


def pool(name: str, *shape: int, kind: Precision = F32, access: AccessMode = AccessMode.INOUT) -> Buf:
    node = TNode(name, Role.RESULT, lambda: shape, lambda: kind)
    return Buf(name, kind, shape, row_major(shape), MemorySpace.GLOBAL, access, node)


X, Y = pool("x", 4), pool("y", 4)


def ref(of: Buf, *at: Affine | int) -> Ref:
    return Ref(of, tuple(map(Affine.of, at)))


def num(value: float, kind: Precision = F32) -> Const:
    return Const(value, kind)


def run(*body: Stmt, bufs: tuple[Buf, ...] = (X, Y), n: int = 0, arena: int = 0, **arrays: object) -> dict[str, list]:
    proc = Proc("p", bufs, (N,), body, arena=arena)
    contents = {b.node: np.asarray(arrays.get(b.name, range(4)), b.precision.numpy) for b in bufs if b.node is not None}
    return {node.label: a.tolist() for node, a in interpret(proc, contents, {N: n}).items()}


def test_stores_updates_and_guards() -> None:
    got = run(
        Comment("begin"),
        loop(I, (
            If(Cond((i - 2,)), (Store(ref(Y, i), num(9)),), (Update(ref(Y, i), ADD, Load(ref(X, 3 - 0))),)),
        )),
        Update(ref(X, n), MAX, num(7)),
        n=2,
    )  # fmt: skip
    assert got == {"x": [0, 1, 7, 3], "y": [3, 4, 9, 9]}


def test_bounds_and_steps() -> None:
    count = (Update(ref(Y, j), ADD, num(1)),)
    within = For(J, Bound(((i - 1, 1), (Affine.of(1), 1))), Bound(((Affine.of(2), 1), (i, 1))), count)
    assert run(loop(I, (within,)), y=[0] * 4)["y"] == [0, 2, 2, 0]  # j from max(i - 1, 1) to min(2, i)
    rounded = For(J, Bound(((i, 2),)), Bound(((i, 2), (Affine.of(9), 1))), count)
    assert run(loop(I, (rounded,)), y=[0] * 4)["y"] == [1, 1, 0, 0]  # only even i are halves
    stepped = For(I, Bound.lower(1), Bound.upper(4), (Store(ref(Y, i), num(5)),), step=2)
    assert run(stepped, y=[0] * 4)["y"] == [0, 5, 0, 5]


def test_locals_are_new_each_time() -> None:
    acc = Buf("acc", F32, (2,), (1,), MemorySpace.LOCAL, AccessMode.TEMP)
    body = (
        Local(acc, 1),
        Update(ref(acc, 1), ADD, Cast(IndexValue(i, P.int32), F32)),
        Let("v", Load(ref(acc, 1))),
        Store(ref(Y, i), Apply(MUL, (Var("v", F32), Load(ref(acc, 0))))),
    )
    assert run(loop(I, body))["y"] == [1, 2, 3, 4]


def test_memory_that_nothing_wrote_is_poisoned() -> None:
    acc = Buf("acc", F32, (), (), MemorySpace.LOCAL, AccessMode.TEMP)
    temp = Buf("t", F32, (4,), (1,), MemorySpace.ARENA, AccessMode.TEMP)
    assert np.isnan(run(Local(acc), Store(ref(Y, 0), Load(ref(acc))))["y"][0])
    assert np.isnan(run(Store(ref(Y, 0), Load(ref(temp, 1))), bufs=(X, Y, temp))["y"][0])
    got = interpret(Proc("p", (Y,), (), (Store(ref(Y, 0), num(1)),)), {})
    assert got[Y.node][0] == 1 and np.isnan(got[Y.node][1:]).all()


def test_buffers_share_the_bytes_of_a_placed_arena() -> None:
    a = Buf("a", F32, (2,), (1,), MemorySpace.ARENA, AccessMode.TEMP, offset=0)
    b = Buf("b", F32, (2,), (1,), MemorySpace.ARENA, AccessMode.TEMP, offset=4)
    body = (Store(ref(a, 1), num(5)), Store(ref(b, 0), num(6)), Store(ref(Y, 0), Load(ref(a, 1))))
    assert run(*body, bufs=(X, Y, a, b), arena=16)["y"][0] == 6


def test_strides() -> None:
    back = Buf("t", F32, (2, 2), (1, 2), MemorySpace.ARENA, AccessMode.TEMP)
    cells = [ref(back, r, c) for r in (0, 1) for c in (0, 1)]
    body = [Store(cell, num(m)) for m, cell in enumerate(cells)]
    body += [Store(ref(Y, m), Load(cell)) for m, cell in enumerate(cells)]
    assert run(*body, bufs=(X, Y, back))["y"] == [0, 1, 2, 3]
    transposed = Buf("x_t", F32, (2, 2), (1, 2), MemorySpace.GLOBAL, AccessMode.IN, X.node)  # the cells of x in columns
    assert run(Store(ref(Y, 0), Load(ref(transposed, 0, 1))), bufs=(X, Y, transposed))["y"][0] == 2


def test_merge_buffers_are_other_arrays() -> None:
    merge = Buf("x_merge", F32, (4,), (1,), MemorySpace.GLOBAL, AccessMode.MERGE, X.node)
    body = (Store(ref(Y, 0), Apply(ADD, (Load(ref(X, 3)), Load(ref(merge, 3))))),)
    got = interpret(Proc("p", (X, Y, merge), (), body), {X.node: np.arange(4)}, merged={X.node: np.full(4, 10)})
    assert got[Y.node][0] == 13 and got[X.node].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("at", [i + 1, -i - 1 + 0 * i, i * 2])
def test_leaving_a_buffer_is_an_error(at: Affine) -> None:
    with pytest.raises(IndexError, match=r"`y\[.*\]` has index -?\d on an axis of size 4"):
        run(loop(I, (Store(ref(Y, at), num(0)),)))


def evaluated(value: Expr, kind: Precision) -> object:
    out = pool("out", kind=kind)
    return interpret(Proc("p", (out,), (), (Store(ref(out), value),)), {})[out.node].item()


def test_numbers() -> None:
    assert evaluated(num(0.1), F32) == np.float32(0.1)
    assert evaluated(Cast(num(2049.0), P.float16), P.float16) == 2048
    assert evaluated(Cast(num(0.3), P.bfloat16), P.bfloat16) == float(ml_dtypes.bfloat16(0.3))
    assert evaluated(Cast(num(-2.7), P.int32), P.int32) == -2
    assert evaluated(Cast(num(0.3), P.bool_), P.bool_) is True
    assert evaluated(Cast(num(float("nan")), P.bool_), P.bool_) is True
    assert evaluated(Cast(num(300, P.int32), P.uint8), P.uint8) == 44
    assert evaluated(Cast(num(-1, P.int32), P.uint32), P.uint32) == 2**32 - 1
    assert evaluated(Apply(ADD, (num(200, P.uint8), num(100, P.uint8))), P.uint8) == 44
    assert evaluated(Apply(DIV, (num(1), num(0))), F32) == float("inf")
    assert evaluated(Apply(BY_NAME["lt"], (num(1, P.int32), num(2, P.int32))), P.int32) == 1
    assert evaluated(When(Cond((Affine.of(-1),)), num(1), num(2)), F32) == 2
    assert evaluated(Apply(BY_NAME["where"], (num(0), num(1), num(2))), F32) == 2
    assert evaluated(IndexValue(Affine.of(7), P.int64), P.int64) == 7


def test_the_side_of_a_when_that_is_not_taken_is_not_evaluated() -> None:
    assert run(loop(I, (Store(ref(Y, i), When(Cond((i - 1,)), Load(ref(X, i - 1)), num(8))),)))["y"] == [8, 0, 1, 2]


def test_who_watches_is_told_of_every_write() -> None:
    total = Update(ref(Y, 0), ADD, Apply(MUL, (Var("t", F32), Load(ref(Y, 1)))))
    body = (loop(I, (Store(ref(Y, i), num(2)),)), loop(J, (Let("t", Load(ref(X, j))), total)))
    seen: list[Write] = []
    proc = Proc("p", (X, Y), (), body)
    got = interpret(proc, {X.node: np.array([1, 2, 0, 4]), Y.node: np.full(4, 7)}, on_write=seen.append)
    assert [(w.at, w.old, w.new, w.read) for w in seen[:4]] == [((n,), 7, 2, ()) for n in range(4)]
    assert [(w.old, w.new) for w in seen[4:]] == [(2, 4), (4, 8), (8, 8), (8, 16)]
    assert seen[5].read == (Cell(X, (1,), 2), Cell(Y, (1,), 2)) and seen[5].stmt is total
    assert got[Y.node].tolist() == [16, 2, 2, 2]


def test_watching_changes_nothing_and_reads_nothing_more() -> None:
    inside = When(Cond((i - 1,)), Load(ref(X, i - 1)), num(8))
    seen: list[Write] = []
    proc = Proc("p", (X, Y), (), (loop(I, (Store(ref(Y, i), inside),)),))
    arrays = {X.node: np.arange(4), Y.node: np.zeros(4)}
    plain, watched = interpret(proc, arrays), interpret(proc, arrays, on_write=seen.append)
    np.testing.assert_array_equal(plain[Y.node], watched[Y.node])
    assert [len(w.read) for w in seen] == [0, 1, 1, 1]
