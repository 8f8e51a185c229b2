"""Diagonals at the ends of rows of unknown length: the shortest row that satisfies every spec, in each order.

The oracle tries all lengths and unifies the axes of the specs that meet; it shares no code with the solver.
"""

from __future__ import annotations

import os
from itertools import chain, permutations
from random import Random
from typing import Any, NamedTuple

import pytest

from ocannl.base.errors import ShapeError

SYSTEMS = int(os.environ.get("OCANNL_TEST_SHAPES", "4000")) // 10
CHUNK = 100
MAX_RANK = 12
MAX_ORDERS = 30


class Ends(NamedTuple):
    """The spec `lead, ..., behind =>`, with sizes of names."""

    lead: list[str]
    behind: list[str]
    sizes: dict[str, int]

    @property
    def spec(self) -> str:
        return ", ".join([*self.lead, "...", *self.behind]) + " =>"


def random_ends(random: Random) -> list[Ends]:
    system = []
    for _ in range(random.randint(2, 5)):
        lead, behind = ([random.choice("ijk") for _ in range(random.choice((1, 1, 2, 2, 3)))] for _ in range(2))
        match random.random():
            case draw if draw < 0.4:
                lead = []
            case draw if draw < 0.8:
                behind = []
        names = sorted({*lead, *behind})
        system.append(Ends(lead, behind, {name: random.choice((1, 2, 3)) for name in names if random.random() < 0.5}))
    return system


def shortest_row(system: list[Ends]) -> str:
    """The shortest row that satisfies all specs, axes without a size being 1."""
    for rank in range(MAX_RANK):
        groups = {axis: {axis} for axis in range(rank)}
        sizes: list[tuple[int, int]] = []
        for lead, behind, given in system:
            if len(lead) + len(behind) > rank:
                break
            axes: dict[str, int] = {}
            for axis, name in chain(enumerate(lead), enumerate(behind, rank - len(behind))):
                group = groups[axis] | groups[axes.setdefault(name, axis)]
                groups.update(dict.fromkeys(group, group))
                sizes += [(axis, given[name])] if name in given else []
        else:
            row = [{size for axis, size in sizes if axis in groups[n]} or {1} for n in range(rank)]
            if all(len(options) == 1 for options in row):
                return ",".join(str(size) for options in row for size in options)
    return "refused"


def inferred(net: Any, system: list[Ends]) -> str:
    x = net.x("?", "x")
    try:
        for ends in system:
            net.einsum(ends.spec, x, **ends.sizes)
        return str(x)
    except ShapeError:
        return "refused"


@pytest.mark.parametrize("start", range(0, SYSTEMS, CHUNK))
def test_rows_are_the_shortest_in_each_order(net: Any, start: int) -> None:
    for seed in range(start, start + CHUNK):
        random = Random(seed)
        system = random_ends(random)
        orders = list(permutations(system))
        for order in orders if len(orders) <= MAX_ORDERS else random.sample(orders, MAX_ORDERS):
            assert inferred(net, [*order]) == shortest_row(system), f"{seed}: {order}"
