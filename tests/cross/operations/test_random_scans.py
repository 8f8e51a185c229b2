"""Scans of random step functions equal the unrolled loops, in values and gradients. OCANNL_TEST_SCANS: how many, 6 by
default; OCANNL_TEST_FIRST: the first seed."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

FIRST, COUNT = int(os.environ.get("OCANNL_TEST_FIRST", "0")), int(os.environ.get("OCANNL_TEST_SCANS", "6"))

UNARY: tuple[Callable[[Any], Any], ...] = (
    oc.tanh, oc.sigmoid, lambda t: t * t, lambda t: 0.5 * t, oc.relu, lambda t: oc.softmax(t), lambda t: -t,
    lambda t: t - t.mean("...|h => ...|"), lambda t: oc.cumsum(t, "...|h => ...|") * 0.2, lambda t: oc.sin(t) + 1.0,
    lambda t: oc.stop_gradient(t), lambda t: oc.where(t > 0.1, t, 0.3 * t), lambda t: t / (1.0 + t * t),
)  # fmt: skip
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - 0.5 * b, oc.maximum, lambda a, b: a / (2.0 + b * b),
    lambda a, b: (a * b).sum("...|h => ...|") * 0.3 + a,
)  # fmt: skip


def random_step(random: Random, carries: int, sequences: int, width: int, params: list[Any]) -> Callable[..., Any]:
    """A function of carries and elements; the same choices are made in every call."""
    seed = random.random()

    def step(state: Any, x: Any) -> Any:
        choose = Random(seed)
        values = [*state, *x, *params[2:]]
        for _ in range(choose.randint(2, 9)):
            kind = choose.random()
            if kind < 0.4:
                values.append(choose.choice(UNARY)(choose.choice(values)))
            elif kind < 0.8:
                values.append(choose.choice(BINARY)(choose.choice(values), choose.choice(values)))
            elif kind < 0.95:
                values.append(choose.choice(params[:2]) @ choose.choice(values[: carries + sequences]))
            elif sequences:
                inner = choose.choice(values[: carries + sequences])
                values.append(oc.scan(lambda c, _, inner=inner: (oc.tanh(c + inner), None), 0.1 * inner, length=3)[0])
        after = [choose.choice(values[-4:]) * 0.9 + choose.choice(values) * 0.1 + 0.0 * s for s in state]
        y = choose.choice([None, values[-1], (values[-1], after[0] * values[0])])
        return tuple(after), y

    return step


def leaves(structure: Any) -> list[Any]:
    if structure is None:
        return []
    return [t for item in structure for t in leaves(item)] if isinstance(structure, tuple) else [structure]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_random_scan(ctx: oc.Context, seed: int) -> None:
    random, numbers = Random(seed), np.random.default_rng(seed)
    steps, batch, width = random.choice([1, 2, 3, 7]), random.choice([1, 2, 5]), random.choice([1, 3, 8, 17])
    carries, sequences = random.randint(1, 3), random.randint(0, 2)
    reverse, recompute = random.random() < 0.5, random.choice([True, False, None])
    draw = lambda *dims: numbers.normal(size=dims)  # noqa: E731
    params = [oc.param(f"w{n}", 0.4 * draw(width, width), i=[width], o=[width]) for n in range(2)]
    params.append(oc.param("b", draw(width), o=[width]))
    initial = [oc.param(f"h{n}", draw(batch, width), b=[batch], o=[width]) for n in range(carries)]
    xs = [oc.param(f"x{n}", draw(steps, batch, width), b=[steps, batch], o=[width]) for n in range(sequences)]
    step = random_step(random, carries, sequences, width, params)

    last, ys = oc.scan(step, tuple(initial), tuple(xs), length=steps, reverse=reverse, recompute=recompute)
    state, results = tuple(initial), []
    for n in reversed(range(steps)) if reverse else range(steps):
        state, y = step(state, tuple(x[n] for x in xs))
        results.append(leaves(y))
    stacked = [oc.stack(r[::-1] if reverse else r, axis="batch") for r in map(list, zip(*results, strict=True))]

    def loss_of(outputs: list[Any]) -> Any:
        terms = []
        for n, t in enumerate(outputs):
            weights = np.random.default_rng(n).normal(size=t.dims)
            terms.append((oc.tensor(weights, batch_axes=len(t.shape.batch)) * t).sum())
        return sum(terms[1:], terms[0])

    gradients = []
    for outputs in ([*last, *leaves(ys)], [*state, *stacked]):
        loss = loss_of(outputs)
        context = oc.Context(ctx.backend.name)
        context.init(loss)
        context.run(train.grad_update(loss))
        arrays = {p.label: np.array(context[p.grad]) for p in loss.params.values()}
        gradients.append({"loss": np.array(context[loss]), **arrays})
    got, expected = gradients
    assert got.keys() >= expected.keys()
    for name, g in got.items():
        np.testing.assert_allclose(g, expected.get(name, 0.0), rtol=1e-8, atol=1e-10, err_msg=name)
