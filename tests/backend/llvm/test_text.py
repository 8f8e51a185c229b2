"""Properties of the emitted text of programs that are also run."""

import numpy as np
import pytest

from ocannl.codegen.numbers import integer
from ocannl.ir.affine import Affine, Cond, Sym, bounds_condition
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Const,
    If,
    IndexValue,
    Load,
    MemorySpace,
    Proc,
    Ref,
    Store,
    Update,
    When,
    loop,
)
from ocannl.ir.ops import ADD, BY_NAME, MUL
from ocannl.ir.precision import PRECISIONS, float32, float64
from ocannl_backend_llvm.types import constant

A = Affine.of


def test_short_loops_are_eliminated(llvm, run):
    y = np.zeros((3, 1), np.float32)
    buf = run.like("y", y, AccessMode.OUT)
    i, j, k = Sym("i", 0, 2), Sym("j", 4, 4), Sym("k", 0, -1)
    body = (
        loop(
            i,
            (
                loop(j, (Store(Ref(buf, (A(i), A(j) - 4)), IndexValue(A(i) + A(j), float32)),)),
                loop(k, (Store(Ref(buf, (A(k), A(0))), Const(9, float32)),)),
            ),
        ),
    )
    proc = Proc("ones", (buf,), (), body)
    np.testing.assert_array_equal(run(proc, y)[0], [[4], [5], [6]])
    text = llvm.compile([proc]).source
    assert "%j" not in text and "%k" not in text


def test_excluded_cells_are_never_read(llvm, run):
    """A padded window whose excluded cells are far outside of the allocated memory."""
    far = 1 << 40
    x = np.arange(1, 6, dtype=np.float32)
    y = np.zeros(9, np.float32)
    bufs = Buf("x", float32, (5,), (1,), MemorySpace.GLOBAL, AccessMode.IN), run.like("y", y, AccessMode.OUT)
    i = Sym("i", 0, 8)
    strided = A(i) - 2
    value = When(bounds_condition(strided, 5), Load(Ref(bufs[0], (strided,))), Const(-7, float32))
    guarded = When(Cond((A(i) - 100,)), Load(Ref(bufs[0], (A(i) * far,))), value)
    proc = Proc("pad", bufs, (), (loop(i, (Store(Ref(bufs[1], (A(i),)), guarded),)),))
    np.testing.assert_array_equal(run(proc, x, y)[1], [-7, -7, 1, 2, 3, 4, 5, -7, -7])
    text = llvm.compile([proc]).source  # the text must branch, not load before a select
    assert "select" not in text and text.count("br i1 %if") == 2


def test_cheap_conditionals_become_selects(llvm, run):
    y = np.zeros((5, 5), np.float64)
    buf = run.like("y", y, AccessMode.OUT)
    i, j = Sym("i", 0, 4), Sym("j", 0, 4)
    one_hot = When(
        Cond((), (A(i) - A(j),)),
        Const(1, float64),
        When(Cond((A(i) - A(j),)), IndexValue(A(j), float64), Const(0, float64)),
    )
    proc = Proc("eye", (buf,), (), (loop(i, (loop(j, (Store(Ref(buf, (A(i), A(j))), one_hot),)),)),))
    np.testing.assert_array_equal(run(proc, y)[0], np.tril(np.tile(np.arange(5), (5, 1)), -1) + np.eye(5))
    simple = Proc("eye", (buf,), (), (loop(i, (loop(j, (Store(Ref(buf, (A(i), A(j))), one_hot.on_false),)),)),))
    assert "select i1" in llvm.compile([simple]).source
    assert "br i1 %if" not in llvm.compile([simple]).source


@pytest.mark.parametrize(
    "cond", [Cond((A(3),)), Cond((A(-1),)), Cond((), (A(0),)), Cond((), (A(2),)), Cond((A(0),), (A(-2),))], ids=str
)
def test_constant_conditions_are_folded(llvm, run, cond):
    y = np.zeros(2, np.float32)
    buf = run.like("y", y, AccessMode.OUT)
    body = (
        If(cond, (Store(Ref(buf, (A(0),)), Const(1, float32)),), (Store(Ref(buf, (A(0),)), Const(2, float32)),)),
        Store(Ref(buf, (A(1),)), When(cond, Const(1, float32), Const(2, float32))),
    )
    proc = Proc("known", (buf,), (), body)
    want = 1 if all(a.const >= 0 for a in cond.ge0) and all(a.const == 0 for a in cond.eq0) else 2
    np.testing.assert_array_equal(run(proc, y)[0], [want, want])
    assert "br i1" not in llvm.compile([proc]).source and "select" not in llvm.compile([proc]).source


def arena_program(run, offsets):
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    bx, by = run.like("x", x, AccessMode.IN), run.like("y", y, AccessMode.OUT)
    s, t = (
        Buf(n, float32, (8,), (1,), MemorySpace.ARENA, AccessMode.TEMP, offset=o)
        for n, o in zip("st", offsets, strict=True)
    )
    i, j, k = (Sym(n, 0, 7) for n in "ijk")
    body = (
        loop(i, (Store(Ref(s, (A(i),)), Apply(ADD, (Load(Ref(bx, (A(i),))), Const(1, float32)))),)),
        loop(j, (Store(Ref(t, (A(j),)), Apply(MUL, (Load(Ref(s, (A(j),))), Const(2, float32)))),)),
        loop(k, (Store(Ref(by, (A(k),)), Load(Ref(t, (A(k),)))),)),
    )
    return Proc("arena", (bx, s, t, by), (), body, arena=128), x, y


@pytest.mark.parametrize("offsets", [(0, 64), (64, 0), (0, 0)])
def test_temporaries_in_the_arena(llvm, run, offsets):
    proc, x, y = arena_program(run, offsets)
    np.testing.assert_array_equal(run(proc, x, y)[1], (x + 1) * 2)
    text = llvm.compile([proc]).source
    assert ("ptr noalias %s, ptr noalias %t" in text or "ptr noalias %t, ptr noalias %s" in text) == (offsets != (0, 0))


def test_an_update_of_products_is_fused(llvm, run):
    x = np.ones((4,), np.float32)
    bufs = [run.like(n, x, AccessMode.IN) for n in "ab"] + [run.like("y", x[:1], AccessMode.INOUT)]
    i = Sym("i", 0, 3)
    term = Apply(BY_NAME["mul"], tuple(Load(Ref(b, (Affine.of(i),))) for b in bufs[:2]))
    body = (loop(i, (Update(Ref(bufs[2], (Affine.of(0),)), BY_NAME["add"], term),)),)
    assert "llvm.fmuladd.f32" in llvm.compile([Proc("dot", tuple(bufs), (), body)]).source
    assert float32.arithmetic is float32


@pytest.mark.parametrize(
    ("value", "name", "number"),
    [
        (float("inf"), "int32", 2**31 - 1),
        (float("-inf"), "int64", -(2**63)),
        (float("-inf"), "uint8", 0),
        (float("nan"), "int32", 0),
        (2.9, "int32", 2),
        (-2.9, "int32", -2),
        (2**32 + 5, "int32", 5),
        (2**31, "int32", -(2**31)),
        (-1, "uint16", 65535),
        (0.5, "bool", 1),
        (1e20, "uint64", 2**64 - 1),
        (10**400, "uint8", 0),
    ],
)
def test_numbers_as_integers(value, name, number):
    (p,) = (p for p in PRECISIONS if p.name == name)
    assert integer(value, p) == number
    assert constant(value, p) == str(number)
