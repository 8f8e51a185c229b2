"""Register tiles: the loops that plans become, group_over as text; and which plan the model takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from loop_programs.random_groups import with_scheduled_group

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.cpu import CacheLevel, Cpu
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    Const,
    Expr,
    For,
    Let,
    Load,
    Local,
    MemorySpace,
    Mode,
    Proc,
    Ref,
    Store,
    Update,
    Var,
    When,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, AND, BY_NAME, MAX, MUL, Op
from ocannl.ir.precision import Precision, bfloat16, float32, float64, int32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.opt import machine_model
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.analysis.nests import loads
from ocannl.opt.schedule.loop_generation import build_loops
from ocannl.opt.schedule.plan import ScalarPlan, TilePlan, model_plan
from ocannl.opt.schedule.plan.packing import block_trip_counts, panel_loops
from ocannl.opt.schedule.plan.register_tiles import best_tile_plan, load_imbalance, tiling_problem
from ocannl.opt.schedule.schedule import schedule_with

SSE, AVX, AVX512 = (Capabilities(vector_bytes=size, vector_registers=16 + size // 64 * 16) for size in (16, 32, 64))


def buf(name: str, *shape: int, access: AccessMode = AccessMode.IN, kind: Precision = float32) -> Buf:
    node = TNode(name, Role.PLACEHOLDER, lambda: shape, lambda: kind)
    return Buf(name, kind, shape, row_major(shape), MemorySpace.GLOBAL, access, node)


def out(name: str, *shape: int, kind: Precision = float32) -> Buf:
    return buf(name, *shape, access=AccessMode.INOUT, kind=kind)


def sym(name: str, extent: int) -> Sym:
    return Sym(name, 0, extent - 1)


def ref(of: Buf, *at: Affine | Sym | int) -> Ref:
    return Ref(of, tuple(map(Affine.of, at)))


def load(of: Buf, *at: Affine | Sym | int) -> Load:
    return Load(ref(of, *at))


def apply(name: str, *args: Expr) -> Expr:
    return Apply(BY_NAME[name], args)


def num(value: float) -> Const:
    return Const(value, float32)


def reduce_over(
    syms: tuple[Sym, ...], term: Expr, init: Expr, op: Op = ADD, cond: Cond = TRUE
) -> tuple[Reduction, Load]:
    """Returns a reduction and its result."""
    acc = Ref(local_buffer("acc", term.precision, ()), ())
    return Reduction(init, tuple([loop(s, ()) for s in syms]), cond, Update(acc, op, term)), Load(acc)


def group_over(
    syms: tuple[Sym, ...], *epilogue: Let | Store | Update, reductions: tuple[Reduction, ...] = (), cond: Cond = TRUE
) -> FusionGroup:
    return FusionGroup(tuple([loop(s, ()) for s in syms]), cond, reductions, epilogue)


def bufs_of(group: FusionGroup) -> tuple[Buf, ...]:
    accs = {reduction.acc for reduction in group.reductions}
    return tuple([b for b in dict.fromkeys(r.buf for r in (*group.reads, *group.writes)) if b not in accs])


def product(m: int, n: int, k: int) -> tuple[FusionGroup, tuple[Sym, Sym, Sym]]:
    """A matrix product in which `b` and the result are contiguous along the same loop."""
    a, b, c, (i, j, l) = buf("a", m, k), buf("b", k, n), out("c", m, n), (sym("i", m), sym("j", n), sym("k", k))
    reduction, total = reduce_over((l,), apply("mul", load(a, i, l), load(b, l, j)), num(0))
    return group_over((i, j), Store(ref(c, i, j), total), reductions=(reduction,)), (i, j, l)


def dots(m: int, n: int, k: int) -> tuple[FusionGroup, tuple[Sym, Sym, Sym]]:
    """A matrix product in which both operands are contiguous along the reduction loop."""
    a, b, c, (i, j, l) = buf("a", m, k), buf("b", n, k), out("c", m, n), (sym("i", m), sym("j", n), sym("k", k))
    reduction, total = reduce_over((l,), apply("mul", load(a, i, l), load(b, j, l)), num(0))
    return group_over((i, j), Store(ref(c, i, j), total), reductions=(reduction,)), (i, j, l)


Example = tuple[FusionGroup, TilePlan]


def columns() -> Example:
    group, (i, j, k) = product(4, 16, 3)
    return group, TilePlan(((i, 2), (j, 8)), (k,), j, 4, 2)


def remainders() -> Example:
    """The last tile has fewer rows and fewer lanes."""
    group, (i, j, k) = product(5, 11, 3)
    return group, TilePlan(((i, 2), (j, 4)), (k,), j, 4, 1)


def dot_form() -> Example:
    group, (i, j, k) = dots(3, 2, 19)
    return group, TilePlan(((j, 0), (i, 3)), (k,), k, 4, 2)


def tail() -> Example:
    """An epilogue with a bias per row, a scale per column, and an update."""
    m, n, k = 2, 4, 3
    a, b, bias, scale = buf("a", m, k), buf("b", k, n), buf("bias", m), buf("scale", n)
    c, d, (i, j, l) = out("c", m, n), out("d", m, n), (sym("i", m), sym("j", n), sym("k", k))
    reduction, total = reduce_over((l,), apply("mul", load(a, i, l), load(b, l, j)), apply("neg", load(bias, i)))
    h = Var("h", float32)
    body = (
        Let("h", apply("mul", total, apply("exp", load(scale, j)))),
        Store(ref(c, i, j), h),
        Update(ref(d, i, j), ADD, apply("mul", h, h)),
    )
    return group_over((i, j), *body, reductions=(reduction,)), TilePlan(((i, 2), (j, 4)), (l,), j, 4, 1)


def long_tail() -> Example:
    """A long epilogue that is a loop over rows, with a partial tile."""
    group, (i, j, k) = product(7, 6, 3)
    (store,) = group.epilogue
    assert isinstance(store, Store)
    expensive = replace(store, value=apply("tanh", apply("add", store.value, load(buf("bias", 7), i))))
    return replace(group, epilogue=(expensive,)), TilePlan(((i, 5), (j, 8)), (k,), j, 4, 2)


def map_in_place() -> Example:
    x, g, (i, j) = out("x", 3, 10), buf("g", 10), (sym("i", 3), sym("j", 10))
    value = apply("sub", load(x, i, j), apply("mul", num(0.5), load(g, j)))
    return group_over((i, j), Store(ref(x, i, j), value)), TilePlan(((i, 0), (j, 8)), (), j, 4, 2)


def hoisted() -> Example:
    """Subexpressions that depend on the row only, on the column only, and on neither."""
    x, y, s, z = buf("x", 4), buf("y", 4), buf("s"), out("z", 4, 4)
    i, j, k = sym("i", 4), sym("j", 4), sym("k", 5)
    term = apply("mul", apply("exp", load(x, i)), apply("add", apply("exp", load(y, j)), apply("exp", load(s))))
    reduction, total = reduce_over((k,), term, num(1))
    group = group_over((i, j), Store(ref(z, i, j), total), reductions=(reduction,))
    return group, TilePlan(((i, 2), (j, 4)), (k,), j, 4, 1)


def not_over_an_unrolled_row() -> Example:
    """A subexpression that depends on the second row loop is not hoisted out of it."""
    x, y, z = buf("x", 2, 3), buf("y", 3, 4), out("z", 2, 3, 4)
    h, i, j, k = sym("h", 2), sym("i", 3), sym("j", 4), sym("k", 2)
    term = apply("add", apply("exp", load(x, h, i)), apply("exp", load(y, i, j)))
    reduction, total = reduce_over((k,), term, num(0))
    return group_over((h, i, j), Store(ref(z, h, i, j), total), reductions=(reduction,)), TilePlan(
        ((h, 2), (i, 3), (j, 4)), (k,), j, 4, 1
    )


def guards() -> Example:
    """A guard of the reduction and a guard of the group."""
    x, y = buf("x", 9, 8), out("y", 3, 8)
    i, j, k, l = sym("i", 3), sym("j", 8), sym("k", 5), sym("l", 3)
    row = Affine.of(k) + l - 1
    reduction, total = reduce_over((k, l), load(x, row, j), load(y, i, j), cond=Cond((row, Affine.of(5) - row)))
    group = group_over((i, j), Store(ref(y, i, j), total), reductions=(reduction,), cond=Cond((Affine.of(i) - 1,)))
    return group, TilePlan(((i, 0), (j, 8)), (k, l), j, 4, 2)


def largest() -> Example:
    x, y, (i, k) = buf("x", 2, 10), out("y", 2), (sym("i", 2), sym("k", 10))
    reduction, total = reduce_over((k,), load(x, i, k), num(float("-inf")), MAX)
    return group_over((i,), Store(ref(y, i), total), reductions=(reduction,)), TilePlan(((i, 0),), (k,), k, 4, 1)


def apart() -> Example:
    """Strided and reversed accesses, and a narrower precision."""
    x, y, z = buf("x", 16), buf("y", 8, kind=bfloat16), out("z", 16)
    i = sym("i", 8)
    value = apply("add", load(x, -Affine.of(i) * 2 + 15), Cast(load(y, i), float32))
    return group_over((i,), Store(ref(z, Affine.of(i) * 2), value)), TilePlan(((i, 4),), (), i, 4, 1)


def panels() -> Example:
    group, (i, j, k) = product(5, 12, 3)
    operands = tuple(loads(group.reductions[0].update.value))
    return group, TilePlan(((j, 8), (i, 2)), (k,), j, 4, 2, packed_operands=operands)


def blocks() -> Example:
    group, (i, j, k) = product(4, 8, 11)
    (reduction,) = group.reductions
    value = apply("add", load(buf("x", 8), j), Load(reduction.update.ref))
    with_epilogue = replace(group, epilogue=(Store(group.writes[0], value),))
    return with_epilogue, TilePlan(((j, 4), (i, 4)), (k,), j, 4, 1, k_block=3)


def blocks_in_place() -> Example:
    group, (i, j, k) = product(4, 8, 11)
    (reduction,) = group.reductions
    updating = replace(reduction, init=Load(group.writes[0]))
    return replace(group, reductions=(updating,)), TilePlan(((j, 4), (i, 4)), (k,), j, 4, 1, k_block=6)


def blocks_of_what_terms_read() -> Example:
    """The terms read the old result, so partial sums need a buffer."""
    group, (i, j, k) = product(4, 8, 11)
    (reduction,) = group.reductions
    read = replace(reduction.update, value=apply("mul", reduction.update.value, Load(group.writes[0])))
    plan = TilePlan(((j, 4), (i, 4)), (k,), j, 4, 1, k_block=3)
    return replace(group, reductions=(replace(reduction, update=read),)), plan


def batched(b: int, m: int, n: int, k: int) -> tuple[FusionGroup, tuple[Sym, Sym, Sym, Sym]]:
    """y[s, i, j] = sum over l of x[s, i, l] * w[l, j]"""
    s, i, j, l = sym("s", b), sym("i", m), sym("j", n), sym("l", k)
    x, w, y = buf("x", b, m, k), buf("w", k, n), out("y", b, m, n)
    reduction, total = reduce_over((l,), apply("mul", load(x, s, i, l), load(w, l, j)), num(0))
    return group_over((s, i, j), Store(ref(y, s, i, j), total), reductions=(reduction,)), (s, i, j, l)


def stretches() -> Example:
    group, (s, i, j, k) = batched(3, 5, 7, 4)
    return group, TilePlan(((j, 4), (s, 0), (i, 2)), (k,), j, 4, 1, strip=(i, 2))


def blocks_outside() -> Example:
    group, (s, i, j, k) = batched(3, 4, 8, 6)
    return group, TilePlan(((j, 4), (s, 0), (i, 4)), (k,), j, 4, 1, k_block=4, blocked_loops=2, strip=(s, 2))


def turned(*sizes: int) -> tuple[FusionGroup, tuple[Sym, ...]]:
    """y[b, i, j, k] = x[b, j, k, i]"""
    syms = b, i, j, k = tuple([sym(name, size) for name, size in zip("bijk", sizes, strict=True)])
    x = buf("x", *[sym.extent for sym in (b, j, k, i)])
    return group_over(syms, Store(ref(out("y", *sizes), *syms), load(x, b, j, k, i))), syms


def planes_in_lines() -> Example:
    group, (b, i, j, k) = turned(2, 8, 3, 4)
    return group, TilePlan(((b, 0), (k, 4), (i, 4), (j, 0)), (), i, 4, 1, transposed_loop=k)


def columns_in_panels() -> Example:
    """With a partial tile at the end."""
    group, (i, j, k) = product(5, 12, 3)
    return group, TilePlan(((j, 8), (i, 2)), (k,), j, 4, 2, panels=_second_operand(group))


def strips_in_panels() -> Example:
    """Strips of two tiles, of which the last one has only part of a tile."""
    group, (i, j, k) = product(4, 19, 11)
    panels, strip = _second_operand(group), (j, 2)
    return group, TilePlan(((i, 2), (j, 4)), (k,), j, 4, 1, panels=panels, k_block=4, blocked_loops=2, strip=strip)


def rows_in_panels() -> Example:
    """Panels of both operands: one is copied for a block, the other one for a row of tiles."""
    group, (i, j, k) = product(4, 8, 6)
    operands = tuple(loads(group.reductions[0].update.value))
    return group, TilePlan(((i, 2), (j, 4)), (k,), j, 4, 1, panels=operands, blocked_loops=2)


def transposed_panels() -> Example:
    """The operand is contiguous along the reduction: tiles are transposed in registers."""
    i, j, k = sym("i", 4), sym("j", 8), sym("k", 8)
    value = apply("mul", load(buf("a", 4, 8), i, k), load(buf("b", 8, 8), j, k))
    reduction, total = reduce_over((k,), value, num(0))
    group = group_over((i, j), Store(ref(out("y", 4, 8), i, j), total), reductions=(reduction,))
    return group, TilePlan(((j, 4), (i, 2)), (k,), j, 4, 1, panels=_second_operand(group))


def lanes_in_panels() -> Example:
    """The operand varies along rows and lanes: lanes are contiguous in the panel, whatever the order of the loops."""
    t, i, j, k = sym("t", 3), sym("i", 4), sym("j", 8), sym("k", 5)
    value = apply("mul", load(buf("w", 3, 5), t, k), load(buf("x", 5, 4, 8), k, i, j))
    reduction, total = reduce_over((k,), value, num(0))
    group = group_over((t, i, j), Store(ref(out("y", 3, 4, 8), t, i, j), total), reductions=(reduction,))
    return group, TilePlan(((j, 4), (i, 2), (t, 0)), (k,), j, 4, 1, panels=_second_operand(group))


def _second_operand(group: FusionGroup) -> tuple[Ref, ...]:
    return tuple(loads(group.reductions[0].update.value))[1:]


EXAMPLES: list[Callable[[], Example]] = [
    columns, remainders, dot_form, tail, map_in_place, hoisted, not_over_an_unrolled_row, guards, largest, apart,
    long_tail, panels, blocks, blocks_in_place, blocks_of_what_terms_read,
    stretches, blocks_outside, planes_in_lines, columns_in_panels, strips_in_panels, rows_in_panels, transposed_panels,
    lanes_in_panels,
]  # fmt: skip


@pytest.mark.parametrize("make", EXAMPLES)
def test_what_a_plan_becomes(make: Callable[[], Example], golden: Callable[[str], None]) -> None:
    group, plan = make()
    before = Proc("step", bufs_of(group), (), (group.stmt(),))
    after = with_scheduled_group(before, group, plan)
    verify(before, "optimized")
    verify(after, "optimized")
    numbers = np.random.default_rng(0)
    arrays = {b.node: numbers.integers(-4, 5, b.shape).astype(b.precision.numpy) for b in before.bufs if b.node}
    expected, actual = interpret(before, arrays), interpret(after, arrays)
    for node, array in expected.items():
        np.testing.assert_allclose(actual[node], array, rtol=1e-6)
    golden(print_proc(before) + "\n" + print_proc(after))


@pytest.mark.parametrize("make", [blocks, blocks_in_place, strips_in_panels])
@pytest.mark.parametrize("has_stack", [True, False])
def test_plans_with_blocks_inside_of_loops(make: Callable[[], Example], has_stack: bool) -> None:
    """Panels have the size of blocks; partial sums that the result cannot hold are local, if there is space."""
    group, plan = make()
    n, z = sym("n", 2), out("z", 2)
    body = (loop(n, (Store(ref(z, n), num(1)), group.stmt())),)
    before = Proc("step", (*bufs_of(group), z), (), body)
    with patch.object(machine_model, "MAX_LOCAL_SUMS_BYTES", machine_model.MAX_LOCAL_SUMS_BYTES * has_stack):
        after = schedule_with(before, lambda fused, is_parallel: plan if fused.reductions else model_plan(fused, AVX))
    verify(after, "optimized")
    assert after.bufs == before.bufs
    numbers = np.random.default_rng(0)
    arrays = {b.node: numbers.integers(-4, 5, b.shape).astype(b.precision.numpy) for b in before.bufs if b.node}
    expected, actual = interpret(before, arrays), interpret(after, arrays)
    for node, array in expected.items():
        np.testing.assert_allclose(actual[node], array, rtol=1e-6)
    sums = [node.buf.shape for node in walk(after.body) if isinstance(node, Local) and "sums" in node.buf.name]
    assert sums == ([(4, 8)] if make is not strips_in_panels and has_stack else [])
    panel_sizes = [node.buf.size for node in walk(after.body) if isinstance(node, Local) and "panel" in node.buf.name]
    assert max(panel_sizes, default=0) == (2 * 4 * 4 if plan.panels else 0)


# ------------------------------------------------------------------------------------------- choices of the cost model


def test_parallel_groups_are_balanced() -> None:
    large, (i, *_) = product(128, 64, 784)
    serial, parallel = chosen(large, AVX512), chosen(large, AVX512, is_parallel=True)
    tiles = [-(-128 // plan.tile_sizes[i]) for plan in (serial, parallel)]
    assert tiles == [11, 16] and load_imbalance(parallel) == 0 < load_imbalance(serial)
    x, k, total = buf("x", 1 << 20), sym("k", 1 << 20), out("y")
    reduction, value = reduce_over((k,), load(x, k), num(0))
    scalar = group_over((), Store(ref(total), value), reductions=(reduction,), cond=TRUE)
    assert chosen(scalar, AVX512, is_parallel=True) == chosen(scalar, AVX512)  # no parallel loop
    small, _ = product(16, 64, 24)
    assert chosen(small, AVX512, is_parallel=True) == chosen(small, AVX512)


def test_tiles_are_balanced_if_the_loops_around_them_are_short() -> None:
    """The gradient of the weights of a convolution: 3 x 3 positions, and 32 channels, whose tiles threads can share."""
    sizes = {"h": 3, "w": 3, "i": 32, "o": 32, "b": 4, "y": 56, "x": 56}
    h, w, i, o, b, y, x = syms = tuple([sym(name, size) for name, size in sizes.items()])
    image, g, out_ = buf("image", 4, 58, 58, 32), buf("g", 4, 56, 56, 32), out("w_grad", 3, 3, 32, 32)
    cell = Ref(image, (Affine.of(b), Affine.of(h) + y, Affine.of(w) + x, Affine.of(i)))
    reduction, total = reduce_over((b, y, x), apply("mul", load(g, b, y, x, o), Load(cell)), num(0))
    group = group_over(syms[:4], Store(ref(out_, h, w, i, o), total), reductions=(reduction,))
    assert [chosen(group, AVX512, is_parallel).tile_sizes[i] for is_parallel in (False, True)] == [11, 8]


def test_loop_order_minimizes_memory_traffic() -> None:
    large, (s, _, j, _) = batched(16, 64, 4096, 1024)  # an operand of 16 MB is read in every iteration of `s`
    plan = chosen(large, AVX512)
    order = list(plan.trip_counts)
    assert order.index(j) < order.index(s)
    small, _ = batched(16, 64, 256, 64)
    assert not chosen(small, AVX512).loops[0][1] and chosen(small, AVX512).strip is None


def test_large_arrays_are_updated_along_their_rows() -> None:
    group, (_, j, _) = product(1024, 16384, 64)  # 64 MB, and an operand larger than the private cache
    (store,) = group.epilogue
    assert isinstance(store, Store)
    added = replace(store, value=apply("add", store.value, Load(store.ref)))
    assert list(chosen(group, AVX512).trip_counts)[-1] is not j
    assert list(chosen(replace(group, epilogue=(added,)), AVX512).trip_counts)[-1] is j


def test_short_runs_of_large_operands_are_read_one_after_the_other() -> None:
    """Sums within blocks of 16 cells, which follow one another in a row; rows are pages apart."""
    block, i, j, k = sym("block", 256), sym("i", 4096), sym("j", 16), sym("k", 16)
    x, y = buf("x", 4096, 256, 16), out("y", 4096, 256, 16)
    term = When(Cond((Affine.of(j) - Affine.of(k),)), load(x, i, block, k), num(0))
    reduction, total = reduce_over((k,), term, num(0))
    group = group_over((block, i, j), Store(ref(y, i, block, j), total), reductions=(reduction,))
    assert list(chosen(group, AVX512).trip_counts)[:2] == [i, block]


def test_transposes_write_contiguous_lines() -> None:
    group, (_, _, j, _) = turned(8, 32, 64, 16)
    plan = chosen(group, AVX512)
    assert plan.transposed_loop and plan.loops[-1] == (j, 0)  # otherwise lines would be pages apart
    few, (_, _, j, _) = turned(1, 32, 64, 16)
    trip_counts = chosen(few, AVX512).trip_counts
    assert next(sym for sym, count in trip_counts.items() if count > 1) is j  # stays outermost for threads


def chosen(group: FusionGroup, target: Capabilities, is_parallel: bool = False) -> TilePlan:
    plan = model_plan(group, target, is_parallel)
    assert isinstance(plan, TilePlan)
    return plan


def test_loops_within_the_lines_of_strided_vectors_are_inside() -> None:
    """Components of vectors, which guards exclude from lanes: the next components are on the same lines."""
    n, c = sym("n", 4096), sym("c", 3)
    x = buf("x", 4096, 3)
    before = When(Cond((Affine.of(c) - 1,)), load(x, n, Affine.of(c) - 1), num(0))
    plan = chosen(group_over((c, n), Store(ref(out("y", 4096, 3), n, c), before)), AVX)
    assert plan.vector is n
    assert [loop_sym for loop_sym, _ in plan.loops] == [n, c]


@pytest.mark.parametrize("target", [SSE, AVX, AVX512])
def test_tiles_of_products_fit_into_registers(target: Capabilities) -> None:
    group, (i, j, k) = product(64, 256, 256)
    plan = chosen(group, target)
    assert plan.vector is j and plan.reduction_syms == (k,) and plan.lanes == target.vector_bytes // 4
    tiles = plan.tile_sizes
    vectors = tiles[i] * plan.vectors
    assert vectors >= 6
    assert vectors + plan.vectors + 1 <= target.vector_registers


def test_contiguous_reductions_are_vectorized_over_the_reduction() -> None:
    group, (_, _, k) = dots(64, 3, 256)
    assert chosen(group, AVX).vector is k


def test_lanes_depend_on_the_widest_precision() -> None:
    x, y, i = buf("x", 64, kind=bfloat16), out("y", 64), sym("i", 64)
    group = group_over((i,), Store(ref(y, i), Cast(load(x, i), float32)))
    assert chosen(group, AVX).lanes == 8
    z = out("z", 64, kind=float64)
    assert chosen(group_over((i,), Store(ref(z, i), Cast(load(x, i), float64))), AVX).lanes == 4


def test_wide_values_between_narrow_operands_take_several_registers() -> None:
    x, y, i = buf("x", 64), out("y", 64), sym("i", 64)
    wide = apply("log", Cast(load(x, i), float64))
    assert chosen(group_over((i,), Store(ref(y, i), Cast(wide, float32))), AVX).lanes == 8


def test_maps_are_vectorized_along_contiguous_axes() -> None:
    x, y, (i, j) = buf("x", 64, 64), out("y", 64, 64), (sym("i", 64), sym("j", 64))
    assert chosen(group_over((i, j), Store(ref(y, i, j), load(x, i, j))), AVX).vector is j
    assert chosen(group_over((i, j), Store(ref(y, j, i), load(x, j, i))), AVX).vector is i


def test_scattered_operands_are_copied_to_panels() -> None:
    """Rows of an operand on many pages exceed the first TLB; lines at power-of-two distances share few cache sets."""
    round_group, (_, j, k) = product(1024, 1024, 1024)
    operands = chosen(round_group, AVX512).panels
    assert [(operand.buf.name, operand.stride(j), operand.stride(k)) for operand in operands] == [("b", 1, 1024)]
    assert chosen(product(1024, 1040, 1024)[0], AVX512).panels
    assert not chosen(product(4, 1024, 1024)[0], AVX512).panels  # no other tile reads it
    assert not chosen(product(1024, 64, 64)[0], AVX512).panels  # on few pages
    large_pages = replace(AVX512, cpu=replace(AVX512.cpu, page_bytes=1 << 21))
    assert not chosen(product(1024, 1040, 256)[0], large_pages).panels


def test_a_panel_of_rows_is_copied_inside_the_loop_over_them() -> None:
    """An operand that is contiguous along rows of tiles, not along the reduction."""
    i, j, k = sym("i", 768), sym("j", 3072), sym("k", 256)
    reduction, total = reduce_over((k,), apply("mul", load(buf("a", 256, 768), k, i), load(buf("b", 256, 3072), k, j)),
                                   num(0))  # fmt: skip
    plan = chosen(group_over((i, j), Store(ref(out("y", 768, 3072), i, j), total), reductions=(reduction,)), AVX512)
    shares = {ref.buf.name: panel_loops(ref, plan) for ref in plan.panels}
    assert shares == {"a": 1, "b": 2} and [sym for sym, _ in plan.loops] == [i, j]


def test_long_reductions_of_large_products_are_blocked() -> None:
    """The panels of a block take a quarter of the private cache, and blocks have about equal lengths."""
    group, (_, j, k) = product(1024, 1024, 5000)
    plan = chosen(group, AVX512)
    columns = block_trip_counts(plan).get(j, 1) * plan.tile_sizes[j]
    assert [ref.stride(k) for ref in plan.panels] == [1024]
    assert 0 < plan.k_block * columns * 4 <= AVX512.cpu.l2.size_bytes // 4
    assert plan.k_block * -(-5000 // plan.k_block) - 5000 < 5000 // plan.k_block
    assert not chosen(product(1024, 1024, 1024)[0], AVX512).k_block


def _with_l2(size_bytes: int) -> Cpu:
    return Cpu(l2=CacheLevel(size_bytes, 8, 16, 48), l3=CacheLevel(4 * size_bytes, 16, 64, 16))


def test_order_of_summation_does_not_depend_on_caches() -> None:
    for sizes in ((64, 64, 64), (512, 512, 512), (1024, 1024, 1024), (100, 2048, 4096)):
        group, _ = product(*sizes)
        small, large = (
            chosen(group, replace(AVX512, cpu=_with_l2(size))) for size in (1 << 17, 1 << 22)
        )
        assert (small.vector, small.vectors) == (large.vector, large.vectors)
        assert small.reduction_syms == large.reduction_syms


def test_targets_without_vectors_use_scalar_plans() -> None:
    group, _ = product(8, 8, 8)
    assert isinstance(model_plan(group, Capabilities()), ScalarPlan)


I, J, K = sym("i", 8), sym("j", 8), sym("k", 8)
Y8, X8, S8 = out("y", 8), buf("x", 8), out("s", kind=int32)


def unsupported() -> dict[str, FusionGroup]:
    conjunction, all_true = reduce_over((K,), load(X8, K), num(1), AND)
    two = [reduce_over((sym(f"k{n}", 8),), load(X8, I), num(0)) for n in range(2)]
    empty, neutral = reduce_over((sym("none", 0),), load(X8, I), num(0))
    return {
        "a cell is written by several iterations": group_over((I, J), Update(ref(Y8, J), ADD, load(X8, I))),
        "a conjunction": group_over((I,), Store(ref(Y8, I), all_true), reductions=(conjunction,)),
        "two reductions": group_over(
            (I,), Store(ref(Y8, I), apply("add", two[0][1], two[1][1])), reductions=(two[0][0], two[1][0])
        ),
        "an empty reduction": group_over((I,), Store(ref(Y8, I), neutral), reductions=(empty,)),
        "no cells": group_over((sym("none", 0),), Store(ref(Y8, 0), num(0))),
        "a single cell": group_over((), Store(ref(Y8, 0), load(X8, 1))),
        "a guard of the only loop": group_over((I,), Store(ref(Y8, I), num(0)), cond=Cond((Affine.of(I) - 1,))),
        "a guarded load": group_over(
            (I,), Store(ref(Y8, I), When(Cond((Affine.of(I) - 1,)), load(X8, Affine.of(I) - 1), num(0)))
        ),
    }


def test_lanes_of_products_are_results() -> None:
    """Terms are multiplied in their order: a part of a product may overflow although another factor is zero."""
    x, y, (i, k) = buf("x", 64, 256), out("y", 64), (sym("i", 64), sym("k", 256))
    factors, total = reduce_over((k,), load(x, i, k), num(1), MUL)
    terms, whole = reduce_over((k,), load(x, i, k), num(0))
    chosen_by_op = [
        best_tile_plan(group_over((i,), Store(ref(y, i), value), reductions=(reduction,)), AVX)
        for reduction, value in ((factors, total), (terms, whole))
    ]
    assert [plan and plan.vector for plan in chosen_by_op] == [i, k]


@pytest.mark.parametrize("name", unsupported())
def test_unsupported_groups_are_not_tiled(name: str) -> None:
    assert best_tile_plan(unsupported()[name], AVX) is None


def test_loops_have_the_lanes_of_the_plan() -> None:
    group, (i, j, k) = product(8, 12, 3)
    stmt = build_loops(group, TilePlan(((i, 4), (j, 8)), (k,), j, 8, 1), Namer())
    widths = {node.sym.extent for node in walk(stmt) if isinstance(node, For) and node.mode is Mode.VECTORIZED}
    assert widths == {8, 4}


def test_common_subexpressions_are_work_once() -> None:
    """The arithmetic of `x^16` by squares, each of which appears twice in the tree, is four products."""
    i = sym("i", 64)
    power: Expr = load(buf("x", 64), i)
    for _ in range(4):
        power = apply("mul", power, power)
    group = group_over((i,), Store(ref(out("y", 64), i), power))
    problem = tiling_problem(group, Capabilities(vector_bytes=32))
    assert problem is not None and problem.nest_shape().ops_per_term == 4


@pytest.mark.parametrize(("sizes", "min_cells"), [((12, 356, 1889), 16), ((11, 1636, 1807), 16), ((2, 3072, 768), 8)])
def test_tiles_whose_rows_exceed_the_first_cache(sizes: tuple[int, int, int], min_cells: int) -> None:
    """Smaller tiles whose rows fit would read as many of them from the second cache, more often."""
    group, _ = dots(*sizes)
    plan = best_tile_plan(group, Capabilities(vector_bytes=64, vector_registers=32))
    assert plan is not None and plan.vector in plan.reduction_syms
    assert np.prod(list(plan.tile_sizes.values())) >= min_cells
