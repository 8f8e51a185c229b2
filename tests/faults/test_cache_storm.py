"""Many processes share a cache that somebody damages: no wrong result, no unverified load, no exception."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

SECONDS = float(os.environ.get("OCANNL_TEST_STORM", "3"))


def test_a_shared_cache_under_damage(compiled, script):
    found = script("storm.py", compiled, SECONDS, 0)
    assert found["statuses"] == [0] * 9
    assert found["runs"] >= 8 and found["hits"] and found["misses"] and found["warnings"]
    assert found["left"] == 0
    assert found["flip"] and found["delete"] and found["cut"]
