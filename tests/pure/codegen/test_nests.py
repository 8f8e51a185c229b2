"""Programs cut into functions, and what each needs."""

import pytest

from ocannl.codegen import Region, nests, signature
from ocannl.codegen.nests import STRAIGHT
from ocannl.ir.assign import Origin
from ocannl.ir.index import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.loops import (
    Access,
    Buf,
    Comment,
    For,
    Home,
    Idx,
    If,
    Let,
    Load,
    Local,
    Num,
    Prefetch,
    Proc,
    Ref,
    Store,
    Update,
    Var,
    When,
    loop,
)
from ocannl.ir.ops import ADD
from ocannl.ir.precision import bfloat16, float32

A = Affine.of


def buf(name, size=4, access=Access.INOUT, offset=None):
    home = Home.POOL if offset is None else Home.ARENA
    return Buf(name, float32, (size,), (1,), home, access, offset=offset)


def put(target, at=0, value=None):
    return Store(Ref(target, (A(at),)), value or Num(1, float32))


def each(target, name="i"):
    i = Sym(name, 0, 3)
    return loop(i, (put(target, i),), Origin(target.name))


X, Y, Z = buf("x"), buf("y"), buf("z")


def shapes(*body):
    """How many statements each nest holds, comments apart."""
    return [sum(not isinstance(s, Comment) for s in nest.body) for nest in nests(Proc("p", (X, Y, Z), (), body))]


def test_every_loop_nest_is_a_piece():
    assert shapes(each(X), each(Y), each(Z)) == [1, 1, 1]


def test_statements_without_loops_go_together():
    assert shapes(put(X), put(Y), each(X), put(Z), put(X), put(Y)) == [2, 1, 3]
    assert shapes(*[put(X)] * (2 * STRAIGHT + 1)) == [STRAIGHT, STRAIGHT, 1]


def test_a_loop_under_a_condition_counts_as_a_loop():
    assert shapes(put(X), If(Cond((A(0),)), (each(X),)), put(Y)) == [1, 1, 1]


def test_a_definition_reaches_to_the_end():
    assert shapes(each(X), Let("v", Num(1, float32)), each(Y), put(Z, 0, Var("v", float32))) == [1, 3]
    local = Buf("l", float32, (), (), Home.REG, Access.TEMP)
    assert shapes(put(X), Local(local, 0), each(Y), each(Z)) == [4]


def test_comments_stand_before_what_they_speak_of():
    parts = nests(Proc("p", (), (), (Comment("a"), put(X), Comment("b"), Comment("c"), each(Y), Comment("d"))))
    assert [[s.text for s in part.body if isinstance(s, Comment)] for part in parts] == [["a"], ["b", "c"]]
    assert nests(Proc("p", (), (), (Comment("alone"),))) == ()
    (part,) = nests(Proc("p", (), (), (Comment("a"), each(Y))))
    assert part.body[0] == Comment("a")


def test_what_is_fetched_ahead_goes_with_what_follows():
    fetch = Prefetch(Ref(Z, (A(0),)), 4)
    assert shapes(put(X), Comment("b"), fetch, each(Y), fetch) == [1, 2]
    (nest,) = nests(Proc("p", (Y, Z), (), (fetch, each(Y))))
    assert nest.bufs == (Z, Y)


def test_local_arrays_have_a_place_even_if_they_are_empty():
    for offset, size, wanted in ((None, 4, 0), (64, 4, 80), (64, 0, 65)):
        local = Buf("l", float32, (size,), (1,), Home.REG, Access.TEMP, offset=offset)
        (nest,) = nests(Proc("p", (X,), (), (Local(local), each(X))))
        assert nest.stack_bytes == wanted


def test_a_nest_knows_what_it_needs():
    n, m, k, never = (Sym(name, 0, 3, SymKind.STATIC) for name in ("n", "m", "k", "never"))
    i = Sym("i", 0, 3)
    tile = Buf("tile", float32, (4,), (1,), Home.REG, Access.TEMP)
    value = When(Cond((A(m) - A(i),)), Load(Ref(Y, (A(i),))), Idx(A(k), float32))
    body = (
        Local(tile, 0),
        For(i, Bound.lower(0), Bound.upper(A(n)), (Update(Ref(tile, (A(i),)), ADD, value, Origin("t")),)),
        put(Z, 0, Load(Ref(tile, (A(0),)))),
    )
    (nest,) = nests(Proc("p", (X, Y, Z), (n, m, k, never), body))
    assert nest.bufs == (Y, Z)
    assert nest.syms == (n, m, k)
    assert nest.labels == ("t",)


@pytest.mark.parametrize(
    ("blocks", "apart"),
    [
        ([(0, 16), (64, 16)], "ab"),
        ([(0, 16), (60, 16), (64, 16)], "a"),
        ([(0, 64), (16, 4), (32, 4), (256, 4)], "d"),
        ([(32, 4), (0, 64), (64, 4)], "c"),
        ([(0, 4), (16, 0), (16, 8)], "abc"),
        ([(0, 4), (4, 4)], "ab"),
        ([(0, 5), (4, 4)], ""),
    ],
)
def test_blocks_of_the_arena_that_share_bytes_are_not_apart(blocks, apart):
    """Places and sizes are given in cells of four bytes."""
    bufs = [buf(name, size, offset=4 * offset) for name, (offset, size) in zip("abcd", blocks, strict=False)]
    (nest,) = nests(Proc("p", tuple(bufs), (), tuple(put(b) for b in (X, *bufs))))
    assert {b.name for b in nest.disjoint} == {"x", *apart}


def test_the_signature_lists_pools_and_then_the_arena():
    n = Sym("n", 0, 3, SymKind.STATIC)
    w = Buf("w.grad\n", bfloat16, (3, 5), (8, 1), Home.POOL, Access.OUT)
    bufs = (
        buf("x", access=Access.CONST),
        buf("t", offset=0),
        w,
        buf("m", access=Access.MERGE),
        buf("p", access=Access.IN),
    )
    got = signature(Proc("step", bufs, (n,), (), arena=128))
    assert (got.name, got.symbols) == ("step", 1)
    assert got.regions == (
        Region("x", 16, False),
        Region("w_grad", 42, True),
        Region("m", 16, False),
        Region("p", 16, False),
        Region("arena", 128, True),
    )
    assert signature(Proc("step", bufs[:1], (), ())).regions == (Region("x", 16, False),)
