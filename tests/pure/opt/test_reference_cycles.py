"""Passes and the verifier leave no reference cycles behind: the cyclic garbage collector is paused meanwhile, so that
all memory in such cycles would remain until the end of a compilation."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from random import Random

import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.random_programs import generate

TARGET = Capabilities(vector_bytes=64, vector_registers=32)


@pytest.fixture
def paused_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("seed", range(20))
def test_no_garbage_needs_the_cyclic_collector(seed: int, paused_collector: None) -> None:
    code = generate(Random(f"cycles {seed}"), 8).code

    def compiled() -> None:
        proc = lower(code, "step")
        verify(proc, "lowered")
        verify(optimize(proc, {}, TARGET), "placed")

    compiled()  # fills caches
    gc.collect()
    compiled()
    assert gc.collect() == 0
