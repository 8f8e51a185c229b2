"""Loops that are unrolled or in lanes: which may be, and that what may be means the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from textwrap import dedent

import pytest

from ocannl.base.errors import VerifyError
from ocannl.ir import precision as P
from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
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
    Stmt,
    Store,
    Update,
    Var,
    When,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, MAX, MUL
from ocannl.ir.precision import Precision
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import Node, rewrite, rewrite_body, walk
from ocannl.lower.lower import lower
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.pipeline import optimize
from ocannl.testing.random_modes import with_random_modes
from ocannl.testing.random_programs import difference, generate

F32 = P.float32


def buf(name: str, *shape: int, access: AccessMode = AccessMode.INOUT, kind: Precision = F32) -> Buf:
    node = TNode(name, Role.RESULT, lambda: shape, lambda: kind)
    return Buf(name, kind, shape, row_major(shape), MemorySpace.GLOBAL, access, node)


I, J = Sym("i", 0, 4), Sym("j", 0, 2)
N = Sym("n", 0, 2, SymKind.STATIC)
i, j, n = map(Affine.of, (I, J, N))
X, Y, W, S = buf("x", 16, access=AccessMode.IN), buf("y", 16), buf("w", 5, 5), buf("s")
A = Buf("a", F32, (5,), (1,), MemorySpace.LOCAL, AccessMode.TEMP)


def ref(of: Buf, *at: Affine | int) -> Ref:
    return Ref(of, tuple(map(Affine.of, at)))


def load(of: Buf, *at: Affine | int) -> Load:
    return Load(ref(of, *at))


def num(value: float) -> Const:
    return Const(value, F32)


def lanes(*body: Stmt) -> For:
    return loop(I, body, mode=Mode.VECTORIZED)


def proc(stmt: Stmt) -> Proc:
    outer_stores = Store(ref(Y, 0), num(0)), Store(ref(W, 0, 0), num(0)), Store(ref(S), num(0))
    return Proc("step", (X, Y, W, S), (N,), (stmt, *outer_stores))


LEGAL = {
    "cells of their own": lanes(Store(ref(Y, i), load(X, i)), Comment("so"), Update(ref(W, i, 2), ADD, num(1))),
    "a value with a name": lanes(Let("v", load(X, i)), Store(ref(Y, i), Var("v", F32))),
    "backwards": lanes(Store(ref(Y, -i + 4), load(X, 3 * i))),
    "in place": lanes(Store(ref(Y, i), Apply(MUL, (load(Y, i), num(2))))),
    "a diagonal": lanes(Store(ref(W, i, i), load(X, 0))),
    "a row in a matrix": loop(J, (lanes(Store(ref(W, j, i), load(W, j, i))),)),
    "even cells, and the odd ones": lanes(Store(ref(Y, 2 * i), load(Y, 2 * i + 1))),
    "all add to one cell": lanes(Update(ref(S), ADD, load(X, i)), Update(ref(S), ADD, num(1))),
    "all add to a few cells": lanes(Update(ref(Y, 0), MAX, load(X, i)), Update(ref(Y, 1), MAX, num(1))),
    "a choice between numbers": lanes(Store(ref(Y, i), When(Cond((i - 2,)), num(1), IndexValue(i, F32)))),
    "a choice of what exists": lanes(Store(ref(Y, i), When(Cond((i - 2,)), load(X, i), num(0)))),
    "one choice for all": lanes(Store(ref(Y, i), When(Cond((n - 1,)), load(X, i), num(0)))),
    "from one": replace(lanes(Store(ref(Y, i), num(1))), lo=Bound.lower(1)),
    "unrolled, whatever it does": loop(I, (Store(ref(Y, 0), load(Y, i)), If(Cond((i - 1,)), (Local(A, 0),)), Poll()),
                                       mode=Mode.UNROLLED),
    "unrolled around lanes": loop(J, (lanes(Store(ref(W, j, i), num(1))),), mode=Mode.UNROLLED),
    "unrolled, and no cell": For(I, Bound.lower(3), Bound.upper(2), (Store(ref(Y, i), num(0)),), mode=Mode.UNROLLED),
}  # fmt: skip

REFUSED: list[tuple[Stmt, str]] = [
    (
        replace(lanes(Store(ref(Y, i), num(0))), step=2),
        """
        vectorized loop must have step 1 and constant bounds
          in  vectorized for i in 0..5 step 2:
          of  proc step, optimized""",
    ),
    (
        replace(lanes(Store(ref(Y, i), num(0))), lo=Bound.lower(n)),
        """
        vectorized loop must have step 1 and constant bounds
          in  vectorized for i in n..5:
          of  proc step, optimized""",
    ),
    (
        replace(loop(I, (Store(ref(Y, i), num(0)),), mode=Mode.UNROLLED), hi=Bound.upper(n)),
        """
        unrolled loop must have step 1 and constant bounds
          in  unrolled for i in 0..n:
          of  proc step, optimized""",
    ),
    (
        lanes(loop(J, (Store(ref(W, i, j), num(0)),))),
        """
        vectorized loop may only contain stores, updates and definitions, or one vectorized loop
          in  vectorized for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        lanes(If(Cond((i - 1,)), (Store(ref(Y, i), num(0)),))),
        """
        vectorized loop may only contain stores, updates and definitions, or one vectorized loop
          in  vectorized for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        lanes(Local(A, 0), Store(ref(Y, i), load(A, i))),
        """
        vectorized loop may only contain stores, updates and definitions, or one vectorized loop
          in  vectorized for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        lanes(Store(ref(Y, 0), load(X, i))),
        """
        vectorized loop `i` has a loop-carried dependence
          in  vectorized for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        lanes(Store(ref(Y, i + 1), load(Y, i))),
        """
        vectorized loop `i` has a loop-carried dependence
          in  vectorized for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        lanes(Update(ref(S), ADD, load(X, i)), Update(ref(S), MAX, num(1))),
        """
        vectorized loop `i` has a loop-carried dependence
          in  vectorized for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        lanes(Update(ref(S), ADD, load(X, i)), Store(ref(Y, i), load(S))),
        """
        vectorized loop `i` has a loop-carried dependence
          in  vectorized for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        lanes(Store(ref(W, i, 0), load(W, 0, i))),
        """
        vectorized loop `i` has a loop-carried dependence
          in  vectorized for i in 0..5:
          of  proc step, optimized""",
    ),
    (
        lanes(Store(ref(Y, i), When(Cond((i - 2,)), load(X, i - 2), num(0)))),
        """
        load in `x[i-2] if i-2 >= 0 else 0` is not proved in bounds in all lanes
          in  y[i] = x[i-2] if i-2 >= 0 else 0
          of  vectorized for i in 0..5:
          of  proc step, optimized""",
    ),
]


@pytest.mark.parametrize("name", LEGAL)
def test_what_may_be_in_lanes(name: str) -> None:
    verify(proc(LEGAL[name]), "optimized")


@pytest.mark.parametrize(("stmt", "message"), REFUSED)
def test_what_may_not_be(stmt: Stmt, message: str) -> None:
    with pytest.raises(VerifyError) as refused:
        verify(proc(stmt), "optimized")
    assert str(refused.value) == dedent(message).strip()


def test_modes_are_printed_and_compared() -> None:
    unrolled = loop(J, (lanes(Store(ref(W, j, i), num(1))),), mode=Mode.UNROLLED)
    assert print_proc(proc(unrolled)).splitlines()[5:8] == [
        "  unrolled for j in 0..3:", "    vectorized for i in 0..5:", "      w[j, i] = 1",
    ]  # fmt: skip
    assert unrolled != replace(unrolled, mode=Mode.SERIAL)
    assert rewrite(unrolled, lambda node: num(2) if node == num(1) else node).mode is Mode.UNROLLED


# ---------------------------------------------------------------------------------------------------------- meaning


def by_statements(proc: Proc) -> Proc:
    """Each statement of a loop over lanes in all of them before the next one, and these in any order: definitions are
    arrays then."""
    names = Namer(bound_names(proc))

    def turned(node: Node) -> Node:
        if not isinstance(node, For) or node.mode is not Mode.VECTORIZED:
            return node
        lets: dict[str, Buf] = {}
        body: list[Stmt] = []
        for stmt in node.body:
            lane = Sym(names(node.sym.name), node.sym.lo, node.sym.hi)
            values = {node.sym: Affine.of(lane)}
            if isinstance(stmt, Let):
                kind, cells = stmt.value.precision, (node.sym.hi + 1,)
                local = lets[stmt.name] = Buf(names(stmt.name), kind, cells, (1,), MemorySpace.LOCAL, AccessMode.TEMP)
                body.append(Local(local))
                stmt = Store(Ref(local, (Affine.of(node.sym),)), stmt.value)
            body.append(replace(node, sym=lane, body=(moved(stmt, values, lets),), parallel_chunk=1, mode=Mode.SERIAL))
        return If(Cond(), tuple(body))

    return replace(proc, body=rewrite_body(proc.body, turned))


def moved(stmt: Stmt, values: dict[Sym, Affine], lets: dict[str, Buf]) -> Stmt:
    lane = next(iter(values.values()))

    def at(old: Ref) -> Ref:
        return Ref(old.buf, tuple([index.substitute(values) for index in old.indices]))

    def rule(node: Node) -> Node:
        match node:
            case Load(old): return Load(at(old))
            case IndexValue(index, kind): return IndexValue(index.substitute(values), kind)
            case When(cond, then, orelse): return When(cond.substitute(values), then, orelse)
            case Var(name, _) if name in lets: return Load(Ref(lets[name], (lane,)))
            case Store(old, value): return Store(at(old), value)
            case Update(old, op, value): return Update(at(old), op, value)
            case _: return node

    return rewrite(stmt, rule)


@pytest.mark.parametrize("block", range(6))
def test_lanes_take_turns_at_each_statement(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        random = Random(seed)
        program = generate(random, 4)
        plain = lower(program.code, "law")
        if seed % 3:
            late = {"parallelize", "insert_polls", "allocate_memory"}
            late |= {"schedule"} if random.random() < 0.5 else set()
            plain = optimize(plain, {}, Capabilities(vector_bytes=16), without=frozenset(late))
        proc = with_random_modes(plain, random, "optimized" if seed % 3 else "lowered")
        symbols = {s: program.symbols[s] for s in plain.syms}
        wanted = interpret(plain, program.arrays, symbols, program.merged)
        got = interpret(by_statements(proc), program.arrays, symbols, program.merged, iteration_order=Random(seed))
        tolerance = {node: program.tolerance.get(node, 0.0) for node in wanted}
        assert not difference(wanted, got, tolerance), f"{seed}\n{print_proc(plain)}\n{print_proc(proc)}"


def test_enough_of_them_are_in_lanes() -> None:
    seen: Counter[str] = Counter()
    for seed in range(100):
        random = Random(seed)
        proc = with_random_modes(lower(generate(random, 4).code, "law"), random, "lowered")
        seen.update(node.mode.name for node in walk(proc.body) if isinstance(node, For))
    assert min(seen["VECTORIZED"], seen["UNROLLED"]) > 50
