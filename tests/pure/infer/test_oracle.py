"""Random systems of shapes, checked against definitions that share no code with the solver.

Every solution must satisfy each operation (*sound*), make results exactly the broadcast of their operands (*least*),
have leaves as large as their uses (*committed*), project to the cells of the specs, and be independent of the
topological order in which the operations are built. Systems refused immediately must be unsatisfiable for all small
shapes; satisfiable systems refused later must name tensors or sizes that make the system solvable when specified.
OCANNL_TEST_SHAPES sets the number of systems.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from statistics import median

import pytest
from shape_systems.families import CERTAIN, FAMILIES, SMALL, refused_without_need
from shape_systems.properties import check_answer, check_rollback
from shape_systems.shape_oracle import Operation, broadcast, fits, holds, makes
from shape_systems.systems import AT_ONCE, System

from ocannl.infer.logic import einsum, pointwise
from ocannl.infer.parse import parse
from ocannl.infer.spec import Concat, Fixed, Label, Merged, Wild, Window

SYSTEMS = int(os.environ.get("OCANNL_TEST_SHAPES", "4000"))
CHUNK = 250
CHUNKS = range(0, SYSTEMS // len(FAMILIES), CHUNK)


@pytest.mark.parametrize("start", CHUNKS)
@pytest.mark.parametrize("family", [*FAMILIES])
def test_answers_are_sound_and_independent_of_order(family, start):
    for seed in range(start, start + CHUNK):
        random = Random(f"{family} {seed}")
        system = FAMILIES[family](random)
        wrong = check_answer(system, random, SMALL.get(family), family not in CERTAIN)
        assert not wrong, f"{family} {seed}\n{system}\n{wrong}"


@pytest.mark.parametrize("start", CHUNKS)
@pytest.mark.parametrize("family", [*FAMILIES])
def test_refusals_are_rolled_back(family, start):
    for seed in range(start, start + CHUNK):
        system = FAMILIES[family](Random(f"{family} {seed}"))
        left = check_rollback(system)
        assert not left, f"{family} {seed}\n{system}\n{left}"


@pytest.mark.parametrize("start", CHUNKS)
def test_refusals_of_satisfiable_systems_are_rare_and_helpful(start):
    assert not refused_without_need(range(start, start + CHUNK))


# --- what is tried ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_enough_systems_of_either_kind_are_tried():
    """30 to 70 % are refused, and half have six variables or more."""
    impossible, refused, variables = 0, 0, []
    for family, make in FAMILIES.items():
        systems = [make(Random(f"{family} {seed}")) for seed in range(300)]
        answers = [system.solve(range(system.steps)) for system in systems]
        variables += [system.variables for system in systems]
        refused_here = sum(isinstance(answer, str) for answer in answers)
        assert 15 < refused_here < 240, f"{family}: {refused_here / 3:.0f} % are refused"
        refused += refused_here
        impossible += sum(isinstance(answer, str) and answer.startswith(AT_ONCE) for answer in answers)
    number = 300 * len(FAMILIES)
    assert 0.3 < impossible / number < refused / number < 0.7, (impossible, refused, number)
    assert median(variables) >= 6


def forms(system):
    """Kinds of constraints in a system."""
    for operation in system.operations:
        logic = operation.logic
        yield logic.name
        yield from ("size" for name in operation.sizes if name in logic.spec.labels())
        yield from ("cells of a row variable" for name in operation.sizes if name in logic.spec.row_vars())
        yield from ("coefficient" for name in operation.sizes if name in logic.spec.coefficients())
        yield from ("capture" for name in operation.captures if name in logic.spec.labels())
        yield from ("capture of a row variable" for name in operation.captures if name in logic.spec.row_vars())
        for shape in logic.spec.shapes if logic.name == "einsum" else ():
            for kind, row in shape.rows:
                if row.var is not None:
                    yield f"{kind} row variable"
                names = [axis.name for axis in row.axes if isinstance(axis, Label)]
                if len(names) > len(set(names)):
                    yield "diagonal"
                yield from (type(axis).__name__ for axis in row.axes)
                yield from (axis.padding.name for axis in row.axes if isinstance(axis, Window) and axis.kernel)
    for claim in system.claims:
        yield "set" if claim.base is None else "equal" if claim.factor == 1 else "scale"
    yield from ("square" for _ in system.square)
    yield from ("total" for _ in system.cells)
    yield from ("unit" for rows in system.rows for row in rows for _, unit in row or () if unit)


@pytest.mark.slow
def test_every_form_of_constraint_is_tried():
    wanted = {
        "pointwise", "compose", "compose and accumulate", "transpose", "einsum", "slice", "size", "coefficient",
        "cells of a row variable", "capture", "capture of a row variable", "set", "equal", "scale", "square", "total",
        "unit", "diagonal", "batch row variable", "input row variable", "output row variable", "SAME", "VALID",
        "UNSTATED", *(kind.__name__ for kind in (Label, Fixed, Wild, Window, Concat, Merged)),
    }  # fmt: skip
    counts = Counter(form for seed in range(600) for form in forms(FAMILIES["planted"](Random(f"planted {seed}"))))
    assert wanted == counts.keys()
    assert min(counts.values()) >= 20, counts


def test_the_oracle_covers_all_forms():
    def row(*sizes):
        return tuple((size, None) for size in sizes)

    assert fits(row(2, 3), row(3)) and fits(row(2, 3), row(1, 3))
    assert not fits(row(2, 3), row(2)) and not fits(row(3), row(1, 3))
    assert broadcast([row(2, 1), row(3), row()]) == row(2, 3)
    assert broadcast([row(1, 1), row(1)]) == row(1, 1)
    assert broadcast([row(2), row(3)]) is None
    for spec, rows, possible in [
        ("ij => ji", [(2, 3), (3, 2)], True), ("ij => ji", [(2, 3), (2, 3)], False), ("ii => i", [(2, 3), (2,)], False),
        ("2*o<+k; k => o", [(7,), (3,), (3,)], True), ("2*o<+k; k => o", [(8,), (3,), (3,)], False),
        ("x; y => x^y", [(2,), (3,), (5,)], True), ("x; y => x^y", [(2,), (3,), (6,)], False),
        ("(a b) => a, b", [(6,), (2, 3)], True), ("(a b) => a, b", [(6,), (2, 4)], False),
        ("i1 => i", [(3, 2), (3,)], True), ("i1 => i", [(3, 1), (3,)], False), ("_ _ => 0", [(3, 2), (1,)], True),
    ]:  # fmt: skip
        assert holds(einsum(parse(spec)), [(row(), row(), row(*sizes)) for sizes in rows]) is possible, (spec, rows)
    for spec, rows, possible in [
        ("i => i, 0", [(3,), (3, 1)], True), ("i => i, 0", [(3,), (3, 2)], False), ("i => i, 2", [(3,), (3, 3)], True),
        ("i; j => i+j", [(3,), (2,), (4,)], True), ("i; j => i+j", [(3,), (2,), (5,)], False),
    ]:  # fmt: skip
        assert makes(einsum(parse(spec)), [(row(), row(), row(*sizes)) for sizes in rows]) is possible, (spec, rows)
    two = [(row(), row(), row(*sizes)) for sizes in ((2, 1), (1,), (2, 1), (2, 3))]
    assert makes(pointwise(2), two[:3]) and holds(pointwise(2), two[:3])
    assert not makes(pointwise(2), [*two[:2], two[3]]) and holds(pointwise(2), [*two[:2], two[3]])


def system_of_an_open_left_side(**sizes):
    """`...i => ...ij` written into a leaf of unknown shape that has no other use."""
    leaf = (), (), ((2, None),)
    written = Operation(einsum(parse("...i => ...ij")), [0], 1, sizes)
    return System(["data", "data"], [leaf, ((), (), None)], [written])


def system_of_a_sized_left_side():
    """The same with a sum of the left side and a row of size 3."""
    system = system_of_an_open_left_side()
    system.roles += ["data", "result"]
    system.rows += [((), (), ((3, None),)), (None, None, None)]
    system.operations.append(Operation(pointwise(2), [1, 2], 3))
    return system


def test_only_evidence_makes_a_refused_name_a_wrong_answer(monkeypatch):
    small = SMALL["rows"]
    assert "`j` stands only in the result" in system_of_an_open_left_side().solve([0])
    assert not check_answer(system_of_an_open_left_side(), Random(0), small, guesses=False)
    for system in (system_of_an_open_left_side(j=2), system_of_a_sized_left_side()):
        assert not check_answer(system, Random(0), small, guesses=False)
    refusal = "`j` stands only in the result of `...i => ...ij`: its size is not determined"
    monkeypatch.setattr(System, "solve", lambda self, order: refusal)
    assert not check_answer(system_of_an_open_left_side(), Random(0), small, guesses=False)
    for system in (system_of_an_open_left_side(j=2), system_of_a_sized_left_side()):
        assert check_answer(system, Random(0), small, guesses=False).startswith(f"{refusal}\nbut [")


def test_an_answer_without_evidence_for_a_name_is_wrong(monkeypatch):
    answer = [((), (), ((2, None),)), ((), (), ((2, None), (1, None)))]
    monkeypatch.setattr(System, "solve", lambda self, order: answer)
    assert check_answer(system_of_an_open_left_side(), Random(0)) == "nothing determines the sizes of [(0, 'j')]"
