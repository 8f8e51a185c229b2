"""Schedules, clipping, accumulation and averages of parameters, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

torch = pytest.importorskip("torch")
lr = torch.optim.lr_scheduler

STEPS = 20
RATE = 0.4
SCHEDULES: dict[str, tuple[Any, Any]] = {  # ours, and a function from an optimizer of rate 0.4 to a scheduler
    "constant": (train.constant(RATE), lambda o: lr.LambdaLR(o, lambda _: 1.0)),
    "step": (train.step_decay(RATE, 3), lambda o: lr.StepLR(o, 3)),
    "steps": (train.step_decay(RATE, [2, 9], factor=0.5), lambda o: lr.MultiStepLR(o, [2, 9], 0.5)),
    "exponential": (
        train.exponential_decay(RATE, 30, final=RATE * 0.9**30),
        lambda o: lr.ExponentialLR(o, 0.9),
    ),
    "linear": (train.linear_decay(RATE, 10, final=0.1), lambda o: lr.LinearLR(o, 1.0, 0.25, 10)),
    "polynomial": (train.polynomial_decay(RATE, 15, power=2.5), lambda o: lr.PolynomialLR(o, 15, 2.5)),
    "cosine": (train.cosine_decay(RATE, 20, final=0.01), lambda o: lr.CosineAnnealingLR(o, 20, 0.01)),
    "warmup": (train.warmup(RATE, 5, start=0.2), lambda o: lr.LinearLR(o, 0.2, 1.0, 5)),
    "one cycle": (train.one_cycle(RATE, 20), lambda o: lr.OneCycleLR(o, RATE, total_steps=20, cycle_momentum=False)),
    "warmup, then cosine": (
        train.warmup(train.cosine_decay(RATE, 15), 5, start=0.1),
        lambda o: lr.SequentialLR(o, [lr.LinearLR(o, 0.1, 1.0, 5), lr.CosineAnnealingLR(o, 15)], [5]),
    ),
    "joined": (
        train.join([RATE, train.cosine_decay(RATE, 8, final=0.2), 0.2], [4, 12]),
        lambda o: lr.SequentialLR(
            o, [lr.ConstantLR(o, 1.0), lr.CosineAnnealingLR(o, 8, 0.2), lr.ConstantLR(o, 0.5, 100)], [4, 12]
        ),
    ),
}


def torch_rates(make: Any) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    scheduler, rates = make(optimizer), []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def test_schedules(backend: str) -> None:
    """The parameters of a sum have a gradient of 1, so that steps of SGD are rates; one step has all schedules."""
    ws = [oc.param(f"w{n}", 0.0, o=[], dtype="float64") for n in range(len(SCHEDULES))]
    loss = sum(ws)
    updates = [train.sgd(loss, ours, params=w) for w, (ours, _) in zip(ws, SCHEDULES.values(), strict=True)]
    seen = np.zeros((STEPS + 1, len(ws)))
    with oc.Context(backend) as ctx:
        ctx.init(loss)
        step = ctx.compile(oc.seq(train.grad_update(loss), *updates))
        for n in range(STEPS):
            step()
            seen[n + 1] = [-ctx[w] for w in ws]
    for name, rates in zip(SCHEDULES, np.diff(seen, axis=0).T, strict=True):
        np.testing.assert_allclose(rates, torch_rates(SCHEDULES[name][1]), rtol=1e-9, atol=1e-13, err_msg=name)


# --- gradients -------------------------------------------------------------------------------------------------------


RNG = np.random.default_rng(0)
XS, TS = RNG.normal(size=(STEPS, 4, 3)), RNG.normal(size=(STEPS, 4, 1)) * 3
STARTS = {"w": RNG.normal(size=(1, 3)), "b": RNG.normal(size=1)}


def linear_model() -> tuple[oc.Symbol, oc.Tensor, oc.Tensor]:
    n, w, b = oc.symbol("n", 0, STEPS), oc.param("w", STARTS["w"], i=[3], o=[1]), oc.param("b", STARTS["b"])
    return n, w, ((w @ oc.tensor(XS, batch_axes=2)[n] + b - oc.tensor(TS, batch_axes=2)[n]) ** 2).mean()


def torch_gradients(params: list[Any], n: int) -> None:
    w, b = params
    ((torch.tensor(XS[n]) @ w.T + b - torch.tensor(TS[n])) ** 2).mean().backward()


def torch_params() -> list[Any]:
    return [torch.tensor(start, requires_grad=True) for start in STARTS.values()]


CLIPS = {
    "value": (lambda loss: train.clip_grad_value(loss, 0.5), lambda ps: torch.nn.utils.clip_grad_value_(ps, 0.5)),
    "norm": (lambda loss: train.clip_grad_norm(loss, 2.0), lambda ps: torch.nn.utils.clip_grad_norm_(ps, 2.0)),
}


@pytest.mark.parametrize("clip", CLIPS)
def test_clipping(clip: str, backend: str) -> None:
    ours, theirs = CLIPS[clip]
    n, _, loss = linear_model()
    params = torch_params()
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    with oc.Context(backend) as ctx:
        ctx.init(loss)
        update = oc.seq(ours(loss), train.sgd(loss, 0.1, momentum=0.9))
        step = ctx.compile(oc.seq(train.grad_update(loss), update))
        for k in range(STEPS):
            step(n=k)
            optimizer.zero_grad()
            torch_gradients(params, k)
            theirs(params)
            optimizer.step()
        for p, q in zip(loss.params.values(), params, strict=True):
            np.testing.assert_allclose(ctx[p], q.detach().numpy(), rtol=1e-12)
    assert n.hi == STEPS - 1


def test_accumulation_with_clipping_and_averages(backend: str) -> None:
    _, _, loss = linear_model()
    average = train.EMA(loss, 0.8)
    rate = train.cosine_decay(0.1, 5)
    update = oc.seq(train.clip_grad_norm(loss, 1.0), train.adamw(loss, rate), average.update)
    params = torch_params()
    optimizer = torch.optim.AdamW(params, lr=0.1)
    scheduler = lr.CosineAnnealingLR(optimizer, 5)
    model = torch.nn.ParameterList(params)
    theirs = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.8))
    with oc.Context(backend) as ctx:
        ctx.init(loss)
        step = ctx.compile(oc.seq(train.grad_update(loss), train.accumulate(loss, update, 4)))
        for k in range(STEPS):
            step(n=k)
            torch_gradients(params, k)
            if k % 4 == 3:
                for p in params:
                    p.grad /= 4
                torch.nn.utils.clip_grad_norm_(params, 1.0)
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
                theirs.update_parameters(model)
        ours = [ctx[p] for p in loss.params.values()]
        for w, p in zip(ours, params, strict=True):
            np.testing.assert_allclose(w, p.detach().numpy(), rtol=1e-12)
        with average.swapped(ctx):
            for p, q in zip(loss.params.values(), theirs.module, strict=True):
                np.testing.assert_allclose(ctx[p], q.detach().numpy(), rtol=1e-12)
        for w, p in zip(ours, loss.params.values(), strict=True):
            np.testing.assert_array_equal(ctx[p], w)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("settings", [{"patience": 2}, {"patience": 1, "cooldown": 2, "factor": 0.5, "min_rate": 0.05}])
def test_plateau(mode: str, settings: dict[str, Any]) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    names = {"min_rate": "min_lr"}
    scheduler = lr.ReduceLROnPlateau(optimizer, mode=mode, eps=0, **{names.get(k, k): v for k, v in settings.items()})
    plateau = train.ReduceOnPlateau(RATE, mode=mode, **settings)
    with oc.Context("numpy") as ctx:
        for metric in np.random.default_rng(1).normal(size=40).cumsum():
            scheduler.step(metric)
            assert plateau.step(ctx, metric) == optimizer.param_groups[0]["lr"]
            assert ctx[plateau.rate] == optimizer.param_groups[0]["lr"]


# --- loss scales in several contexts ---------------------------------------------------------------------------------


def test_data_parallel_steps_with_a_loss_scale(backend: str) -> None:
    """Steps with an infinite gradient in one context are skipped in all."""
    x = oc.placeholder("x", batch=[], input=[], output=[3])
    w = oc.param("w", [0.5, -1.0, 2.0])
    loss = (w * w * x).sum()
    scale = train.LossScale(4.0, interval=100)
    contexts = [oc.Context(backend) for _ in range(2)]
    step = train.DataParallel(contexts, loss, train.sgd(loss, 0.125), scale=scale)
    expected = np.float32([0.5, -1.0, 2.0])
    for n, ends in enumerate([(1, 2), (1, np.inf), (2, 2), (np.inf, 1)]):
        step(*({x: np.float32([1, 1, end])} for end in ends))
        if n % 2 == 0:
            expected = expected - np.float32(0.125) * 2 * expected * np.float32([1, 1, np.mean(ends)])
        for ctx in contexts:
            np.testing.assert_allclose(ctx[w], expected, rtol=1e-6)
            assert (ctx[scale.value], ctx[scale.skipped]) == (4.0 / 2 ** ((n + 1) // 2), (n + 1) // 2)
    for ctx in contexts:
        ctx.close()
