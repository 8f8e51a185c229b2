"""Which parameters optimizers update, and by which learning rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

OPTIMIZERS: dict[str, Callable[..., oc.Code]] = {
    "sgd": lambda loss, rate, **settings: train.sgd(loss, rate, weight_decay=0.1, **settings),
    "adam": lambda loss, rate, **settings: train.adam(loss, rate, weight_decay=0.1, **settings),
    "adamw": lambda loss, rate, **settings: train.adamw(loss, rate, weight_decay=0.1, **settings),
}
START = np.array([0.5, -1.0, 2.0])
RATES = [0.3, 0.2, 0.1, 0.05]


@oc.op
def scaled(x: oc.Tensor) -> oc.Tensor:
    w = oc.param(START)
    return w * x


def wanted(optimizer: str, rates: list[float]) -> np.ndarray[Any, Any]:
    """The parameter of the loss `(w * w).sum()` after steps with these rates, by the optimizers of PyTorch."""
    torch = pytest.importorskip("torch")
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    w = torch.tensor(START, requires_grad=True)
    update = kinds[optimizer]([w], lr=1.0, weight_decay=0.1)
    for rate in rates:
        update.param_groups[0]["lr"] = rate
        update.zero_grad()
        (w * w).sum().backward()
        update.step()
    return np.asarray(w.detach().numpy())


def trained(optimizer: str, rate: Any, feed: Callable[[oc.Context, int], dict[str, int]]) -> np.ndarray[Any, Any]:
    w = oc.param("w", START)
    loss = (w * w).sum()
    with oc.Context("numpy") as ctx:
        ctx.init(loss)
        step = ctx.compile(oc.seq(train.grad_update(loss), OPTIMIZERS[optimizer](loss, rate)))
        for n in range(len(RATES)):
            step(**feed(ctx, n))
        return ctx[w]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_placeholder_is_a_rate(optimizer: str) -> None:
    rate = oc.placeholder("rate")

    def feed(ctx: oc.Context, n: int) -> dict[str, int]:
        ctx[rate] = RATES[n]
        return {}

    np.testing.assert_allclose(trained(optimizer, rate, feed), wanted(optimizer, RATES), rtol=1e-6)
    assert rate.dims == ()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_code_of_an_expression_is_part_of_the_step(optimizer: str) -> None:
    n = oc.symbol("n", 0, 4)
    rates = [0.4 / (k + 1) for k in range(4)]
    np.testing.assert_allclose(
        trained(optimizer, 0.4 / (n + oc.tensor(1.0)), lambda ctx, k: {"n": k}), wanted(optimizer, rates), rtol=1e-6
    )


def cosine(n: int) -> float:
    return 0.01 + 0.19 * 0.5 * (1 + math.cos(math.pi * min(n / 3, 1)))


SCHEDULES: dict[str, tuple[Any, list[float]]] = {
    "own": (lambda step: 0.1 / (1 + step), [0.1, 0.05, 0.1 / 3, 0.025]),
    "constant": (lambda step: 0.2, [0.2] * 4),
    "linear": (train.linear_decay(0.3, 3), [0.3, 0.2, 0.1, 0.0]),
    "linear after warmup": (train.linear_decay(0.4, 4, warmup=2, final=0.1), [0.2, 0.4, 0.4, 0.25]),
    "cosine": (train.cosine_decay(0.2, 3, final=0.01), [cosine(n) for n in range(4)]),
    "exponential": (train.exponential_decay(0.4, 2, final=0.1), [0.4, 0.2, 0.1, 0.1]),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(optimizer: str, name: str) -> None:
    schedule, rates = SCHEDULES[name]
    np.testing.assert_allclose(trained(optimizer, schedule, lambda ctx, n: {}), wanted(optimizer, rates), rtol=1e-5)


# --- parameters ------------------------------------------------------------------------------------------------------


def adversaries() -> tuple[oc.Block, oc.Block, oc.Tensor]:
    x = oc.tensor(np.ones(3), label="x")
    maker, critic = scaled(label="maker"), scaled(label="critic")
    return maker, critic, (critic(maker(x)) ** 2).sum()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimizer_updates_the_parameters_of_a_block(optimizer: str) -> None:
    maker, critic, loss = adversaries()
    update = OPTIMIZERS[optimizer](loss, 0.1, params=critic)
    with oc.Context("numpy") as ctx:
        ctx.init(loss)
        ctx.run(oc.seq(train.grad_update(loss), update))
        assert np.array_equal(ctx[maker.params["w"]], START.astype("float32"))
        assert not np.isin(ctx[critic.params["w"]], START.astype("float32")).any()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("hide", ["stop_gradient", "no_grad"])
def test_weight_decay_ends_where_gradients_end(optimizer: str, hide: str) -> None:
    x = oc.tensor(np.ones(3), label="x")
    maker, critic = scaled(label="maker"), scaled(label="critic")
    if hide == "no_grad":
        with oc.no_grad():
            image = maker(x)
    else:
        image = oc.stop_gradient(maker(x))
    loss = (critic(image) ** 2).sum()
    assert list(loss.params) == ["critic.w"]
    assert list(loss.all_params) == ["maker.w", "critic.w"]
    assert loss.find("maker.w") is maker.params["w"]
    with oc.Context("numpy") as ctx:
        ctx.init(loss)
        for _ in range(2):
            ctx.run(oc.seq(train.grad_update(loss), OPTIMIZERS[optimizer](loss, 0.1)))
        assert np.array_equal(ctx[maker.params["w"]], START.astype("float32"))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_state_is_named_after_its_parameter(optimizer: str) -> None:
    _, _, loss = adversaries()
    update = oc.seq(train.grad_update(loss), train.sgd(loss, 0.1, momentum=0.9), OPTIMIZERS[optimizer](loss, 0.1))
    with oc.Context("numpy") as ctx:
        ctx.init(loss)
        labels = [node.label for node in ctx.compile(update).outputs if "." in node.label and "grad" not in node.label]
    assert {"sgd_momentum.maker.w", "sgd_momentum.critic.w"} <= set(labels)
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"params": lambda maker, critic: [critic]}, "`params` are parameters, such as those of a block, not <block"),
        (
            {"params": lambda maker, critic: maker},
            "no gradient of `loss` reaches `maker.w`; parameters that it reaches: critic.w",
        ),
        ({"rate": "fast"}, "a number, a tensor without axes or a schedule, not 'fast'"),
        ({"rate": True}, "a number, a tensor without axes or a schedule, not True"),
    ],
)
def test_other_parameters_and_rates_are_refused(settings: dict[str, Any], message: str) -> None:
    x = oc.tensor(np.ones(3), label="x")
    maker, critic = scaled(label="maker"), scaled(label="critic")
    loss = (critic(oc.stop_gradient(maker(x))) ** 2).sum()
    params = settings.get("params", lambda maker, critic: None)(maker, critic)
    for optimizer in OPTIMIZERS.values():
        with pytest.raises(oc.CodeError) as caught:
            optimizer(loss, settings.get("rate", 0.1), params=params)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: train.linear_decay(1, 3, warmup=3), "a schedule needs 0 <= warmup < steps, not warmup=3 and steps=3"),
        (
            lambda: train.exponential_decay(1, 3, final=0),
            "an exponential decay runs between positive rates, not 1 and 0",
        ),
    ],
)  # fmt: skip
def test_impossible_schedules_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(oc.CodeError) as caught:
        make()
    assert str(caught.value) == message


def test_a_schedule_takes_the_number_of_steps() -> None:
    w = oc.param("w", [1.0])
    with pytest.raises(oc.CodeError, match="a schedule is called with the number of previous steps"):
        train.sgd((w * w).sum(), lambda: 0.1)
