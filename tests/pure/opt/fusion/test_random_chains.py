"""Fusion preserves results exactly: random programs of many small statements."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from loop_programs.race_detector import Claims
from loop_programs.random_chains import Chain, chain

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, Apply, Cast, Const, IndexValue, Proc, Var, When
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.fusion.fuse_epilogues import fuse_epilogues
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.opt.pipeline import optimize, passes
from ocannl.testing.evaluate import evaluate

TARGETS = [Capabilities(vector_bytes=size) for size in (0, 16, 32, 64)]
OPTIONAL = [step.name for step in passes({}, TARGETS[0]) if step.name not in ("decide_placement", "fuse_epilogues")]


def procs(program: Chain, random: Random) -> tuple[Proc, dict[str, Proc]]:
    """Returns the program before optimization, and optimized variants."""
    lowered = lower(program.code, "step")
    before = decide_placement(lowered, program.requested)
    without = frozenset(name for name in OPTIONAL if random.random() < 0.4)
    after = {
        "fused": fuse_epilogues(before),
        "whole": optimize(lowered, program.requested, random.choice(TARGETS)),
        "divided": divided(lowered, program, random),
        f"without {sorted(without)}": optimize(lowered, program.requested, random.choice(TARGETS), without=without),
    }
    return before, after


def divided(lowered: Proc, program: Chain, random: Random) -> Proc:
    """Parallelizes every possible loop, and polls in every possible place."""
    late = frozenset({"parallelize", "insert_polls", "allocate_memory"})
    proc = optimize(lowered, program.requested, random.choice(TARGETS), without=late)
    return insert_polls(parallelize(proc, 1, random.choice((1, 10, 100))), random.choice((1, 20, 10**6)))


def test_computations_are_exact(seeds: range) -> None:
    """Values are integers that floats represent exactly."""
    for seed in seeds:
        proc = lower(chain(Random(seed)).code, "step")
        kinds = {
            node.precision for node in walk(proc.body)
            if isinstance(node, Const | IndexValue | Var | Apply | When | Cast)
        }  # fmt: skip
        assert not any(kind.is_float for kind in kinds), f"chain {seed}\n{print_proc(proc)}"


@pytest.mark.slow
def test_fused_programs_compute_equal_results(seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        program = chain(random)
        wanted = evaluate(program.code, program.arrays, {}, {})
        before, after = procs(program, random)
        for name, proc in after.items():
            text = f"chain {seed}, {name}\n{print_proc(before)}\n{print_proc(proc)}\n"
            try:
                verify(proc, "placed" if name == "whole" else "optimized", alignment_bytes=64)
                claims = Claims(seed)
                got = interpret(proc, program.arrays, on_write=claims.watch, iteration_order=claims)
                assert not claims.races, claims.races[0]
            except Exception as wrong:
                raise AssertionError(f"{text}{wrong}") from wrong
            for node, array in got.items():
                want = wanted.get(node, program.arrays[node])
                assert np.array_equal(array, want), f"{text}{node}\n{want}\n{array}"


def test_chains_are_fused() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        random = Random(seed)
        before, after = procs(chain(random), random)
        two = after["fused"]
        seen["before"] += len(before.body)
        seen["after"] += len(two.body)
        old_count, new_count = (sum(b.access is AccessMode.TEMP for b in proc.bufs) for proc in (before, two))
        seen["gone"] += old_count - new_count
    assert seen["after"] < 0.7 * seen["before"] and seen["gone"] > 10
