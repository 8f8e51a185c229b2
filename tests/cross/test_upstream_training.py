"""What upstream's tests say of training: each case is run here, in small, or what happens instead, with the reason.

A case is called as upstream's list calls it.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from upstream import Cases

import ocannl as oc
from ocannl import train
from ocannl.base import config

AREAS = {"TR": "01 02 03 04 05 06 07 08 09 10 11 12"}

NO_FILES = "tests download nothing: the data are made, and the bound is what can be known of them"
OVERRIDDEN = {
    "TR-03": "one context draws the parameters and gives them to all; the seed stays the setting that it is",
    "TR-09": NO_FILES,
    "TR-10": NO_FILES,
    "TR-11": NO_FILES,
}

case = Cases(AREAS, OVERRIDDEN)


def rows(array: Any, label: str) -> oc.Tensor:
    return oc.tensor(np.asarray(array), batch_axes=1, label=label)


def trained(ctx: oc.Context, loss: oc.Tensor, update: oc.Code, steps: int) -> list[float]:
    """The losses of so many steps."""
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), update))
    losses = []
    for _ in range(steps):
        step()
        losses.append(ctx[loss].item())
    return losses


# --- one weight, in one context and in two ----------------------------------------------------------------------------

XS = np.array([[1], [2], [3], [4]], "float32")


def squares(cells: int) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    x, y = (oc.placeholder(label, b=[cells], o=[1]) for label in "xy")
    return ((oc.param("w", 0.5, o=[1]) * x - y) ** 2).sum(), x, y


@case("TR-01")
def test_one_step_of_one_context(ctx):
    loss, x, y = squares(4)
    ctx[x], ctx[y] = XS, 2 * XS
    assert trained(ctx, loss, train.sgd(loss, 0.05), 1) == [67.5]
    np.testing.assert_allclose(ctx[loss.params["w"]], 5.0, rtol=1e-6)


@case("TR-02", "TR-03")
def test_one_step_of_two_contexts(backend):
    contexts = [oc.Context(backend, device=n) for n in range(2)]
    loss, x, y = squares(2)
    before = config.SEED.get()
    step = train.DataParallel(contexts, loss, train.sgd(loss, 0.05), mean=False)
    losses = step({x: XS[:2], y: 2 * XS[:2]}, {x: XS[2:], y: 2 * XS[2:]})
    assert losses.tolist() == [11.25, 56.25] and config.SEED.get() == before
    for context in contexts:
        np.testing.assert_allclose(context[loss.params["w"]], 5.0, rtol=1e-6)
        context.close()


@case("TR-04")
def test_other_batches_need_no_other_routine(ctx):
    loss, x, y = squares(2)
    feeds = [{x: XS[n : n + 2], y: 2 * XS[n : n + 2]} for n in (0, 1, 2)]
    fitted = train.fit(ctx, loss, train.sgd(loss, 0.0), feeds, epochs=2)
    np.testing.assert_allclose(fitted.losses, [11.25, 29.25, 56.25] * 2, rtol=1e-6)
    with pytest.raises(oc.ShapeError):
        ctx[x] = XS[:3]


@case("TR-05")
def test_a_composite_initial_value_is_computed_once_and_not_by_the_step(ctx):
    w = oc.param("w", 2 * oc.uniform() - 1, o=[50])
    loss = (w * w).sum()
    assert "uniform" not in str(train.grad_update(loss)) and "uniform" in str(loss.init_params)
    ctx.init(loss)
    start = ctx[w]
    assert -1 <= start.min() < -0.5 and 0.5 < start.max() < 1
    np.testing.assert_allclose(trained(ctx, loss, train.sgd(loss, 0.25), 1), (start**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(ctx[w], start / 2, rtol=1e-6)


@case("TR-06")
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.9, 0.1), (0.0, 0.1)])
def test_the_formula_of_sgd(ctx, momentum, decay, nesterov):
    p = oc.param("p", np.array([3.0, -2.0]))
    loss = (p**3).sum()
    trained(ctx, loss, train.sgd(loss, 0.01, momentum=momentum, weight_decay=decay, nesterov=nesterov), 4)
    at, velocity = np.array([3.0, -2.0]), np.zeros(2)
    for _ in range(4):
        delta = 3 * at**2 + decay * at
        velocity = momentum * velocity + delta
        at = at - 0.01 * (delta + momentum * velocity if nesterov and momentum else velocity)
    np.testing.assert_allclose(ctx[p], at, rtol=1e-10)


# --- small models -----------------------------------------------------------------------------------------------------


@case("TR-07")
def test_an_embedding_is_found_by_class_ids(ctx):
    ids = np.array([0, 2, 1, 3, 2, 0], "int32")
    table = oc.param("table", o=[4, 3])
    target = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    loss = ((table.take(rows(ids, "ids")) - rows(target[ids], "target")) ** 2).mean()
    assert trained(ctx, loss, train.sgd(loss, 2.0), 60)[-1] < 0.01
    np.testing.assert_allclose(ctx[table], target, atol=0.1)


@oc.op
def layer(x, *, width, act=oc.relu):
    w = oc.param(oc.kaiming(), o=[width])
    b = oc.param(0.0, o=[width])
    return act(w @ x + b)


def moons(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng, at = np.random.default_rng(1), np.linspace(0, np.pi, count // 2)
    upper, lower = np.stack([np.cos(at), np.sin(at)], 1), np.stack([1 - np.cos(at), 0.5 - np.sin(at)], 1)
    points = np.concatenate([upper, lower]) + rng.normal(size=(count, 2)) * 0.05
    return points.astype("float32"), np.repeat([1.0, -1.0], count // 2).astype("float32")[:, None]


@case("TR-08")
def test_moons_are_told_apart_with_a_rate_that_falls(ctx):
    points, classes = moons(100)
    h = layer(layer(rows(points, "x"), width=16, label="first"), width=16, label="second")
    score = layer(h, width=1, act=oc.id, label="third")
    loss = oc.relu(1 - rows(classes, "y") * score).mean().with_label("loss")
    steps = 600
    n = oc.symbol("n", 0, steps)

    @oc.cd
    def falling(p):
        p -= 0.2 * (steps - n) / steps * p.grad

    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), *map(falling, loss.params.values())))
    for at in range(steps):
        step(n=at)
    assert ctx[loss].item() < 0.02


def walks(count: int, letters: int) -> np.ndarray[Any, Any]:
    """Pairs of a letter and its successor, which is the next one or, one time in four, any."""
    rng = np.random.default_rng(2)
    first = rng.integers(letters, size=count)
    after = np.where(rng.random(count) < 0.25, rng.integers(letters, size=count), (first + 1) % letters)
    return np.stack([first, after], 1).astype("int32")


@case("TR-09")
def test_a_bigram_model_comes_to_the_entropy_of_its_data(ctx):
    letters = 5
    pairs = walks(400, letters)
    table = oc.param("table", 0.0, o=[letters, letters])
    loss = oc.cross_entropy(table.take(rows(pairs[:, 0], "x")), rows(pairs[:, 1], "y")).mean()
    losses = trained(ctx, loss, train.sgd(loss, 20.0), 60)
    counts = np.zeros((letters, letters))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    shares = (counts / counts.sum(1, keepdims=True))[counts > 0]
    best = -(counts[counts > 0] * np.log(shares)).sum() / len(pairs)
    np.testing.assert_allclose(losses[0], np.log(letters), rtol=1e-6)
    assert best <= losses[-1] < best + 0.01


@oc.op
def normed(x):
    """Batch norm, as far as training goes: mean and variance over the batch."""
    scale, shift = oc.param(1.0), oc.param(0.0)
    middle = x.mean("n|f => |f")
    away = x - middle
    return scale * away / oc.sqrt((away * away).mean("n|f => |f") + 1e-5) + shift


@case("TR-10")
@pytest.mark.parametrize("norm", [normed, oc.op(lambda x: x)], ids=["batch norm", "plain"])
def test_a_network_learns_what_follows_two_letters(ctx, norm):
    letters, rng = 4, np.random.default_rng(3)
    pairs = rng.integers(letters, size=(64, 2)).astype("int32")
    after = (pairs[:, 0] + pairs[:, 1]) % letters
    table = oc.param("table", oc.normal(), o=[letters, 3])
    first, second = (table.take(rows(pairs[:, n], f"x{n}")) for n in range(2))
    hidden = norm(layer(oc.concat("n|a; n|b => n|a^b", first, second), width=32, act=oc.id))
    scores = layer(oc.tanh(hidden), width=letters, act=oc.id)
    loss = oc.cross_entropy(scores, rows(after.astype("int32"), "y")).mean()
    assert trained(ctx, loss, train.sgd(loss, 0.2, momentum=0.9), 150)[-1] < 0.05


@case("TR-11")
def test_a_small_convolution_tells_circles_from_squares(ctx):
    rng = np.random.default_rng(4)
    yy, xx = np.mgrid[:8, :8] - 3.5
    pictures, kinds = [], np.arange(24) % 2
    for kind in kinds:
        radius = np.hypot(yy, xx) if kind else np.maximum(abs(yy), abs(xx))
        pictures.append((radius < 3.6) + 0.05 * rng.normal(size=(8, 8)))
    x = rows(np.array(pictures, "float32")[..., None], "x")
    kernel = oc.param("kernel", oc.normal(0.0, 0.3), o=[3, 3, 1, 4])
    seen_ = oc.relu(oc.einsum("...|oh=+kh, ow=+kw, ic; kh, kw, ic, oc => ...|oh, ow, oc", x, kernel))
    scores = layer(oc.max_pool2d(seen_, window=2, stride=2), width=2, act=oc.id)
    loss = oc.cross_entropy(scores, rows(kinds.astype("int32"), "y")).mean()
    losses = trained(ctx, loss, train.sgd(loss, 0.1, momentum=0.9), 30)
    assert losses[-1] < 0.05 < losses[0]


@case("TR-12")
def test_two_symbols_walk_their_product_in_order(ctx):
    i, j = oc.symbol("i", 0, 2), oc.symbol("j", 0, 3)
    table = oc.tensor(np.arange(6.0).reshape(2, 3, 1), batch_axes=2)
    y = table[i][j].sum()
    routine, met = ctx.compile(y.forward), []
    for at, to in product(range(2), range(3)):
        routine(i=at, j=to)
        met.append(ctx[y].item())
    assert met == list(range(6))


def test_every_case_is_run_or_overridden():
    case.check()
