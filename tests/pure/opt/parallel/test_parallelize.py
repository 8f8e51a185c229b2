"""Threads may take claimed iterations in any order."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from loop_programs.race_detector import Claims

from ocannl.base.errors import VerifyError
from ocannl.ir.affine import Affine, Bound, Sym, SymKind
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Const,
    For,
    Load,
    Local,
    MemorySpace,
    Mode,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    row_major,
)
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.memory.allocate_memory import allocate_memory
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.opt.pipeline import optimize
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import difference, generate


@pytest.mark.parametrize("seed", range(400))
def test_random_programs_with_claims_in_random_order(seed: int) -> None:
    random = Random(seed)
    program = generate(random)
    optional = ["eliminate_common_subexpressions", "schedule", "inline_producers"]
    skipped = frozenset(["parallelize", "insert_polls", "allocate_memory", *random.sample(optional, 1)])
    proc = optimize(lower(program.code, "p"), {}, Capabilities(), without=skipped)
    proc = parallelize(proc, 1, random.choice((1, 10, 100)))
    proc = allocate_memory(insert_polls(proc, random.choice((20, 10**6))), 64)
    verify(proc, "placed", alignment_bytes=64)
    want = evaluate(program.code, program.arrays, program.symbols, program.merged)
    for claims in (Claims(seed), Claims(f"other {seed}")):
        got = interpret(proc, program.arrays, program.symbols, program.merged, claims.watch, claims)
        assert not claims.races, claims.races[0]
        assert not difference(want, got, program.tolerance), print_proc(proc)


def test_most_long_nests_are_shared() -> None:
    nests = shared = 0
    for seed in range(200):
        program = generate(Random(seed))
        proc = optimize(lower(program.code, "p"), {}, Capabilities(), without=frozenset(["parallelize"]))
        proc = parallelize(proc, 1, 1)
        loops = [s for s in proc.body if isinstance(s, For) and s.sym.extent > 1]
        nests += len(loops)
        shared += sum(bool(s.parallel_chunk) for s in loops)
    assert shared > 0.6 * nests


def buffer(name: str, *shape: int) -> Buf:
    node = TNode(name, Role.PLACEHOLDER, lambda: shape, lambda: float32)
    return Buf(name, float32, shape, row_major(shape), MemorySpace.GLOBAL, AccessMode.INOUT, node)


I, J = Sym("i", 0, 4), Sym("j", 0, 4)
X, Y = buffer("x", 5, 5), buffer("y", 25)
UNIT = Const(1, float32)


def at(*terms: object) -> tuple[Affine, ...]:
    return tuple(map(Affine.of, terms))  # type: ignore[arg-type]


def over(sym: Sym, *body: Stmt) -> For:
    return For(sym, Bound.lower(0), Bound.upper(5), body)


VIEW = Buf("v", float32, (5, 5), (5, 1), MemorySpace.GLOBAL, AccessMode.IN, Y.node)
REG = Buf("acc", float32, (), (), MemorySpace.LOCAL, AccessMode.TEMP)
CASES = {
    "own rows": (over(I, over(J, Store(Ref(X, at(I, J)), UNIT))), True),
    "own columns": (over(I, over(J, Store(Ref(X, at(J, I)), UNIT))), True),
    "digits": (over(I, over(J, Store(Ref(Y, (Affine(((5, I), (1, J))),)), UNIT))), True),
    "own row, read and written": (over(I, over(J, Update(Ref(X, at(I, J)), ADD, Load(Ref(X, at(I, 0)))))), True),
    "a register": (
        over(I, Local(REG, 0), Store(Ref(REG, ()), UNIT), Store(Ref(X, at(I, 0)), Load(Ref(REG, ())))), True
    ),
    "one sum": (over(I, Update(Ref(Y, at(0)), ADD, UNIT)), False),
    "the same cell": (over(I, Store(Ref(Y, at(3)), UNIT)), False),
    "diagonals meet": (over(I, over(J, Store(Ref(Y, (Affine(((1, I), (1, J))),)), UNIT))), False),
    "the row before": (over(I, Store(Ref(X, at(I, 0)), Load(Ref(X, at(Affine(((-1, I),), 4), 0))))), False),
    "another view": (over(I, Store(Ref(Y, at(I)), Load(Ref(VIEW, at(I, 1))))), False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_only_what_is_independent_is_shared(name: str) -> None:
    stmt, independent = CASES[name]
    assert isinstance(stmt, For)
    bufs = tuple({n.ref.buf: 0 for n in walk(stmt) if isinstance(n, Store | Update | Load) and n.ref.buf is not REG})
    (loop_stmt,) = parallelize(Proc("p", bufs, (), (stmt,)), 1, 1).body
    assert isinstance(loop_stmt, For) and bool(loop_stmt.parallel_chunk) == independent
    forced = Proc("p", bufs, (), (For(stmt.sym, stmt.lo, stmt.hi, stmt.body, parallel_chunk=2),))
    if independent:
        verify(forced, "optimized")
    else:
        with pytest.raises(VerifyError, match="parallel loop `i` has a loop-carried dependence"):
            verify(forced, "optimized")


S, T = Sym("s", 0, 4, SymKind.ITERATION), Sym("t", 0, 4, SymKind.ITERATION)
SEQUENTIAL_CASES = {
    "own rows": ((over(J, Store(Ref(X, at(T, J)), UNIT)),), True),
    "the same row": ((over(J, Update(Ref(X, at(0, J)), ADD, UNIT)),), False),
    "the row before": ((over(J, Store(Ref(X, at(T, J)), Load(Ref(X, at(Affine(((-1, T),), 4), J))))),), False),
    "own rows in a parallel loop": ((replace(over(J, Store(Ref(X, at(T, J)), UNIT)), parallel_chunk=1),), True),
    "digits": ((over(S, Store(Ref(Y, (Affine(((1, S), (5, T))),)), UNIT)),), True),
    "diagonals meet": ((over(S, Store(Ref(Y, (Affine(((1, S), (1, T))),)), UNIT)),), False),
}


@pytest.mark.parametrize("name", SEQUENTIAL_CASES)
def test_independent_sequential_loops_are_shared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MIN_HOISTED_TRIPS", 5)
    body, independent = SEQUENTIAL_CASES[name]
    body = tuple([replace(s, mode=Mode.SEQUENTIAL) if isinstance(s, For) and s.sym is S else s for s in body])
    bufs = tuple({n.ref.buf: 0 for n in walk(body) if isinstance(n, Store | Update | Load)})
    proc = Proc("p", bufs, (), (replace(over(T, *body), mode=Mode.SEQUENTIAL),))
    verify(proc, "optimized")
    after = parallelize(proc, 1, 1)
    verify(after, "optimized")
    (loop_stmt,) = after.body
    assert isinstance(loop_stmt, For) and bool(loop_stmt.parallel_chunk) == independent
    assert (loop_stmt.mode is Mode.SERIAL) == independent


def test_symbols_of_parallel_loops_are_no_constants() -> None:
    inner = over(J, Store(Ref(X, at(T, J)), UNIT))
    with pytest.raises(VerifyError, match="parallel loop `t` contains symbols that are constant within nests"):
        verify(Proc("p", (X,), (), (replace(over(T, inner), parallel_chunk=1),)), "optimized")


def test_a_claimed_loop_stands_alone() -> None:
    inner = For(J, Bound.lower(0), Bound.upper(5), (Store(Ref(X, at(I, J)), UNIT),), parallel_chunk=1)
    with pytest.raises(VerifyError, match="parallel loop must be outermost in its region, with step 1"):
        verify(Proc("p", (X,), (), (over(I, inner),)), "optimized")


def test_short_nests_are_left_alone() -> None:
    value = Apply(BY_NAME["exp"], (Load(Ref(X, at(I, J))),))
    proc = Proc("p", (X,), (), (over(I, over(J, Store(Ref(X, at(I, J)), value))),))
    assert parallelize(proc) is proc
