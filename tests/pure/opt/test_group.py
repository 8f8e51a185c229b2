"""Which statements are groups, and what becomes of nests that are made into ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ocannl.ir.index import TRUE, Affine, Bound, Cond, Sym
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Body,
    Buf,
    Expr,
    For,
    MemorySpace,
    If,
    Let,
    Load,
    Local,
    Const,
    BindIndex,
    Poll,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    loop,
    row_major,
)
from ocannl.ir.names import Namer
from ocannl.ir.ops import ADD, MAX, MUL
from ocannl.ir.precision import float32, int64
from ocannl.ir.text import print_proc
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of, group_of_nest, local_buffer
from ocannl.opt.analysis.nests import nest_of


def buf(name: str, *shape: int) -> Buf:
    return Buf(name, float32, shape, row_major(shape), MemorySpace.ARENA, AccessMode.TEMP)


def sym(name: str, extent: int) -> Sym:
    return Sym(name, 0, extent - 1)


def ref(of: Buf, *at: Affine | Sym | int) -> Ref:
    return Ref(of, tuple(map(Affine.of, at)))


def load(of: Buf, *at: Affine | Sym | int) -> Load:
    return Load(ref(of, *at))


def nested(syms: tuple[Sym, ...], *body: Stmt) -> Stmt:
    for each in reversed(syms):
        body = (loop(each, body),)
    (stmt,) = body
    return stmt


X, Y, S, W = buf("x", 8), buf("y", 8), buf("s"), buf("w", 8, 8)
I, J, K, M, O = sym("i", 8), sym("j", 8), sym("k", 8), sym("m", 3), sym("o", 4)
ACC, B = local_buffer("acc", float32, ()), local_buffer("b", float32, ())
ZERO = Const(0, float32)


def lines(stmt: Stmt) -> list[str]:
    return [line.strip() for line in print_proc(Proc("it", (), (), (stmt,))).splitlines()[1:]]


def group(stmt: Stmt) -> FusionGroup:
    made = group_of(stmt, Namer())
    assert made is not None
    return made


def summed(acc: Buf = ACC, start: Expr = ZERO, over: Sym = K) -> Body:
    return Local(acc), Store(ref(acc), start), nested((over,), Update(ref(acc), ADD, load(X, over)))


# ---------------------------------------------------------------------------------------------------------------- nests


def test_a_map_is_a_group_without_sums() -> None:
    made = group(nested((I, J), Store(ref(W, J, I), load(X, I))))
    assert (made.syms, made.reductions, len(made.epilogue)) == ((I, J), (), 1)
    assert made.writes == [ref(W, J, I)] and made.reads == [ref(X, I)]


def test_a_sum_moves_into_a_register() -> None:
    stmt = nested((K, I), Update(ref(Y, I), ADD, load(W, I, K)))
    assert lines(group(stmt).stmt()) == [
        "for i in 0..8:", "local acc: f32 reg", "acc = y[i]", "for k in 0..8:", "acc += w[i, k]", "y[i] = acc",
    ]  # fmt: skip


def test_guards_go_where_their_loops_are() -> None:
    guard = Cond((Affine.of(I) - 1, Affine.of(K) - 2))
    made = group(nested((I, K), If(guard, (Update(ref(Y, I), MAX, load(W, I, K)),))))
    assert str(made.cond) == "i-1 >= 0" and str(made.reductions[0].cond) == "k-2 >= 0"


def test_with_a_start_all_cells_are_written() -> None:
    guard = Cond((Affine.of(I) - 1,))
    nest = nest_of(nested((I, K), If(guard, (Update(ref(Y, I), MAX, load(W, I, K)),))))
    assert nest is not None
    made = group_of_nest(nest, Namer(), ZERO)
    assert made is not None and made.cond == TRUE and made.reductions[0].cond == guard and made.reductions[0].init == ZERO


def test_an_update_that_meets_each_cell_once_needs_no_register() -> None:
    made = group(nested((I,), Update(ref(Y, I), ADD, load(X, I))))
    assert made.reductions == () and isinstance(made.epilogue[0], Update)
    own = group(nested((I,), Update(ref(Y, I), MUL, load(Y, I))))
    assert own.reductions == () and own.reads == [ref(Y, I)]


def test_a_statement_alone_is_a_group_of_one_cell() -> None:
    assert group(Store(ref(S), load(X, 3))).syms == ()
    assert lines(group(nested((K,), Update(ref(S), ADD, load(X, K)))).stmt())[0] == "if true:"


NO_GROUP: dict[str, Callable[[], Stmt]] = {
    "the last of several stores counts": lambda: nested((I, J), Store(ref(Y, I), load(X, J))),
    "what it reads was written by another iteration": lambda: nested((I,), Store(ref(Y, I), load(Y, 0))),
    "a running sum": lambda: nested((sym("n", 7),), Update(ref(Y, 1), ADD, load(Y, 2))),
    "a sum of what it adds to": lambda: nested((I, K), Update(ref(Y, I), ADD, load(Y, I))),
    "cells that windows share": lambda: nested((O, M, K), Update(ref(Y, Affine.of(O) + M), ADD, load(X, K))),
    "a loop over a part of its range": lambda: replace(nested((I,), Store(ref(Y, I), ZERO)), lo=Bound.lower(1)),
    "every other iteration": lambda: replace(nested((I,), Store(ref(Y, I), ZERO)), step=2),
    "two branches": lambda: If(Cond((Affine.of(I),)), (Store(ref(S), ZERO),), (Store(ref(S), load(X, 0)),)),
    "a picked place": lambda: BindIndex(K, Const(1, int64), (Store(ref(Y, K), ZERO),)),
    "a poll": lambda: nested((I,), Poll(), Store(ref(Y, I), ZERO)),
    "two loops": lambda: nested((I,), nested((J,), Store(ref(W, I, J), ZERO)), nested((K,), Store(ref(W, I, K), ZERO))),
    "a filled array": lambda: nested((I,), Local(ACC, 0), Store(ref(Y, I), load(ACC))),
    "an array that is no sum": lambda: nested((I,), Local(ACC), Store(ref(ACC), ZERO), Store(ref(Y, I), load(ACC))),
    "a sum that nothing begins": lambda: nested((I,), Local(ACC), summed()[2], Store(ref(Y, I), load(ACC))),
    "a loop behind the tail": lambda: nested((I,), *summed(), Store(ref(Y, I), load(ACC)), nested((J,), Poll())),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_GROUP)
def test_no_group(name: str) -> None:
    assert group_of(NO_GROUP[name](), Namer()) is None


# --------------------------------------------------------------------------------------------------------------- groups


def test_sums_and_what_follows() -> None:
    other = summed(B, load(Y, I), J)
    total = Apply(ADD, (load(ACC), load(B)))
    tail = Let("h", total), Store(ref(Y, I), Var("h", float32)), Update(ref(W, I, I), ADD, Var("h", float32))
    stmt = nested((I,), *summed(), *other, *tail)
    made = group(stmt)
    assert [each.acc for each in made.reductions] == [ACC, B] and made.epilogue == tail and made.syms == (I,)
    assert made.writes == [ref(Y, I), ref(W, I, I)]
    assert made.reads == [ref(X, K), ref(Y, I), ref(X, J)]  # and not of registers
    assert made.stmt() == stmt


def test_a_group_of_one_cell_is_a_block() -> None:
    stmt = If(TRUE, (*summed(), Store(ref(S), load(ACC)), Store(ref(Y, 0), load(ACC))))
    assert group(stmt).syms == () and group(stmt).stmt() == stmt


def test_names_are_new() -> None:
    nest = nest_of(nested((I, K), Update(ref(Y, I), ADD, load(W, I, K))))
    assert nest is not None
    made = group_of_nest(nest, Namer(["acc"]))
    assert made is not None and made.reductions[0].acc.name == "acc_2"
    assert isinstance(made.stmt(), For)
