"""Nests that share a loop, and rows that are kept apart: whatever shares, what is computed stays the same."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import For, Local, Proc
from ocannl.ir.text import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import outer as module
from ocannl.opt import pad as padding
from ocannl.opt.outer import outer
from ocannl.opt.pad import pad
from ocannl.opt.pipeline import optimize
from ocannl.testing.chains import chain
from ocannl.testing.claims import Claims
from ocannl.testing.evaluate import evaluate
from ocannl.testing.generate import difference, generate

TARGET = Capabilities(vector_bytes=16)
SOME = ("inline", "fuse", "layout", "rows", "schedule", "number", "share", "poll", "pad")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it costs, and however short loops and rows are."""
    monkeypatch.setattr(module, "_pays", lambda *args: True)
    monkeypatch.setattr(outer, "__defaults__", (2, 0, 1.0))
    monkeypatch.setattr(pad, "__defaults__", (8,))
    monkeypatch.setattr(padding, "WAYS", 1)


def merged(stages: dict[str, Proc]) -> int:
    """How many loops hold several nests, in the end."""
    return sum(isinstance(stmt, For) and len(stmt.body) > 1 for stmt in stages["phase"].body)


def local(stages: dict[str, Proc]) -> int:
    loops = [stmt for stmt in stages["phase"].body if isinstance(stmt, For)]
    return sum(isinstance(stmt, Local) and bool(stmt.buf.shape) for loop in loops for stmt in loop.body)


def test_loops_that_chains_share(always: None) -> None:
    several = own = 0
    for seed in range(150):
        random = Random(seed)
        made = chain(random, random.randint(4, 14))
        without = frozenset(name for name in SOME if random.random() < 0.5)
        stages: dict[str, Proc] = {}
        proc = optimize(lower(made.code, "step"), made.asked, TARGET, stages.__setitem__, without)
        several, own = several + merged(stages), own + local(stages)
        text = f"chain {seed} without {sorted(without)}\n{print_proc(proc)}\n"
        claims = Claims(seed)
        try:
            verify(proc, "placed")
            got = interpret(proc, made.arrays, on_write=claims.watch, claims=claims)
        except Exception as wrong:
            raise AssertionError(f"{text}{wrong}") from wrong
        wanted = evaluate(made.code, made.arrays, {}, {})
        assert not claims.races, f"{text}{claims.races}"
        for node, array in got.items():
            assert np.array_equal(array, wanted.get(node, made.arrays[node])), f"{text}{node}"
    assert several > 10
    assert own > 10


def test_loops_that_programs_of_every_kind_share(always: None) -> None:
    several = 0
    for seed in range(150):
        random = Random(seed)
        made = generate(random, 6)
        without = frozenset(name for name in SOME if random.random() < 0.5)
        stages: dict[str, Proc] = {}
        proc = optimize(lower(made.code, "step"), {}, TARGET, stages.__setitem__, without)
        several += merged(stages)
        verify(proc, "placed")
        wanted = evaluate(made.code, made.arrays, made.symbols, made.merged)
        got = interpret(proc, made.arrays, {s: made.symbols[s] for s in proc.syms}, made.merged, claims=random)
        assert not difference(wanted, got, made.tolerance), f"{seed}\n{print_proc(proc)}"
    assert several > 3
