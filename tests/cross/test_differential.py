"""Random programs in the user's language: NumPy, the oracle of computations, finite differences and backends agree.

A failure prints the program and the seed; OCANNL_TEST_FIRST=seed OCANNL_TEST_EXPRESSIONS=1 runs that one alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.canon import canonical
from ocannl.ir.tnode import TNode
from ocannl.testing.evaluate import evaluate
from ocannl.testing.expressions import generate
from ocannl.testing.program import Built, Program

Array = np.ndarray
CLOSE = {"float32": 2e-4, "float64": 1e-9}


class Case(NamedTuple):
    """A program, its tensors, the code of its gradients and what the oracle makes of it."""

    program: Program
    built: Built
    code: oc.Code
    want: Mapping[TNode, Array]


@cache
def case(seed: int, kind: str) -> Case:
    program = generate(Random(seed))
    try:
        built = program.build(kind)
        code = train.grad_update(built.loss)
        want = evaluate(code.elaborate().comp, built.arrays, built.symbols)
    except Exception as wrong:
        wrong.add_note(where(seed, program))
        raise
    return Case(program, built, code, want)


def where(seed: int, program: Program) -> str:
    return f"\nprogram of seed {seed}:\n{program}"


def agree(got: Array, want: Array, kind: str, what: str) -> None:
    """To the precision of the type, relative to the largest number of the array."""
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(got, want, rtol=0, atol=CLOSE[kind] * scale, err_msg=what)


def test_values_are_those_of_numpy(seeds: range) -> None:
    for seed in seeds:
        program, built, _, want = case(seed, "float64")
        for name, meaning in program.meaning().items():
            t = built.tensors[name]
            if t.node in want:
                agree(want[t.node], meaning, "float64", f"{name}{where(seed, program)}")


def test_gradients_are_slopes(seeds: range) -> None:
    for seed in seeds:
        program, built, _, want = case(seed, "float64")
        if not program.smooth:
            continue
        for name in program.params:
            direction = np.random.default_rng(seed).normal(size=program.data[name].shape)
            gradient = want.get(built.tensors[name].grad.node, np.zeros(direction.shape))
            computed, measured = float((gradient * direction).sum()), program.slope({name: direction})
            allowed = 1e-6 * max(1.0, abs(measured), float(np.abs(gradient).max(initial=0)))
            assert abs(computed - measured) <= allowed, f"{name}.grad: {computed} for {measured}{where(seed, program)}"


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_backends_agree_with_the_oracle(seeds: range, backend: str, kind: str) -> None:
    with oc.settings(cache=False, verify="every"):
        ctx = oc.Context(backend)
        for seed in seeds:
            made = case(seed, kind)
            try:
                got = run(ctx, made, keep_all=seed % 3 == 0)
            except Exception as wrong:
                wrong.add_note(where(seed, made.program))
                raise
            for t, array in got.items():
                agree(array, made.want[t.node], kind, f"{t.label}{where(seed, made.program)}")


def run(ctx: oc.Context, case: Case, keep_all: bool) -> dict[oc.Tensor, Array]:
    """What the backend makes of all that is wanted: the loss and the gradients of leaves, or everything with a name."""
    built, mentioned = case.built, case.want
    leaves = [t for t in built.tensors.values() if t.node in built.arrays]
    looked_at = list(built.tensors.values()) if keep_all else leaves
    gradients = [t.grad for t in looked_at if t.grad is not None and t.grad.node in mentioned]
    values = [t for t in looked_at if t.node in mentioned and t.node not in built.arrays]
    for t in leaves:
        if t.is_parameter or t.value.contents is None:
            ctx[t] = built.arrays[t.node]
    routine = ctx.compile(case.code, keep=[*gradients, *values, built.loss])
    used = canonical(case.code.elaborate().comp, {}).statics
    routine(**{sym.name: built.symbols[sym] for sym in used})
    return {t: ctx[t] for t in (*gradients, *values, built.loss)}
