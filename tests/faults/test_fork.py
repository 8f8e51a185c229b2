"""A process that has used contexts, or is importing a backend, is forked: both work in both."""

from __future__ import annotations

import os

import pytest

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"), pytest.mark.slow]


def test_contexts_work_on_both_sides_of_a_fork(backend, script):
    report = script("forks.py", backend, 0)
    assert report["statuses"] == [0] * report["forks"]


RUNS = int(os.environ.get("OCANNL_TEST_FORKS", "12"))
FIRST = int(os.environ.get("OCANNL_TEST_FIRST", "0"))


def test_forks_during_the_first_import(compiled, script):
    report = script("import_forks.py", compiled, RUNS, FIRST, limit_seconds=300 + 60 * RUNS)
    assert report["messages"] == ""
    assert report["statuses"] == [0] * RUNS
