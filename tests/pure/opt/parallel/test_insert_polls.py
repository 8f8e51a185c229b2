"""Long programs look often enough whether they are cancelled, and compute the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ocannl.ir.affine import Affine, Bound, Sym, SymKind
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Buf,
    Const,
    For,
    If,
    Load,
    MemorySpace,
    Mode,
    Poll,
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
from ocannl.ir.work import work
from ocannl.lower.lower import lower
from ocannl.opt.memory.allocate_memory import allocate_memory
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.pipeline import optimize
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import difference, generate


def buffer(name: str, *shape: int) -> Buf:
    node = TNode(name, Role.PLACEHOLDER, lambda: shape, lambda: float32)
    return Buf(name, float32, shape, row_major(shape), MemorySpace.GLOBAL, AccessMode.INOUT, node)


def increments(buf: Buf, stem: str) -> Stmt:
    syms = [Sym(f"{stem}{n}", 0, size - 1) for n, size in enumerate(buf.shape)]
    ref = Ref(buf, tuple(map(Affine.of, syms)))
    stmt: Stmt = Store(ref, Apply(BY_NAME["add"], (Load(ref), Const(1, float32))))
    for sym in reversed(syms):
        stmt = For(sym, Bound.lower(0), Bound.upper(sym.hi + 1), (stmt,))
    return stmt


def test_a_long_loop_is_divided_and_a_poll_stands_before_each_part() -> None:
    x = buffer("x", 9_000_000)
    before = Proc("step", (x,), (), (increments(x, "i"),))
    after = insert_polls(before)
    verify(after, "optimized")
    assert print_proc(after) == (
        "proc step\n"
        "  x : f32[9000000]  inout\n"
        "  for i0_part in 0..9000000 step 1000000:\n"
        "    poll\n"
        "    for i0 in i0_part..min(i0_part+1000000, 9000000):\n"
        "      x[i0] = x[i0] + 1\n"
    )


def test_a_long_sequential_loop_is_divided() -> None:
    x, t = buffer("x", 9_000_000), Sym("t", 0, 8_999_999, SymKind.ITERATION)
    store = Store(Ref(x, (Affine.of(t),)), Const(1, float32))
    after = insert_polls(Proc("step", (x,), (), (loop(t, (store,), mode=Mode.SEQUENTIAL),)))
    verify(after, "optimized")
    outer, inner = [node for node in walk(after.body) if isinstance(node, For)]
    assert (outer.mode, inner.mode) == (Mode.SEQUENTIAL, Mode.SEQUENTIAL)
    assert outer.step > 1000 and outer.body == (Poll(), inner)


def test_a_short_program_stays_as_it_is() -> None:
    x = buffer("x", 1000, 1000)
    before = Proc("step", (x,), (), (increments(x, "i"),))
    assert insert_polls(before) is before


def test_many_short_nests_are_apart_by_polls() -> None:
    x = buffer("x", 500, 1000)
    after = insert_polls(Proc("step", (x,), (), tuple(increments(x, f"i{n}_") for n in range(10))))
    assert ["poll" if isinstance(s, Poll) else "nest" for s in after.body] == ["nest", "nest", "poll"] * 4 + [
        "nest",
        "nest",
    ]


def longest(body: tuple[Stmt, ...]) -> int:
    """The most work that lies between two polls, one before and one after included."""
    largest = since = 0
    for stmt in body:
        match stmt:
            case Poll():
                since = 0
            case For(body=inner) if any(isinstance(s, Poll) for s in walk(inner)):
                largest = max(largest, longest(inner))
                since = 0
            case BindIndex(body=inner) if any(isinstance(s, Poll) for s in walk(inner)):
                largest = max(largest, since + longest(inner))
                since = 0
            case If(_, then, orelse) if any(isinstance(s, Poll) for s in walk(stmt)):
                largest = max(largest, longest(then), longest(orelse))
                since = 0
            case _:
                since += work((stmt,))
                largest = max(largest, since)
    return largest


@pytest.mark.parametrize("seed", range(300))
def test_random_programs_with_polls_everywhere(seed: int) -> None:
    random = Random(seed)
    program = generate(random)
    stretch = random.choice((1, 20, 50, 200))
    optional = ["eliminate_common_subexpressions", "schedule", "inline_producers"]
    skipped = frozenset(["allocate_memory", *random.sample(optional, 1)])
    proc = optimize(lower(program.code, "p"), {}, Capabilities(), without=skipped)
    proc = allocate_memory(insert_polls(proc, stretch), 64)
    verify(proc, "placed", alignment_bytes=64)
    bodies = [(s,) for s in proc.body] + [s.body for s in walk(proc.body) if isinstance(s, For)]
    straight = (body for body in bodies if not any(isinstance(s, For) for s in walk(body)))
    heaviest = max(map(work, straight), default=0)
    assert longest(proc.body) <= stretch + heaviest + 400  # what has no loops is not divided
    want = evaluate(program.code, program.arrays, program.symbols, program.merged)
    got = interpret(proc, program.arrays, program.symbols, program.merged)
    assert not difference(want, got, program.tolerance), print_proc(proc)


def test_lanes_are_not_divided() -> None:
    x = buffer("x", 4, 8)
    outer = increments(x, "i")
    assert isinstance(outer, For)
    inner = outer.body[0]
    assert isinstance(inner, For)
    rows = replace(outer, body=(replace(inner, mode=Mode.VECTORIZED),), mode=Mode.UNROLLED)
    after = insert_polls(Proc("step", (x,), (), (rows,)), 1)
    verify(after, "optimized")
    assert [line.strip() for line in print_proc(after).splitlines()[2:5]] == [
        "unrolled for i0 in 0..4:", "poll", "vectorized for i1 in 0..8:",
    ]  # fmt: skip
