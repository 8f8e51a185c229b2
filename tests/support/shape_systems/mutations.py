"""Systems of shapes in which something is said that may not hold."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from shape_systems.shape_oracle import Axis
from shape_systems.systems import System


def spoil(random: Random, system: System) -> None:
    """Change something that was said, so that it may no longer be satisfied."""
    system.planted = None
    ways: list[Callable[[], object]] = []
    for n, rows in enumerate(system.rows):
        for k, row in enumerate(rows):
            if row is not None and system.roles[n] != "result":
                ways += [lambda n=n, k=k, i=i: resize(random, system, n, k, i) for i in range(len(row))] * 3
                if k or system.roles[n] != "param":
                    ways.append(lambda n=n, k=k: relength(random, system, n, k))  # type: ignore[misc]
    for m, it in enumerate(system.operations):
        for name in it.sizes:
            ways.append(lambda m=m, name=name: rename(random, system, m, name))  # type: ignore[misc]
    for n in system.cells:
        ways.append(lambda n=n: system.cells.update({n: system.cells[n] + 1}))  # type: ignore[misc]
    for m, claim in enumerate(system.claims):
        more = {"value": claim.value + 1} if claim.other is None else {"factor": claim.factor + 1}
        changed = claim._replace(**more)
        ways.append(lambda m=m, changed=changed: system.claims.__setitem__(m, changed))  # type: ignore[misc]
    for _ in range(random.choice((1, 2, 2))):
        if ways:
            random.choice(ways)()


def resize(random: Random, system: System, n: int, k: int, i: int) -> None:
    row = list(system.rows[n][k] or ())
    if i < len(row):
        size, unit = row[i]
        row[i] = (random.choice(((size or 0) + 1, (size or 0) + 2, 2)), unit) if random.random() < 0.85 else (size, "c")
        put(system, n, k, tuple(row))


def relength(random: Random, system: System, n: int, k: int) -> None:
    row = system.rows[n][k] or ()
    put(system, n, k, (*row, (2, None)) if random.random() < 0.5 else row[1:])


def put(system: System, n: int, k: int, row: tuple[Axis, ...]) -> None:
    rows = list(system.rows[n])
    rows[k] = row
    system.rows[n] = (rows[0], rows[1], rows[2])


def rename(random: Random, system: System, m: int, name: str) -> None:
    it = system.operations[m]
    system.operations[m] = it._replace(sizes={**it.sizes, name: it.sizes[name] + random.choice((1, 2))})
