"""What goes past the caches is whole vectors of results that the nest does not read, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ocannl.base.errors import VerifyError
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Const,
    Expr,
    Load,
    MemorySpace,
    Mode,
    Proc,
    Ref,
    Stmt,
    Store,
    loop,
    row_major,
)
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.memory.use_nontemporal_stores import use_nontemporal_stores
from ocannl.opt.pipeline import optimize
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import difference, generate


def buffer(name: str, *shape: int) -> Buf:
    node = TNode(name, Role.PLACEHOLDER, lambda: shape, lambda: float32)
    return Buf(name, float32, shape, row_major(shape), MemorySpace.GLOBAL, AccessMode.INOUT, node)


I, L = Sym("i", 0, 7), Sym("l", 0, 3)
X, Y = replace(buffer("x", 64), access=AccessMode.IN), buffer("y", 64)


def cell(buf: Buf, lane: int = 1, outer: int = 4, first: int = 0) -> Ref:
    return Ref(buf, (Affine.sum(((lane, L), (outer, I)), first),))


UNIT = Const(1, float32)


def over(ref: Ref, value: Expr = UNIT, mode: Mode = Mode.VECTORIZED) -> Stmt:
    return loop(I, (loop(L, (Store(ref, value),), mode=mode),))


def streams(stmt: Stmt) -> list[bool]:
    proc = use_nontemporal_stores(Proc("p", (X, Y), (), (stmt,)), 0, 0)
    verify(proc, "optimized")
    return [node.nontemporal for node in walk(proc.body) if isinstance(node, Store)]


CASES = {
    "vectors, one after the other": (over(cell(Y)), True),
    "every other vector": (over(cell(Y, outer=8)), True),
    "from the second vector on": (over(cell(Y, first=4)), True),
    "between two vectors": (over(cell(Y, first=2)), False),
    "vectors that overlap": (over(cell(Y, outer=6)), False),
    "every other cell": (over(cell(Y, lane=2, outer=8)), False),
    "numbers": (over(cell(Y), mode=Mode.SERIAL), False),
    "of what is read elsewhere": (over(cell(Y), Load(cell(X))), True),
    "in place": (over(cell(Y), Apply(BY_NAME["neg"], (Load(cell(Y)),))), False),
}


@pytest.mark.parametrize("name", CASES)
def test_whole_vectors_of_what_is_not_read_are_streamed(name: str) -> None:
    stmt, fits = CASES[name]
    assert streams(stmt) == [fits]
    if not fits and name != "in place":
        forced = Proc("p", (X, Y), (), (marked(stmt),))
        with pytest.raises(VerifyError, match="is not proved to write a vector that is aligned to its size"):
            verify(forced, "optimized")


@pytest.mark.parametrize(("rows", "fits"), [(8, True), (9, False)])
@pytest.mark.parametrize("lanes", [8, 16])
def test_few_lines_are_incomplete_at_a_time(rows: int, fits: bool, lanes: int) -> None:
    """Half lines of rows that are far apart, completed by the next iteration of the outer loop; or whole lines."""
    table, row, lane, half = buffer("t", rows, 64), Sym("row", 0, rows - 1), Sym("lane", 0, lanes - 1), Sym("h", 0, 3)
    target = Ref(table, (Affine.of(row), Affine.of(half) * lanes + lane))
    vectors = loop(row, (loop(lane, (Store(target, UNIT),), mode=Mode.VECTORIZED),), mode=Mode.UNROLLED)
    proc = use_nontemporal_stores(Proc("p", (table,), (), (loop(half, (vectors,)),)), 0, 0)
    assert [node.nontemporal for node in walk(proc.body) if isinstance(node, Store)] == [fits or lanes == 16]


def marked(stmt: Stmt) -> Stmt:
    match stmt:
        case Store():
            return replace(stmt, nontemporal=True)
        case _:
            return replace(stmt, body=tuple(map(marked, stmt.body)))  # type: ignore[union-attr, call-arg]


def test_a_small_nest_is_left_alone() -> None:
    proc = Proc("p", (X, Y), (), (over(cell(Y)),))
    assert use_nontemporal_stores(proc, Y.nbytes, 0) is proc


@pytest.mark.parametrize("seed", range(200))
def test_random_programs_compute_the_same(seed: int) -> None:
    program = generate(Random(seed))
    before = optimize(lower(program.code, "p"), {}, Capabilities(vector_bytes=16), without=frozenset(["insert_polls"]))
    proc = use_nontemporal_stores(before, 0, 0)
    verify(proc, "placed", alignment_bytes=64)
    want = evaluate(program.code, program.arrays, program.symbols, program.merged)
    got = interpret(proc, program.arrays, program.symbols, program.merged)
    assert not difference(want, got, program.tolerance), print_proc(proc)


def test_some_random_programs_are_streamed() -> None:
    streamed = 0
    for seed in range(60):
        before = optimize(lower(generate(Random(seed)).code, "p"), {}, Capabilities(vector_bytes=16))
        streamed += any(isinstance(n, Store) and n.nontemporal for n in walk(use_nontemporal_stores(before, 0, 0).body))
    assert streamed > 5


def test_what_others_find_in_a_cache_is_not_streamed() -> None:
    x = replace(buffer("x", 1 << 24), access=AccessMode.IN)
    for cells, wanted in ((1 << 16, False), (1 << 20, True)):
        y = buffer("y", cells)
        outer = Sym("i", 0, cells // 4 - 1)
        indices = (Affine.sum(((1, L), (4, outer)), 0),)
        copy = loop(outer, (loop(L, (Store(Ref(y, indices), Load(Ref(x, indices))),), mode=Mode.VECTORIZED),))
        proc = use_nontemporal_stores(Proc("p", (x, y), (), (copy,)), 1 << 20)
        assert [node.nontemporal for node in walk(proc.body) if isinstance(node, Store)] == [wanted]
