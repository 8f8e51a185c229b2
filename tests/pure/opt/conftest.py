"""How many random groups judge plans, and chains fusion: OCANNL_TEST_GROUPS, 300 when nobody says."""

from __future__ import annotations

import os

import pytest

GROUPS = int(os.environ.get("OCANNL_TEST_GROUPS", "300"))
CHUNK = 50  # groups a test


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        chunks = [range(n, min(n + CHUNK, GROUPS)) for n in range(0, GROUPS, CHUNK)]
        metafunc.parametrize("seeds", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])
