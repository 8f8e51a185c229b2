"""One plan for groups that are equal up to renaming: its symbols and arrays are those of each group."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from loop_programs.random_groups import group

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import AccessMode, Apply, Buf, Const, For, Load, MemorySpace, Ref, Store, Update, loop, row_major
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Role, TNode
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.schedule.plan import Plan, model_plan
from ocannl.opt.schedule.plan.plan_reuse import PlanReuse

AVX512 = Capabilities(vector_bytes=64, vector_registers=32)


class Chosen:
    """The plans that the model has been asked for."""

    def __init__(self) -> None:
        self.groups: list[FusionGroup] = []
        self.plans = PlanReuse(self.choose)

    def choose(self, group: FusionGroup, is_parallel: bool) -> Plan:
        self.groups.append(group)
        return model_plan(group, AVX512, is_parallel)


def renamed(group: FusionGroup) -> FusionGroup:
    """The group with new symbols of all loops, whose names have another order."""
    old = [loop.sym for loops in (group.loops, *(reduction.loops for reduction in group.reductions)) for loop in loops]
    new = {sym: Sym(f"{chr(122 - n % 26)}{n}_new", sym.lo, sym.hi, sym.kind) for n, sym in enumerate(old)}

    def fresh(loops: tuple[For, ...]) -> tuple[For, ...]:
        return tuple([replace(loop, sym=new[loop.sym]) for loop in loops])

    group = group.substituted({sym: Affine.of(replacement) for sym, replacement in new.items()})
    reductions = tuple([replace(reduction, loops=fresh(reduction.loops)) for reduction in group.reductions])
    return replace(group, loops=fresh(group.loops), reductions=reductions)


@pytest.mark.parametrize("seed", range(60))
def test_equal_groups_have_one_plan(seed: int) -> None:
    chosen = Chosen()
    first, second = (group(Random(f"plans {seed}")).group for _ in range(2))  # of different objects
    chosen.plans.plan(first, False)
    for equal in (second, renamed(second)):
        assert chosen.plans.plan(equal, False) == model_plan(equal, AVX512, False)
    assert chosen.groups == [first]


@pytest.mark.parametrize("seed", range(20))
def test_unequal_groups_have_separate_plans(seed: int) -> None:
    chosen = Chosen()
    first, second = (group(Random(f"{name} {seed}")).group for name in ("first", "second"))
    for unequal in (first, second):
        for is_parallel in (False, True):
            assert chosen.plans.plan(unequal, is_parallel) == model_plan(unequal, AVX512, is_parallel)
    assert len(chosen.groups) == 4


def product(names: str, *, is_view: bool) -> FusionGroup:
    """A product of matrices; with `is_view`, the right one is a view of the result."""
    nodes = {name: TNode(name, Role.PLACEHOLDER, lambda: (256, 256), lambda: float32) for name in names}
    a, b, y = (
        Buf(name, float32, (256, 256), row_major((256, 256)), MemorySpace.GLOBAL, access, nodes[name])
        for name, access in zip(names, (AccessMode.IN, AccessMode.INOUT, AccessMode.INOUT), strict=True)
    )
    if is_view:
        b = replace(b, node=y.node)
    i, j, k = (Sym(f"{name}_{names}", 0, 255) for name in "ijk")
    acc = Ref(local_buffer(f"acc_{names}", float32, ()), ())
    cells = {name: tuple(map(Affine.of, syms)) for name, syms in (("a", (i, k)), ("b", (k, j)), ("y", (i, j)))}
    update = Update(acc, ADD, Apply(MUL, (Load(Ref(a, cells["a"])), Load(Ref(b, cells["b"])))))
    reduction = Reduction(Const(0, float32), (loop(k, ()),), TRUE, update)
    return FusionGroup((loop(i, ()), loop(j, ())), TRUE, (reduction,), (Store(Ref(y, cells["y"]), Load(acc)),))


def test_arrays_that_share_memory_are_another_group() -> None:
    """Panels must not be packed from an array that the group writes."""
    chosen = Chosen()
    for group_ in (product("abc", is_view=False), product("def", is_view=True), product("ghi", is_view=False)):
        assert chosen.plans.plan(group_, False) == model_plan(group_, AVX512, False)
    assert len(chosen.groups) == 2
