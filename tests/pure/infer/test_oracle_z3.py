"""Larger systems of two-axis tensors, with sizes up to 50, decided by z3."""

from __future__ import annotations

from random import Random

import pytest
from shape_systems.properties import check_error_message
from shape_systems.shape_oracle import Operation
from shape_systems.systems import System

from ocannl.infer.logic import einsum, pointwise
from ocannl.infer.parse import parse

z3 = pytest.importorskip("z3")

PIN = einsum(parse("i, j => i, j"))
LOGICS = {
    "transposed": einsum(parse("i, j => j, i")),
    "product": einsum(parse("i, j; j, k => i, k")),
    "joined": einsum(parse("x, i; y, i => x^y, i")),
    "window": einsum(parse("2*o<+k, i; k, i => o, i")),
    "strided": einsum(parse("3*i, j => i, j")),
    "longer": einsum(parse("i, j => i^5, j")),
    "sum": pointwise(2),
}


def random_system(random):
    """A fifth of the tensors have explicit sizes, the others two unknown axes."""
    count, roles, rows, operations, kinds = random.randint(6, 14), [], [], [], []
    for _ in range(count):
        sizes = tuple((random.choice((1, 2, 4, 7, 12, 25, 50)), None) for _ in range(2))
        roles.append("data")
        rows.append(((), (), sizes if random.random() < 0.2 else None))
        roles.append("result")
        rows.append(((), (), None))
        operations.append(Operation(PIN, [len(roles) - 2], len(roles) - 1))
        kinds.append("pin")
    for _ in range(random.randint(3, 6)):
        kind = random.choice([*LOGICS])
        logic = LOGICS[kind]
        operations.append(Operation(logic, [2 * random.randrange(count) for _ in range(logic.arity)], len(roles)))
        kinds.append(kind)
        roles.append("result")
        rows.append(((), (), None))
        if random.random() < 0.4:
            operations.append(Operation(PIN, [2 * random.randrange(count)], len(roles) - 1))
            kinds.append("pin")
    return System(roles, rows, operations), kinds


def solution(system, kinds):
    """Solution found by z3, or None."""
    solver = z3.Solver()
    size = [[z3.Int(f"t{n}_{k}") for k in range(2)] for n in range(len(system.roles))]
    for n, (_, _, sizes) in enumerate(system.rows):
        for k in range(2):
            solver.add(size[n][k] >= 0 if sizes is None else size[n][k] == sizes[k][0])
    for kind, operation in zip(kinds, system.operations, strict=True):
        (a, b), r = (size[operation.operands[0]], size[operation.operands[-1]]), size[operation.result]
        match kind:
            case "pin": solver.add(a[0] == r[0], a[1] == r[1])
            case "transposed": solver.add(a[0] == r[1], a[1] == r[0])
            case "product": solver.add(a[1] == b[0], r[0] == a[0], r[1] == b[1])
            case "joined": solver.add(a[1] == b[1], b[1] == r[1], r[0] == a[0] + b[0])
            case "window":
                solver.add(a[1] == b[1], b[1] == r[1], a[0] == 2 * r[0] + b[0] - 2, r[0] > 0, b[0] > 0)
            case "strided": solver.add(a[0] == 3 * r[0], a[1] == r[1])
            case "longer": solver.add(r[0] == a[0] + 5, r[1] == a[1])
            case "sum":
                for k in range(2):
                    solver.add(*(z3.Or(x[k] == 1, x[k] == r[k]) for x in (a, b)), z3.Or(a[k] == r[k], b[k] == r[k]))
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    values = [[(model.eval(k, model_completion=True).as_long(), None) for k in row] for row in size]
    return [((), (), tuple(row)) for row in values]


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 1000, 250))
def test_z3_agrees(start):
    for seed in range(start, start + 250):
        system, kinds = random_system(Random(f"z3 {seed}"))
        answer = system.solve(range(system.steps))
        if not isinstance(answer, str):
            assert not system.unsound(answer), f"{seed}\n{system}"
            assert solution(system, kinds), f"{seed}\n{system}"
            continue
        system.planted = solution(system, kinds)
        if system.planted is not None:
            assert not system.unsound(system.planted)
            assert not check_error_message(system, answer), f"{seed}\n{system}\n{answer}"
