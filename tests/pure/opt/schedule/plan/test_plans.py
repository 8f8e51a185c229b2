"""Random groups compute equal results with every legal plan."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from loop_programs.random_groups import GroupSample, group, plain_plan, tiled_plan, with_scheduled_group

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import For, Mode, Update, When
from ocannl.ir.name_mangling import Namer
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import group_of
from ocannl.opt.schedule.plan import Plan, TilePlan, model_plan

TARGETS = [Capabilities(vector_bytes=size, vector_registers=16 * (1 + size // 64)) for size in (0, 16, 32, 64)]


def plans(random: Random, sample: GroupSample) -> list[Plan]:
    model_plans = [model_plan(sample.group, target) for target in TARGETS]
    tiles = [tiled_plan(random, sample.group) for _ in range(3)]
    return [*model_plans, plain_plan(random, sample.group), *(tile for tile in tiles if tile is not None)]


@pytest.mark.sample(covering=("seeds", "max_ops"))
@pytest.mark.parametrize("max_ops", [0, machine.MAX_UNROLLED_EPILOGUE_OPS])
def test_any_plan_computes_equal_results(seeds: range, max_ops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_UNROLLED_EPILOGUE_OPS", max_ops)
    for seed in seeds:
        random = Random(seed)
        sample = group(random)
        unscheduled = sample.proc(sample.group.stmt())
        verify(unscheduled, "optimized")
        wanted = interpret(unscheduled, sample.arrays)
        for plan in plans(random, sample):
            proc = with_scheduled_group(unscheduled, sample.group, plan)
            text = f"group {seed}, {plan}\n{print_proc(unscheduled)}\n"
            try:
                verify(proc, "optimized")
                got = interpret(proc, sample.arrays)
            except Exception as error:
                raise AssertionError(f"{text}{error}") from error
            for node, array in wanted.items():
                assert np.array_equal(got[node], array), f"{text}{print_proc(proc)}\n{array}\n{got[node]}"


@pytest.mark.sample(covering=("seeds", "max_additions"))
@pytest.mark.parametrize("max_additions", [2, 3, 5, 12])
def test_blocks_of_sums_compute_equal_results(
    seeds: range, max_additions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "MAX_ADDITIONS_PER_TERM", max_additions)
    monkeypatch.setattr(machine, "MAX_ADDITIONS_PER_RESULT_TERM", max_additions + 1)
    monkeypatch.setattr(machine, "MAX_ADDITIONS_PER_STEP", max_additions - 1)
    test_any_plan_computes_equal_results(seeds, machine.MAX_UNROLLED_EPILOGUE_OPS, monkeypatch)


def test_statements_of_groups_are_recognized(seeds: range) -> None:
    for seed in seeds:
        sample = group(Random(seed)).group
        if sample.reductions or len(sample.epilogue) > 1 or not isinstance(sample.epilogue[0], Update):
            result = group_of(sample.stmt(), Namer())
            assert result is not None and result.stmt() == sample.stmt()
            assert (result.syms, len(result.reductions)) == (sample.syms, len(sample.reductions))
            assert result.epilogue == sample.epilogue


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    """Counts features of random groups and of their plans."""
    features: Counter[str] = Counter()
    for seed in range(150):
        random = Random(seed)
        sample = group(random)
        fusion_group = sample.group
        features.update([f"{len(fusion_group.loops)} parallel", f"{len(fusion_group.epilogue)} final"])
        for reduction in fusion_group.reductions:
            features.update([f"{len(reduction.loops)} reduced by {reduction.update.op}"])
            features.update(["guarded reduction"] if not reduction.cond.is_true else [])
        features.update(type(stmt).__name__ for stmt in fusion_group.epilogue)
        features.update(["guarded group"] if not fusion_group.cond.is_true else [])
        features.update("choice" for value in fusion_group.values for node in walk(value) if isinstance(node, When))
        read, written = ({r.buf for r in refs} for refs in (fusion_group.reads, fusion_group.writes))
        features.update(["in place"] if read & written else [])
        for plan in plans(random, sample):
            features.update([type(plan).__name__])
            if isinstance(plan, TilePlan):
                features.update([f"{len(plan.tile_sizes)} tiles"])
                features.update(["partial sums" if plan.vector in plan.reduction_syms else "outputs"])
                features.update(["packed operands"] if plan.packed_operands else [])
                features.update(["panels"] if plan.panels else [])
                features.update(["panels in strips"] if plan.panels and plan.strip else [])
                features.update(["blocks"] if plan.k_block else [])
                features.update(["panels in blocks"] if plan.panels and plan.k_block else [])
                proc = with_scheduled_group(sample.proc(fusion_group.stmt()), fusion_group, plan)
                loops = [s for s in walk(proc.body) if isinstance(s, For)]
                features.update(loop.mode.value for loop in loops)
                vectors = [s for s in loops if s.mode is Mode.VECTORIZED]
                features.update("odd lanes" for s in vectors if s.sym.extent not in (4, 8, 16))
    return features


@pytest.mark.parametrize("feature", [
    *(f"{n} parallel" for n in range(4)), "1 reduced by add", "2 reduced by add", "3 reduced by add",
    "0 reduced by add", "1 reduced by max", "1 reduced by mul", "1 final", "2 final", "3 final", "4 final",
    "Let", "Store", "Update", "guarded group", "guarded reduction", "choice", "in place", "ScalarPlan",
    "TilePlan", "0 tiles", "1 tiles", "2 tiles", "3 tiles", "partial sums", "outputs", "packed operands", "blocks",
    "panels", "panels in strips", "panels in blocks",
    "vectorized", "unrolled", "odd lanes",
])  # fmt: skip
def test_every_feature_occurs(seen: Counter[str], feature: str) -> None:
    assert seen[feature]


def test_groups_are_determined_by_the_seed() -> None:
    def text(seed: int) -> str:
        sample = group(Random(seed))
        return print_proc(sample.proc(sample.group.stmt())) + str([a.tolist() for a in sample.arrays.values()])

    assert [text(seed) for seed in range(20)] == [text(seed) for seed in range(20)]
