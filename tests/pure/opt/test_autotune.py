"""Autotuning: which candidate plans are measured, and which are chosen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from random import Random

import pytest
from loop_programs.random_groups import group

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import MemorySpace, Proc
from ocannl.ir.name_mangling import Namer
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.analysis.substitution import replace_buffers
from ocannl.opt.autotune import Seconds, autotune
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule.plan import ScalarPlan, candidate_plans, model_plan
from ocannl.opt.schedule.plan.scalar_plans import scalar_plan
from ocannl.opt.schedule.schedule import PlanChoices, schedulable_groups, schedule_with
from ocannl.testing.random_programs import generate

TARGET = Capabilities(vector_bytes=32)
LATE_PASSES = frozenset({
    "schedule", "eliminate_common_subexpressions", "prefetch", "prefetch_streams", "use_nontemporal_stores",
    "fuse_parallel_loops", "parallelize", "insert_polls", "allocate_memory",
})  # fmt: skip


def test_autotuning_sees_the_groups_that_are_scheduled(seeds: range) -> None:
    nested = 0
    for seed in seeds:
        proc = optimize(lower(generate(Random(f"groups {seed}"), 4).code, "p"), {}, TARGET, without=LATE_PASSES)
        scheduled: list[tuple[FusionGroup, bool]] = []

        def choose(
            group: FusionGroup, is_parallel: bool, scheduled: list[tuple[FusionGroup, bool]] = scheduled
        ) -> ScalarPlan:
            scheduled.append((group, is_parallel))
            return scalar_plan(group)  # scalar plans have no packing copies, which would be groups as well

        schedule_with(proc, choose)
        names = Namer(bound_names(proc))
        groups = [item for stmt in proc.body for item in schedulable_groups(stmt, names)]
        assert [(group.syms, flag) for group, flag in groups] == [(group.syms, flag) for group, flag in scheduled]
        nested += sum(not is_parallel for _, is_parallel in groups)
    assert nested


def test_the_first_candidate_is_the_plan_of_the_model(seeds: range) -> None:
    several = 0
    for seed in seeds:
        fusion_group = group(Random(seed)).group
        candidates = candidate_plans(fusion_group, TARGET, limit=5)
        assert candidates[0] == model_plan(fusion_group, TARGET)
        assert len(candidates) == len(set(candidates)) <= 5
        assert candidates == candidate_plans(fusion_group, TARGET, limit=24)[: len(candidates)]
        several += len(candidates) > 1
    assert several > len(seeds) // 5


@dataclass
class FakeBenchmark:
    """Implements `PlanBenchmark` with predefined times, and records the measured candidates."""

    times: list[float] = field(default_factory=list)
    budget: int = 100  # number of measurements until the deadline
    cached: dict[str, tuple[int, ...]] = field(default_factory=dict)
    measured: list[list[Proc]] = field(default_factory=list)

    def lookup(self, nest: Proc) -> tuple[int, ...] | None:
        return self.cached.get(print_proc(nest))

    def insert(self, nest: Proc, chosen: tuple[int, ...], seconds: Seconds) -> None:
        assert all(times[n] <= times[0] for n, times in zip(chosen, seconds, strict=True) if times)
        self.cached[print_proc(nest)] = chosen

    def check_deadline(self) -> bool:
        return len(self.measured) == self.budget

    def seconds(self, candidates: list[Proc]) -> list[float] | None:
        self.measured.append(candidates)
        return (self.times + [1.0] * len(candidates))[: len(candidates)]


@cache
def lowered(seed: int) -> Proc:
    return lower(generate(Random(seed), 4).code, "step")


def tuned(benchmark: FakeBenchmark, seed: int) -> tuple[PlanChoices, Proc]:
    """Returns the choices for a random program, and the optimized program."""
    choices: dict[int, tuple[int, ...]] = {}

    def choose(proc: Proc) -> PlanChoices:
        choices.update(autotune(proc, TARGET, benchmark))
        return choices

    return choices, optimize(lowered(seed), {}, TARGET, choose=choose)


@pytest.fixture(autouse=True)
def every_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MIN_AUTOTUNED_OPS", 0)


@pytest.fixture
def seed() -> int:
    """The seed of a program with several candidates."""
    for seed in range(50):
        benchmark = FakeBenchmark()
        tuned(benchmark, seed)
        if len(benchmark.measured) > 2:
            return seed
    raise AssertionError("no program has several candidates")


def test_a_candidate_must_be_significantly_faster(seed: int) -> None:
    assert tuned(FakeBenchmark([1.0, 0.98]), seed)[0] == {}
    choices, _ = tuned(FakeBenchmark([1.0, 0.96]), seed)
    assert choices and all(set(numbers) <= {0, 1} for numbers in choices.values())
    assert tuned(FakeBenchmark([1.0, inf]), seed)[0] == {}


def test_cached_choices_are_not_measured_again(seed: int) -> None:
    benchmark = FakeBenchmark([1.0, 0.5])
    first_choices, first = tuned(benchmark, seed)
    count = len(benchmark.measured)
    second_choices, second = tuned(benchmark, seed)
    assert first_choices == second_choices and len(benchmark.measured) == count
    assert print_proc(first) == print_proc(second)


def test_invalid_cached_choices_are_replaced(seed: int) -> None:
    benchmark = FakeBenchmark([1.0, 0.5])
    choices, _ = tuned(benchmark, seed)
    benchmark.cached = {nest: (999,) * len(choice) for nest, choice in benchmark.cached.items()}
    assert tuned(benchmark, seed)[0] == choices


def test_nests_after_the_deadline_keep_the_plan_of_the_model(seed: int) -> None:
    benchmark = FakeBenchmark([1.0, 0.5], budget=1)
    choices, _ = tuned(benchmark, seed)
    assert len(choices) <= 1 and len(benchmark.cached) <= 1
    continued = FakeBenchmark([1.0, 0.5], cached=benchmark.cached)
    assert len(tuned(continued, seed)[0]) >= len(choices)


def test_short_nests_are_not_measured(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MIN_AUTOTUNED_OPS", 10**9)
    benchmark = FakeBenchmark()
    assert tuned(benchmark, seed)[0] == {} and not benchmark.measured


def test_candidates_are_valid_standalone_programs() -> None:
    for seed in range(30):
        benchmark = FakeBenchmark([1.0, 0.5])
        _, proc = tuned(benchmark, seed)
        verify(proc, "placed", alignment_bytes=64)
        for candidates in benchmark.measured:
            assert len({candidate.name for candidate in candidates}) == len(candidates) <= 24
            arguments = [buf for buf in candidates[0].bufs if buf.space is MemorySpace.GLOBAL]
            for candidate in candidates:
                assert [buf for buf in candidate.bufs if buf.space is MemorySpace.GLOBAL] == arguments
                verify(with_nodes(candidate), "placed", alignment_bytes=64)


def with_nodes(proc: Proc) -> Proc:
    """Gives every argument a node, also buffers of partial sums."""
    return replace_buffers(proc, {
        buf: replace(buf, node=TNode(buf.name, Role.RESULT, lambda: (), lambda: float32))
        for buf in proc.bufs if buf.space is MemorySpace.GLOBAL and buf.node is None
    })  # fmt: skip
