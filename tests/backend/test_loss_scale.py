"""Loss scaling: float16 layers train although their unscaled gradients underflow, on every backend."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

BACKENDS = [row.name for row in oc.backends() if row.usable]
RNG = np.random.default_rng(0)
XS = RNG.normal(size=(32, 4)).astype("float32")
TS = np.sin(XS.sum(1, keepdims=True))
WEIGHT = 2.0**-24  # of the loss: gradients of float16 underflow, those of float32 do not
RATE = 0.05 / WEIGHT


@pytest.fixture(params=BACKENDS)
def ctx(request):
    with oc.Context(request.param) as context:
        yield context


def network(kind: str) -> oc.Tensor:
    """The loss of a small network with float32 parameters that computes in `kind`."""
    rng = np.random.default_rng(1)

    def dense(x, n, fan):
        w = oc.param("w", rng.normal(size=(n, fan)).astype("float32") * fan**-0.5, input=[fan], output=[n])
        b = oc.param("b", np.zeros(n, "float32"))
        return w.astype(kind) @ x + b.astype(kind)

    hidden = oc.tanh(dense(oc.tensor(XS.astype(kind), batch_axes=1), 16, 4))
    error = dense(hidden, 1, 16).astype("float32") - oc.tensor(TS, batch_axes=1)
    return ((error**2).mean() * WEIGHT).with_label("loss")


def losses(ctx: oc.Context, loss: oc.Tensor, scale: float | train.LossScale | None, steps: int = 150) -> np.ndarray:
    update = train.sgd(loss, RATE, momentum=0.9)
    seen = train.fit(ctx, loss, update, [{}] * steps, scale=scale).losses
    return np.array(seen) / WEIGHT


def test_float16_gradients_underflow_without_loss_scaling(ctx):
    wide = losses(ctx, network("float32"), None)
    underflowed = losses(ctx, network("float16"), None)
    assert wide[-1] < 0.1 * wide[0]
    assert np.all(underflowed == underflowed[0])
    for scale in (2.0**20, train.LossScale(2.0**20)):
        scaled = losses(ctx, network("float16"), scale)
        np.testing.assert_allclose(scaled, wide, rtol=0.1, atol=0.02 * wide[0])
        assert scaled[-1] < 0.1 * wide[0]


def test_too_large_scale_overflows_or_adapts(ctx):
    with pytest.raises(oc.DataError, match="is NaN in step 2"):
        losses(ctx, network("float16"), 2.0**45)
    scale = train.LossScale(2.0**45, backoff=0.25)
    adapted = losses(ctx, network("float16"), scale)
    skipped, value = int(ctx[scale.skipped]), float(ctx[scale.value])
    assert skipped > 1 and value == 2.0**45 * 0.25**skipped
    assert np.all(adapted[: skipped + 1] == adapted[0]) and adapted[-1] < 0.1 * adapted[0]


def test_power_of_two_scale_preserves_gradients_exactly(ctx):
    w = oc.param("w", XS[0])
    loss = (w * w * oc.tensor(XS[1])).sum()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    plain = ctx[w.grad]
    ctx.run(train.grad_update(loss, scale=2.0**10))
    np.testing.assert_array_equal(ctx[w.grad], plain)


UPDATES = {
    "sgd": lambda loss: train.sgd(loss, 0.125, momentum=0.5),
    "adam": lambda loss: train.adam(loss, 0.125),
    "adamw": lambda loss: train.adamw(loss, 0.125),
}


@pytest.mark.parametrize("rule", UPDATES)
def test_skipped_step_preserves_persistent_nodes(ctx, rule):
    """Interleaved steps with infinite gradients do not affect the results."""
    x = oc.placeholder("x", batch=[], input=[], output=[3])
    results = []
    for infinite in (False, True):
        w = oc.param("w", [0.5, -1.0, 2.0])
        loss = (w * w * x).sum()
        scale = train.LossScale(1.0, interval=100)
        ctx.init(loss)
        step = ctx.compile(scale.step(loss, UPDATES[rule](loss)))
        for n in range(6):
            ctx[x] = np.float32([1, 2, 3]) * (n + 1)
            step()
            before = ctx[w]
            if infinite:
                ctx[x] = np.float32([1, np.inf, np.nan])
                step()
                np.testing.assert_array_equal(ctx[w], before)
        assert int(ctx[scale.skipped]) == 6 * infinite
        results.append(ctx[w])
    np.testing.assert_array_equal(*results)
    assert np.all(np.isfinite(results[0])) and np.all(results[0] != [0.5, -1.0, 2.0])


def test_scale_grows_after_finite_steps_and_backs_off_to_one(ctx):
    x = oc.placeholder("x", batch=[], input=[], output=[])
    loss = (oc.param("w", 1.0, o=[]) * x).sum()
    scale = train.LossScale(4.0, growth=3.0, backoff=0.25, interval=2)
    ctx.init(loss)
    step = ctx.compile(scale.step(loss, train.sgd(loss, 0.0)))
    seen = []
    for value in (1, 1, 1, np.inf, 1, 1, np.nan, np.nan, 1, 1):
        ctx[x] = np.float32(value)
        step()
        seen.append(float(ctx[scale.value]))
    assert seen == [4, 12, 12, 3, 3, 9, 2.25, 1, 1, 3]
    assert int(ctx[scale.skipped]) == 3 and int(ctx[scale.finite_steps]) == 0


def test_scale_growth_is_limited_by_its_type():
    with oc.Context("numpy") as ctx:
        loss = (oc.param("w", 0.0, o=[]) * 0.0).sum()
        scale = train.LossScale(2.0**127, interval=1)
        ctx.init(loss)
        ctx.compile(scale.step(loss, train.sgd(loss, 0.0)))()
        assert float(ctx[scale.value]) == 2.0**127


def test_gradients_too_narrow_for_unscaling_are_rejected():
    loss = (oc.param("w", o=[3], dtype="float16") ** 2).sum()
    with pytest.raises(oc.DtypeError, match=r"the gradient of `w` is of type float16.*\n  fix  hold .* grad_dtype="):
        train.grad_update(loss, scale=1024.0)


@pytest.mark.parametrize(
    "settings",
    [{"initial": 0.5}, {"initial": np.inf}, {"growth": 0.5}, {"backoff": 1.0}, {"backoff": 0}, {"interval": 0}],
)
def test_invalid_settings_are_rejected(settings):
    with pytest.raises(oc.CodeError, match="a loss scale requires finite initial >= 1"):
        train.LossScale(**settings)
