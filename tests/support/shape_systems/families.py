"""The families of random systems of shapes, and how many of each the solver may refuse."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from shape_systems.planted_systems import random_planted
from shape_systems.properties import unhelpful
from shape_systems.random_systems import (
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
    "planted": random_planted,
}  # fmt: skip

SMALL = {
    "rows": ((1, 2, 3), 2), "kinds": ((1, 2), 1), "flanks": ((1, 2, 3), 2), "stretches": ((1, 2, 3), 2),
    "inserted": ((1, 2, 3), 2), "met": ((1, 2, 3), 2), "joined": ((1, 2, 3), 2),
}  # fmt: skip
"""Sizes, and numbers of axes, that are all tried to see whether a system of a family can be satisfied."""

# Of 250 systems, so many that can be satisfied may be refused: their number of ways is one that must be asked for, or
# a guess was wrong; what the error names must always help.
ASKED, GUESSED = 20, 9
STRAINED = {"rows": 1, "kinds": 1, "stretches": 1, "flanks": 2}


def refused_without_need(seeds: range) -> str:
    """More systems than usual that could be satisfied are refused, or one in vain; for each 250 systems."""
    asked, guessed = 0, []
    for seed in seeds:
        system = random_planted(Random(f"planted {seed}"))
        if system.planted is not None and isinstance(answer := system.solve(range(system.steps)), str):
            asked += "nothing says how" in answer
            if "nothing says" not in answer:
                guessed.append(f"planted {seed}\n{system}\n{answer}")
            if words := unhelpful(system, answer):
                return f"planted {seed}\n{words}"
    for family, most in STRAINED.items():
        strained = []
        for seed in seeds:
            system = FAMILIES[family](Random(f"{family} {seed}"))
            answer = system.solve(range(system.steps))
            if isinstance(answer, str) and not answer.startswith(AT_ONCE) and "nothing says" not in answer:
                strained.append(f"{family} {seed}\n{system}\n{answer}")
        if len(strained) > most:
            return "\n\n".join(strained)
    if len(guessed) > GUESSED:
        return "\n\n".join(guessed)
    return f"{asked} ask for a size" if asked > ASKED else ""


CERTAIN = ("rows", "kinds", "flanks", "ends", "inserted", "joined")
"""Families in which what a wrong guess refuses has no solution of small shapes."""
