"""Losses: values, means over the examples that count, and refusals of unequal shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.testing.gradients import gradients_of

RNG = np.random.default_rng(7)
SCORES = RNG.normal(size=(5, 3))
IDS = np.array([0, 2, -100, 1, 7])


def log_probabilities() -> np.ndarray[Any, Any]:
    shifted = SCORES - SCORES.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))


def scores() -> oc.Tensor:
    return oc.param("scores", SCORES, batch=[5], input=[], output=[3])


def test_ignored_and_invalid_ids_do_not_count_in_the_mean(oracle: Any) -> None:
    loss = oc.cross_entropy(scores(), oc.tensor(IDS, batch_axes=1), ignore=-100)
    picked = -log_probabilities()[[0, 1, 3], [0, 2, 1]]
    np.testing.assert_allclose(oracle(loss), [picked[0], picked[1], 0, picked[2], 0])
    np.testing.assert_allclose(oracle(loss.mean()), picked.mean())
    np.testing.assert_allclose(oracle(loss.sum()), picked.sum())


def test_elementwise_operations_keep_what_counts(oracle: Any) -> None:
    weight = oc.tensor(np.arange(1.0, 6), batch_axes=1, label="weight")
    loss = weight * oc.cross_entropy(scores(), oc.tensor(IDS, batch_axes=1)) + 1
    picked = -log_probabilities()[[0, 1, 3], [0, 2, 1]] * [1, 2, 4] + 1
    np.testing.assert_allclose(oracle(loss.mean()), picked.mean())


def test_a_mean_over_some_axes_counts_for_each_cell(oracle: Any) -> None:
    logits = RNG.normal(size=(2, 3, 4))
    ids = np.array([[1, -1, 3], [-1, -1, -1]])
    loss = oc.cross_entropy(oc.tensor(logits, batch_axes=2), oc.tensor(ids, batch_axes=2), ignore=-1)
    total = np.log(np.exp(logits[0]).sum(1)) - logits[0, np.arange(3), ids[0]]
    np.testing.assert_allclose(oracle(loss.mean("b,t| => b|")), [total[[0, 2]].mean(), 0])


def test_the_gradient_of_a_mean_is_that_of_the_examples_that_count(oracle: Any) -> None:
    x = scores()
    loss = oc.cross_entropy(x, oc.tensor(IDS, batch_axes=1), ignore=-100).mean()
    want = np.zeros((5, 3))
    for row, label in ((0, 0), (1, 2), (3, 1)):
        want[row] = np.exp(log_probabilities()[row]) - np.eye(3)[label]
    np.testing.assert_allclose(gradients_of(loss, x)[0], want / 3)


def test_a_number_fits_any_shape(oracle: Any) -> None:
    y = oc.tensor(np.array([1.0, -2.0]), label="y")
    np.testing.assert_allclose(oracle(oc.squared_error(y, 1.0)), [0, 9])
    np.testing.assert_allclose(oracle(oc.huber(y, 0)), [0.5, 1.5])
    np.testing.assert_allclose(oracle(oc.binary_cross_entropy(y, 1)), np.log1p(np.exp([-1.0, 2.0])))


def test_binary_cross_entropy_of_large_logits_is_exact(oracle: Any) -> None:
    y = oc.param("y", np.array([800.0, -800.0, 800.0]))
    target = oc.tensor(np.array([1.0, 0.0, 0.0]))
    loss = oc.binary_cross_entropy(y, target)
    np.testing.assert_array_equal(oracle(loss), [0, 0, 800])
    np.testing.assert_array_equal(gradients_of(loss.sum(), y)[0], [0, 0, 1])


# --- refusals --------------------------------------------------------------------------------------------------------

X = {"batch": [4], "input": [], "output": [3]}
IDS_OF_FLOATS = """\
the output row of `log_softmax` is 3, but the output row of `t` is empty: they must have equally many axes, since both \
are `..o..` in a cross-entropy
  in           cross_entropy(x, t)  test_losses.py:N
  log_softmax  4|3                  result, test_losses.py:N
  t            4|...->              placeholder, test_losses.py:N
  x            4|3                  placeholder, test_losses.py:N
  fix          class ids are integers, so give the target dtype=oc.int32; a distribution has a value for every class"""
ONE_SHARE = """\
output axis 1 of `x` is 3, but output axis 1 of `t` is 1
  in   cross_entropy(x, t)  test_losses.py:N
  t    4|...->1             placeholder, test_losses.py:N
  x    4|3                  placeholder, test_losses.py:N
  fix  class ids are integers, so give the target dtype=oc.int32; a distribution has a value for every class"""
PAIRS = """\
the batch row of `x` is 4, but the batch row of `t` is empty: they must have equally many axes, since both are `...` \
in a loss
  in   squared_error(x, t)  test_losses.py:N
  t    4                    placeholder, test_losses.py:N
  x    4|                   placeholder, test_losses.py:N
  fix  give both operands the same rows; `batch_axes` and `oc.einsum` say which axis of data is which"""


@pytest.mark.parametrize(
    ("loss", "x", "t", "message"),
    [
        (oc.cross_entropy, X, {"batch": [4], "output": []}, IDS_OF_FLOATS),
        (oc.cross_entropy, X, {"batch": [4], "output": [1]}, ONE_SHARE),
        (oc.squared_error, {**X, "output": []}, {"batch": [], "input": [], "output": [4]}, PAIRS),
    ],
    ids=["class ids as floats", "a share for all classes", "pairs of examples"],
)
def test_unequal_shapes_are_refused(
    loss: Callable[[object, object], oc.Tensor], x: dict[str, Any], t: dict[str, Any], message: str
) -> None:
    scores, target = oc.placeholder("x", **x), oc.placeholder("t", **t)
    with pytest.raises(oc.ShapeError) as caught:
        loss(scores, target)
    lines = str(caught.value).splitlines()
    shown = [lines[0], *sorted(line.partition(".py:")[0] + ".py:N" * (".py:" in line) for line in lines[1:])]
    want = message.splitlines()
    assert shown == [want[0], *sorted(want[1:])]


def test_class_ids_in_an_open_placeholder_are_refused_when_set() -> None:
    t = oc.placeholder("t")
    assert oc.cross_entropy(oc.tensor(np.ones((4, 3)), batch_axes=1), t).dims == (4,)
    message = r"`t`.* has the sizes \(4, 3\), but .* \(4,\)\n  fix  if these are class ids, give `t` dtype=oc.int32$"
    with oc.Context("numpy") as ctx, pytest.raises(oc.ShapeError, match=message):
        ctx[t] = np.array([0, 1, 2, 0])


@pytest.mark.parametrize(
    ("target", "ignore", "error", "message"),
    [
        (IDS, 1.5, oc.DtypeError, "`ignore` must be an integer class id, not 1.5"),
        (IDS, True, oc.DtypeError, "`ignore` must be an integer class id, not True"),
        (SCORES, 1, oc.CodeError, "`ignore` is a class id, and `data` holds distributions; give it dtype=oc.int32"),
    ],
)
def test_ignored_classes_are_integers(target: Any, ignore: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        oc.cross_entropy(scores(), oc.tensor(target, batch_axes=1), ignore=ignore)
    assert str(caught.value) == message
