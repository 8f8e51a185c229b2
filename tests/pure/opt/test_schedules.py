"""Random schedules of random programs give equal results in the exact interpreter, which runs chunks of parallel loops
in random order and detects races between iterations.

OCANNL_TEST_SCHEDULES is the number of schedules, OCANNL_TEST_FIRST the first seed.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Proc
from ocannl.ir.text import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.testing.claims import Claims
from ocannl.testing.evaluate import evaluate
from ocannl.testing.generate import difference
from ocannl.testing.schedules import drawn, sample


def check(name: str, proc: Proc) -> None:
    verify(proc, "placed" if name == "allocate_memory" else "optimized", alignment_bytes=64)


def test_any_schedule_computes_equal_results(schedules: range) -> None:
    for seed in schedules:
        random = Random(f"schedules {seed}")
        made, asked = sample(random)
        lowered = lower(made.code, "step")
        words, proc = "", lowered
        try:
            some = drawn(random, lowered, asked, Capabilities(), check)
            words, proc = some.words, some.proc
            symbols = {sym: made.symbols[sym] for sym in proc.syms}
            claims = Claims(seed)
            got = interpret(proc, made.arrays, symbols, made.merged, claims.watch, claims)
            assert not claims.races, claims.races[0]
        except Exception as wrong:
            raise AssertionError(f"seed {seed}: {words}\n{print_proc(lowered)}\n{print_proc(proc)}\n{wrong}") from wrong
        want = evaluate(made.code, made.arrays, made.symbols, made.merged)
        wrong = difference(want, got, made.tolerance)
        assert not wrong, f"seed {seed}: {words}\n{print_proc(lowered)}\n{print_proc(proc)}\n{wrong}"


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    """Counts features of the drawn programs and schedules."""
    found: Counter[str] = Counter()
    for seed in range(150):
        random = Random(f"schedules {seed}")
        made, asked = sample(random)
        some = drawn(random, lower(made.code, "step"), asked, Capabilities())
        found.update(some.words.split(", "))
        text = print_proc(some.proc)
        words = (" lanes", " unrolled", "claimed by", "poll", "arena at", "pick ", "stream ")
        found.update(word for word in words if word in text)
        found.update(["turned"] if "@(" in text else [])
    return found


@pytest.mark.parametrize("what", [
    "vectors of 0 bytes", "vectors of 64 bytes", "no fuse_epilogues", "no choose_layouts", "no fuse_outer_loops",
    "no inline_producers", "any choose_layouts", "any schedule", "any prefetch", "any parallelize", "any insert_polls",
    " lanes", " unrolled", "claimed by", "poll", "arena at",
    "pick ", "turned", "stream ",
])  # fmt: skip
def test_there_is_some_of_everything(seen: Counter[str], what: str) -> None:
    assert seen[what] > 1
