"""Recomputed activations: the same values, gradients and steps, with less memory."""

from __future__ import annotations

from collections.abc import Callable
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


def test_steps_are_the_same_with_less_memory(backend: str) -> None:
    with oc.Context(backend, threads=1) as plain, oc.Context(backend, threads=1) as recomputed:
        expected, whole = trained(plain, lambda block: block)
        seen, part = trained(recomputed, oc.recompute)
    assert seen.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(seen[name], value, rtol=2e-5, atol=1e-7, err_msg=name)
    assert backend == "numpy" or part < 0.6 * whole


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


def test_states_and_other_values_are_refused() -> None:
    @oc.op
    def counted(x: oc.Tensor) -> oc.Tensor:
        count = oc.state("count", 0.0, o=[])
        count += 1.0
        return x * count

    x = oc.tensor([1.0, 2.0], label="x")
    with pytest.raises(oc.CodeError, match="state"):
        oc.recompute(counted())(x)
    with pytest.raises(oc.ArgumentError, match="a block or a function of tensors, not 3"):
        oc.recompute(3)
    with pytest.raises(oc.CodeError, match="outside of oc.cd"), oc.cd():
        oc.recompute(oc.tanh)(x)
