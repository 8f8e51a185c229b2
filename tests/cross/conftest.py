"""How many programs in the user's language judge the whole: OCANNL_TEST_EXPRESSIONS, 200 by default; the first is
that of the seed OCANNL_TEST_FIRST.

Under the Hypothesis profile `fuzz` there are 50 times as many, and new ones every time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import settings
from usable_backends import usable_backends

import ocannl as oc

CHUNK = 10  # programs a test


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        first = int(os.environ.get("OCANNL_TEST_FIRST", "0"))
        count = int(os.environ.get("OCANNL_TEST_EXPRESSIONS", "200"))
        if settings.get_current_profile_name() == "fuzz":
            count *= 50
            run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or os.urandom(8).hex()  # the same for all workers
            first = first or Random(run).randrange(10**6, 10**9)
        chunks = [range(n, min(n + CHUNK, first + count)) for n in range(first, first + count, CHUNK)]
        metafunc.parametrize("seeds", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])
    if "backend" in metafunc.fixturenames and not _is_parametrized(metafunc, "backend"):
        metafunc.parametrize("backend", usable_backends())


def _is_parametrized(metafunc: pytest.Metafunc, name: str) -> bool:
    return any(name in marker.args[0] for marker in metafunc.definition.iter_markers("parametrize"))


@pytest.fixture(scope="session")
def backends() -> list[str]:
    return usable_backends()


@pytest.fixture
def ctx(backend: str) -> Iterator[oc.Context]:
    with oc.Context(backend) as context:
        yield context
