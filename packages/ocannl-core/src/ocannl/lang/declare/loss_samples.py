"""Sample operands of losses."""

from __future__ import annotations

import numpy as np

from ocannl.lang.declare.samples import Draw, Sample, sample

ANY, NEAR_TWO = Draw(), Draw(2.05, 2.4)
PROBABILITY, POSITIVE = Draw(0.1, 0.9), Draw(0.5, 2.0)
ROWS, SHARES = Draw(dims=(2, 3), batch_axes=1), Draw(0.1, 0.9, (2, 3), batch_axes=1)
FAR_ROWS = Draw(3.0, 5.0, (2, 3), batch_axes=1)
SIDES = np.array([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]], "float32")

LOSS_SAMPLES: dict[str, tuple[Sample, ...]] = {
    "cross_entropy": (
        sample(ROWS, ROWS), sample(ROWS, SHARES, weight=np.array([0.5, 2.0, 1.0], "float32"), label_smoothing=0.1),
    ),
    "binary_cross_entropy": (sample(ANY, PROBABILITY), sample(ANY, PROBABILITY, weight=2.0, positive_weight=3.0)),
    "sigmoid_focal_loss": (sample(ANY, PROBABILITY), sample(ANY, PROBABILITY, alpha=None, gamma=1.5)),
    "softmax_focal_loss": (sample(Draw(dims=(4,)), 2),),
    **dict.fromkeys(("kl_div", "dice_loss", "iou_loss"), (sample(SHARES, SHARES),)),
    "smooth_l1_loss": (sample(ANY, NEAR_TWO, beta=10.0), sample(ANY, Draw(4.0, 5.0))),
    **dict.fromkeys(("hinge_loss", "hinge_embedding_loss"), (sample(Draw(avoid=(-1.0, 1.0)), SIDES),)),
    "margin_ranking_loss": (sample(ANY, Draw(5.0, 6.0), SIDES, margin=0.5),),
    "contrastive_loss": (sample(Draw(0.0, 2.0, avoid=(1.0,)), PROBABILITY),),
    "gaussian_nll_loss": (sample(ANY, ANY, POSITIVE),),
    "multi_margin_loss": (sample(Draw(dims=(4,)), 2, margin=0.55), sample(Draw(dims=(4,)), 2, p=2, margin=0.55)),
    "triplet_margin_loss": (sample(ROWS, FAR_ROWS, ROWS), sample(ROWS, FAR_ROWS, SHARES, p=3.0, swap=True)),
    "ctc_loss": (sample(Draw(dims=(4, 3)), np.array([1, 2])),),
    "cosine_embedding_loss": (sample(ROWS, SHARES, 1.0), sample(ROWS, SHARES, -1.0, margin=-1.0)),
}  # fmt: skip
"""Samples by the name of the function."""
