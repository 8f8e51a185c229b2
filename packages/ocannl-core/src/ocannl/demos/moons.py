"""Two interleaved half circles: a classifier of points in the plane, with a picture of its decision boundary."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ocannl import nn, train
from ocannl.demos.report import Report, timing
from ocannl.lang.api import Tensor, placeholder
from ocannl.lang.ops.functions import cross_entropy, tanh
from ocannl.runtime.context import Context
from ocannl.runtime.evaluate import evaluate
from ocannl.show import boundary, page, save

Array = np.ndarray[Any, Any]

POINTS, TEST_POINTS, NOISE = 500, 500, 0.2
REQUIRED = 0.94  # noise puts about 3 % of the points on the other side of the best boundary
GRID = 200  # points along each side of the picture


def run(ctx: Context, *, epochs: int, seed: int) -> Report:
    """Raises: ImportError without scikit-learn."""
    from sklearn.datasets import make_moons

    points, labels = make_moons(POINTS + TEST_POINTS, noise=NOISE, random_state=seed)
    points, labels = points.astype("float32"), labels.astype("int32")
    data = train.batches({"point": points[:POINTS], "label": labels[:POINTS]}, 50, shuffle=seed)
    model = nn.mlp(widths=[32, 32, 2], activation=tanh, label="moons")
    fitted = train.fit(model, loss=cross_entropy, optimizer=_optimizer, data=data, ctx=ctx, epochs=epochs, show=False)
    test = data.of({"point": points[POINTS:], "label": labels[POINTS:]})
    score = train.evaluate(ctx, {"accuracy": train.accuracy(model(data["point"]), data["label"])}, test)["accuracy"]
    lines = {
        "network": f"2-32-32-2, {len(fitted.losses)} steps of 50 points",
        "test accuracy": f"{score:.4f} on {TEST_POINTS} points",
    }
    return Report(score, REQUIRED, lines | timing(fitted), partial(_draw, ctx, model, points[POINTS:], labels[POINTS:]))


def _optimizer(loss: Tensor) -> Any:
    return train.adam(loss, 1e-2)


def _draw(ctx: Context, model: Any, points: Array, labels: Array, path: Path) -> Path:
    low, high = points.min(0) - 0.3, points.max(0) + 0.3
    side = np.linspace(low, high, GRID, dtype="float32")
    grid = np.stack(np.meshgrid(side[:, 0], side[:, 1]), axis=-1)
    at = placeholder("grid", batch=[GRID, GRID], output=[2])
    logits = evaluate(model(at), {at: grid}, ctx)
    figure = page(6, 5)
    boundary(figure.subplots(), side[:, 0], side[:, 1], logits[..., 1] - logits[..., 0], points, labels)
    return save(figure, path)
