"""Nests that share a loop, and rows that are kept apart: whatever shares, what is computed stays the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce as fold
from random import Random

import numpy as np
import pytest
from loop_programs.race_detector import Claims
from loop_programs.random_chains import chain

import ocannl as oc
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Call, Comp, Piece, Read, Seq, Value
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import (
    AccessMode,
    Buf,
    For,
    Load,
    Local,
    MemorySpace,
    Mode,
    Proc,
    Ref,
    Store,
    Update,
    loop,
    row_major,
)
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.stack_size import MAX_LOCAL_BYTES
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import is_parallel_loop
from ocannl.opt.analysis.substitution import replace_buffers
from ocannl.opt.fusion import hoist_parallel_loop as module
from ocannl.opt.fusion.fuse_parallel_loops import fuse_parallel_loops
from ocannl.opt.fusion.hoist_parallel_loop import hoist_parallel_loop
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.memory.pad_rows import pad_rows
from ocannl.opt.pipeline import optimize
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import difference, generate

TARGET = Capabilities(vector_bytes=16)
SHAPES = (
    "inline_producers", "fuse_epilogues", "choose_layouts", "fuse_outer_loops", "schedule",
    "eliminate_common_subexpressions", "parallelize", "insert_polls", "pad_rows",
)  # fmt: skip


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it costs, and however short loops and rows are."""
    monkeypatch.setattr(module, "_improves_locality", lambda *args: True)
    monkeypatch.setattr(hoist_parallel_loop, "__defaults__", (2, 0, 1e9))
    monkeypatch.setattr(pad_rows, "__defaults__", (8,))
    monkeypatch.setattr(machine, "L1_MIN_ASSOCIATIVITY", 1)


def merged(stages: dict[str, Proc]) -> int:
    """How many loops hold several nests, in the end."""
    return sum(isinstance(stmt, For) and len(stmt.body) > 1 for stmt in stages["fuse_parallel_loops"].body)


def local(stages: dict[str, Proc]) -> int:
    loops = [stmt for stmt in stages["fuse_parallel_loops"].body if isinstance(stmt, For)]
    return sum(isinstance(stmt, Local) and bool(stmt.buf.shape) for loop in loops for stmt in loop.body)


def test_loops_that_chains_share(always: None) -> None:
    several = single = 0
    for seed in range(150):
        random = Random(seed)
        sample = chain(random, random.randint(4, 14))
        without = frozenset(name for name in SHAPES if random.random() < 0.5)
        stages: dict[str, Proc] = {}
        proc = optimize(lower(sample.code, "step"), sample.requested, TARGET, stages.__setitem__, without)
        several, single = several + merged(stages), single + local(stages)
        text = f"chain {seed} without {sorted(without)}\n{print_proc(proc)}\n"
        claims = Claims(seed)
        try:
            verify(proc, "placed")
            got = interpret(proc, sample.arrays, on_write=claims.watch, iteration_order=claims)
        except Exception as wrong:
            raise AssertionError(f"{text}{wrong}") from wrong
        wanted = evaluate(sample.code, sample.arrays, {}, {})
        assert not claims.races, f"{text}{claims.races}"
        for node, array in got.items():
            assert np.array_equal(array, wanted.get(node, sample.arrays[node])), f"{text}{node}"
    assert several > 10
    assert single > 10


def test_loops_that_programs_of_every_kind_share(always: None) -> None:
    several = 0
    for seed in range(150):
        random = Random(seed)
        sample = generate(random, 6)
        without = frozenset(name for name in SHAPES if random.random() < 0.5)
        stages: dict[str, Proc] = {}
        proc = optimize(lower(sample.code, "step"), {}, TARGET, stages.__setitem__, without)
        several += merged(stages)
        verify(proc, "placed")
        wanted = evaluate(sample.code, sample.arrays, sample.symbols, sample.merged)
        symbols = {s: sample.symbols[s] for s in proc.syms}
        got = interpret(proc, sample.arrays, symbols, sample.merged, iteration_order=random)
        assert not difference(wanted, got, sample.tolerance), f"{seed}\n{print_proc(proc)}"
    assert several > 3


def test_the_stack_of_an_iteration_is_bounded(always: None) -> None:
    """What does not fit stays in the arena, where every iteration has its own."""
    batch, size, count = 8, 300, 12
    code: list[Comp] = []
    last = x = TNode("x", Role.PLACEHOLDER, lambda: (batch, size, size), lambda: float32)
    nodes = []
    for n in range(count):
        b, i, j = (Sym(f"{name}{n}", 0, extent - 1) for name, extent in (("b", batch), ("i", size), ("j", size)))
        at = (Affine.of(b), Affine.of(i), Affine.of(j))
        turned = (Affine.of(b), Affine.of(j), Affine.of(i))
        nodes.append(TNode(f"h{n}", Role.RESULT, lambda: (batch, size, size), lambda: float32))
        value = Call(BY_NAME["tanh"], (Read(last, turned),))
        code.append(Assign(nodes[-1], None, True, (Piece((b, i, j), at, value),)))
        last = nodes[-1]
    y = TNode("y", Role.RESULT, lambda: (batch, size, size), lambda: float32)
    b, i, j = (Sym(f"{name}_y", 0, extent - 1) for name, extent in (("b", batch), ("i", size), ("j", size)))
    at = (Affine.of(b), Affine.of(i), Affine.of(j))
    total = fold(lambda left, right: Call(BY_NAME["add"], (left, right)), [Read(node, at) for node in nodes])
    code.append(Assign(y, None, True, (Piece((b, i, j), at, total),)))
    without = frozenset({"fuse_outer_loops"})
    proc = optimize(lower(Seq(tuple(code)), "step"), {}, Capabilities(vector_bytes=64), without=without)
    verify(proc, "placed")
    blocks = [
        [inner.buf for inner in stmt.body if isinstance(inner, Local) and inner.buf.offset is not None]
        for stmt in proc.body if isinstance(stmt, For)
    ]  # fmt: skip
    ends = [max((buf.offset or 0) + buf.nbytes for buf in block) for block in blocks if block]
    assert ends and max(ends) <= MAX_LOCAL_BYTES + 64 * count
    assert x.dims and sum(buf.space is MemorySpace.ARENA and buf.nbytes > size * size for buf in proc.bufs) >= count - 4


def test_a_copy_in_another_order_stays_outside() -> None:
    """In each turn it would go through all lines of what it copies."""

    def temporary(name: str, *dims: int) -> TNode:
        temporary = TNode(name, Role.RESULT, lambda: dims, lambda: float32)
        temporary.requested.set(Placement.TEMPORARY, "oc.virtual")
        return temporary

    def put(to: TNode, value: Callable[[Sym, Sym], Value]) -> Assign:
        b, i = Sym("b", 0, 15), Sym("i", 0, 4095)
        return Assign(to, None, True, (Piece((b, i), (Affine.of(b), Affine.of(i)), value(b, i)),))

    def read(node: TNode) -> Callable[[Sym, Sym], Value]:
        return lambda b, i: Call(BY_NAME["exp"], (Read(node, (Affine.of(b), -Affine.of(i) + 4095)),))

    x = TNode("x", Role.PLACEHOLDER, lambda: (4096, 16), lambda: float32)
    y = TNode("y", Role.RESULT, lambda: (16, 4096), lambda: float32)
    copy, first, second = (temporary(name, 16, 4096) for name in ("copy", "first", "second"))
    copied = put(copy, lambda b, i: Read(x, (Affine.of(i), Affine.of(b))))
    code = Seq((copied, put(first, read(copy)), put(second, read(first)), put(y, read(second))))
    proc = hoist_parallel_loop(decide_placement(lower(code, "step"), {}), Capabilities(vector_bytes=64), min_bytes=0)
    assert [is_parallel_loop(stmt) for stmt in proc.body] == [False, True, True, True]


@pytest.mark.parametrize(("slice_kib", "shared_kib", "is_hoisted"), [
    (256, 512, True),  # an iteration fits in the cache: two slices and the shared array
    (512, 256, True),  # slices are streamed
    (2048, 0, True),
    (512, 512, False),  # all iterations would read the shared array from far away
    (4096, 0, False),
])  # fmt: skip
def test_iterations_of_hoisted_loops_fit_in_the_cache(slice_kib: int, shared_kib: int, is_hoisted: bool) -> None:
    rows = 1024
    cells, shared_cells = slice_kib * 256 // rows, max(1, shared_kib * 256 // rows)
    x = TNode("x", Role.PLACEHOLDER, lambda: (8, rows, cells), lambda: float32)
    table = TNode("table", Role.PLACEHOLDER, lambda: (rows, shared_cells), lambda: float32)
    h, y = (TNode(name, Role.RESULT, lambda: (8, rows, cells), lambda: float32) for name in "hy")
    h.requested.set(Placement.TEMPORARY, "oc.virtual")

    def nest(result: TNode, operand: TNode) -> Assign:
        b, i, j = Sym("b", 0, 7), Sym("i", 0, rows - 1), Sym("j", 0, cells - 1)
        flipped = Read(operand, (Affine.of(b), -Affine.of(i) + (rows - 1), Affine.of(j)))
        cell = Read(table, (Affine.of(i), Affine.of(j) if cells <= shared_cells else Affine((), shared_cells - 1)))
        value = Call(BY_NAME["mul"], (flipped, cell))
        return Assign(result, None, True, (Piece((b, i, j), (Affine.of(b), Affine.of(i), Affine.of(j)), value),))

    proc = decide_placement(lower(Seq((nest(h, x), nest(y, h))), "step"), {})
    proc = hoist_parallel_loop(proc, Capabilities(vector_bytes=64))
    assert [is_parallel_loop(stmt) for stmt in proc.body] == [is_hoisted] * 2


def test_the_only_loop_of_all_nests_is_left_to_vectors() -> None:
    nodes = [TNode(name, Role.RESULT, lambda: (64,), lambda: float32) for name in "xyz"]
    syms = [Sym(name, 0, 63) for name in "ij"]
    steps = [
        Assign(to, None, False, (Piece((i,), (Affine.of(i),), Read(of, (Affine.of(i),))),))
        for to, of, i in zip(nodes[1:], nodes, syms, strict=False)
    ]
    proc = decide_placement(lower(Seq(tuple(steps)), "step"), {})
    assert hoist_parallel_loop(proc, Capabilities(vector_bytes=64), min_bytes=0, max_slowdown=1e9) is proc


def test_a_loop_without_which_sums_would_be_scalar_is_not_hoisted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding guards all loops of a depthwise convolution, except that over the channels."""
    monkeypatch.setattr(machine, "MIN_HOISTED_BYTES", 0)
    x, kernel = oc.placeholder("x", b=[], o=[64, 24, 24]), oc.placeholder("kernel", b=[], o=[64, 3, 3])
    spec = "c, o[1,1]+k, p[1,1]+l; c, k, l => c, o, p"
    y = oc.einsum(spec, oc.exp(oc.einsum(spec, x, kernel)), kernel).sum()
    target = Capabilities(vector_bytes=64, vector_registers=32)
    stages: dict[str, Proc] = {}
    proc = optimize(lower(y.forward.elaborate().comp, "step"), {y.node: "kept"}, target, stages.__setitem__)
    sums = [node for stmt in proc.body for node in walk(stmt) if isinstance(node, Update) and node.op is ADD]
    loops = [node for stmt in proc.body for node in walk(stmt) if isinstance(node, For)]
    in_vectors = {id(node) for loop in loops if loop.mode is Mode.VECTORIZED for node in walk(loop)}
    assert sums and all(id(node) in in_vectors for node in sums), print_proc(stages["hoist_parallel_loop"])


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_sums_of_columns_are_left_to_vectors_along_rows(vector_bytes: int) -> None:
    """Inside a loop over the columns, which two sums could share, vectors would gather the cells of a column."""
    x, y = (oc.placeholder(name, b=[4096], o=[1024]) for name in "xy")
    sums = [oc.einsum("b|i => i", x), oc.einsum("b|i; b|i => i", x, y)]
    target = Capabilities(vector_bytes=vector_bytes, vector_registers=16)
    stages: dict[str, Proc] = {}
    code = oc.seq(*(value.forward for value in sums)).elaborate().comp
    optimize(lower(code, "step"), {value.node: "kept" for value in sums}, target, stages.__setitem__)
    assert not any(map(is_parallel_loop, stages["hoist_parallel_loop"].body)), print_proc(stages["hoist_parallel_loop"])


def test_what_a_turn_hands_on_lies_side_by_side() -> None:
    def node(name: str, role: Role) -> TNode:
        return TNode(name, role, lambda: (16, 64), lambda: float32)

    x, h, y = node("x", Role.PLACEHOLDER), node("h", Role.RESULT), node("y", Role.RESULT)
    h.requested.set(Placement.TEMPORARY, "oc.virtual")

    def put(to: TNode, of: TNode, turned: bool) -> Assign:
        b, i = Sym("b", 0, 15), Sym("i", 0, 63)
        read = Read(of, (Affine.of(b), -Affine.of(i) + 63 if turned else Affine.of(i)))
        return Assign(to, None, True, (Piece((b, i), (Affine.of(b), Affine.of(i)), Call(BY_NAME["exp"], (read,))),))

    proc = decide_placement(lower(Seq((put(h, x, False), put(y, h, True))), "step"), {})
    (temporary,) = (buf for buf in proc.bufs if buf.space is MemorySpace.ARENA)
    proc = replace_buffers(proc, {temporary: replace(temporary, strides=(1, 16))})
    after = hoist_parallel_loop(proc, Capabilities(vector_bytes=64), min_bytes=0, max_slowdown=1e9)
    assert all(map(is_parallel_loop, after.body))
    assert [buf.strides for buf in after.bufs if buf.space is MemorySpace.ARENA] == [(64, 1)]
    verify(after, "optimized")


def test_nests_before_and_after_a_sum_share_a_loop_on_each_side(always: None) -> None:
    """As those of the forward and the backward pass, between which the loss is a sum over the batch."""
    x = oc.placeholder("x", b=[8], o=[6])
    second = oc.exp(oc.exp(x))
    centered = second - second.mean()
    code = (oc.exp(centered) * centered).forward.elaborate().comp
    proc = hoist_parallel_loop(decide_placement(lower(code, "step"), {}), Capabilities(vector_bytes=64))
    verify(proc, "optimized")
    assert [is_parallel_loop(stmt) for stmt in proc.body] == [True] * 2 + [False] * 3 + [True] * 3
    fused = fuse_parallel_loops(proc)
    verify(fused, "optimized")
    assert sum(isinstance(stmt, For) and len(stmt.body) > 1 for stmt in fused.body) == 2, print_proc(fused)


def test_a_loop_that_cannot_share_keeps_its_symbol() -> None:
    """The first of three claimed loops writes cells of which no axis counts its iterations."""

    def put(of: Buf, to: Buf, name: str, digits: bool = False) -> For:
        b, i = Sym(name, 0, 7), Sym(f"{name}_i", 0, 3)
        cell = (Affine(((4, b), (1, i))),) if digits else (Affine.of(b), Affine.of(i))
        store = Store(Ref(to, cell), Load(Ref(of, (Affine.of(b), Affine.of(i)))))
        return replace(loop(b, (loop(i, (store,)),)), parallel_chunk=1)

    def kept(name: str, role: Role, *dims: int) -> Buf:
        node = TNode(name, role, lambda: dims, lambda: float32)
        access = AccessMode.IN if role is Role.PLACEHOLDER else AccessMode.OUT
        return Buf(name, float32, dims, row_major(dims), MemorySpace.GLOBAL, access, node)

    x, merged = kept("x", Role.PLACEHOLDER, 8, 4), kept("merged", Role.RESULT, 32)
    first, second = (kept(name, Role.RESULT, 8, 4) for name in ("first", "second"))
    body = (put(x, merged, "a", digits=True), put(x, first, "b"), put(first, second, "c"))
    before = Proc("step", (x, merged, first, second), (), body)
    verify(before, "optimized")
    after = fuse_parallel_loops(before)
    verify(after, "optimized")
    assert [stmt.sym.name for stmt in after.body if isinstance(stmt, For)] == ["a", "b"]
    assert len(after.body[1].body) == 2
    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    got = interpret(after, {x.node: value})
    assert all(np.array_equal(got[buf.node].reshape(8, 4), value) for buf in (merged, first, second))
