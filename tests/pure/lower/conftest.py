"""How many random programs judge lowering: OCANNL_TEST_PROGRAMS, 5000 by default."""

from __future__ import annotations

import os
from functools import cache
from random import Random

import numpy as np
import pytest

from ocannl.ir.tnode import TNode
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import Program, generate

PROGRAMS = int(os.environ.get("OCANNL_TEST_PROGRAMS", "5000"))
CHUNK = 500  # programs a test


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        chunks = [range(n, min(n + CHUNK, PROGRAMS)) for n in range(0, PROGRAMS, CHUNK)]
        metafunc.parametrize("seeds", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])


class Judged:
    """Random programs and what they mean, made when first asked for."""

    @staticmethod
    @cache
    def program(seed: int) -> tuple[Program, dict[TNode, np.ndarray]]:
        program_ = generate(Random(seed))
        return program_, evaluate(program_.code, program_.arrays, program_.symbols, program_.merged)


@pytest.fixture(scope="session")
def judged() -> Judged:
    return Judged()
