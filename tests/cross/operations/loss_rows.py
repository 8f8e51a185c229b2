"""Losses beside those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from torch_row import INFINITE, SAME, F, Row, torch

import ocannl as oc

KINDS = "float32 float64"
CLASSES = np.array([2, 0, 3])
SIDES = np.array([1.0, -1.0, 1.0])
WEIGHTS = np.array([0.5, 2.0, 1.0, 0.25, 3.0])
PADDED = np.array([2, -1, 0, 3])
TRIPLE = (((3, 5),) * 3, ((1, 4),) * 3)
PAIR = (((3, 5), (3, 5)), ((1, 4), (1, 4)))
LARGE = (*INFINITE, 1e15)
ids = oc.tensor(CLASSES, batch_axes=1)


def none(name: str, **settings: Any) -> Callable[..., Any]:
    """A loss of PyTorch for each cell or example."""
    return partial(getattr(F, name), reduction="none", **settings)


def rows(x: Any) -> Any:
    """A matrix as a batch of rows."""
    return oc.einsum("ij => i|j", x)


def sign(x: Any) -> Any:
    return oc.where(x > 0, 1.0, -1.0)


def torch_sign(x: Any) -> Any:
    return torch.where(x > 0, 1.0, -1.0).to(x.dtype)


def weights(like: Any) -> Any:
    """The weights of classes in the type of PyTorch's operand."""
    return torch.tensor(WEIGHTS, dtype=like.dtype)


def class_weights(x: Any) -> oc.Tensor:
    return oc.tensor(WEIGHTS.astype(x.dtype.numpy))


def sides(like: Any) -> oc.Tensor:
    return oc.tensor(SIDES.astype(like.dtype.numpy), batch_axes=1)


def softmax_focal(x: Any, gamma: float) -> Any:
    log_probability = torch.log_softmax(x, 1).gather(1, torch.tensor(CLASSES)[:, None])[:, 0]
    return -((1 - log_probability.exp()) ** gamma) * log_probability


def sigmoid_focal(x: Any, target: Any, alpha: float | None, gamma: float) -> Any:
    p = torch.sigmoid(x)
    missed = 1 - (p * target + (1 - p) * (1 - target))
    loss = F.binary_cross_entropy_with_logits(x, target, reduction="none") * missed**gamma
    return loss if alpha is None else loss * (alpha * target + (1 - alpha) * (1 - target))


def dice(x: Any, target: Any) -> Any:
    return 1 - (2 * (x * target).sum(1) + 1) / (x.sum(1) + target.sum(1) + 1)


def iou(x: Any, target: Any) -> Any:
    common = (x * target).sum(1)
    return 1 - (common + 1) / (x.sum(1) + target.sum(1) - common + 1)


def weighted_entropy(x: Any, target: Any) -> Any:
    return F.binary_cross_entropy_with_logits(
        x, target, weight=weights(x), pos_weight=weights(x) + 1, reduction="none"
    )


ROWS = (
    # differences
    Row("smooth_l1_loss", oc.smooth_l1_loss, none("smooth_l1_loss"), SAME, KINDS, but=INFINITE),
    Row("smooth_l1_loss of small beta", lambda x, y: oc.smooth_l1_loss(x, y, beta=0.3),
        none("smooth_l1_loss", beta=0.3), SAME, KINDS, but=INFINITE),
    Row("log_cosh", oc.log_cosh, lambda x, y: torch.logaddexp(x - y, y - x) - np.log(2), SAME, KINDS, but=INFINITE),
    # likelihoods
    Row("poisson_nll_loss", oc.poisson_nll_loss, none("poisson_nll_loss"), SAME, KINDS, but=LARGE),
    Row("poisson_nll_loss of rates", lambda x, y: oc.poisson_nll_loss(x, y, log_input=False),
        none("poisson_nll_loss", log_input=False), SAME, KINDS, low=0.3, but=None),
    Row("poisson_nll_loss in full", lambda x, y: oc.poisson_nll_loss(x, y, full=True),
        none("poisson_nll_loss", full=True), SAME, KINDS, low=0.3, but=None),
    Row("gaussian_nll_loss", oc.gaussian_nll_loss, none("gaussian_nll_loss"), TRIPLE, KINDS, low=0.3, but=None),
    Row("gaussian_nll_loss in full", lambda x, y, v: oc.gaussian_nll_loss(x, y, v, full=True, eps=1.0),
        none("gaussian_nll_loss", full=True, eps=1.0), TRIPLE, KINDS, low=0.3, but=None),
    Row("binary_cross_entropy with weights",
        lambda x, y: oc.binary_cross_entropy(x, y, weight=class_weights(x), positive_weight=class_weights(x) + 1),
        weighted_entropy, (((3, 5), (3, 5)),), KINDS, but=INFINITE),
    Row("sigmoid_focal_loss", oc.sigmoid_focal_loss, partial(sigmoid_focal, alpha=0.25, gamma=2.0), SAME, KINDS,
        low=0.0, high=1.0, but=LARGE),
    Row("sigmoid_focal_loss of other settings", lambda x, y: oc.sigmoid_focal_loss(4 * x, y, alpha=None, gamma=1.5),
        lambda x, y: sigmoid_focal(4 * x, y, None, 1.5), SAME, KINDS, low=0.1, high=0.9, but=None),
    Row("kl_div", lambda x, y: oc.kl_div(rows(x).log_softmax(), rows(y)),
        lambda x, y: none("kl_div")(torch.log_softmax(x, 1), y).sum(1), PAIR, KINDS, low=0.1, but=None),
    Row("kl_div of logarithms", lambda x, y: oc.kl_div(rows(x), rows(y), log_target=True),
        lambda x, y: none("kl_div", log_target=True)(x, y).sum(1), PAIR, KINDS, but=LARGE),
    # classes
    Row("cross_entropy with smoothing", lambda x: oc.cross_entropy(rows(x), ids, label_smoothing=0.1),
        lambda x: none("cross_entropy", label_smoothing=0.1)(x, torch.tensor(CLASSES)), (((3, 5),),), KINDS),
    Row("cross_entropy with weights", lambda x: oc.cross_entropy(rows(x), ids, weight=class_weights(x)),
        lambda x: F.cross_entropy(x, torch.tensor(CLASSES), weights(x), reduction="none"), (((3, 5),),), KINDS),
    Row("cross_entropy mean of weighted smooth ones",
        lambda x: oc.cross_entropy(rows(x), oc.tensor(PADDED, batch_axes=1), ignore=-1, weight=class_weights(x),
                                   label_smoothing=0.2).mean(),
        lambda x: F.cross_entropy(x, torch.tensor(PADDED), weights(x), ignore_index=-1, label_smoothing=0.2),
        (((4, 5),),), KINDS),
    Row("cross_entropy of weighted smooth distributions",
        lambda x, y: oc.cross_entropy(rows(x), rows(y), weight=class_weights(x), label_smoothing=0.2),
        lambda x, y: F.cross_entropy(x, y, weights(x), reduction="none", label_smoothing=0.2),
        (((3, 5), (3, 5)),), KINDS, but=LARGE),
    Row("softmax_focal_loss", lambda x: oc.softmax_focal_loss(rows(x), ids), partial(softmax_focal, gamma=2.0),
        (((3, 5),),), KINDS, but=LARGE),
    Row("softmax_focal_loss of another gamma", lambda x: oc.softmax_focal_loss(rows(x), ids, gamma=0.5),
        partial(softmax_focal, gamma=0.5), (((3, 5),),), KINDS, but=None),
    # margins
    Row("hinge_loss", lambda x, y: oc.hinge_loss(x, sign(y)),
        lambda x, y: torch.clamp(1 - torch_sign(y) * x, min=0), SAME, KINDS, but=INFINITE),
    Row("hinge_loss squared", lambda x, y: oc.hinge_loss(x, sign(y), squared=True),
        lambda x, y: torch.clamp(1 - torch_sign(y) * x, min=0) ** 2, SAME, KINDS, but=INFINITE),
    Row("soft_margin_loss", oc.soft_margin_loss, lambda x, y: F.softplus(-x * y), SAME, KINDS, but=INFINITE),
    Row("soft_margin_loss of signs", lambda x, y: oc.soft_margin_loss(x, sign(y)),
        lambda x, y: none("soft_margin_loss")(x, torch_sign(y)), SAME, KINDS, but=None),
    Row("hinge_embedding_loss", lambda x, y: oc.hinge_embedding_loss(x, sign(y), margin=0.7),
        lambda x, y: none("hinge_embedding_loss", margin=0.7)(x, torch_sign(y)), SAME, KINDS),
    Row("margin_ranking_loss", lambda x, y, t: oc.margin_ranking_loss(x, y, t, margin=0.3),
        none("margin_ranking_loss", margin=0.3), TRIPLE, KINDS, but=INFINITE),
    Row("contrastive_loss", lambda x, y: oc.contrastive_loss(x, y),
        lambda x, y: y * x**2 + (1 - y) * torch.clamp(1 - x, min=0) ** 2, SAME, KINDS, but=INFINITE),
    Row("multi_margin_loss", lambda x: oc.multi_margin_loss(rows(x), ids),
        lambda x: none("multi_margin_loss")(x, torch.tensor(CLASSES)), (((3, 5),),), KINDS, but=None),
    Row("multi_margin_loss squared",
        lambda x: oc.multi_margin_loss(rows(x), ids, p=2, margin=0.6, weight=class_weights(x)),
        lambda x: F.multi_margin_loss(x, torch.tensor(CLASSES), 2, 0.6, weights(x), reduction="none"), (((3, 5),),),
        KINDS, but=None),
    Row("triplet_margin_loss", lambda x, y, z: oc.triplet_margin_loss(rows(x), rows(y), rows(z)),
        none("triplet_margin_loss"), TRIPLE, KINDS, but=None),
    Row("triplet_margin_loss swapped",
        lambda x, y, z: oc.triplet_margin_loss(rows(x), rows(y), rows(z), p=3, swap=True),
        none("triplet_margin_loss", p=3, swap=True), TRIPLE, KINDS, but=None),
    Row("cosine_embedding_loss",
        lambda x, y: oc.cosine_embedding_loss(rows(x), rows(y), sides(x), margin=0.1),
        lambda x, y: none("cosine_embedding_loss", margin=0.1)(x, y, torch.tensor(SIDES)), (((3, 5), (3, 5)),), KINDS,
        but=None),
    Row("dice_loss", lambda x, y: oc.dice_loss(rows(x), rows(y)), dice, PAIR, KINDS, low=0.1, but=None),
    Row("iou_loss", lambda x, y: oc.iou_loss(rows(x), rows(y)), iou, PAIR, KINDS, low=0.1, but=None),
)  # fmt: skip

MISSING = {"compared in `test_ctc.py`": "ctc_loss"}
