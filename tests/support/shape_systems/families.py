"""Families of random systems of shapes, and the number of each that the solver may refuse."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from shape_systems.planted_systems import random_planted
from shape_systems.properties import check_error_message
from shape_systems.random_systems import (
    random_diagonals,
    random_ends,
    random_flanks,
    random_inserted,
    random_joined,
    random_kinds,
    random_met,
    random_rows,
    random_stretches,
    random_sums,
)
from shape_systems.systems import AT_ONCE, System

FAMILIES: dict[str, Callable[[Random], System]] = {
    "rows": random_rows, "kinds": random_kinds, "sums": random_sums, "flanks": random_flanks, "ends": random_ends,
    "stretches": random_stretches, "inserted": random_inserted, "met": random_met, "joined": random_joined,
    "planted": random_planted, "diagonals": random_diagonals,
}  # fmt: skip

SMALL = {
    "rows": ((1, 2, 3), 2), "kinds": ((1, 2), 1), "flanks": ((1, 2, 3), 2), "stretches": ((1, 2, 3), 2),
    "inserted": ((1, 2, 3), 2), "met": ((1, 2, 3), 2), "joined": ((1, 2, 3), 2), "diagonals": ((1, 2), 2),
}  # fmt: skip
"""Sizes and maximum rank of an exhaustive search for a solution."""

# Maximum number of satisfiable systems refused, of 250: undetermined ones, and those with a wrong default. Errors must
# always be helpful.
MAX_QUERIES, MAX_GUESSED = 20, 9
STRAINED = {"rows": 1, "kinds": 1, "stretches": 1, "flanks": 2}


def refused_without_need(seeds: range) -> str:
    """Describes refused satisfiable systems if they exceed the limits or have unhelpful errors; empty otherwise."""
    undetermined, guessed = 0, []
    for seed in seeds:
        system = random_planted(Random(f"planted {seed}"))
        if system.planted is not None and isinstance(answer := system.solve(range(system.steps)), str):
            undetermined += "nothing says how" in answer
            if "nothing says" not in answer:
                guessed.append(f"planted {seed}\n{system}\n{answer}")
            if complaint := check_error_message(system, answer):
                return f"planted {seed}\n{complaint}"
    for family, limit in STRAINED.items():
        strained = []
        for seed in seeds:
            system = FAMILIES[family](Random(f"{family} {seed}"))
            answer = system.solve(range(system.steps))
            if isinstance(answer, str) and not answer.startswith(AT_ONCE) and "nothing says" not in answer:
                strained.append(f"{family} {seed}\n{system}\n{answer}")
        if len(strained) > limit:
            return "\n\n".join(strained)
    if len(guessed) > MAX_GUESSED:
        return "\n\n".join(guessed)
    return f"{undetermined} ask for a size" if undetermined > MAX_QUERIES else ""


CERTAIN = ("rows", "kinds", "flanks", "ends", "inserted", "joined", "diagonals")
"""Families in which systems refused after a default have no solution of small shapes."""
