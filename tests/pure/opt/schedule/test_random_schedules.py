"""Random schedules of random programs give equal results in the exact interpreter, which runs chunks of parallel loops
in random order and detects races between iterations.

OCANNL_TEST_SCHEDULES is the number of schedules, OCANNL_TEST_FIRST the first seed.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from loop_programs.race_detector import Claims
from loop_programs.random_schedules import drawn, sample

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Proc
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import difference


def check(name: str, proc: Proc) -> None:
    verify(proc, "placed" if name == "allocate_memory" else "optimized", alignment_bytes=64)


def test_any_schedule_computes_equal_results(schedules: range) -> None:
    for seed in schedules:
        random = Random(f"schedules {seed}")
        program, keep_reasons = sample(random)
        lowered = lower(program.code, "step")
        steps, proc = "", lowered
        try:
            schedule = drawn(random, lowered, keep_reasons, Capabilities(), check)
            steps, proc = schedule.words, schedule.proc
            symbols = {sym: program.symbols[sym] for sym in proc.syms}
            claims = Claims(seed)
            got = interpret(proc, program.arrays, symbols, program.merged, claims.watch, claims)
            assert not claims.races, claims.races[0]
        except Exception as error:
            raise AssertionError(f"seed {seed}: {steps}\n{print_proc(lowered)}\n{print_proc(proc)}\n{error}") from error
        want = evaluate(program.code, program.arrays, program.symbols, program.merged)
        message = difference(want, got, program.tolerance)
        assert not message, f"seed {seed}: {steps}\n{print_proc(lowered)}\n{print_proc(proc)}\n{message}"


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    """Counts features of the drawn programs and schedules."""
    features: Counter[str] = Counter()
    for seed in range(300):
        random = Random(f"schedules {seed}")
        program, keep_reasons = sample(random)
        schedule = drawn(random, lower(program.code, "step"), keep_reasons, Capabilities())
        features.update(schedule.words.split(", "))
        text = print_proc(schedule.proc)
        markers = ("vectorized for", "unrolled for", "parallel(", "poll", "arena at", "bind ", "nontemporal ")
        features.update(marker for marker in markers if marker in text)
        features.update(["permuted"] if "@(" in text else [])
    return features


@pytest.mark.parametrize("feature", [
    "vectors of 0 bytes", "vectors of 64 bytes", "no fuse_epilogues", "no choose_layouts", "no fuse_outer_loops",
    "no inline_producers", "any choose_layouts", "any schedule", "any prefetch", "any parallelize", "any insert_polls",
    "vectorized for", "unrolled for", "parallel(", "poll", "arena at", "bind ", "permuted", "nontemporal ",
])  # fmt: skip
def test_every_feature_occurs(seen: Counter[str], feature: str) -> None:
    assert seen[feature] > 1
