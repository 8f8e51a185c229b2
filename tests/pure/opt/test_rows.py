"""Groups that share rows: whichever do, what is computed stays the same."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Proc
from ocannl.ir.text import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import rows as module
from ocannl.opt.fuse import fuse
from ocannl.opt.pipeline import optimize
from ocannl.opt.rows import rows
from ocannl.opt.settle import settle
from ocannl.testing.chains import chain
from ocannl.testing.evaluate import evaluate
from ocannl.testing.generate import difference, generate

TARGET = Capabilities(vector_bytes=16)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it costs."""
    monkeypatch.setattr(module, "LOSS", 1e9)


def test_rows_of_chains(seeds: range, always: None) -> None:
    for seed in seeds[::3]:
        random = Random(seed)
        made = chain(random)
        lowered = lower(made.code, "step")
        before = settle(lowered, made.asked)
        some = frozenset(name for name in ("inline", "fuse", "layout", "schedule", "number") if random.random() < 0.3)
        after = {
            "alone": rows(before, TARGET),
            "of what was fused": rows(fuse(before), TARGET),
            f"without {sorted(some)}": optimize(lowered, made.asked, TARGET, without=some | {"memory"}),
        }
        wanted = evaluate(made.code, made.arrays, {}, {})
        for name, proc in after.items():
            text = f"chain {seed}, {name}\n{print_proc(before)}\n{print_proc(proc)}\n"
            try:
                verify(proc, "optimized")
                got = interpret(proc, made.arrays, claims=Random(seed))
            except Exception as wrong:
                raise AssertionError(f"{text}{wrong}") from wrong
            for node, array in got.items():
                assert np.array_equal(array, wanted.get(node, made.arrays[node])), f"{text}{node}"


def test_rows_of_programs_of_every_kind(always: None) -> None:
    shared = 0
    for seed in range(200):
        made = generate(Random(seed), 6)
        stages: dict[str, Proc] = {}
        proc = optimize(lower(made.code, "step"), {}, TARGET, stages.__setitem__, frozenset({"memory"}))
        shared += len(stages["fuse"].body) - len(stages["rows"].body)
        verify(proc, "optimized")
        wanted = evaluate(made.code, made.arrays, made.symbols, made.merged)
        got = interpret(proc, made.arrays, {s: made.symbols[s] for s in proc.syms}, made.merged)
        assert not difference(wanted, got, made.tolerance), f"{seed}\n{print_proc(proc)}"
    assert shared > 20
