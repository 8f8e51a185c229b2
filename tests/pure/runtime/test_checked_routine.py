"""Runs with the setting `check_numbers`: the first NaN, and class ids out of range; training that meets NaN."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

import ocannl as oc
from ocannl import train


def message(error: pytest.ExceptionInfo[oc.DataError]) -> str:
    return re.sub(r"py:\d+", "py:N", str(error.value))


@pytest.fixture
def ctx() -> Iterator[oc.Context]:
    with oc.settings(check_numbers=True), oc.Context("numpy") as ctx:
        yield ctx


def model() -> tuple[oc.Tensor, oc.Tensor]:
    x = oc.placeholder("x", o=[2])
    w = oc.param("w", [1.0, 2.0])
    h = oc.log(w * x - 1.5)
    y = oc.tanh(h * 2)
    return x, (y * y).sum().with_label("loss")


def test_the_node_where_the_first_nan_is_is_named(ctx: oc.Context) -> None:
    x, loss = model()
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)))
    ctx[x] = np.array([3.0, 3.0])
    step()
    assert np.isfinite(ctx[loss])
    ctx[x] = np.array([3.0, 0.1])
    with pytest.raises(oc.DataError) as caught:
        step()
    assert message(caught) == (
        "routine `loss_grad_update`: the first NaN is in `h`, in 1 of 2 cells\n  in   h  test_checked_routine.py:N"
    )


def test_a_gradient_that_is_nan_is_named(ctx: oc.Context) -> None:
    w = oc.param("w", [0.0, 4.0])
    root = w**0.5
    loss = (root * 0.0).sum()
    ctx.init(loss)
    step = ctx.compile(train.grad_update(loss))
    with pytest.raises(oc.DataError) as caught:
        step()
    assert message(caught) == (
        "routine `loss_grad_update`: the first NaN is in `w.grad`, in 1 of 2 cells\n  in   w  test_checked_routine.py:N"
    )


def test_an_input_that_is_nan_is_named(ctx: oc.Context) -> None:
    x, loss = model()
    ctx.init(loss)
    ctx[x] = np.array([3.0, np.nan])
    with pytest.raises(oc.DataError) as caught:
        ctx.run(loss.forward)
    assert message(caught) == (
        "`x` holds NaN before routine `loss_forward` runs\n  in   x  test_checked_routine.py:N"
    )


def test_class_ids_out_of_range_are_an_error(ctx: oc.Context) -> None:
    scores = oc.tensor(np.ones((3, 4)), batch_axes=1)
    t = oc.placeholder("t", batch=[3], output=[], dtype=oc.int32)
    loss = oc.cross_entropy(scores, t, ignore=-1).mean()
    step = ctx.compile(loss.forward)
    ctx[t] = np.array([0, 3, -1])
    step()
    np.testing.assert_allclose(ctx[loss], np.log(4), rtol=1e-6)
    for ids in ([0, 4, -1], [0, -2, 1]):
        ctx[t] = np.array(ids)
        with pytest.raises(oc.DataError) as caught:
            step()
        assert message(caught).splitlines()[0] == "`t` holds class ids outside 0 to 3"


def test_without_the_setting_runs_are_not_checked() -> None:
    x, loss = model()
    with oc.Context("numpy") as ctx:
        ctx.init(loss)
        ctx[x] = np.array([3.0, 0.1])
        ctx.run(loss.forward)
        assert np.isnan(ctx[loss])


def test_training_stops_with_the_step_whose_loss_is_nan() -> None:
    x, loss = model()
    good, bad = {x: np.array([3.0, 3.0])}, {x: np.array([3.0, 0.1])}
    with oc.Context("numpy") as ctx:
        ctx.init(loss)
        with pytest.raises(oc.DataError) as caught:
            train.fit(ctx, loss, train.sgd(loss, 0.0), [good, good, bad, good])
    assert re.sub(r"after [\d.]+", "after L", message(caught)) == (
        "the loss `loss` is NaN in step 3, after L in the step before\n"
        "  fix  with oc.settings(check_numbers=True): around the training names the node where NaN begins"
    )
