"""The programs of the seeds, and which part of one a judge looks at."""

from __future__ import annotations

from random import Random

from ones.closed_judges import Judge
from ones.foreign import with_foreign
from ones.generate import generate
from ones.program import Program
from ones.value_judges import computes_numpy

SAMPLE = 10  # of so many programs, the values of one are computed, and the gradients of one


def closed_program(seed: int) -> Program:
    random = Random(f"closed {seed}")
    return with_foreign(generate(random), random)


def open_program(seed: int) -> Program:
    random = Random(f"open {seed}")
    return with_foreign(generate(random, share_open=0.7), random)


def part_of(program: Program, judge: Judge) -> Program:
    """Foreign statements matter to isolation, and to values."""
    return program if "isolated" in judge.__name__ or judge is computes_numpy else program.own
