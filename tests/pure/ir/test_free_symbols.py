"""Free symbols of expressions and statements."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.free_symbols import free_symbols, mentioned_symbols
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
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
    Poll,
    Prefetch,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
    loop,
)
from ocannl.ir.ops import ADD
from ocannl.ir.precision import float32, int64
from ocannl.ir.walk import CHILDREN

I, J, K, N = (Sym(name, 0, 7) for name in "ijkn")
BUF = Buf("x", float32, (8, 8), (8, 1), MemorySpace.GLOBAL, AccessMode.INOUT)
REF = Ref(BUF, (Affine.of(J), Affine.of(I) + J))
ZERO = Const(0, float32)
LOAD, INDEX = Load(REF), IndexValue(Affine.of(K), float32)
LOWER_BOUND = Cond((Affine.of(N) - K,))

EXPRESSIONS: list[tuple[Expr, tuple[Sym, ...], set[Sym]]] = [
    (ZERO, (), set()),
    (Var("a", float32), (), set()),
    (INDEX, (K,), {K}),
    (LOAD, (J, I), {I, J}),
    (Apply(ADD, (LOAD, INDEX)), (), {I, J, K}),
    (Cast(INDEX, int64), (), {K}),
    (When(LOWER_BOUND, LOAD, ZERO), (K, N), {I, J, K, N}),
]
LOOP_BOUNDS = Bound.lower(0), Bound.upper(8)
STATEMENTS: list[tuple[Stmt, tuple[Sym, ...], set[Sym]]] = [
    (Comment("n"), (), set()),
    (Poll(), (), set()),
    (Local(BUF, 0), (), set()),
    (Let("a", INDEX), (), {K}),
    (Prefetch(REF, 3), (J, I), {I, J}),
    (ReadClock(REF), (J, I), {I, J}),
    (Store(REF, INDEX), (J, I), {I, J, K}),
    (Update(REF, ADD, INDEX), (J, I), {I, J, K}),
    (If(LOWER_BOUND, (Store(REF, ZERO),), (Let("a", INDEX),)), (K, N), {I, J, K, N}),
    (loop(I, (Store(REF, INDEX),)), (), {J, K}),
    (For(I, Bound.lower(Affine.of(N)), Bound.upper(Affine.of(K)), (Store(REF, ZERO),)), (N, K), {J, K, N}),
    (BindIndex(J, Cast(INDEX, int64), (Store(REF, ZERO),)), (), {I, K}),
]


@pytest.mark.parametrize(("node", "mentioned", "free"), [*EXPRESSIONS, *STATEMENTS])
def test_symbols(node: Expr | Stmt, mentioned: tuple[Sym, ...], free: set[Sym]) -> None:
    assert mentioned_symbols(node) == mentioned
    assert free_symbols(node) == free


def test_every_kind_of_node_is_tested() -> None:
    kinds = {type(node) for node, _, _ in [*EXPRESSIONS, *STATEMENTS]}
    assert kinds >= set(CHILDREN) and len(kinds) == 18


def test_address_is_the_position_in_memory() -> None:
    """Compared with NumPy, for strides with gaps and a symbol in two indices."""
    buf = Buf("y", float32, (4, 9), (11, 1), MemorySpace.GLOBAL, AccessMode.IN)
    memory = np.arange(44).reshape(4, 11)
    m = Sym("m", 0, 3)
    ref = Ref(buf, (Affine.of(m), Affine.of(m) * 2 + Affine.of(K) * -1 + 2))
    assert ref.syms == (m, K) and ref.stride(m) == 13 and ref.stride(K) == -1
    for a, b in product(range(4), range(3)):
        assert ref.address.evaluate({m: a, K: b}) == memory[a, 2 * a - b + 2]


def test_symbols_of_a_body() -> None:
    assert free_symbols((loop(I, (Store(REF, ZERO),)), Let("a", INDEX))) == {J, K}
    assert free_symbols(()) == set()
