"""Gradients of random programs, entry by entry: `oc.testing.gradcheck` on whole graphs, and seeded bugs that it finds.

There are OCANNL_TEST_GRADIENTS programs, 60 by default. Programs are drawn until one has no kink near its values.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from shrink_programs import shrunk

from ocannl.lang.core import derivatives, operation, symbolic_terms
from ocannl.lang.ops import elementwise, scans
from ocannl.testing.oracles import Failure, check_gradients, is_differentiable
from ocannl.testing.program import Program
from ocannl.testing.random_expressions import generate

PROGRAMS = int(os.environ.get("OCANNL_TEST_GRADIENTS", "60"))
CHUNK = 20
ENTRIES = 40  # of all parameters of a program


def drawn(seed: int) -> Program:
    random = Random(f"gradients {seed}")
    while True:
        program = generate(random, 6)
        entries = sum(program.data[name].size for name in program.params)
        if is_differentiable(program) and 0 < entries <= ENTRIES:
            return program


def verdict(program: Program) -> Failure | None:
    try:
        return check_gradients(program)
    except Exception as refused:
        return Failure(type(refused).__name__, str(refused))


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_every_entry_is_confirmed(first: int) -> None:
    for seed in range(first, min(first + CHUNK, PROGRAMS)):
        program = drawn(seed)
        wrong = verdict(program)
        if wrong is not None:
            small, failure = shrunk(program, wrong, verdict)
            pytest.fail(f"seed {seed}: {wrong}\n\nThe smallest such program says: {failure}\n\n{small}")


# --- seeded bugs -----------------------------------------------------------------------------------------------------

Seed = Callable[[pytest.MonkeyPatch], None]


def rule(name: str, number: int, wrong: Callable[..., Any] | None) -> Seed:
    def seed(patch: pytest.MonkeyPatch) -> None:
        rules = list(derivatives.DERIVATIVES[name])
        rules[number] = wrong
        patch.setitem(derivatives.DERIVATIVES, name, tuple(rules))

    return seed


def part(module: Any, name: str, wrong: Any) -> Seed:
    return lambda patch: patch.setattr(module, name, wrong)


BUGS: dict[str, tuple[int, Seed]] = {  # with the program that is known to find it, which is tried first
    "the exponential forgets its value": (21, rule("exp", 0, lambda g, v, x: g)),
    "a divisor receives the other sign": (5, rule("div", 1, lambda g, v, x, y: g * (v / y))),
    "the logarithm is its own slope": (39, rule("log", 0, lambda g, v, x: g * v)),
    "the cosine forgets its sign": (8, rule("cos", 0, lambda g, v, x: g * symbolic_terms.apply("sin", x))),
    "the square root forgets a half": (30, rule("sqrt", 0, lambda g, v, x: g / v)),
    "a sum of products forgets its summand": (37, rule("fma", 2, None)),
    "a factor receives itself": (0, rule("mul", 0, lambda g, v, x, y: g * x)),
    "the smaller of two receives it": (
        74, rule("max", 1, lambda g, v, x, y: symbolic_terms.apply("where", x > y, g, 0.0))
    ),
    "a product counts all factors": (28, part(operation, "_cofactor", lambda s, factor: s.value)),
    "a walk back goes on": (16, part(scans, "FOLLOWING", scans.PRECEDING)),
    "an extreme hands its share to all before it": (16, part(scans, "_mask", lambda condition, value: value)),
    "soft functions have a slope of one half": (20, part(elementwise, "term_sigmoid", lambda x: 0.0 * x + 0.5)),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hint, put = BUGS[bug]
    put(monkeypatch)
    assert any(verdict(drawn(seed)) for seed in (hint, *range(200)))


@pytest.mark.slow
def test_a_program_with_a_wrong_gradient_becomes_small(monkeypatch: pytest.MonkeyPatch) -> None:
    hint, put = BUGS["the exponential forgets its value"]
    put(monkeypatch)
    program = next(p for p in map(drawn, (hint, *range(200))) if "oc.exp(" in p.text and verdict(p))
    small, failure = shrunk(program, Failure("gradient", ""), verdict)
    assert len(small.lines) <= 4 < len(program.lines)
    assert "differences of the values give" in str(failure)
