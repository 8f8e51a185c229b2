"""Plain forms of passes, and the replay that finds the passes that fail."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import MemorySpace, Proc
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Placement
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import pipeline
from ocannl.opt.pass_bisection import REQUIRED_PASSES, plain_variants, replay
from ocannl.opt.pipeline import optimize, passes, stage_after
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import Program, difference, generate

CPU = Capabilities(vector_bytes=32)
GPU = Capabilities(wants_schedule=False, wants_fusion_groups=True, wants_online_softmax=True, grid_threads=1 << 10)
TARGETS = {"cpu": CPU, "gpu": GPU}
NAMES = [name for step in passes({}, CPU) for name in step.replaceable_forms]


def check(pass_name: str, proc: Proc) -> None:
    verify(proc, stage_after(pass_name), alignment_bytes=64)


def program_of(seed: int) -> tuple[Program, Proc]:
    program = generate(Random(f"replay {seed}"), 5)
    return program, lower(program.code, "step")


def assert_correct(program: Program, proc: Proc) -> None:
    symbols = {sym: program.symbols[sym] for sym in proc.syms}
    results = interpret(proc, program.arrays, symbols, program.merged)
    expected = evaluate(program.code, program.arrays, program.symbols, program.merged)
    assert not difference(expected, results, program.tolerance)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(30))
def test_plain_forms_are_correct(seed: int, target: str) -> None:
    random = Random(seed)
    program, lowered = program_of(seed)
    subset = frozenset(random.sample(NAMES, random.randrange(len(NAMES))))
    for plain in (subset, *plain_variants(TARGETS[target]), frozenset(NAMES)):
        proc = optimize(lowered, {}, TARGETS[target], plain=plain)
        verify(proc, "placed", alignment_bytes=64)
        assert_correct(program, proc)


def test_plain_placement_keeps_all_nodes_and_plain_allocation_shares_nothing() -> None:
    for seed in range(10):
        _, lowered = program_of(seed)
        proc = optimize(lowered, {}, CPU, plain=REQUIRED_PASSES)
        assert {fact.placement for fact in proc.facts} <= {Placement.KEPT}
        arena = sorted((buf.offset, buf.nbytes) for buf in proc.bufs if buf.space is MemorySpace.ARENA)
        assert all(offset + size <= following for (offset, size), (following, _) in pairwise(arena))


def test_unknown_plain_pass_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown pass nothing; there are decide_placement"):
        optimize(program_of(0)[1], {}, CPU, plain=frozenset({"nothing"}))


@pytest.mark.parametrize("target", TARGETS)
def test_replay_of_correct_passes_is_the_optimized_program(target: str) -> None:
    for seed in range(10):
        _, lowered = program_of(seed)
        result = replay(lowered, {}, TARGETS[target], check)
        assert not result.failures and not result.plain
        assert print_proc(result.proc) == print_proc(optimize(lowered, {}, TARGETS[target]))


@pytest.mark.parametrize(("name", "target"), [
    *((step.name, "cpu") for step in passes({}, CPU) if step.when),
    *((step.name, "gpu") for step in passes({}, GPU) if step.when),
])  # fmt: skip
def test_replay_names_the_failing_pass(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, lowered = program_of(len(name))

    def fail(*args: object, **settings: object) -> Proc:
        raise KeyError(name)

    monkeypatch.setattr(pipeline, name, fail)
    result = replay(lowered, {}, TARGETS[target], check)
    assert [failure.pass_name for failure in result.failures] == [name]
    assert result.plain == {name}
    assert_correct(program, result.proc)


@pytest.mark.parametrize("is_ill_formed", [False, True])
def test_schedule_has_two_replacements(is_ill_formed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    program, lowered = program_of(3)

    def fail(proc: Proc, *args: object) -> Proc:
        if is_ill_formed:
            return replace(proc, bufs=())
        raise KeyError

    monkeypatch.setattr(pipeline, "schedule", fail)
    simple = replay(lowered, {}, CPU, check)
    assert simple.plain == {"schedule"}
    monkeypatch.setattr(pipeline, "schedule_simply", fail)
    plain = replay(lowered, {}, CPU, check)
    assert plain.plain == {"schedule", "simple schedule"} and plain.is_optimized
    for result in (simple, plain):
        assert [failure.pass_name for failure in result.failures] == ["schedule"]
        assert_correct(program, result.proc)


def test_plain_variants_leave_the_schedule_out_first() -> None:
    simple, schedule_only, everything = plain_variants(CPU)
    assert "schedule" in simple and "fuse_epilogues" not in simple
    assert schedule_only == simple | {"simple schedule"}
    assert everything == {*(step.name for step in passes({}, CPU) if step.when), "simple schedule"} - REQUIRED_PASSES
    assert all(not variant & REQUIRED_PASSES for variant in plain_variants(GPU))
