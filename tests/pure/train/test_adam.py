"""Adam against the formulas in plain Python, and its code."""

import math

import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.printer import print_comp


def stepped(make, steps, start=2.0):
    """`w` after each step on the loss `w**2 / 2`, whose gradient is `w`."""
    w = oc.param("w", start, b=[], i=[], o=[], dtype=oc.float64)
    loss = w * w * 0.5
    ctx = oc.Context("numpy")
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), make(loss)))
    values = []
    for _ in range(steps):
        step()
        values.append(float(ctx[w]))
    return values


def decayed(optimizer, loss, **settings):
    """An update whose rate is a tensor, divided by 2 after each step."""
    rate = oc.node("rate", init=0.1, dtype="float64", batch=[], input=[], output=[])
    with oc.cd("decay") as decay:
        rate *= 0.5
    return oc.seq(optimizer(loss, rate, **settings), decay)


def by_hand(steps, rate, betas, eps, decay=0.0, shrink=0.0, start=2.0, rate_factor=1.0):
    w, mean, square, values = start, 0.0, 0.0, []
    for t in range(1, steps + 1):
        g = w + decay * w
        w -= rate * shrink * w
        mean = betas[0] * mean + (1 - betas[0]) * g
        square = betas[1] * square + (1 - betas[1]) * g * g
        w -= rate * (mean / (1 - betas[0] ** t)) / (math.sqrt(square / (1 - betas[1] ** t)) + eps)
        values.append(w)
        rate *= rate_factor
    return values


def test_adam_equals_the_formulas_of_the_paper():
    want = by_hand(20, 0.1, (0.9, 0.999), 1e-8)
    assert stepped(lambda loss: train.adam(loss, 0.1), 20) == pytest.approx(want, rel=1e-12)


def test_weight_decay_is_coupled_in_adam_and_decoupled_in_adamw():
    betas = (0.8, 0.9)
    coupled = stepped(lambda loss: train.adam(loss, 0.1, betas=betas, eps=1e-3, weight_decay=0.5), 10)
    assert coupled == pytest.approx(by_hand(10, 0.1, betas, 1e-3, decay=0.5), rel=1e-12)
    decoupled = stepped(lambda loss: train.adamw(loss, 0.1, betas=betas, eps=1e-3, weight_decay=0.5), 10)
    assert decoupled == pytest.approx(by_hand(10, 0.1, betas, 1e-3, shrink=0.5), rel=1e-12)


@pytest.mark.parametrize(("optimizer", "decays"), [(train.adam, {"decay": 0.1}), (train.adamw, {"shrink": 0.1})])
def test_rate_is_a_tensor(optimizer, decays):
    updated = stepped(lambda loss: decayed(optimizer, loss, weight_decay=0.1), 10)
    assert updated == pytest.approx(by_hand(10, 0.1, (0.9, 0.999), 1e-8, **decays, rate_factor=0.5), rel=1e-12)


def test_state_is_labeled_by_its_parameter_and_common_scalars_are_computed_once():
    w, b = oc.param("w", [1.0, 2.0]), oc.param("b", [1.0, 2.0])
    text = print_comp(train.adam((w * b).sum()).elaborate().comp)
    for name in ("adam_mean_w", "adam_square_w", "adam_mean_b", "adam_square_b"):
        assert f"  {name}[o0] =:" in text
    for name in ("adam_mean_weight_w", "adam_square_weight_w", "adam_step_w"):
        assert text.count(f"{name} =:") == 1


@pytest.mark.parametrize("betas", [(1.0, 0.999), (0.9, -0.1), (0.9, float("nan"))])
def test_invalid_betas_are_rejected(betas):
    with pytest.raises(oc.CodeError, match="betas must be numbers in"):
        train.adam(oc.param("w", [1.0]).sum(), betas=betas)
