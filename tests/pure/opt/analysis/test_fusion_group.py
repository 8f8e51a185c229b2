"""Which statements are groups, and what becomes of nests that are result into ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ocannl.ir.affine import TRUE, Affine, Bound, Cond, Sym
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Body,
    Buf,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Local,
    MemorySpace,
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
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, MAX, MUL
from ocannl.ir.precision import float32, int64
from ocannl.ir.printer import print_proc
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
    for sym in reversed(syms):
        body = (loop(sym, body),)
    (stmt,) = body
    return stmt


X, Y, S, W = buf("x", 8), buf("y", 8), buf("s"), buf("w", 8, 8)
I, J, K, M, O = sym("i", 8), sym("j", 8), sym("k", 8), sym("m", 3), sym("o", 4)
ACC, B = local_buffer("acc", float32, ()), local_buffer("b", float32, ())
ZERO = Const(0, float32)


def lines(stmt: Stmt) -> list[str]:
    return [line.strip() for line in print_proc(Proc("p", (), (), (stmt,))).splitlines()[1:]]


def group(stmt: Stmt) -> FusionGroup:
    result = group_of(stmt, Namer())
    assert result is not None
    return result


def summed(acc: Buf = ACC, init: Expr = ZERO, over: Sym = K) -> Body:
    return Local(acc), Store(ref(acc), init), nested((over,), Update(ref(acc), ADD, load(X, over)))


# ---------------------------------------------------------------------------------------------------------------- nests


def test_a_map_is_a_group_without_reductions() -> None:
    result = group(nested((I, J), Store(ref(W, J, I), load(X, I))))
    assert (result.syms, result.reductions, len(result.epilogue)) == ((I, J), (), 1)
    assert result.writes == [ref(W, J, I)] and result.reads == (ref(X, I),)


def test_a_reduction_accumulates_in_a_register() -> None:
    stmt = nested((K, I), Update(ref(Y, I), ADD, load(W, I, K)))
    assert lines(group(stmt).stmt()) == [
        "for i in 0..8:", "local acc: f32", "acc = y[i]", "for k in 0..8:", "acc += w[i, k]", "y[i] = acc",
    ]  # fmt: skip


def test_guards_are_split_between_parallel_and_reduction_loops() -> None:
    guard = Cond((Affine.of(I) - 1, Affine.of(K) - 2))
    result = group(nested((I, K), If(guard, (Update(ref(Y, I), MAX, load(W, I, K)),))))
    assert str(result.cond) == "i-1 >= 0" and str(result.reductions[0].cond) == "k-2 >= 0"


def test_with_an_initial_value_all_cells_are_written() -> None:
    guard = Cond((Affine.of(I) - 1,))
    nest = nest_of(nested((I, K), If(guard, (Update(ref(Y, I), MAX, load(W, I, K)),))))
    assert nest is not None
    result = group_of_nest(nest, Namer(), ZERO)
    assert result is not None and result.cond == TRUE
    assert result.reductions[0].cond == guard and result.reductions[0].init == ZERO


def test_an_update_without_reduction_needs_no_register() -> None:
    result = group(nested((I,), Update(ref(Y, I), ADD, load(X, I))))
    assert result.reductions == () and isinstance(result.epilogue[0], Update)
    self_update = group(nested((I,), Update(ref(Y, I), MUL, load(Y, I))))
    assert self_update.reductions == () and self_update.reads == (ref(Y, I),)


def test_a_single_statement_is_a_group_without_loops() -> None:
    assert group(Store(ref(S), load(X, 3))).syms == ()
    assert lines(group(nested((K,), Update(ref(S), ADD, load(X, K)))).stmt())[0] == "scope:"


NO_GROUP: dict[str, Callable[[], Stmt]] = {
    "several stores to one cell": lambda: nested((I, J), Store(ref(Y, I), load(X, J))),
    "a read of a cell that another iteration writes": lambda: nested((I,), Store(ref(Y, I), load(Y, 0))),
    "a prefix sum": lambda: nested((sym("n", 7),), Update(ref(Y, 1), ADD, load(Y, 2))),
    "a reduction that reads its target": lambda: nested((I, K), Update(ref(Y, I), ADD, load(Y, I))),
    "overlapping windows": lambda: nested((O, M, K), Update(ref(Y, Affine.of(O) + M), ADD, load(X, K))),
    "a partial loop": lambda: replace(nested((I,), Store(ref(Y, I), ZERO)), lo=Bound.lower(1)),
    "a strided loop": lambda: replace(nested((I,), Store(ref(Y, I), ZERO)), step=2),
    "two branches": lambda: If(Cond((Affine.of(I),)), (Store(ref(S), ZERO),), (Store(ref(S), load(X, 0)),)),
    "an indirect index": lambda: BindIndex(K, Const(1, int64), (Store(ref(Y, K), ZERO),)),
    "a poll": lambda: nested((I,), Poll(), Store(ref(Y, I), ZERO)),
    "two loops": lambda: nested((I,), nested((J,), Store(ref(W, I, J), ZERO)), nested((K,), Store(ref(W, I, K), ZERO))),
    "an initialized local array": lambda: nested((I,), Local(ACC, 0), Store(ref(Y, I), load(ACC))),
    "a local array": lambda: nested((I,), Local(ACC), Store(ref(ACC), ZERO), Store(ref(Y, I), load(ACC))),
    "a reduction without initial value": lambda: nested((I,), Local(ACC), summed()[2], Store(ref(Y, I), load(ACC))),
    "a loop after the epilogue": lambda: nested((I,), *summed(), Store(ref(Y, I), load(ACC)), nested((J,), Poll())),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_GROUP)
def test_unsupported_statements_are_no_groups(name: str) -> None:
    assert group_of(NO_GROUP[name](), Namer()) is None


# --------------------------------------------------------------------------------------------------------------- groups


def test_reductions_with_an_epilogue() -> None:
    second = summed(B, load(Y, I), J)
    total = Apply(ADD, (load(ACC), load(B)))
    epilogue = Let("h", total), Store(ref(Y, I), Var("h", float32)), Update(ref(W, I, I), ADD, Var("h", float32))
    stmt = nested((I,), *summed(), *second, *epilogue)
    result = group(stmt)
    assert [reduction.acc for reduction in result.reductions] == [ACC, B]
    assert result.epilogue == epilogue and result.syms == (I,)
    assert result.writes == [ref(Y, I), ref(W, I, I)]
    assert result.reads == (ref(X, K), ref(Y, I), ref(X, J))  # without accumulators
    assert result.stmt() == stmt


def test_a_group_without_loops_is_a_block() -> None:
    stmt = If(TRUE, (*summed(), Store(ref(S), load(ACC)), Store(ref(Y, 0), load(ACC))))
    assert group(stmt).syms == () and group(stmt).stmt() == stmt


def test_names_are_fresh() -> None:
    nest = nest_of(nested((I, K), Update(ref(Y, I), ADD, load(W, I, K))))
    assert nest is not None
    result = group_of_nest(nest, Namer(["acc"]))
    assert result is not None and result.reductions[0].acc.name == "acc_2"
    assert isinstance(result.stmt(), For)
