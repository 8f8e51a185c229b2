"""Orders of axes: whatever is chosen computes the same."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Proc, row_major
from ocannl.ir.text import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import layout as module
from ocannl.opt.pipeline import optimize
from ocannl.testing.chains import chain
from ocannl.testing.evaluate import evaluate
from ocannl.testing.generate import difference, generate

TARGET = Capabilities(vector_bytes=16)
EARLY = frozenset({"memory"})


@pytest.fixture
def at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each order costs whatever comes."""
    random = Random(0)
    monkeypatch.setattr(module, "_cycles", lambda *args: random.random())
    monkeypatch.setattr(module, "_copied", lambda *args: 0)


def test_any_order_of_any_array(at_random: None) -> None:
    turned = copied = 0
    for seed in range(150):
        made = chain(Random(seed))
        without = EARLY | {"rows"} | (frozenset() if seed % 2 else {"inline", "fuse"})
        stages: dict[str, Proc] = {}
        proc = optimize(lower(made.code, "step"), made.asked, TARGET, stages.__setitem__, without)
        verify(proc, "optimized")
        wanted, got = evaluate(made.code, made.arrays, {}, {}), interpret(proc, made.arrays)
        for node, array in got.items():
            assert np.array_equal(array, wanted.get(node, made.arrays[node])), f"{seed}\n{print_proc(proc)}"
        turned += sum(buf.strides != row_major(buf.shape) for buf in proc.bufs)
        copied += len(stages["layout"].body) - len(stages["fuse" if seed % 2 else "invert"].body)
    assert turned > 50
    assert copied > 50


def test_any_order_in_programs_of_every_kind(at_random: None) -> None:
    turned = 0
    for seed in range(150):
        made = generate(Random(seed), 6)
        proc = optimize(lower(made.code, "step"), {}, TARGET, None, EARLY)
        verify(proc, "optimized")
        wanted = evaluate(made.code, made.arrays, made.symbols, made.merged)
        got = interpret(proc, made.arrays, {s: made.symbols[s] for s in proc.syms}, made.merged)
        assert not difference(wanted, got, made.tolerance), f"{seed}\n{print_proc(proc)}"
        turned += sum(buf.strides != row_major(buf.shape) for buf in proc.bufs)
    assert turned > 20
