"""Recomputed activations: the same values, gradients and steps, with less memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

XS = np.random.default_rng(0).normal(size=(64, 16)).astype("float32")
Wrap = Callable[[Any], Any]


@oc.op
def layer(h: oc.Tensor, *, width: int) -> oc.Tensor:
    inner = oc.tanh(oc.param("v", o=[3 * width]) @ h + oc.param("b", 0.1))
    return h + oc.dropout(oc.tanh(oc.param("w", o=[width]) @ inner), 0.25)


def network(wrap: Wrap) -> oc.Tensor:
    h = oc.tensor(XS, batch_axes=1)
    for n in range(8):
        h = wrap(layer(width=16, label=f"layer_{n}"))(h)
    return (h * h).mean()


def trained(ctx: oc.Context, wrap: Wrap, steps: int = 3) -> tuple[dict[str, Any], int]:
    """The loss, in inference too, the parameters and gradients after some steps, and the size of temporaries."""
    loss = network(wrap)
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adamw(loss, 0.01)))
    for _ in range(steps):
        step()
    values = {path: ctx[p] for path, p in loss.params.items()} | {"loss": ctx[loss]}
    size = ctx.memory.arena_bytes
    return values | {"inference": oc.evaluate(loss, ctx=ctx)}, size


@pytest.mark.slow
def test_steps_are_the_same_with_less_memory(backend: str) -> None:
    with oc.Context(backend, threads=1) as plain, oc.Context(backend, threads=1) as recomputed:
        expected, all_bytes = trained(plain, lambda block: block)
        seen, part = trained(recomputed, oc.recompute)
    assert seen.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(seen[name], value, rtol=2e-5, atol=1e-7, err_msg=name)
    assert backend == "numpy" or part < 0.6 * all_bytes


def test_structures_of_results_and_operands() -> None:
    x, y = oc.param("x", [1.0, 2.0]), oc.param("y", [3.0, 4.0])
    results = oc.recompute(lambda pair, scale: {"sum": pair[0] + pair[1], "product": scale * pair[0] * pair[1]})(
        (x, y), scale=2.0
    )
    loss = (results["sum"] * results["product"]).sum()
    with oc.Context("numpy") as ctx:
        ctx.init(loss)
        ctx.run(train.grad_update(loss))
        a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
        np.testing.assert_allclose(ctx[x.grad], 2 * (2 * a * b + b * b))
        np.testing.assert_allclose(ctx[y.grad], 2 * (2 * a * b + a * a))


def test_recomputation_inside_of_recomputation(backend: str) -> None:
    oc.testing.gradcheck(
        lambda x: oc.recompute(lambda h: oc.tanh(oc.recompute(lambda z: oc.sin(z * z))(h)) * h)(x), XS[0, :4]
    )


@oc.op
def normalized(x: oc.Tensor) -> oc.Tensor:
    """Batch normalization with a debiased average, which reads states before and after it has updated them."""
    mean, steps = oc.state("mean", 0.0), oc.state("steps", 0, o=[], dtype=oc.int32)
    if not oc.is_training():
        return x - mean / (1.0 - 0.9**steps)
    batch_mean = x.mean("...|c => c")
    mean[...] = 0.9 * mean + 0.1 * batch_mean
    steps += 1
    return (x - batch_mean) * (1.0 + 0.1 * steps) + 0.1 * mean


@oc.op
def recurring(x: oc.Tensor) -> oc.Tensor:
    cell = normalized(label="cell")
    return cell(oc.dropout(oc.tanh(oc.param("w", o=[16]) @ cell(x)), 0.25))


@oc.op
def counting(x: oc.Tensor, *, wrap: Wrap) -> oc.Tensor:
    """Updates a state of its own in what is recomputed, and reads it before and after."""
    total = oc.state("total", 0.0, o=[])

    def inner(h: oc.Tensor) -> oc.Tensor:
        nonlocal total
        total += h.mean()
        return h * oc.sin(total)

    before = 2.0 * total
    return wrap(inner)(x) + before + total


def network_with_states(wrap: Wrap) -> oc.Tensor:
    h = wrap(recurring(label="first"))(oc.tensor(XS, batch_axes=1))
    h = wrap(lambda z: 2.0 * wrap(recurring(label="nested"))(z))(h)
    h = wrap(wrap(recurring(label="twice")))(h)
    return (counting(h, wrap=wrap, label="count") ** 2).mean()


@pytest.mark.slow
def test_states_are_updated_and_random_numbers_drawn_once(backend: str) -> None:
    def run(wrap: Wrap) -> dict[str, Any]:
        loss = network_with_states(wrap)
        with oc.Context(backend, threads=1) as ctx:
            ctx.init(loss)
            step = ctx.compile(oc.seq(train.grad_update(loss), train.adamw(loss, 0.01)))
            for _ in range(3):
                step()
            values = {path: ctx[t] for path, t in {**loss.params, **loss.states}.items()} | {"loss": ctx[loss]}
            return values | {"inference": [oc.evaluate(loss, ctx=ctx) for _ in range(2)]}

    expected, seen = run(lambda function: function), run(oc.recompute)
    assert seen.keys() == expected.keys()
    assert [int(value) for path, value in seen.items() if path.endswith("steps")] == [6, 6, 6]
    for name, value in expected.items():
        np.testing.assert_allclose(seen[name], value, rtol=3e-5, atol=1e-6, err_msg=name)


def test_states_of_recomputed_blocks_are_saved(tmp_path: Path) -> None:
    loss = network_with_states(oc.recompute)
    with oc.Context("numpy") as ctx:
        ctx.init(loss)
        oc.save(tmp_path / "a", ctx, loss)
        loaded = oc.load(tmp_path / "a", ctx, loss)
    assert not loaded.differences and {"count.total", "first.cell.mean", "nested.cell.steps"} <= loss.states.keys()


def test_other_values_are_refused() -> None:
    x = oc.tensor([1.0, 2.0], label="x")
    with pytest.raises(oc.ArgumentError, match="a block or a function of tensors, not 3"):
        oc.recompute(3)
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(oc.ArgumentError, match="nested too deep"):
        oc.recompute(oc.tanh)(deep)
    with pytest.raises(oc.CodeError, match="outside of oc.cd"), oc.cd():
        oc.recompute(oc.tanh)(x)
