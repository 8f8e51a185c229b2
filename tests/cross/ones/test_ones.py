"""Random programs with many axes of size 1: shapes, values and gradients are NumPy's, whatever else is written.

OCANNL_TEST_ONES says how many programs are tried, half of them with open leaves; OCANNL_TEST_FIRST is the first seed. A
failure prints the seed and the program, made as small as it gets, which runs as it stands.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from ones.open_shape_oracles import outcome
from ones.oracles import CLOSED, OPEN, VALUES, Oracle
from ones.program import Program
from ones.rows import RULES
from ones.seeded_programs import SAMPLE, closed_program, open_program, part_of
from ones.shrink import complaint_of, shrink

COUNT = int(os.environ.get("OCANNL_TEST_ONES", "4000"))
FIRST = int(os.environ.get("OCANNL_TEST_FIRST", "0"))
CHUNK = 50

CHUNKS = [range(n, min(n + CHUNK, FIRST + COUNT // 2)) for n in range(FIRST, FIRST + COUNT // 2, CHUNK)]


def check(program: Program, oracle: Oracle, seed: int) -> None:
    program = part_of(program, oracle)
    complaint = oracle(program, Random(seed))
    if complaint:
        small, message = shrink(program, oracle, complaint)
        message = message if complaint_of(oracle, small) else complaint
        pytest.fail(f"seed {seed}: {oracle.__doc__}\n\n{message}\n\n{small}")


@pytest.mark.parametrize("chunk", CHUNKS, ids=str)
def test_closed_programs(chunk: range) -> None:
    for seed in chunk:
        program = closed_program(seed)
        for oracle in CLOSED:
            check(program, oracle, seed)


@pytest.mark.parametrize("chunk", CHUNKS, ids=str)
def test_programs_with_open_leaves(chunk: range) -> None:
    for seed in chunk:
        program = open_program(seed)
        for oracle in OPEN:
            check(program, oracle, seed)


@pytest.mark.parametrize("chunk", CHUNKS, ids=str)
def test_values_and_gradients(chunk: range) -> None:
    for seed in chunk[::SAMPLE]:
        program = closed_program(seed)
        for oracle in VALUES:
            check(program, oracle, seed)


# --- what is tried ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_operation_and_every_rule_is_tried() -> None:
    programs = [closed_program(seed) for seed in range(800)]
    operations = [line.operation.name for program in programs for line in program.lines]
    wanted = {
        "pointwise", "matmul", "transpose", "slice", "total", "einsum", "mean", "concat", "softmax", "stack", "take",
        "pool", "conv",
    }  # fmt: skip
    assert wanted == set(operations)
    assert min(operations.count(name) for name in wanted) >= 25
    rules = [line.rule for program in programs for line in program.lines if line.rule]
    assert RULES.keys() == set(rules)
    assert min(rules.count(rule) for rule in RULES) >= 2
    assert 0.01 < len(rules) / len(operations) < 0.2


def test_half_of_the_axes_have_size_1() -> None:
    axes = [
        axis.size for seed in range(200) for s in closed_program(seed).statements for row in s.rows for axis in row
    ]  # fmt: skip
    assert 0.4 < axes.count(1) / len(axes) < 0.8
    assert {0, 1, 2, 3, 4, 5, 6} <= set(axes)


@pytest.mark.slow
def test_most_programs_with_open_leaves_have_shapes() -> None:
    programs = [open_program(seed).own for seed in range(200)]
    programs = [program for program in programs if any(leaf.is_open for leaf in program.leaves)]
    assert len(programs) > 130
    refused = [outcome(program).error for program in programs]
    assert 0.02 < sum(error is not None for error in refused) / len(programs) < 0.4
