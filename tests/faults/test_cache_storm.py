"""Many processes share a cache that somebody damages: no wrong result, no unverified load, no exception."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

SECONDS = float(os.environ.get("OCANNL_TEST_STORM", "3"))


@pytest.mark.slow
def test_a_shared_cache_under_damage(compiled, script):
    report = script("storm.py", compiled, SECONDS, 0)
    assert report["statuses"] == [0] * 9
    assert report["runs"] >= 8 and report["hits"] and report["misses"] and report["warnings"]
    assert report["left"] == 0
    assert report["flip"] and report["delete"] and report["cut"]
