"""OCANNL_TEST_NETWORKS is the number of networks (default 60), OCANNL_TEST_FIRST the first seed.

The Hypothesis profile `fuzz` multiplies the number by 50 and chooses new seeds in every run.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import settings


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first = int(os.environ.get("OCANNL_TEST_FIRST", "0"))
        count = int(os.environ.get("OCANNL_TEST_NETWORKS", "60"))
        if settings.get_current_profile_name() == "fuzz":
            count *= 50
            run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or os.urandom(8).hex()  # the same for all workers
            first = first or Random(run).randrange(10**6, 10**9)
        metafunc.parametrize("seed", range(first, first + count))
