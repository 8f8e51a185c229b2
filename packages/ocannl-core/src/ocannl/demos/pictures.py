"""Handwritten digits, by networks for pictures: LeNet-5, a small ResNet, a vision transformer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from ocannl import nn, train
from ocannl.demos.digits import CLASSES, SIDE, Split, load
from ocannl.demos.report import Report, timing
from ocannl.lang.api import Tensor, op
from ocannl.lang.ops.functions import cross_entropy, relu
from ocannl.runtime.context import Context

BATCH = 50


def normed_conv(x: Tensor, channels: int, stride: int = 1) -> Tensor:
    return nn.batch_norm(nn.conv2d(x, channels=channels, window=3, stride=stride, padding=1, bias=False))


@op
def residual_block(x: Tensor, *, channels: int, stride: int = 1) -> Tensor:
    y = normed_conv(relu(normed_conv(x, channels, stride)), channels)
    shortcut = x if stride == 1 else nn.conv2d(x, channels=channels, window=1, stride=stride, padding=0, bias=False)
    return relu(y + shortcut)


@op
def small_resnet(x: Tensor, *, channels: int = 16) -> Tensor:
    """A convolution, three residual blocks, of which the last two halve the picture, and global pooling."""
    x = relu(normed_conv(x, channels))
    for stage, stride in enumerate((1, 2, 2)):
        x = residual_block(x, channels=channels << stage, stride=stride)
    return nn.linear(nn.global_avg_pool(x), width=CLASSES)


@dataclass(frozen=True, slots=True)
class Classifier:
    """How a network is built, the rate that suits it, and the accuracy that every seed reaches."""

    build: Callable[[], Any]
    rate: float
    required: float


CLASSIFIERS: Mapping[str, Classifier] = {
    "lenet": Classifier(lambda: nn.lenet(classes=CLASSES, padding=4, label="lenet"), 2e-3, 0.94),
    "resnet": Classifier(lambda: small_resnet(label="resnet"), 2e-3, 0.96),
    "vit": Classifier(
        lambda: nn.vit(patch=2, width=32, layers=2, heads=4, inner=64, classes=CLASSES, label="vit"), 2e-3, 0.92
    ),
}


def run(name: str, ctx: Context, *, epochs: int, seed: int) -> Report:
    """Raises: ImportError without scikit-learn."""
    classifier, digits = CLASSIFIERS[name], load(seed)
    data = train.batches(columns(digits.train), BATCH, shuffle=seed)
    model = classifier.build()
    fitted = train.fit(
        model, loss=cross_entropy, optimizer=lambda loss: train.adam(loss, classifier.rate), data=data, ctx=ctx,
        epochs=epochs, validation=data.of(columns(digits.test)), metrics={"accuracy": train.accuracy}, show=False,
    )  # fmt: skip
    score = fitted.watched[-1]["accuracy"]
    cells = sum(prod(p.dims) for p in model.params.values())
    lines = {
        "network": f"{name}, {cells} parameters, {len(fitted.losses)} steps of {BATCH} digits",
        "test accuracy": f"{score:.4f} on {len(digits.test)} digits",
    }
    return Report(score, classifier.required, lines | timing(fitted))


def columns(samples: Split) -> dict[str, Any]:
    return {"image": samples.images.reshape(-1, SIDE, SIDE, 1), "label": samples.labels}
