"""Loop programs for golden files of generated code, with checks of their results."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np

from loop_programs.program_runner import Runner
from ocannl.ir.affine import TRUE, Affine, Bound, Cond, Sym, SymKind, bounds_condition
from ocannl.ir.assign import Origin
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    Comment,
    Const,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    MemorySpace,
    Mode,
    Poll,
    Proc,
    Ref,
    Store,
    Update,
    Var,
    When,
    loop,
)
from ocannl.ir.ops import ADD, AND, BY_NAME, MUL, NEG, WHERE
from ocannl.ir.precision import bfloat16, float8_e4m3fn, float16, float32, float64, int32, uint8

A = Affine.of


def dense() -> Proc:
    """`y = relu(w @ x[n] + b)`, and how often it was computed."""
    n = Sym("n", 0, 1, SymKind.STATIC)
    x = Buf("x", float32, (2, 5, 4), (20, 4, 1), MemorySpace.GLOBAL, AccessMode.CONST)
    w = Buf("w", float32, (3, 4), (4, 1), MemorySpace.GLOBAL, AccessMode.IN)
    b = Buf("b", float32, (3,), (1,), MemorySpace.GLOBAL, AccessMode.IN)
    y = Buf("y", float32, (5, 3), (3, 1), MemorySpace.GLOBAL, AccessMode.OUT)
    calls = Buf("calls", int32, (), (), MemorySpace.GLOBAL, AccessMode.INOUT)
    i, j, k = Sym("i", 0, 4), Sym("j", 0, 2), Sym("k", 0, 3)
    acc = Buf("acc", float32, (), (), MemorySpace.LOCAL, AccessMode.TEMP)
    origin = Origin("y", "mlp.py:41")
    term = Apply(MUL, (Load(Ref(w, (A(j), A(k)))), Load(Ref(x, (A(n), A(i), A(k))))))
    total = Apply(ADD, (Load(Ref(acc, ())), Load(Ref(b, (A(j),)))))
    row = (
        Local(acc, 0.0),
        loop(k, (Update(Ref(acc, ()), ADD, term, origin),), origin),
        Store(Ref(y, (A(i), A(j))), Apply(BY_NAME["relu"], (total,)), origin),
    )
    body = (
        Comment("dense layer"),
        loop(i, (loop(j, row, origin),), origin),
        Update(Ref(calls, ()), ADD, Const(1, int32), Origin("calls")),
    )
    return Proc("dense", (x, w, b, y, calls), (n,), body)


def check_dense(run: Runner) -> None:
    random = np.random.default_rng(0)
    x, w, b = (random.normal(size=size).astype(np.float32) for size in ((2, 5, 4), (3, 4), 3))
    y, calls = run(dense(), x, w, b, np.zeros((5, 3), np.float32), np.array(6, np.int32), syms=[1])[3:]
    np.testing.assert_allclose(y, np.maximum(x[1] @ w.T + b, 0), rtol=1e-5)
    assert calls == 7


def border() -> Proc:
    """Sums of neighbours in bfloat16, padded, by way of the arena; then cells between two slanted lines are marked."""
    x = Buf("x", bfloat16, (9,), (1,), MemorySpace.GLOBAL, AccessMode.IN)
    s = Buf("s", float32, (9,), (1,), MemorySpace.ARENA, AccessMode.TEMP, offset=64)
    y = Buf("y", bfloat16, (5, 5), (5, 1), MemorySpace.GLOBAL, AccessMode.OUT)
    c, d, t, i, j, m, v = (Sym(name, 0, hi) for name, hi in zip("cdtijmv", (8, 8, 2, 4, 4, 4, 4), strict=True))
    at = A(d) + A(t) - 1
    padded = When(bounds_condition(at, 9), Cast(Load(Ref(x, (at,))), float32), Const(0.1, float32))
    clipped = For(
        v,
        Bound(((A(m) * 2 - 5, 3), (A(0), 1))),
        Bound(((A(m) + 2, 2),)),
        (Store(Ref(y, (A(v), A(m))), Const(-1, bfloat16)),),
    )
    body = (
        loop(c, (Store(Ref(s, (A(c),)), Const(0, float32)),)),
        loop(d, (loop(t, (Update(Ref(s, (A(d),)), ADD, padded),)),)),
        loop(i, (
            Let("half", Apply(BY_NAME["div"], (Load(Ref(s, (2 * A(i),))), Const(2, float32)))),
            loop(j, (
                If(
                    Cond((A(i) - A(j),)),
                    (Store(Ref(y, (A(i), A(j))), Cast(Var("half", float32), bfloat16)),),
                    (Store(Ref(y, (A(i), A(j))), Const(0, bfloat16)),),
                ),
            )),
        )),
        loop(m, (clipped,)),
    )  # fmt: skip
    return Proc("border", (x, s, y), (), body, arena=128)


def check_border(run: Runner) -> None:
    x = np.arange(1, 10).astype(ml_dtypes.bfloat16)
    (_, y) = run(border(), x, np.zeros((5, 5), ml_dtypes.bfloat16))
    wide = np.concatenate([[0.1], x.astype(float), [0.1]])
    half = ((wide[:-2] + wide[1:-1] + wide[2:])[::2] / 2).astype(ml_dtypes.bfloat16).astype(float)
    want = np.tril(np.tile(half[:, None], (1, 5)))
    for m in range(5):
        want[max(-(-(2 * m - 5) // 3), 0) : (m + 2) // 2 + 1, m] = -1
    np.testing.assert_array_equal(y.astype(float), want)


def polled() -> Proc:
    """Rows are doubled, with a look at the signals before each, and once more at the end."""
    x = Buf("x", float32, (4, 6), (6, 1), MemorySpace.GLOBAL, AccessMode.INOUT)
    i, j = Sym("i", 0, 3), Sym("j", 0, 5)
    row = loop(j, (Update(Ref(x, (A(i), A(j))), MUL, Const(2, float32)),))
    return Proc("polled", (x,), (), (loop(i, (Poll(), row)), Poll()))


def check_polled(run: Runner) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(run(polled(), x)[0], x * 2)


def shared() -> Proc:
    """Columns of a table are summed from a row on, each by whichever thread is free, with a look at the signals."""
    x = Buf("x", float32, (4, 6), (6, 1), MemorySpace.GLOBAL, AccessMode.IN)
    y = Buf("first", float32, (6,), (1,), MemorySpace.GLOBAL, AccessMode.OUT)
    n, i, j = Sym("n", 0, 3, SymKind.STATIC), Sym("i", 0, 3), Sym("j", 1, 5)
    cell, total = Ref(x, (A(i), A(j))), Ref(y, (A(j),))
    body = (
        Store(total, Const(0, float32)),
        For(i, Bound.lower(A(n)), Bound.upper(4), (Poll(), Update(total, ADD, Load(cell)))),
    )
    return Proc("shared", (x, y), (n,), (For(j, Bound.lower(1), Bound.upper(6), body, parallel_chunk=2),))


def check_shared(run: Runner) -> None:
    x, y = np.arange(24, dtype=np.float32).reshape(4, 6), np.full(6, 7, np.float32)
    np.testing.assert_array_equal(run(shared(), x, y, syms=[1])[1], [7, *x[1:, 1:].sum(0)])


def private() -> Proc:
    """`y = x @ w`, by way of a transposed copy of `w` in each thread."""
    x, w, y = (
        Buf(name, float32, shape, (shape[1], 1), MemorySpace.GLOBAL, access)
        for name, shape, access in (
            ("x", (6, 3), AccessMode.IN), ("w", (3, 2), AccessMode.IN), ("y", (6, 2), AccessMode.OUT)
        )
    )  # fmt: skip
    copy = Buf("w_2", float32, (2, 3), (3, 1), MemorySpace.PRIVATE, AccessMode.TEMP)
    o, k, i, j, m = (Sym(name, 0, hi) for name, hi in zip("okijm", (1, 2, 5, 1, 2), strict=True))
    term = Apply(MUL, (Load(Ref(x, (A(i), A(m)))), Load(Ref(copy, (A(j), A(m))))))
    cell = Ref(y, (A(i), A(j)))
    row = loop(j, (Store(cell, Const(0, float32)), loop(m, (Update(cell, ADD, term),))))
    scope = If(TRUE, (
        Local(copy),
        loop(o, (loop(k, (Store(Ref(copy, (A(o), A(k))), Load(Ref(w, (A(k), A(o))))),)),)),
        replace(loop(i, (row,)), parallel_chunk=2),
    ))  # fmt: skip
    return Proc("private", (x, w, y), (), (scope,))


def check_private(run: Runner) -> None:
    x, w = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((6, 3), (3, 2)))
    np.testing.assert_allclose(run(private(), x, w, np.zeros((6, 2), np.float32))[2], x @ w, rtol=1e-5)


def narrow() -> Proc:
    """`y = y * w - x`, each in a type of its own, and where a cell of `w` is not 0 and less than the symbol."""
    w = Buf("w", float8_e4m3fn, (8,), (1,), MemorySpace.GLOBAL, AccessMode.IN)
    x = Buf("x", float64, (8,), (1,), MemorySpace.GLOBAL, AccessMode.IN)
    y = Buf("y", float16, (8,), (1,), MemorySpace.GLOBAL, AccessMode.INOUT)
    flags = Buf("flags", uint8, (8,), (1,), MemorySpace.GLOBAL, AccessMode.OUT)
    n, i = Sym("n", -9, 9, SymKind.STATIC), Sym("i", 0, 7)
    at = (A(i),)
    product = Apply(MUL, (Load(Ref(y, at)), Cast(Load(Ref(w, at)), float16)))
    small = Apply(BY_NAME["lt"], (Cast(Load(Ref(w, at)), int32), IndexValue(A(n), int32)))
    flag = Apply(AND, (Cast(Load(Ref(w, at)), uint8), Cast(small, uint8)))
    body = (
        Store(Ref(y, at), Apply(BY_NAME["sub"], (product, Cast(Load(Ref(x, at)), float16)))),
        Store(Ref(flags, at), Apply(WHERE, (flag, Const(7, uint8), Apply(NEG, (Load(Ref(flags, at)),))))),
    )
    return Proc("narrow", (w, x, y, flags), (n,), (loop(i, body),))


def check_narrow(run: Runner) -> None:
    w = np.array([0, 0.5, 1, -2, 3, 4.5, 2, 448]).astype(ml_dtypes.float8_e4m3fn)
    x, y = np.linspace(-1, 1, 8), np.arange(8).astype(np.float16)
    flags = np.ones(8, np.uint8)
    after = run(narrow(), w, x, y, flags, syms=[3])
    product = (y.astype(np.float32) * w.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(after[2], product - x.astype(np.float16))
    wide = w.astype(np.float64)
    chosen = (np.clip(wide, 0, 255).astype(np.uint8) != 0) & (wide.astype(int) < 3)
    np.testing.assert_array_equal(after[3], np.where(chosen, 7, 255))


def tile() -> Proc:
    """`y = relu(w @ x)` for two rows of six columns in registers, and what all cells amount to."""
    w = Buf("w", float32, (2, 9), (9, 1), MemorySpace.GLOBAL, AccessMode.IN)
    x = Buf("x", float32, (9, 6), (6, 1), MemorySpace.GLOBAL, AccessMode.IN)
    y = Buf("y", float32, (2, 6), (6, 1), MemorySpace.GLOBAL, AccessMode.OUT)
    total = Buf("total", float32, (), (), MemorySpace.GLOBAL, AccessMode.INOUT)
    acc = Buf("acc", float32, (2, 6), (6, 1), MemorySpace.LOCAL, AccessMode.TEMP)
    k, u, v, m = Sym("k", 0, 8), Sym("u", 0, 1), Sym("v", 0, 1), Sym("m", 0, 1)
    j, n, o = Sym("j", 0, 5), Sym("n", 0, 5), Sym("o", 0, 5)
    product = Apply(MUL, (Var("each", float32), Load(Ref(x, (A(k), A(n))))))
    cells = (
        Store(Ref(y, (A(m), A(o))), Apply(BY_NAME["relu"], (Load(Ref(acc, (A(m), A(o)))),))),
        Update(Ref(total, ()), ADD, Load(Ref(y, (A(m), A(o))))),
    )
    fed = (
        Let("each", Load(Ref(w, (A(v), A(k))))),
        loop(n, (Update(Ref(acc, (A(v), A(n))), ADD, product),), mode=Mode.VECTORIZED),
    )
    body = (
        Local(acc),
        loop(
            u,
            (loop(j, (Store(Ref(acc, (A(u), A(j))), Const(0, float32)),), mode=Mode.VECTORIZED),),
            mode=Mode.UNROLLED,
        ),
        loop(k, (loop(v, fed, mode=Mode.UNROLLED),)),
        loop(m, (loop(o, cells, mode=Mode.VECTORIZED),), mode=Mode.UNROLLED),
    )
    return Proc("tile", (w, x, y, total), (), body)


def check_tile(run: Runner) -> None:
    random = np.random.default_rng(0)
    w, x = (random.integers(-9, 9, size).astype(np.float32) for size in ((2, 9), (9, 6)))
    want = np.maximum(w @ x, 0)
    y, total = run(tile(), w, x, np.zeros((2, 6), np.float32), np.array(5, np.float32))[2:]
    np.testing.assert_array_equal(y, want)
    assert total == want.sum() + 5


def plane() -> Proc:
    """`y = 2 x.T + z`, in rows of `x`."""
    x = Buf("x", float32, (3, 4), (4, 1), MemorySpace.GLOBAL, AccessMode.IN)
    z = Buf("z", float32, (4, 3), (3, 1), MemorySpace.GLOBAL, AccessMode.IN)
    y = Buf("y", float32, (4, 3), (3, 1), MemorySpace.GLOBAL, AccessMode.OUT)
    i, j = Sym("i", 0, 2), Sym("j", 0, 3)
    double = Apply(MUL, (Const(2, float32), Load(Ref(x, (A(i), A(j))))))
    cell = Store(Ref(y, (A(j), A(i))), Apply(ADD, (double, Load(Ref(z, (A(j), A(i)))))))
    return Proc("plane", (x, z, y), (), (loop(i, (loop(j, (cell,), mode=Mode.VECTORIZED),), mode=Mode.VECTORIZED),))


def check_plane(run: Runner) -> None:
    x, z, y = (np.arange(12, dtype=np.float32).reshape(shape) for shape in ((3, 4), (4, 3), (4, 3)))
    np.testing.assert_array_equal(run(plane(), x, z, y)[2], 2 * x.T + z)


SAMPLES = (
    (dense, check_dense),
    (border, check_border),
    (polled, check_polled),
    (shared, check_shared),
    (narrow, check_narrow),
    (tile, check_tile),
    (plane, check_plane),
)
NATIVE_SAMPLES = (*SAMPLES, (private, check_private))
"""The samples for backends whose threads have private arrays."""
