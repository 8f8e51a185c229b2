"""The programs generated from seeds, and the part of a program that an oracle checks."""

from __future__ import annotations

from random import Random

from ones.closed_shape_oracles import Oracle
from ones.generate import generate
from ones.program import Program
from ones.unrelated_statements import with_unrelated
from ones.value_oracles import computes_numpy

SAMPLE = 10  # of so many programs, the values of one are computed, and the gradients of one


def closed_program(seed: int) -> Program:
    random = Random(f"closed {seed}")
    return with_unrelated(generate(random), random)


def open_program(seed: int) -> Program:
    random = Random(f"open {seed}")
    return with_unrelated(generate(random, share_open=0.7), random)


def part_of(program: Program, oracle: Oracle) -> Program:
    """Foreign statements matter to isolation, and to values."""
    return program if "isolated" in oracle.__name__ or oracle is computes_numpy else program.own
