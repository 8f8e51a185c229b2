"""Splitting programs into nests, and the interface of each nest."""

from dataclasses import replace

import pytest

from ocannl.codegen import MemoryRegion, outline_nests, signature
from ocannl.codegen.outlining import MAX_STRAIGHT_LINE_STMTS
from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind
from ocannl.ir.assign import Origin
from ocannl.ir.loops import (
    AccessMode,
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


def buf(name, size=4, access=AccessMode.INOUT, offset=None):
    home = MemorySpace.GLOBAL if offset is None else MemorySpace.ARENA
    return Buf(name, float32, (size,), (1,), home, access, offset=offset)


def store(target, at=0, value=None):
    return Store(Ref(target, (A(at),)), value or Const(1, float32))


def loop_over(target, name="i"):
    i = Sym(name, 0, 3)
    return loop(i, (store(target, i),), Origin(target.name))


X, Y, Z = buf("x"), buf("y"), buf("z")


def shapes(*body):
    """The number of statements of each nest, without comments."""
    nests = outline_nests(Proc("p", (X, Y, Z), (), body))
    return [sum(not isinstance(s, Comment) for s in nest.body) for nest in nests]


def test_every_loop_nest_is_a_nest():
    assert shapes(loop_over(X), loop_over(Y), loop_over(Z)) == [1, 1, 1]


@pytest.mark.parametrize("is_parallel", [False, True])
def test_fences(is_parallel):
    """A sequential loop whose nests are executed by one thread has one fence, at its end."""
    streamed = loop(Sym("i", 0, 3), (replace(store(X), nontemporal=True),))
    second = replace(loop_over(Y), parallel_chunk=int(is_parallel))
    steps = loop(Sym("t", 0, 9, SymKind.ITERATION), (streamed, second), mode=Mode.SEQUENTIAL)
    (nest,) = outline_nests(Proc("p", (X, Y), (), (steps,)))
    assert nest.has_nontemporal_stores
    assert [callee.has_nontemporal_stores for callee in nest.callees] == [is_parallel, False]


def test_straight_line_statements_are_grouped():
    assert shapes(store(X), store(Y), loop_over(X), store(Z), store(X), store(Y)) == [2, 1, 3]
    assert shapes(*[store(X)] * (2 * MAX_STRAIGHT_LINE_STMTS + 1)) == [
        MAX_STRAIGHT_LINE_STMTS,
        MAX_STRAIGHT_LINE_STMTS,
        1,
    ]


def test_a_loop_under_a_condition_counts_as_a_loop():
    assert shapes(store(X), If(Cond((A(0),)), (loop_over(X),)), store(Y)) == [1, 1, 1]


def test_a_definition_extends_to_the_end():
    assert shapes(loop_over(X), Let("v", Const(1, float32)), loop_over(Y), store(Z, 0, Var("v", float32))) == [1, 3]
    local = Buf("l", float32, (), (), MemorySpace.LOCAL, AccessMode.TEMP)
    assert shapes(store(X), Local(local, 0), loop_over(Y), loop_over(Z)) == [4]


def test_comments_belong_to_the_next_statement():
    body = (Comment("a"), store(X), Comment("b"), Comment("c"), loop_over(Y), Comment("d"))
    pieces = outline_nests(Proc("p", (), (), body))
    assert [[s.text for s in piece.body if isinstance(s, Comment)] for piece in pieces] == [["a"], ["b", "c"]]
    assert outline_nests(Proc("p", (), (), (Comment("alone"),))) == ()
    (piece,) = outline_nests(Proc("p", (), (), (Comment("a"), loop_over(Y))))
    assert piece.body[0] == Comment("a")


def test_prefetches_belong_to_the_next_statement():
    prefetch = Prefetch(Ref(Z, (A(0),)), 4)
    assert shapes(store(X), Comment("b"), prefetch, loop_over(Y), prefetch) == [1, 2]
    (nest,) = outline_nests(Proc("p", (Y, Z), (), (prefetch, loop_over(Y))))
    assert nest.bufs == (Z, Y)


def test_empty_local_arrays_occupy_stack():
    for offset, size, wanted in ((None, 4, 0), (64, 4, 80), (64, 0, 65)):
        local = Buf("l", float32, (size,), (1,), MemorySpace.LOCAL, AccessMode.TEMP, offset=offset)
        (nest,) = outline_nests(Proc("p", (X,), (), (Local(local), loop_over(X))))
        assert nest.stack_bytes == wanted


def test_free_variables_of_a_nest():
    n, m, k, never = (Sym(name, 0, 3, SymKind.STATIC) for name in ("n", "m", "k", "never"))
    i = Sym("i", 0, 3)
    tile = Buf("tile", float32, (4,), (1,), MemorySpace.LOCAL, AccessMode.TEMP)
    value = When(Cond((A(m) - A(i),)), Load(Ref(Y, (A(i),))), IndexValue(A(k), float32))
    body = (
        Local(tile, 0),
        For(i, Bound.lower(0), Bound.upper(A(n)), (Update(Ref(tile, (A(i),)), ADD, value, Origin("t")),)),
        store(Z, 0, Load(Ref(tile, (A(0),)))),
    )
    (nest,) = outline_nests(Proc("p", (X, Y, Z), (n, m, k, never), body))
    assert nest.bufs == (Y, Z)
    assert nest.syms == (n, m, k)
    assert nest.labels == ("t",)


@pytest.mark.parametrize(
    ("blocks", "unaliased"),
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
def test_overlapping_arena_blocks_are_aliased(blocks, unaliased):
    """Offsets and sizes are in cells of 4 bytes."""
    bufs = [buf(name, size, offset=4 * offset) for name, (offset, size) in zip("abcd", blocks, strict=False)]
    (nest,) = outline_nests(Proc("p", tuple(bufs), (), tuple(store(b) for b in (X, *bufs))))
    assert {b.name for b in nest.unaliased_bufs} == {"x", *unaliased}


def test_the_arena_is_the_last_region_of_a_signature():
    n = Sym("n", 0, 3, SymKind.STATIC)
    w = Buf("w.grad\n", bfloat16, (3, 5), (8, 1), MemorySpace.GLOBAL, AccessMode.OUT)
    bufs = (
        buf("x", access=AccessMode.CONST),
        buf("t", offset=0),
        w,
        buf("m", access=AccessMode.MERGE),
        buf("p", access=AccessMode.IN),
    )
    got = signature(Proc("step", bufs, (n,), (), arena=128))
    assert (got.name, got.symbols) == ("step", 1)
    assert got.regions == (
        MemoryRegion("x", 16, False),
        MemoryRegion("w_grad", 42, True),
        MemoryRegion("m", 16, False),
        MemoryRegion("p", 16, False),
        MemoryRegion("arena", 128, True),
    )
    assert signature(Proc("step", bufs[:1], (), ())).regions == (MemoryRegion("x", 16, False),)
