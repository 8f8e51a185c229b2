"""Processes are killed while they compile and transfer: nothing is left that would hinder the next."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

RUNS = int(os.environ.get("OCANNL_TEST_KILLS", "40"))


@pytest.mark.slow
def test_killed_while_compiling_and_transferring(compiled, script):
    report = script("kills.py", compiled, RUNS, 0)
    assert report["killed"] == report["survived"] == RUNS
    assert report["records"] > 0 and not report.get("unswept")
