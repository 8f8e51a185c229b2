"""Ill-formed programs and what is said about them; and well-formed ones that need a proof."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random
from textwrap import dedent

import numpy as np
import pytest

from ocannl.base.errors import VerifyError
from ocannl.ir import precision as P
from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Comment,
    Const,
    Expr,
    Fact,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    MemorySpace,
    Proc,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
    loop,
    row_major,
)
from ocannl.ir.ops import ADD, BY_NAME, DIV, MUL, SUB, Domain, Op
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.ir.verify import Stage, verify
from ocannl.ir.walk import Node, rewrite_body, walk
from ocannl.lower.lower import lower
from ocannl.testing.random_programs import generate

F32 = P.float32


def node(label: str, *dims: int, kind: Precision = F32) -> TNode:
    return TNode(label, Role.RESULT, lambda: dims, lambda: kind)


def buf(name: str, *shape: int, kind: Precision = F32, access: AccessMode = AccessMode.INOUT) -> Buf:
    return Buf(name, kind, shape, row_major(shape), MemorySpace.GLOBAL, access, node(name, *shape, kind=kind))


def temp(name: str, *shape: int, offset: int | None = None, kind: Precision = F32) -> Buf:
    return Buf(name, kind, shape, row_major(shape), MemorySpace.ARENA, AccessMode.TEMP, offset=offset)


def reg(name: str, *shape: int, kind: Precision = F32) -> Buf:
    return Buf(name, kind, shape, row_major(shape), MemorySpace.LOCAL, AccessMode.TEMP)


I, J, K = Sym("i", 0, 4), Sym("j", 0, 2), Sym("k", 0, 4)
N = Sym("n", 0, 2, SymKind.STATIC)
i, j, k, n = map(Affine.of, (I, J, K, N))

X, Y, H = buf("x", 5, access=AccessMode.IN), buf("y", 5), buf("h", 5, kind=P.float16, access=AccessMode.IN)
W = buf("w", 5, 3, access=AccessMode.CONST)
TIMES, ROWS = buf("times", 5, kind=P.int64), buf("rows", 5, kind=P.int64, access=AccessMode.IN)
M, C = buf("m", 5, kind=P.int32), buf("c", 5, kind=P.bool_)
OUT, T, A = buf("out", 5, access=AccessMode.OUT), temp("t", 5), reg("a")


def ref(of: Buf, *at: Affine | Sym | int) -> Ref:
    return Ref(of, tuple(map(Affine.of, at)))


def load(of: Buf, *at: Affine | Sym | int) -> Load:
    return Load(ref(of, *at))


def num(value: float, kind: Precision = F32) -> Const:
    return Const(value, kind)


def copy(into: Buf, of: Buf) -> For:
    sym = Sym(f"{into.name}_{of.name}", 0, 4)
    return loop(sym, (Store(ref(into, sym), load(of, sym)),))


def over(sym: Sym, *body: Stmt) -> For:
    return loop(sym, body)


def between(sym: Sym, lo: Affine | int, hi: Affine | int, *body: Stmt, step: int = 1) -> For:
    return For(sym, Bound.lower(lo), Bound.upper(hi), body, step)


def store(value: Expr, into: Buf = Y) -> For:
    return over(I, Store(ref(into, I), value))


def gather(into: Buf, *then: Stmt) -> For:
    row = Sym("row", 0, 4, SymKind.INDIRECT)
    return over(I, BindIndex(row, load(ROWS, I), (Store(ref(into, I), load(X, row)), *then)))


def proc(*body: Stmt, bufs: tuple[Buf, ...] = (X, Y, H, W, M, C, TIMES), syms: tuple[Sym, ...] = (N,)) -> Proc:
    return Proc("step", bufs, syms, body)


# what is wrong, at the first stage where it is; the message
REFUSED: list[tuple[Stage, Proc, str]] = [
    # names and scopes
    (
        "optimized",
        proc(over(I, over(I, Store(ref(Y, I), num(0))))),
        """
        redefinition of `i` as a loop
          in  for i in 0..5:
          of  for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(over(I, Store(ref(Y, I), num(0))), over(I, Store(ref(Y, I), num(0)))),
        """
        redefinition of `i` as a loop
          in  for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        "lowered",
        proc(over(Sym("y", 0, 1), Store(ref(Y, 0), num(0)))),
        """
        redefinition of `y` as a loop
          in  for y in 0..2:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(bufs=(Y, Y)),
        """
        redefinition of `y` as a buffer
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(over(Sym("a b", 0, 1), Store(ref(Y, 0), num(0)))),
        """
        invalid name `a b` for a loop
          in  for a b in 0..2:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(Store(ref(Y, I), num(0))),
        """
        use of symbol `i` outside its scope
          in  y[i] = 0
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(IndexValue(j, F32))),
        """
        use of symbol `j` outside its scope
          in  y[i] = j
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(When(Cond((j,)), num(0), num(1)))),
        """
        use of symbol `j` outside its scope
          in  y[i] = 0 if j >= 0 else 1
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(load(X, I)), bufs=(Y,)),
        """
        use of buffer `x` outside its scope
          in  y[i] = x[i]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(Var("v", F32))),
        """
        use of value `v` outside its scope
          in  y[i] = v
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "optimized",
        proc(over(I, If(Cond((i - 1,)), (Let("v", num(1)),)), Store(ref(Y, I), Var("v", F32)))),
        """
        use of value `v` outside its scope
          in  y[i] = v
          of  for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(Let("v", num(1)), store(Var("v", P.float64))),
        """
        use of value `v` as float64, but it is float32
          in  y[i] = v
          of  for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(over(I, Local(A, 0)), Store(ref(Y, 0), load(A))),
        """
        use of buffer `a` outside its scope
          in  y[0] = a
          of  proc step, optimized""",
    ),
    # types
    (
        "lowered",
        proc(store(load(H, I))),
        """
        type mismatch: store of float16 to `y[i]`, which is float32
          in  y[i] = h[i]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(over(I, Update(ref(M, I), ADD, load(X, I)))),
        """
        type mismatch: update of float32 to `m[i]`, which is int32
          in  m[i] += x[i]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(Apply(MUL, (load(X, I), load(H, I))))),
        """
        operands of `x[i] * h[i]` have different types: float32, float16
          in  y[i] = x[i] * h[i]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(Apply(BY_NAME["where"], (load(C, I), load(X, I), num(0))))),
        """
        operands of `where(c[i], x[i], 0)` have different types: bool, float32, float32
          in  y[i] = where(c[i], x[i], 0)
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(When(Cond((i - 1,)), load(X, I), num(0, P.float64)))),
        """
        branches of `x[i] if i-1 >= 0 else 0` have different types: float32, float64
          in  y[i] = x[i] if i-1 >= 0 else 0
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(Cast(Apply(DIV, (load(M, I), load(M, I))), F32))),
        """
        `div` takes float operands, not int32
          in  y[i] = f32(m[i] / m[i])
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(Apply(ADD, (load(X, I),)))),
        """
        `add` has 1 operands, but takes 2
          in  y[i] = +x[i]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(num(300, P.uint8), C)),
        """
        300 is not representable in type uint8
          in  c[i] = 300
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(num(0.5, P.int32), M)),
        """
        0.5 is not representable in type int32
          in  m[i] = 0.5
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(Cast(IndexValue(100 * i, P.uint8), F32))),
        """
        400 is not representable in type uint8
          in  y[i] = f32(100*i)
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(over(I, Update(ref(Y, I), SUB, load(X, I)))),
        """
        update with `sub`, which is not a monoid
          in  y[i] -= x[i]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    # cells
    (
        "lowered",
        proc(store(load(W, I))),
        """
        `w[i]` has 1 indices, but `w` has 2 axes
          in  y[i] = w[i]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(load(X, i + 1))),
        """
        `x[i+1]` is not proved in bounds of axis 0, which has size 5
          in  y[i] = x[i+1]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(load(X, i - 1))),
        """
        `x[i-1]` is not proved in bounds of axis 0, which has size 5
          in  y[i] = x[i-1]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(When(Cond((i - 1,)), load(X, i - 2), num(0)))),
        """
        `x[i-2]` is not proved in bounds of axis 0, which has size 5
          in  y[i] = x[i-2] if i-1 >= 0 else 0
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(When(Cond((i - 1,)), num(0), load(X, i - 1)))),
        """
        `x[i-1]` is not proved in bounds of axis 0, which has size 5
          in  y[i] = 0 if i-1 >= 0 else x[i-1]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(store(load(W, I, n + 1))),
        """
        `w[i, n+1]` is not proved in bounds of axis 1, which has size 3
          in  y[i] = w[i, n+1]
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "optimized",
        proc(over(I, between(K, i, 6, Store(ref(Y, K), num(0))))),
        """
        `k` is not proved to be at most 4, the maximum of the symbol
          in  for k in i..6:
          of  for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(over(I, between(K, i - 1, 5, Store(ref(Y, K), num(0))))),
        """
        `k` is not proved to be at least 0, the minimum of the symbol
          in  for k in i-1..5:
          of  for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(between(I, 0, 5, Store(ref(Y, I), num(0)), step=0)),
        """
        loop with step 0, which is not positive
          in  for i in 0..5 step 0:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(For(I, Bound(()), Bound.upper(5), ())),
        """
        loop `i` has no bounds
          in  for i in max()..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(For(I, Bound(((Affine.of(0), 0),)), Bound.upper(5), ())),
        """
        bound of loop `i` has divisor 0, which is not positive
          in  for i in ceildiv(0, 0)..5:
          of  proc step, optimized""",
    ),
    # what may be done with a buffer
    (
        "lowered",
        proc(store(num(0), X)),
        """
        write to read-only buffer `x`, which is `in`
          in  x[i] = 0
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(bufs=(replace(Y, strides=(1, 1)),)),
        """
        `y` has 1 axes but 2 strides
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(bufs=(replace(Y, space=MemorySpace.ARENA),)),
        """
        `inout` buffer `y` in `arena` memory
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(bufs=(replace(Y, node=None),)),
        """
        global buffer `y` without a node
          of  proc step, lowered""",
    ),
    (
        "optimized",
        proc(Local(temp("a", 4))),
        """
        local array `a` in `arena` memory
          in  local a: f32[4]
          of  proc step, optimized""",
    ),
    # lowered programs are perfect nests
    (
        "lowered",
        proc(over(I, Store(ref(Y, I), num(0)), Store(ref(Y, I), num(1)))),
        """
        statement is not a perfect loop nest
          in  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(over(I, If(Cond((i - 1,)), (Store(ref(Y, I), num(0)),), (Store(ref(Y, I), num(1)),)))),
        """
        statement is not a perfect loop nest
          in  if i-1 >= 0:
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(over(I, between(K, i, 5, Store(ref(Y, K), num(0))))),
        """
        loop of a lowered program must have step 1 and constant bounds
          in  for k in i..5:
          of  for i in 0..5:
          of  proc step, lowered""",
    ),
    (
        "lowered",
        proc(Local(reg("a"), 0)),
        """
        statement is not a perfect loop nest
          in  local a: f32 = 0
          of  proc step, lowered""",
    ),
    # optimized programs read what was written, and keep what is kept
    (
        "optimized",
        proc(copy(Y, T), bufs=(Y, T)),
        """
        read of `t[y_t]` before any write to `t`
          in  y[y_t] = t[y_t]
          of  for y_t in 0..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(copy(Y, OUT), copy(OUT, X), bufs=(X, Y, OUT)),
        """
        read of `out[y_out]` before any write to `out`
          in  y[y_out] = out[y_out]
          of  for y_out in 0..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(over(I, Local(A), Update(ref(A), ADD, num(1)))),
        """
        read of `a` before any write to `a`
          in  a += 1
          of  for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(copy(Y, X), bufs=(X, Y, OUT)),
        """
        no write to `out`, which is `out`
          of  proc step, optimized""",
    ),
    # a bound index may be out of range
    (
        "optimized",
        proc(gather(OUT), bufs=(X, ROWS, OUT)),
        """
        output `out` is only written where `row` is in range
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(gather(T), copy(Y, T), bufs=(X, Y, ROWS, T)),
        """
        read of `t[y_t]`, which is only written where `row` is in range
          in  y[y_t] = t[y_t]
          of  for y_t in 0..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        replace(proc(copy(Y, X), bufs=(X, Y)), facts=(Fact(Y.node, Placement.TEMPORARY, "decide_placement"),)),
        """
        `y` is temporary, but in `global` memory
          of  proc step, optimized""",
    ),
    # the time is a whole number
    (
        "optimized",
        proc(over(I, ReadClock(ref(Y, I))), bufs=(Y,)),
        """
        type mismatch: store of int64 to `y[i]`, which is float32
          in  y[i] = read_clock()
          of  for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        "optimized",
        proc(over(I, ReadClock(ref(TIMES, i + 1))), bufs=(TIMES,)),
        """
        `times[i+1]` is not proved in bounds of axis 0, which has size 5
          in  times[i+1] = read_clock()
          of  for i in 0..5:
          of  proc step, optimized""",
    ),
    # placed programs share the arena
    (
        "placed",
        proc(copy(T, X), copy(Y, T), bufs=(X, Y, T)),
        """
        `t` has no offset in the arena
          of  proc step, placed""",
    ),
    (
        "placed",
        proc(bufs=(temp("t", 5, offset=6),)),
        """
        `t` is at offset 6 in the arena, which is not a multiple of 4 bytes
          of  proc step, placed""",
    ),
    (
        "placed",
        replace(proc(bufs=(temp("t", 5, offset=4),)), arena=20),
        """
        `t` ends at byte 24, beyond the arena of 20 bytes
          of  proc step, placed""",
    ),
]


@pytest.mark.parametrize(("stage", "program", "message"), REFUSED, ids=lambda x: "")
def test_refusal(stage: Stage, program: Proc, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(program, stage)
    assert str(caught.value) == dedent(message).lstrip("\n")


def placed(*temps: Buf, order: str) -> Proc:
    """Copies from buffer to buffer, as `order` says: `xa ab by`."""
    named = {b.name: b for b in (X, Y, *temps)}
    return replace(proc(*(copy(named[o[1]], named[o[0]]) for o in order.split()), bufs=(X, Y, *temps)), arena=1024)


def test_overlap_in_the_arena() -> None:
    a, b, c = temp("a", 5, offset=0), temp("b", 5, offset=32), temp("c", 5, offset=0)
    verify(placed(a, b, c, order="xa ab bc cy"), "placed")  # a is dead when c is born
    with pytest.raises(VerifyError) as caught:
        verify(placed(a, b, c, order="xa ab bc cy ay"), "placed")
    assert str(caught.value) == dedent("""\
        `a` and `c` overlap in the arena and are live together
          in  for c_b in 0..5:
          of  proc step, placed""")
    d = temp("d", 5, offset=16)
    with pytest.raises(VerifyError, match="`a` and `d` overlap"):
        verify(placed(a, d, order="xa ad dy"), "placed")


def test_alignment_is_what_the_device_asks() -> None:
    program = placed(temp("a", 5, offset=32), order="xa ay")
    verify(program, "placed")
    verify(program, "placed", alignment_bytes=32)
    with pytest.raises(VerifyError, match="at offset 32 in the arena, which is not a multiple of 64 bytes"):
        verify(program, "placed", alignment_bytes=64)


def test_initial_values_and_reads_below_the_same_index_are_accepted() -> None:
    initial = over(K, Store(ref(OUT, K), num(0)))
    verify(proc(initial, gather(OUT), bufs=(X, ROWS, OUT)), "optimized")
    verify(proc(gather(T, Store(ref(Y, I), load(T, I))), bufs=(X, Y, ROWS, T)), "optimized")


def test_stages_have_names() -> None:
    with pytest.raises(ValueError, match="unknown stage 'done'; the stages are lowered, optimized, placed"):
        verify(proc(), "done")  # type: ignore[arg-type]


ACCEPTED: list[Body] = [
    (),
    (Comment("nothing"),),
    (store(load(X, I)),),
    (store(load(X, -i + 4)),),
    (over(J, Store(ref(Y, 2 * j), load(X, n * 2))),),
    # padded windows
    (over(I, over(J, Update(ref(Y, I), ADD, When(Cond((i + j - 1, -i - j + 5)), load(X, i + j - 1), num(0))))),),
    (over(I, If(Cond((i - 1,)), (Store(ref(Y, I), load(X, i - 1)),), (Store(ref(Y, I), load(X, i + 4)),))),),
    # conditions may relate symbols
    (over(I, over(K, If(Cond((i - k,)), (Store(ref(Y, i - k), num(0)),)))),),
    (over(I, over(K, If(Cond((), (i - k,)), (Store(ref(Y, 2 * i - k), num(0)),)))),),
    (over(I, over(K, If(Cond((-i - k - 1,)), (Store(ref(Y, 99), num(0)),)))),),  # never
    # bounds may relate symbols
    (over(I, between(K, i, 5, Store(ref(Y, k - i), num(0)))),),
    (over(I, For(K, Bound(((i, 2),)), Bound(((i, 2), (Affine.of(4), 1))), (Store(ref(Y, 2 * k), num(0)),))),),
    (over(I, For(K, Bound(((Affine.of(0), 1), (i - 2, 1))), Bound.upper(i + 1), (Store(ref(Y, i - k), num(0)),))),),
    # a block of a loop that its size does not divide
    (between(I, 0, 5, between(K, i, 5, Store(ref(Y, K), num(0))), step=2),),
    # empty loops reach nothing
    (loop(Sym("e", 0, -1), (Store(ref(Y, 7), num(0)),)),),
    (between(I, 3, 3, Store(ref(Y, 7), num(0))),),
    # names and local arrays, to the end of their block
    (
        over(
            I,
            Local(A, 0),
            over(J, Let("v", load(W, I, J)), Update(ref(A), ADD, Apply(MUL, (Var("v", F32), Var("v", F32))))),
            Store(ref(Y, I), load(A)),
        ),
    ),
    (store(num(float("nan"))), over(K, Store(ref(C, K), num(1, P.bool_)))),
    (store(Cast(load(H, I), F32)), over(K, Store(ref(M, K), IndexValue(k, P.int32)))),
    (over(I, ReadClock(ref(TIMES, I))),),
]


@pytest.mark.parametrize("body", ACCEPTED, ids=lambda x: "")
def test_acceptance(body: Body) -> None:
    program = proc(*body)
    written = {node.ref.buf for node in walk(body) if isinstance(node, Store | Update | ReadClock)}
    bufs = tuple(b for b in program.bufs if b.access is not AccessMode.INOUT or b in written)
    verify(replace(program, bufs=bufs), "placed")


def displaced(program: Proc, random: Random) -> Proc:
    """The program with one index moved by one, or without one of the facts that a condition asks for."""
    refs = [n.ref for n in walk(program.body) if isinstance(n, Load | Store | Update) and n.ref.indices]
    conds = [n.cond for n in walk(program.body) if isinstance(n, If | When) and n.cond.ge0]
    if not refs and not conds:
        return program
    chosen, off, axis = random.choice([*refs, *conds]), random.choice((-1, 1)), random.randrange(6)

    def move(node: Node) -> Node:
        match node:
            case Load(ref) | Store(ref) | Update(ref) if ref is chosen:
                at = tuple(a + off * (n == axis % len(ref.indices)) for n, a in enumerate(ref.indices))
                return replace(node, ref=Ref(ref.buf, at))
            case If(cond) | When(cond) if cond is chosen:
                return replace(node, cond=Cond(cond.ge0[1:], cond.eq0))
            case _:
                return node

    return replace(program, body=rewrite_body(program.body, move))


@pytest.mark.slow
def test_what_is_accepted_stays_in_its_buffers() -> None:
    """And what is refused leaves one, for some value of the static symbols; or nearly always."""
    verdicts: Counter[tuple[bool, bool]] = Counter()
    for seed in range(600):
        random = Random(seed)
        generated = generate(random)
        program = displaced(lower(generated.code, "p"), random)
        try:
            verify(program, "optimized")
            accepted = True
        except VerifyError as refused:
            accepted = "is not proved" not in str(refused)
        leaves = False
        for values in product(*(range(s.lo, s.hi + 1) for s in program.syms)):
            try:
                interpret(program, generated.arrays, dict(zip(program.syms, values, strict=True)), generated.merged)
            except IndexError:
                leaves = True
        assert not (accepted and leaves)
        if not leaves and any(isinstance(node, BindIndex) for node in walk(program.body)):
            continue  # with other integers in memory it might
        verdicts[accepted, leaves] += 1
    assert verdicts[False, True] > 200 and verdicts[True, False] > 100
    assert verdicts[False, False] < 12


def test_integer_operations_take_integers() -> None:
    shift = Op("shift", 2, "A shift.", np.left_shift, domain=Domain.INTEGER)
    with pytest.raises(VerifyError, match="`shift` takes integer operands, not float32"):
        verify(proc(store(Apply(shift, (num(1), num(1))))), "lowered")


def test_a_thousand_nests_are_verified_quickly() -> None:
    body: list[Stmt] = []
    for m in range(1000):
        row, column = Sym(f"i{m}", 0, 4), Sym(f"j{m}", 0, 2)
        value = Apply(MUL, (load(W, row, column), load(X, row)))
        body.append(over(row, over(column, Update(ref(Y, row), ADD, value))))
    start = time.perf_counter()
    verify(proc(*body, bufs=(X, Y, W)), "placed")
    assert time.perf_counter() - start < 2  # 0.05 s when nothing else runs
