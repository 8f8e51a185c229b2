"""Reductions whose terms hoisted loops produce: partial sums of an iteration, in the loop of their operands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from loop_programs.race_detector import Claims

import ocannl as oc
from ocannl import train
from ocannl.ir.accesses import memory_accesses
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Call, Comp, Piece, Read, Seq, Value
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import For, Proc
from ocannl.ir.ops import ADD, BY_NAME, MAX, Op
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.substitution import replace_buffers
from ocannl.opt.fusion import hoist_parallel_loop as hoist_module
from ocannl.opt.fusion.fuse_epilogues import fuse_epilogues
from ocannl.opt.fusion.fuse_parallel_loops import fuse_parallel_loops
from ocannl.opt.fusion.hoist_parallel_loop import hoist_parallel_loop
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.memory.use_nontemporal_stores import use_nontemporal_stores
from ocannl.opt.parallel import privatize_reductions as module
from ocannl.opt.parallel.privatize_reductions import privatize_reductions
from ocannl.opt.parallel.split_reductions import split_reductions
from ocannl.opt.pipeline import optimize, passes
from ocannl.opt.schedule.schedule import schedule
from ocannl.testing.evaluate import evaluate

TARGET = Capabilities(vector_bytes=16)
ITEMS, ROWS, INPUTS, OUTPUTS = 8, 24, 4, 6


def node(label: str, *dims: int, role: Role = Role.RESULT) -> TNode:
    return TNode(label, role, lambda: dims, lambda: float32)


def data(label: str, *dims: int) -> TNode:
    return node(label, *dims, role=Role.PLACEHOLDER)


def temporary(label: str, *dims: int) -> TNode:
    built = node(label, *dims)
    built.requested.set(Placement.TEMPORARY, "oc.virtual")
    return built


def syms(**extents: int) -> tuple[Sym, ...]:
    return tuple(Sym(name, 0, extent - 1) for name, extent in extents.items())


def at(*indices: Affine | Sym | int) -> tuple[Affine, ...]:
    return tuple(map(Affine.of, indices))


def apply(name: str, *args: Value) -> Value:
    return Call(BY_NAME[name], args)


def cells(result: TNode, operand: TNode) -> Assign:
    """The squares of all cells."""
    over = tuple(Sym("bri"[n], 0, extent - 1) for n, extent in enumerate(operand.dims))
    value = apply("mul", Read(operand, at(*over)), Read(operand, at(*over)))
    return Assign(result, None, True, (Piece(over, at(*over), value),))


def weight_gradient(result: TNode, x: TNode, gradient: TNode, op: Op = ADD) -> Assign:
    """`result[o, i]`, a reduction over items `b` and rows `r`."""
    o, i, b, r = syms(o=gradient.dims[-1], i=x.dims[-1], b=x.dims[0], r=x.dims[1])
    product = apply("mul", Read(gradient, at(b, r, o)), Read(x, at(b, r, i)))
    return Assign(result, op, True, (Piece((o, i, b, r), at(o, i), product),))


def hoisted(*code: Comp, items: int = ITEMS) -> Proc:
    """The fused program, with the outermost loops over items as `hoist_parallel_loop` marks them."""
    proc = fuse_epilogues(decide_placement(lower(Seq(code), "step"), {}))
    marked = [
        replace(stmt, parallel_chunk=1) if isinstance(stmt, For) and stmt.sym.extent == items else stmt
        for stmt in proc.body
    ]
    return replace(proc, body=tuple(marked))


def privatized(before: Proc, min_operand_bytes: int = 0) -> Proc:
    """The program after the pass, with equal results."""
    after = privatize_reductions(before, min_operand_bytes)
    verify(after, "optimized")
    random = np.random.default_rng(0)
    arrays = {b.node: random.integers(-3, 4, b.node.dims).astype("f4") for b in before.bufs if b.node is not None}
    wanted, got = interpret(before, arrays), interpret(after, arrays)
    for buf in before.bufs:
        if buf.node is not None and buf.access.value in ("out", "inout"):
            np.testing.assert_array_equal(got[buf.node], wanted[buf.node])
    return after


def part_shapes(proc: Proc) -> list[tuple[int, ...]]:
    return [buf.shape for buf in proc.bufs if buf.name.endswith("_parts")]


def backward_pass(op: Op = ADD, rows: int = ROWS, items: int = ITEMS) -> tuple[Comp, ...]:
    """Activations and their gradients, item by item, and the gradient of a weight."""
    x, g = data("x", items, rows, INPUTS), data("g", items, rows, OUTPUTS)
    h, dh = temporary("h", *x.dims), temporary("dh", *g.dims)
    return cells(h, x), cells(dh, g), weight_gradient(node("w_grad", OUTPUTS, INPUTS), h, dh, op)


def test_the_gradient_of_a_weight_is_summed_item_by_item() -> None:
    proc = privatized(hoisted(*backward_pass()))
    assert part_shapes(proc) == [(ITEMS, OUTPUTS, INPUTS)], print_proc(proc)
    fused = fuse_parallel_loops(proc)
    loop, final_sum = fused.body
    assert isinstance(loop, For)
    assert loop.sym.extent == ITEMS, print_proc(fused)
    assert isinstance(final_sum, For)
    assert [buf.name for buf in fused.bufs if buf.access.value == "temp"] == ["w_grad_parts"], print_proc(fused)


def test_reductions_by_maximum() -> None:
    assert part_shapes(privatized(hoisted(*backward_pass(MAX)))) == [(ITEMS, OUTPUTS, INPUTS)]


@pytest.mark.parametrize(("rows", "is_split"), [(3, True), (2, False)])
def test_partial_sums_are_smaller_than_the_operands(rows: int, is_split: bool) -> None:
    """An item has 24 partial sums, and a row of its operands 10 cells: three rows are larger, two are smaller."""
    assert bool(part_shapes(privatized(hoisted(*backward_pass(rows=rows))))) is is_split


def test_small_operands_are_left() -> None:
    operand_bytes = ITEMS * ROWS * (INPUTS + OUTPUTS) * 4
    before = hoisted(*backward_pass())
    assert part_shapes(privatized(before, operand_bytes))
    assert privatize_reductions(before, operand_bytes + 1) is before


def reduced(*indices: str, over: str, operand: TNode, result_dims: Iterable[int]) -> Assign:
    """A sum of the operand's cells, with loops in the order of `over`."""
    extents = dict(zip("bri", operand.dims, strict=False))
    loops = {name: Sym(name, 0, extents[name] - 1) for name in over}
    value = Read(operand, at(*(loops[name] for name in "bri"[: len(operand.dims)])))
    result = node("total", *result_dims)
    return Assign(result, ADD, True, (Piece(tuple(loops.values()), at(*(loops[n] for n in indices)), value),))


@pytest.mark.parametrize(("indices", "over"), [
    ((), "bri"),  # a scalar
    (("r", "i"), "rib"),  # only the loop over items is reduced: parts would be copies of the operand
    (("b", "i"), "bir"),  # a sum over rows, which is hoisted itself
])  # fmt: skip
def test_reductions_that_do_not_shrink_the_slice_of_an_iteration(indices: tuple[str, ...], over: str) -> None:
    x = data("x", ITEMS, ROWS, INPUTS)
    h = temporary("h", *x.dims)
    dims = dict(zip("bri", x.dims, strict=True))
    total = reduced(*indices, over=over, operand=h, result_dims=[dims[name] for name in indices])
    before = hoisted(cells(h, x), cells(node("y", *x.dims), h), total)
    assert privatize_reductions(before, 0) is before, print_proc(before)


def test_operands_that_no_hoisted_loop_produces() -> None:
    x, g = data("x", ITEMS, ROWS, INPUTS), data("g", ITEMS, ROWS, OUTPUTS)
    h = temporary("h", *x.dims)
    before = hoisted(cells(h, x), cells(node("y", *x.dims), h), weight_gradient(node("w", OUTPUTS, INPUTS), x, g))
    assert privatize_reductions(before, 0) is before


def test_operands_that_another_nest_changes() -> None:
    """The last row of the first item is written outside of the hoisted loops."""
    x, g = data("x", ITEMS, ROWS, INPUTS), data("g", ITEMS, ROWS, OUTPUTS)
    h = temporary("h", *x.dims)
    (i,) = syms(i=INPUTS)
    changed = Assign(h, None, False, (Piece((i,), at(0, ROWS - 1, i), Read(x, at(1, 0, i))),))
    code = cells(h, x), cells(node("y", *x.dims), h), changed, weight_gradient(node("w", OUTPUTS, INPUTS), h, g)
    before = hoisted(*code)
    assert privatize_reductions(before, 0) is before, print_proc(before)


def test_mixed_operands() -> None:
    """The first stage could not join the loop that produces the other operand."""
    code = backward_pass()
    before = hoisted(*code)
    position = next(n for n, stmt in enumerate(before.body) if "dh" in print_proc(replace(before, body=(stmt,))))
    body = list(before.body)
    stmt = body[position]
    assert isinstance(stmt, For)
    body[position] = replace(stmt, parallel_chunk=0)
    before = replace(before, body=tuple(body))
    assert privatize_reductions(before, 0) is before, print_proc(before)


@pytest.mark.parametrize(("items", "is_split"), [(64, True), (65, False)])
def test_the_number_of_parts_is_limited(items: int, is_split: bool) -> None:
    """The bound on the errors of sums holds for at most 64 parts."""
    before = hoisted(*backward_pass(items=items), items=items)
    assert bool(part_shapes(privatized(before))) is is_split


def test_a_part_of_the_iterations() -> None:
    x, g = data("x", ITEMS, ROWS, INPUTS), data("g", ITEMS, ROWS, OUTPUTS)
    h, dh, w_grad = temporary("h", *x.dims), temporary("dh", *g.dims), node("w_grad", OUTPUTS, INPUTS)
    o, i, r = syms(o=OUTPUTS, i=INPUTS, r=ROWS)
    b = Sym("b", 1, ITEMS - 1)
    product = apply("mul", Read(dh, at(b, r, o)), Read(h, at(b, r, i)))
    gradient = Assign(w_grad, ADD, True, (Piece((o, i, b, r), at(o, i), product),))
    before = hoisted(cells(h, x), cells(dh, g), gradient)
    assert privatize_reductions(before, 0) is before, print_proc(before)


def test_slices_that_are_not_contiguous() -> None:
    """The loop over rows is hoisted: it indexes the second axis."""
    before = hoisted(*backward_pass())
    strides = {4 * ROWS: (4, 4 * ITEMS, 1), 6 * ROWS: (6, 6 * ITEMS, 1)}
    bufs = {buf: replace(buf, strides=strides[buf.strides[0]]) for buf in before.bufs if buf.name in ("h", "dh")}
    before = replace_buffers(before, bufs)
    assert privatize_reductions(before, 0) is before, print_proc(before)


def test_slices_that_are_too_large_for_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    before, slice_bytes = hoisted(*backward_pass()), ROWS * (INPUTS + OUTPUTS) * 4
    monkeypatch.setattr(module, "MAX_LOCAL_BYTES", slice_bytes)
    assert part_shapes(privatized(before))
    monkeypatch.setattr(module, "MAX_LOCAL_BYTES", slice_bytes - 1)
    assert privatize_reductions(before, 0) is before


def test_partial_sums_are_not_split_again() -> None:
    """The second stage of a split reduction has few terms, which are cells of a temporary."""
    proc = privatized(hoisted(*backward_pass()))
    assert part_shapes(split_reductions(proc, 1)) == [(ITEMS, OUTPUTS, INPUTS)]


def test_arrays_of_hoisted_loops_are_not_stored_past_the_caches() -> None:
    """A later nest of the iteration reads them; other results of the same size are."""
    x, y = data("x", ITEMS, ROWS, 64), node("y", ITEMS, ROWS, 64)
    h = temporary("h", *x.dims)
    proc = schedule(hoisted(cells(h, x), cells(y, h)), Capabilities(vector_bytes=64))
    text = print_proc(use_nontemporal_stores(proc, 64, 0))
    assert "nontemporal y" in text, text
    assert "nontemporal h" not in text, text


def test_programs_without_hoisted_loops() -> None:
    proc = fuse_epilogues(decide_placement(lower(Seq(backward_pass()), "step"), {}))
    assert privatize_reductions(proc, 0) is proc


def test_a_training_step_is_one_loop_over_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single loop contains the forward pass, the backward pass and the gradients of weights, although the number of
    labels that are no padding is known at run time only. The losses and the sums of each item outlast it."""
    monkeypatch.setattr(machine, "MIN_HOISTED_BYTES", 1 << 12)
    monkeypatch.setattr(machine, "MIN_SPLIT_OPERAND_BYTES", 1 << 10)
    batch, tokens, width = 16, 32, 8
    random = np.random.default_rng(0)
    x = oc.placeholder("x", b=[batch, tokens], o=[width])
    labels = oc.placeholder("labels", b=[batch, tokens], o=[], dtype=oc.int32)
    w, v = (oc.param(label, random.standard_normal((width, width)).astype("f4"), i=[width]) for label in "wv")
    loss = oc.cross_entropy(v @ oc.tanh(w @ x), labels).mean()
    code = oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)).elaborate().comp
    stages: dict[str, Proc] = {}
    proc = optimize(lower(code, "step"), {loss.node: "kept"}, TARGET, stages.__setitem__)
    fused = stages["fuse_parallel_loops"]
    temporaries = [buf for buf in fused.bufs if buf.access.value == "temp"]
    assert [buf.name for buf in temporaries if buf.shape[:2] == (batch, tokens)] == ["pick"], print_proc(fused)
    assert part_shapes(fused) == [(batch, width, width)] * 2
    verify(proc, "placed", alignment_bytes=TARGET.alignment_bytes)


def random_step(random: Random) -> tuple[oc.Tensor, oc.Code, dict[TNode, np.ndarray]]:
    """A loss, its gradients for all weights and biases, and small integers as inputs, whose sums are exact."""
    batch, tokens, width = random.randint(2, 9), random.randint(3, 8), random.randint(1, 3)
    arrays = np.random.default_rng(random.randrange(1 << 30))
    h = x = oc.placeholder("x", b=[batch, tokens], o=[width])
    params: list[oc.Tensor] = []
    for n in range(random.randint(1, 3)):
        outputs = random.randint(1, 3)
        w = oc.param(f"w{n}", np.zeros((outputs, width), "f4"), i=[width])
        bias = oc.param(f"bias{n}", np.zeros(outputs, "f4"))
        position = oc.param(f"position{n}", np.zeros((tokens, outputs), "f4"), b=[tokens])
        h, width = w @ h, outputs
        params.append(w)
        for extra in random.sample([bias, position], random.randint(0, 2)):
            h = h + extra
            params.append(extra)
        if random.random() < 0.5:
            h = oc.relu(h)
        if random.random() < 0.3:
            h = h - h.sum("...|o => ...|0")
    loss = h.sum()
    inputs = {t.node: arrays.integers(-2, 3, t.node.dims).astype("f4") for t in (x, *params)}
    return loss, train.grad_update(loss), inputs


def test_errors_of_sums_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small terms that are lost if a large one is added first: in the part of an item, and in the sum of the parts."""
    monkeypatch.setattr(privatize_reductions, "__defaults__", (0,))
    items, rows = 64, 94
    proc = hoisted(*backward_pass(rows=rows, items=items), items=items)
    pipeline = [step for step in passes({}, TARGET) if step.when]
    for step in pipeline[[step.name for step in pipeline].index("privatize_reductions") :]:
        proc = step.run(proc)
    assert part_shapes(proc) == [(items, OUTPUTS, INPUTS)]
    nodes = {buf.name: buf.node for buf in proc.bufs if buf.node is not None}
    roots = np.zeros((items, rows, INPUTS), "f4")
    roots[0], roots[1:, 0], roots[0, 0] = 2.0**-12, 2.0**-12, 1
    ones, results = np.ones((items, rows, OUTPUTS), "f4"), np.zeros((OUTPUTS, INPUTS), "f4")
    got = interpret(proc, {nodes["x"]: roots, nodes["g"]: ones, nodes["w_grad"]: results})[nodes["w_grad"]]
    wanted = np.square(roots.astype("f8")).sum((0, 1))
    assert (abs(got - wanted) <= 64 * np.finfo("f4").eps * wanted).all()


def test_random_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are equal to those of the program as written, in any order of iterations, without races."""
    monkeypatch.setattr(hoist_module, "_improves_locality", lambda *args: True)
    monkeypatch.setattr(hoist_parallel_loop, "__defaults__", (2, 0, 1e9))
    monkeypatch.setattr(privatize_reductions, "__defaults__", (0,))
    counts = [0, 0]  # of programs with partial sums of items, and of those that are in the loop of their operands
    for seed in range(60):
        random = Random(seed)
        loss, code, inputs = random_step(random)
        comp = code.elaborate().comp
        stages: dict[str, Proc] = {}
        proc = optimize(lower(comp, "step"), {loss.node: "kept"}, TARGET, stages.__setitem__)
        text = f"seed {seed}\n{print_proc(proc)}"
        verify(proc, "placed", alignment_bytes=TARGET.alignment_bytes)
        claims = Claims(seed)
        arrays = {buf.node: np.zeros(buf.node.dims, "f4") for buf in proc.bufs if buf.node is not None} | inputs
        got = interpret(proc, arrays, on_write=claims.watch, iteration_order=claims)
        wanted = evaluate(comp, arrays, {}, {})
        assert not claims.races, f"{text}{claims.races}"
        for node, array in got.items():
            np.testing.assert_array_equal(array, wanted.get(node, arrays[node]), text)
        counts[0] += len(part_shapes(stages["privatize_reductions"])) > 0
        loops = [stmt for stmt in stages["fuse_parallel_loops"].body if isinstance(stmt, For) and len(stmt.body) > 1]
        written = {access.ref.buf.name for access in memory_accesses(tuple(loops)) if access.writes}
        counts[1] += any(name.endswith("_parts") for name in written)
    assert min(counts) >= 8, counts
