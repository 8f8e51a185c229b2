"""A process that has used contexts is forked: they work in both."""

from __future__ import annotations

import os

import pytest

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"), pytest.mark.slow]


def test_contexts_work_on_both_sides_of_a_fork(backend, script):
    report = script("forks.py", backend, 0)
    assert report["statuses"] == [0] * report["forks"]
