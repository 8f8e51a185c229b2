"""Random programs in the user's language: NumPy, the oracle of computations, finite differences and backends agree.

A failure prints the seed and the program, made as small as it gets, and keeps that in tests/cross/found, where
test_found.py runs it from then on. OCANNL_TEST_FIRST=seed OCANNL_TEST_EXPRESSIONS=1 runs one seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

import pytest
from shrink_programs import kept, shrunk

from ocannl.testing.oracles import Failure, OracleCase, compare_backend, compare_gradients, compare_values, oracle_case
from ocannl.testing.program import Program
from ocannl.testing.random_expressions import generate

FAILURES = Path(__file__).parent / "found"
KINDS = ("float64", "float32")
MODES = ((1, "inline"), (3, "inline"), (1, "threaded"), (3, "threaded"))

Judge = Callable[[Program, OracleCase], Failure | None]


def verdict(judge: Judge, kind: str, program: Program) -> Failure | None:
    try:
        return judge(program, oracle_case(program, kind))
    except Failure as refused:
        return refused


def report(seed: int, kind: str, judge: Judge, wrong: Failure) -> None:
    """Fails, with the smallest program about which the judge says the same."""
    small, failure = shrunk(generate(Random(seed)), wrong, partial(verdict, judge, kind))
    path = kept(small, kind, FAILURES / f"seed_{seed}_{kind}.py")
    pytest.fail(f"seed {seed}, {kind}: {wrong}\n\nThe smallest such program, in {path}: {failure}\n\n{small}")


def agrees(backend: str, threads: int, queue: str, program: Program, case: OracleCase) -> Failure | None:
    return compare_backend([case], backend, threads, queue)[0]


def test_programs_mean_the_same_everywhere(seeds: range, backends: Sequence[str]) -> None:
    """Types of floats take turns; so do threads, queues, and how often programs are verified."""
    cases = []
    for seed in seeds:
        kind = KINDS[seed % 2]
        program = generate(Random(seed))
        for judge in (compare_values, compare_gradients):
            wrong = verdict(judge, "float64", program)
            if wrong is not None:
                report(seed, "float64", judge, wrong)
        cases.append(oracle_case(program, kind))
    threads, queue = mode = MODES[seeds.start // len(seeds) % len(MODES)]
    checks = "every" if mode == MODES[0] else "ends"
    for backend in backends:
        for seed, wrong in zip(seeds, compare_backend(cases, backend, threads, queue, checks), strict=True):
            if wrong is not None:
                report(seed, KINDS[seed % 2], partial(agrees, backend, threads, queue), wrong)
