"""One plan for groups that are equal up to renaming: its symbols and arrays are those of each group."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from loop_programs.random_groups import group

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.opt.analysis.fusion_group import FusionGroup
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
    """The group with other symbols of its parallel loops."""
    new = {loop.sym: Sym(f"new_{loop.sym.name}", loop.sym.lo, loop.sym.hi, loop.sym.kind) for loop in group.loops}
    loops = tuple([replace(loop, sym=new[loop.sym]) for loop in group.loops])
    return replace(group.substituted({old: Affine.of(sym) for old, sym in new.items()}), loops=loops)


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
