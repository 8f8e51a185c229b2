"""Ctrl-C at any moment ends in KeyboardInterrupt, and the context remains usable."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no signals")

RUNS = int(os.environ.get("OCANNL_TEST_INTERRUPTS", "50"))  # of each phase
FIRST = int(os.environ.get("OCANNL_TEST_FIRST", "0"))


@pytest.mark.slow
def test_interrupts(compiled, script):
    report = script("interrupts.py", compiled, RUNS, FIRST, limit_seconds=60 + 20 * RUNS)
    assert report["left"] == []
    phases = [count for name, count in report.items() if name not in ("left", "seed", "dropped")]
    assert len(phases) == 7 and min(phases) > RUNS // 4
    assert report["dropped"] < RUNS


@pytest.mark.slow
def test_interrupts_at_calls(compiled, script):
    report = script("interrupts.py", compiled, RUNS // 5, FIRST, "--calls", limit_seconds=60 + 20 * RUNS)
    assert report["left"] == []
    phases = [count for name, count in report.items() if name not in ("left", "seed", "dropped")]
    assert len(phases) == 7 and min(phases) > RUNS // 10
