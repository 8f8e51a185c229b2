"""The programs of the kit are such as the rest of the system makes: whoever refuses one of them is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import PRECISIONS, Precision, float32
from ocannl.ir.verify import verify
from ocannl.testing.kit import casts, layouts, numbers, operations, statements
from ocannl.testing.kit.cases import Case


def constants_of_all_operations(p: Precision) -> dict[str, Case]:
    ops = [BY_NAME[name] for name in operations.CONSTANTS]
    operands = (operations.with_constants(op, p) for op in ops if operations.has_meaning(op, p))
    return {name: case for cases in operands for name, case in cases.items()}


CASES_BY_KIND = {
    "operations": operations.applied,
    "constants": constants_of_all_operations,
    "reductions": operations.reductions,
    "written": lambda p: {"written": operations.written(p)},
    "indices": lambda p: {"indices": operations.indices(p)},
    "casts": casts.casts,
    "layouts": layouts.copies,
}


def check(case: Case) -> None:
    verify(case.proc, "placed", alignment_bytes=64)


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
@pytest.mark.parametrize("kind", CASES_BY_KIND)
def test_programs_keep_the_rules(kind, p):
    for case in CASES_BY_KIND[kind](p).values():
        check(case)


def test_loops_keep_the_rules():
    for case in statements.cases(float32).values():
        check(case)


def test_temporaries_keep_the_rules():
    check(layouts.simultaneous((0, 64), float32, 128))
    check(layouts.through_arena((64, 0), float32, 128))


@pytest.mark.parametrize("p", [float32], ids=str)
def test_what_is_wanted_is_what_the_interpreter_says(p):
    """Where both say something."""
    for case in (*statements.cases(p).values(), *layouts.copies(p).values(), layouts.simultaneous((0, 64), p, 128)):
        if case.want is not None:
            expected = Case(case.proc, case.inputs, case.values).expected()
            for buf, wanted, interpreted in zip(case.pools, case.want, expected, strict=True):
                numbers.agree(f"{buf.name} of {case.proc.name}", interpreted, wanted)


def test_each_program_does_something():
    for name, case in statements.cases(float32).items():
        changed = [not np.array_equal(a, b) for a, b in zip(case.inputs, case.expected(), strict=True)]
        idle = ("empty", "far_empty", "nothing_at_all", "words_and_places_to_leave", "a_value_is_what_it_was")
        assert any(changed) == (name not in idle), name
