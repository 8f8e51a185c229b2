"""How many random groups judge plans, and chains fusion: OCANNL_TEST_GROUPS, 300 by default; and how many random
programs any schedules: OCANNL_TEST_SCHEDULES, 300, the first of which is that of the seed OCANNL_TEST_FIRST."""

from __future__ import annotations

import os

import pytest

CHUNK = 50  # seeds a test


def seeds(count: str, first: int = 0) -> list[range]:
    end = first + int(os.environ.get(count, "300"))
    return [range(n, min(n + CHUNK, end)) for n in range(first, end, CHUNK)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, chunks in (
        ("seeds", seeds("OCANNL_TEST_GROUPS")),
        ("schedules", seeds("OCANNL_TEST_SCHEDULES", int(os.environ.get("OCANNL_TEST_FIRST", "0")))),
    ):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])
