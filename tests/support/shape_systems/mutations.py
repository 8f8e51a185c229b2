"""Mutations of systems of shapes, which may make them unsatisfiable."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from shape_systems.shape_oracle import Axis
from shape_systems.systems import System


def mutate(random: Random, system: System) -> None:
    """Applies one or two random mutations to a system."""
    system.planted = None
    mutations: list[Callable[[], object]] = []
    for n, rows in enumerate(system.rows):
        for k, row in enumerate(rows):
            if row is not None and system.roles[n] != "result":
                mutations += [lambda n=n, k=k, i=i: resize(random, system, n, k, i) for i in range(len(row))] * 3
                if k or system.roles[n] != "param":
                    mutations.append(lambda n=n, k=k: relength(random, system, n, k))  # type: ignore[misc]
    for m, op in enumerate(system.operations):
        for name in op.sizes:
            mutations.append(lambda m=m, name=name: rename(random, system, m, name))  # type: ignore[misc]
    for n in system.cells:
        mutations.append(lambda n=n: system.cells.update({n: system.cells[n] + 1}))  # type: ignore[misc]
    for m, claim in enumerate(system.claims):
        more = {"value": claim.value + 1} if claim.base is None else {"factor": claim.factor + 1}
        changed = claim._replace(**more)
        mutations.append(lambda m=m, changed=changed: system.claims.__setitem__(m, changed))  # type: ignore[misc]
    for _ in range(random.choice((1, 2, 2))):
        if mutations:
            random.choice(mutations)()


def resize(random: Random, system: System, n: int, k: int, i: int) -> None:
    row = list(system.rows[n][k] or ())
    if i < len(row):
        size, unit = row[i]
        row[i] = (random.choice(((size or 0) + 1, (size or 0) + 2, 2)), unit) if random.random() < 0.85 else (size, "c")
        set_row(system, n, k, tuple(row))


def relength(random: Random, system: System, n: int, k: int) -> None:
    row = system.rows[n][k] or ()
    set_row(system, n, k, (*row, (2, None)) if random.random() < 0.5 else row[1:])


def set_row(system: System, n: int, k: int, row: tuple[Axis, ...]) -> None:
    rows = list(system.rows[n])
    rows[k] = row
    system.rows[n] = (rows[0], rows[1], rows[2])


def rename(random: Random, system: System, m: int, name: str) -> None:
    op = system.operations[m]
    system.operations[m] = op._replace(sizes={**op.sizes, name: op.sizes[name] + random.choice((1, 2))})
