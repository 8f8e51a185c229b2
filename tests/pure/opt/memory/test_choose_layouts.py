"""Orders of axes: whatever is chosen computes the same."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from loop_programs.random_chains import chain

import ocannl as oc
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Call, Piece, Read, Seq
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Proc, row_major
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.analysis.fusion_group import group_of
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.fusion.fuse_epilogues import fuse_epilogues
from ocannl.opt.memory import choose_layouts as module
from ocannl.opt.memory.choose_layouts import choose_layouts
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule.plan.register_tiles import tiling_problem
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import difference, generate

TARGET = Capabilities(vector_bytes=16)
EARLY = frozenset({"allocate_memory"})


def node(name: str, *dims: int, role: Role = Role.RESULT) -> TNode:
    return TNode(name, role, lambda: dims, lambda: float32)


@pytest.fixture
def at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each order costs whatever comes."""
    random = Random(0)
    monkeypatch.setattr(module, "_cycles", lambda *args: random.random())
    monkeypatch.setattr(module, "_copy_cycles", lambda *args: 0)
    monkeypatch.setattr(module, "_lower_bound", lambda *args: 0)


@pytest.mark.slow
def test_any_order_of_any_array(at_random: None) -> None:
    turned = copied = 0
    for seed in range(150):
        sample = chain(Random(seed))
        without = EARLY | {"fuse_outer_loops"} | (frozenset() if seed % 2 else {"inline_producers", "fuse_epilogues"})
        stages: dict[str, Proc] = {}
        proc = optimize(lower(sample.code, "step"), sample.requested, TARGET, stages.__setitem__, without)
        verify(proc, "optimized")
        wanted, got = evaluate(sample.code, sample.arrays, {}, {}), interpret(proc, sample.arrays)
        for node, array in got.items():
            assert np.array_equal(array, wanted.get(node, sample.arrays[node])), f"{seed}\n{print_proc(proc)}"
        turned += sum(buf.strides != row_major(buf.shape) for buf in proc.bufs)
        before = stages["fuse_epilogues" if seed % 2 else "scatter_to_gather"]
        copied += len(stages["choose_layouts"].body) - len(before.body)
    assert turned > 50
    assert copied > 50


def test_any_order_in_programs_of_every_kind(at_random: None) -> None:
    turned = 0
    for seed in range(250):
        sample = generate(Random(seed), 6)
        proc = optimize(lower(sample.code, "step"), {}, TARGET, None, EARLY)
        verify(proc, "optimized")
        wanted = evaluate(sample.code, sample.arrays, sample.symbols, sample.merged)
        got = interpret(proc, sample.arrays, {s: sample.symbols[s] for s in proc.syms}, sample.merged)
        assert not difference(wanted, got, sample.tolerance), f"{seed}\n{print_proc(proc)}"
        turned += sum(buf.strides != row_major(buf.shape) for buf in proc.bufs)
    assert turned > 20


def test_what_two_sums_want_in_different_orders_is_copied_for_one() -> None:
    """In a step the activations meet the weights of the next layer, and their gradients."""
    batch, size = 64, 1024

    def at(*syms: Sym) -> tuple[Affine, ...]:
        return tuple(map(Affine.of, syms))

    def product(to: TNode, sizes: tuple[int, int, int], *of: tuple[TNode, str]) -> Assign:
        """Over the last of `i`, `j` and `k`, which have these sizes."""
        syms = {name: Sym(name, 0, n - 1) for name, n in zip("ijk", sizes, strict=True)}
        reads = [Read(node_read, at(*(syms[name] for name in names))) for node_read, names in of]
        loops = tuple(syms.values())
        return Assign(to, ADD, False, (Piece(loops, at(*loops[:2]), Call(BY_NAME["mul"], tuple(reads))),))

    x, w, g = (
        node(name, rows, size, role=Role.PLACEHOLDER) for name, rows in (("x", batch), ("w", size), ("g", batch))
    )
    h, y, d = node("h", batch, size), node("y", batch, size), node("d", size, size)
    h.requested.set(Placement.TEMPORARY, "oc.virtual")
    b, i = Sym("b", 0, batch - 1), Sym("i", 0, size - 1)
    code = Seq((
        Assign(h, None, True, (Piece((b, i), at(b, i), Call(BY_NAME["exp"], (Read(x, at(b, i)),))),)),
        product(y, (batch, size, size), (h, "ik"), (w, "jk")),
        product(d, (size, size, batch), (g, "ki"), (h, "kj")),
    ))  # fmt: skip
    before = fuse_epilogues(decide_placement(lower(code, "step"), {}))
    after = choose_layouts(before, Capabilities(vector_bytes=64, vector_registers=32))
    verify(after, "optimized")
    original, copy = (next(buf for buf in after.bufs if buf.name == name) for name in ("h", "h_2"))
    assert original.strides == (size, 1) and copy.strides == (1, batch)
    assert len(after.body) == len(before.body) + 1


def test_arrays_of_gathers_keep_their_layout() -> None:
    """The cost model does not see gathers, and would choose layouts for the other statements alone."""
    x = oc.placeholder("x", o=[256, 256, 16])
    y = oc.resize(x, 300, mode="nearest")
    stages: dict[str, Proc] = {}
    capabilities = Capabilities(vector_bytes=64, vector_registers=32)
    optimize(lower(y.forward.elaborate().comp, "step"), {y.node: "read"}, capabilities, stages.__setitem__, EARLY)
    bufs = stages["choose_layouts"].bufs if "choose_layouts" in stages else stages["scatter_to_gather"].bufs
    temporaries = [buf for buf in bufs if buf.shape == (300, 256, 16)]
    assert temporaries and all(buf.strides == row_major(buf.shape) for buf in temporaries)


def test_depthwise_convolutions_of_enlarged_images_read_a_copy_with_the_channels_innermost() -> None:
    """The gather that enlarges the result keeps its layout, and padding leaves no loop to vectors but the channels."""
    x, kernel = oc.placeholder("x", b=[], o=[64, 20, 20]), oc.placeholder("kernel", b=[], o=[64, 7, 7])
    small = oc.exp(x)
    large = oc.resize(small, (64, 30, 20), mode="nearest")
    convolved = oc.einsum("c, o[3,3]+k, p[3,3]+l; c, k, l => c, o, p", small, kernel)
    capabilities = Capabilities(vector_bytes=64, vector_registers=32)
    code = oc.forward(large, convolved).elaborate().comp
    stages: dict[str, Proc] = {}
    kept = {large.node: "read", convolved.node: "read"}
    optimize(lower(code, "step"), kept, capabilities, stages.__setitem__, EARLY)
    layouts = [buf.strides for buf in stages["choose_layouts"].bufs if buf.shape == (64, 20, 20)]
    assert (400, 20, 1) in layouts and any(strides[0] == 1 for strides in layouts), layouts


def test_orders_that_leave_the_outer_axis_to_the_threads_are_tried_first() -> None:
    """They win if others are not clearly faster."""
    assert [strides[0] == max(strides) for strides in module._candidate_layouts((16, 4, 64))] == [True, True, False]


@pytest.mark.parametrize(("rows", "is_transposed"), [(256, True), (4096, False)])
def test_rows_of_large_arrays_stay_contiguous(rows: int, is_transposed: bool) -> None:
    """Sums of rows are cheaper in a transposed array, but elementwise operations wait for the cells of a large one."""

    b, i = Sym("b", 0, rows - 1), Sym("i", 0, 63)
    cell = Affine.of(b), Affine.of(i)
    x, h, y = node("x", rows, 64, role=Role.PLACEHOLDER), node("h", rows, 64), node("y", rows, 64)
    s, m = node("s", rows), node("m", rows)
    h.requested.set(Placement.TEMPORARY, "oc.virtual")
    code = Seq((
        Assign(h, None, True, (Piece((b, i), cell, Call(BY_NAME["exp"], (Read(x, cell),))),)),
        *(Assign(r, op, False, (Piece((b, i), cell[:1], Read(h, cell)),)) for r, op in ((s, ADD), (m, BY_NAME["max"]))),
        Assign(y, None, True, (Piece((b, i), cell, Call(BY_NAME["mul"], (Read(h, cell), Read(s, cell[:1])))),)),
    ))  # fmt: skip
    proc = choose_layouts(decide_placement(lower(code, "step"), {}), Capabilities(vector_bytes=64, vector_registers=32))
    (strides,) = (buf.strides for buf in proc.bufs if buf.name == "h")
    assert (strides == (1, rows)) is is_transposed


B, I = Sym("b", 0, 4095), Sym("i", 0, 63)
ROW, COLUMN = Affine.of(B), Affine.of(I)


@pytest.mark.parametrize(
    ("sizes", "read", "written", "is_transposed"),
    [
        ((4096, 64), (ROW, COLUMN), (ROW, COLUMN), False),
        ((64, 4096), (COLUMN, ROW), (ROW, COLUMN), True),
        ((1 << 17,), (ROW,), (ROW, COLUMN), False),  # one cell for each row of the result
        ((1 << 17,), (ROW + COLUMN,), (ROW, COLUMN), False),
        ((4096, 64), (ROW, COLUMN), (ROW, COLUMN, Affine((), 1)), False),  # every other cell of the result
        ((64, 4096), (COLUMN, ROW), (ROW, COLUMN, Affine((), 1)), True),
        ((64, 32), (COLUMN, Affine((), 3)), (ROW, COLUMN), False),  # small
    ],
)
def test_only_large_operands_in_other_layouts_are_waited_for(
    sizes: tuple[int, ...], read: tuple[Affine, ...], written: tuple[Affine, ...], is_transposed: bool
) -> None:
    x, y = node("x", *sizes, role=Role.PLACEHOLDER), node("y", *(4096, 64, 2)[: len(written)])
    code = Assign(y, None, len(written) == 2, (Piece((B, I), written, Call(BY_NAME["exp"], (Read(x, read),))),))
    proc = decide_placement(lower(Seq((code,)), "step"), {})
    group = group_of(proc.body[-1], Namer(bound_names(proc)))
    assert group is not None
    problem = tiling_problem(group, Capabilities(vector_bytes=64, vector_registers=32))
    assert problem is not None
    assert bool(module._transposition_cycles(problem, {})) is is_transposed
