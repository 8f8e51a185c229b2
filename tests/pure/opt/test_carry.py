"""Sums over rows, taken along by nests that go through these anyway, and long sums in parts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Proc
from ocannl.ir.text import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.parts import PARTS, parts, parts_of
from ocannl.opt.pipeline import optimize
from ocannl.opt.rows import rows
from ocannl.opt.share import share
from ocannl.testing.chains import Chain, chain
from ocannl.testing.evaluate import evaluate

TARGET = Capabilities(vector_bytes=16)
LATE = frozenset({"rows", "parts", "schedule", "number", "stream", "share", "poll", "memory"})


def taken(made: Chain) -> Proc:
    """With every sum taken along that may be."""
    return rows(optimize(lower(made.code, "step"), made.asked, TARGET, without=LATE), TARGET, far_bytes=0)


def divided(made: Chain) -> Proc:
    """With every sum divided that may be."""
    return parts(optimize(lower(made.code, "step"), made.asked, TARGET, without=LATE), long=1)


def carries(proc: Proc) -> bool:
    return any("_parts" in buf.name for buf in proc.bufs)


@pytest.mark.parametrize("make", [taken, divided])
def test_random_programs_compute_the_same(make: Callable[[Chain], Proc]) -> None:
    found = 0
    for seed in range(1500):
        made = chain(Random(seed))
        proc = make(made)
        if not carries(proc):
            continue
        found += 1
        proc = share(proc, 1, 1)
        verify(proc, "optimized")
        wanted = evaluate(made.code, made.arrays, {}, {})
        for node, array in interpret(proc, made.arrays, claims=Random(seed)).items():
            want = wanted.get(node, made.arrays[node])
            assert np.array_equal(array, want), f"chain {seed}\n{print_proc(proc)}{node}\n{want}\n{array}"
    assert found > 20


def test_parts_are_of_equal_length() -> None:
    assert [parts_of(n) for n in (1, 7, 64, 96, 4096, 4099)] == [1, 7, 64, 48, 64, 1]
    assert all(n % parts_of(n) == 0 and parts_of(n) <= PARTS for n in range(1, 500))
