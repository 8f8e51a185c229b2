"""Losses and norms: refusals, ids that do not count, and random shapes beside PyTorch.

OCANNL_TEST_OPERANDS random shapes are tried for each row; 2 when it is not set.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import loss_rows
import norm_rows
import numpy as np
import pytest
import statistic_rows
from test_torch import compare, numbers
from torch_row import MATRIX, SAME, UNARY, Row

import ocannl as oc

SHAPES = int(os.environ.get("OCANNL_TEST_OPERANDS", "2"))
TABLES = (loss_rows, norm_rows, statistic_rows)
RESIZABLE = [row for table in TABLES for row in table.ROWS if row.shapes in (SAME, UNARY, MATRIX)]


def batch(numbers: object) -> oc.Tensor:
    return oc.tensor(np.array(numbers), batch_axes=1)


@pytest.mark.sample(12)
@pytest.mark.parametrize("row", RESIZABLE, ids=lambda row: row.name)
def test_random_shapes(row: Row) -> None:
    rng = np.random.default_rng(0)
    rank = len(row.shapes[0][0])
    drawn = [tuple(rng.integers(1, 9, rank).tolist()) for _ in range(SHAPES)]
    resized = replace(row, shapes=tuple((shape,) * len(row.shapes[0]) for shape in drawn))
    cases = [numbers(resized, "float64", shapes) for shapes in resized.shapes]
    compare(resized, "float64", cases, "llvm", row.smooth)


def test_ids_outside_the_classes_do_not_count(backend: str) -> None:
    scores = batch(np.random.default_rng(0).normal(size=(4, 3)))
    ids = batch([0, 5, 2, -1])
    for loss in (oc.multi_margin_loss(scores, ids), oc.softmax_focal_loss(scores, ids)):
        ctx = oc.Context(backend)
        ctx.run(oc.forward(loss, mean := loss.mean()))
        assert not ctx[loss][[1, 3]].any()
        np.testing.assert_allclose(ctx[mean], ctx[loss][[0, 2]].mean())


def test_the_mean_of_examples_of_weight_zero_is_zero(backend: str) -> None:
    scores, ids = batch(np.ones((2, 3))), batch([1, 1])
    loss = oc.cross_entropy(scores, ids, weight=np.array([1.0, 0.0, 1.0])).mean()
    assert float(loss.eval(oc.Context(backend))) == 0


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda x, y: oc.smooth_l1_loss(x, x, beta=0.0), oc.DataError, "positive number"),
        (lambda x, y: oc.gaussian_nll_loss(x, x, x, eps=-1.0), oc.DataError, "positive number"),
        (lambda x, y: oc.log_cosh(x, y), oc.ShapeError, "in a loss"),
        (lambda x, y: oc.hinge_loss(x, y), oc.ShapeError, "in a loss"),
        (lambda x, y: oc.binary_cross_entropy(x, y, weight=2.0), oc.ShapeError, "in a loss"),
        (lambda x, y: oc.sigmoid_focal_loss(x, y), oc.ShapeError, "in a loss"),
        (lambda x, y: oc.triplet_margin_loss(x, x, y), oc.ShapeError, "in a loss"),
        (lambda x, y: oc.kl_div(x, y), oc.ShapeError, "rows"),
        (lambda x, y: oc.multi_margin_loss(x, batch([1, 2]), p=3), oc.DataError, "1 or 2"),
        (lambda x, y: oc.multi_margin_loss(x, batch([1.0, 2.0])), oc.DtypeError, "integer"),
        (lambda x, y: oc.cross_entropy(x, batch([1, 2]), label_smoothing=2.0), oc.DataError, "from 0 to 1"),
        (lambda x, y: oc.cross_entropy(x, batch([1, 2]), weight=np.ones(4)).dims, oc.ShapeError, "4"),
        (lambda x, y: x.norm(ord=float("nan")), oc.DataError, "the order"),
        (lambda x, y: oc.cdist(y, y, p=-1), oc.DataError, "the order"),
        (lambda x, y: oc.matrix_norm(y, ord=2), oc.CodeError, "norms of matrices"),
        (lambda x, y: oc.normalize(x, eps=0.0), oc.DataError, "positive number"),
        (lambda x, y: oc.cross(y, y).dims, oc.ShapeError, "n=3"),
        (lambda x, y: oc.kron(y, x), oc.ShapeError, "equally many"),
    ],
)
def test_refusals(make: Callable[..., Any], kind: type[Exception], message: str) -> None:
    """`x` has two rows of three cells, `y` is a matrix."""
    with pytest.raises(kind, match=message):
        make(batch(np.ones((2, 3))), oc.tensor(np.ones((5, 4))))
