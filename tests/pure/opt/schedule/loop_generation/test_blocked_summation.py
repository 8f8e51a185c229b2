"""Long sums are divided into blocks, so that rounding errors do not grow with the number of terms."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_programs.random_groups import with_scheduled_group

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, Apply, Buf, Const, Load, MemorySpace, Proc, Ref, Store, Update, loop, row_major
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, BY_NAME, MAX
from ocannl.ir.precision import float32, int32
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.work import stmt_work
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.schedule.loop_generation.blocked_summation import (
    additions_per_term,
    block_sizes,
    divide_loops,
    summation_blocks,
)
from ocannl.opt.schedule.plan import TilePlan

extents = st.lists(st.integers(1, 2000), min_size=1, max_size=4).map(tuple)


@given(extents)
def test_blocks_cover_the_loops(extents: tuple[int, ...]) -> None:
    sizes = block_sizes(extents, 94)
    for n, extent in enumerate(extents):
        trip_counts = [level[n] for level in sizes if level[n]]
        assert prod(trip_counts) >= extent > prod(trip_counts) - prod(trip_counts[1:])
    assert additions_per_term(sizes) <= 94 or prod(extents) > 1 << 32


@pytest.mark.parametrize("limit", [30, 54, 94])
def test_a_term_takes_part_in_few_additions(limit: int) -> None:
    random = Random(0)
    edges = [1, 2, limit, limit + 1, limit + 2, 1 << 16, 632_100, 1 << 32]
    for terms in (*edges, *(random.randrange(1, 1 << 32) for _ in range(50))):
        sizes = block_sizes((terms,), limit)
        assert additions_per_term(sizes) <= max(limit, (terms - 1).bit_length()), terms
        assert terms > limit + 1 or len(sizes) == 1


def test_typical_products_have_long_blocks() -> None:
    for terms in (256, 512, 784, 1024, 2048, 3072, 4096):
        assert block_sizes((terms,), machine.MAX_ADDITIONS_PER_TERM)[-1][0] >= 64


def buf(label: str, *shape: int, access: AccessMode = AccessMode.IN) -> Buf:
    node = TNode(label, Role.PLACEHOLDER, lambda: shape, lambda: float32)
    return Buf(label, float32, shape, row_major(shape), MemorySpace.GLOBAL, access, node)


def product(m: int, n: int, terms: int) -> tuple[FusionGroup, tuple[Sym, Sym, Sym], tuple[Buf, ...]]:
    i, j, k = Sym("i", 0, m - 1), Sym("j", 0, n - 1), Sym("k", 0, terms - 1)
    x, w, y = buf("x", m, terms), buf("w", terms, n), buf("y", m, n, access=AccessMode.INOUT)
    acc = Ref(local_buffer("acc", float32, ()), ())

    def cell(buf: Buf, *syms: Sym) -> Ref:
        return Ref(buf, tuple(map(Affine.of, syms)))

    term = Apply(BY_NAME["mul"], (Load(cell(x, i, k)), Load(cell(w, k, j))))
    reduction = Reduction(Const(0, float32), (loop(k, ()),), TRUE, Update(acc, ADD, term))
    group = FusionGroup((loop(i, ()), loop(j, ())), TRUE, (reduction,), (Store(cell(y, i, j), Load(acc)),))
    return group, (i, j, k), (x, w, y)


def test_cache_blocks_do_not_change_the_sum() -> None:
    group, (i, j, k), bufs = product(4, 8, 500)
    proc = Proc("step", bufs, (), (group.stmt(),))
    numbers = np.random.default_rng(0)
    arrays = {b.node: numbers.normal(size=b.shape).astype("f4") for b in bufs if b.node is not None}
    plan = TilePlan(((j, 4), (i, 4)), (k,), j, 4, 1)
    results = []
    for size in (0, 1, 100, 170, 260, 499):
        scheduled = with_scheduled_group(proc, group, replace(plan, k_block=size))
        verify(scheduled, "optimized")
        results.append(interpret(scheduled, arrays)[bufs[2].node])
    assert all(np.array_equal(result, results[0]) for result in results)
    exact = np.float64(arrays[bufs[0].node]) @ np.float64(arrays[bufs[1].node])
    np.testing.assert_allclose(results[0], exact, rtol=1e-4, atol=1e-5)


def test_only_sums_of_floating_point_numbers_are_divided() -> None:
    group, (_, _, k), _ = product(1, 1, 500)
    (reduction,) = group.reductions
    assert len(summation_blocks(reduction, [k], 94, Namer()).levels) == 2
    largest = replace(reduction, update=replace(reduction.update, op=MAX))
    counter = Ref(local_buffer("n", int32, ()), ())
    counted = Reduction(Const(0, int32), reduction.loops, TRUE, Update(counter, ADD, Const(1, int32)))
    for unfit in (largest, counted):
        assert summation_blocks(unfit, [k], 94, Namer()).levels == ((k,),)


def test_the_work_of_blocks_is_that_of_their_loops() -> None:
    group, (_, _, k), _ = product(1, 1, 500)
    blocks = divide_loops([k], 94, Namer())
    (outer,), (inner,) = blocks.levels
    _, size = blocks.strips[inner]
    assert (outer.extent, size) == (ceil(500 / size), size)
    proc = Proc("step", (), (), (group.stmt(),))
    plan = TilePlan(((group.syms[0], 0), (group.syms[1], 1)), (k,), group.syms[1], 1, 1)
    blocked = with_scheduled_group(proc, group, plan)
    assert stmt_work(blocked.body[0]) < 3 * stmt_work(group.stmt())
