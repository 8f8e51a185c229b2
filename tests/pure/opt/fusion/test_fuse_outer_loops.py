"""Groups that share rows: whichever do, what is computed stays the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from loop_programs.random_chains import chain

import ocannl as oc
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, Buf, For, Load, MemorySpace, Mode, Proc, Ref, Store, Update, loop, row_major
from ocannl.ir.ops import ADD
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.fusion.fuse_epilogues import fuse_epilogues
from ocannl.opt.fusion.fuse_outer_loops import fuse_outer_loops
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.pipeline import optimize
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import difference, generate

TARGET = Capabilities(vector_bytes=16)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it costs."""
    monkeypatch.setattr(machine, "MAX_FUSION_SLOWDOWN", 1e9)


def test_rows_of_chains(seeds: range, always: None) -> None:
    for seed in seeds[::3]:
        random = Random(seed)
        sample = chain(random)
        lowered = lower(sample.code, "step")
        before = decide_placement(lowered, sample.requested)
        names = (
            "inline_producers", "fuse_epilogues", "choose_layouts", "schedule", "eliminate_common_subexpressions"
        )  # fmt: skip
        off = frozenset(name for name in names if random.random() < 0.3)
        after = {
            "alone": fuse_outer_loops(before, TARGET),
            "of what was fused": fuse_outer_loops(fuse_epilogues(before), TARGET),
            f"without {sorted(off)}": optimize(lowered, sample.requested, TARGET, without=off | {"allocate_memory"}),
        }
        wanted = evaluate(sample.code, sample.arrays, {}, {})
        for name, proc in after.items():
            text = f"chain {seed}, {name}\n{print_proc(before)}\n{print_proc(proc)}\n"
            try:
                verify(proc, "optimized")
                got = interpret(proc, sample.arrays, iteration_order=Random(seed))
            except Exception as wrong:
                raise AssertionError(f"{text}{wrong}") from wrong
            for node, array in got.items():
                assert np.array_equal(array, wanted.get(node, sample.arrays[node])), f"{text}{node}"


def test_rows_of_programs_of_every_kind(always: None) -> None:
    shared = 0
    for seed in range(200):
        sample = generate(Random(seed), 6)
        stages: dict[str, Proc] = {}
        proc = optimize(lower(sample.code, "step"), {}, TARGET, stages.__setitem__, frozenset({"allocate_memory"}))
        shared += len(stages["fuse_epilogues"].body) - len(stages["fuse_outer_loops"].body)
        verify(proc, "optimized")
        wanted = evaluate(sample.code, sample.arrays, sample.symbols, sample.merged)
        got = interpret(proc, sample.arrays, {s: sample.symbols[s] for s in proc.syms}, sample.merged)
        assert not difference(wanted, got, sample.tolerance), f"{seed}\n{print_proc(proc)}"
    assert shared > 20


GRID = Capabilities(wants_schedule=False, wants_fusion_groups=True)


def test_rows_of_chains_for_programs_of_a_grid(seeds: range) -> None:
    for seed in seeds[::3]:
        sample = chain(Random(seed))
        wanted = evaluate(sample.code, sample.arrays, {}, {})
        proc = optimize(lower(sample.code, "step"), sample.requested, GRID)
        verify(proc, "placed", alignment_bytes=GRID.alignment_bytes)
        for node, array in interpret(proc, sample.arrays).items():
            want = wanted.get(node, sample.arrays[node])
            assert np.array_equal(array, want), f"chain {seed}\n{print_proc(proc)}\n{node}"


def test_programs_of_a_grid_share_rows_and_take_tiles_of_products() -> None:
    x, w = oc.tensor(np.ones((40, 33), np.float32), batch_axes=1), oc.param("w", o=[33])
    y = oc.softmax(w @ x)
    proc = optimize(lower(y.forward.elaborate().comp, "step"), {y.node: "kept"}, GRID)
    product, softmax = (stmt for stmt in proc.body if isinstance(stmt, For))
    assert len(loops_of(product)) == 3 and len(loops_of(softmax)) > 3
    assert len({loop.sym for loop in loops_of(softmax) if loop.sym.extent == 40}) == 1


def loops_of(stmt: For) -> list[For]:
    return [node for node in walk(stmt) if isinstance(node, For)]


def test_a_claimed_loop_takes_no_update_that_meets_cells_in_several_iterations(always: None) -> None:
    """As the gradient of a dilated convolution whose stride has a divisor in common with its dilation."""

    def kept(name: str, access: AccessMode, *dims: int) -> Buf:
        node = TNode(name, Role.STATE, lambda: dims, lambda: float32)
        return Buf(name, float32, dims, row_major(dims), MemorySpace.GLOBAL, access, node)

    x, h, z = kept("x", AccessMode.IN, 8, 4), kept("h", AccessMode.OUT, 8, 4), kept("z", AccessMode.INOUT, 18, 4)
    b, i, o, k, j = (Sym(name, 0, size - 1) for name, size in zip("biokj", (8, 4, 8, 2, 4), strict=True))
    store = Store(Ref(h, (Affine.of(b), Affine.of(i))), Load(Ref(x, (Affine.of(b), Affine.of(i)))))
    cell = Ref(z, (Affine(((2, k), (2, o))), Affine.of(j)))
    update = Update(cell, ADD, Load(Ref(h, (Affine.of(o), Affine.of(j)))))
    first = replace(loop(b, (loop(i, (store,)),)), parallel_chunk=1)
    before = Proc("step", (x, h, z), (), (first, loop(o, (loop(k, (loop(j, (update,)),)),))))
    verify(before, "optimized")
    verify(fuse_outer_loops(before, TARGET), "optimized")
    update = replace(update, ref=replace(cell, indices=(Affine.of(o), Affine.of(j))))
    before = Proc("step", (x, h, z), (), (first, loop(o, (loop(j, (update,)),))))
    after = fuse_outer_loops(before, TARGET)
    verify(after, "optimized")
    assert len(after.body) == 1


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [3, 5, 7])
def test_depthwise_convolutions_are_not_fused_into_scalar_loops(size: int, stride: int) -> None:
    """The copy of the kernel stays apart from the convolution, whose sums could not be vectorized in a shared loop."""
    x = oc.tensor(np.ones((1, 88, 6, 48), "float32"), label="x")
    kernel = oc.tensor(np.ones((88, size, size), "float32"), label="kernel")
    margins = f"[{size // 2},{size // 2}]"
    windows = f"{stride}*o{margins}+k, {stride}*p{margins}+l"
    y = oc.einsum(f"n, g, {windows}; g, k, l => n, g, o, p", x, kernel)
    target = Capabilities(vector_bytes=64, vector_registers=32)
    proc = optimize(lower(y.forward.elaborate().comp, "step"), {y.node: "kept"}, target)
    loops = [node for stmt in proc.body for node in walk(stmt) if isinstance(node, For)]
    in_vectors = {id(node) for loop in loops if loop.mode is Mode.VECTORIZED for node in walk(loop)}
    sums = [node for stmt in proc.body for node in walk(stmt) if isinstance(node, Update) and node.op is ADD]
    assert sums and all(id(node) in in_vectors for node in sums)
