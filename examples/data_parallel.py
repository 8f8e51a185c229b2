"""Data-parallel training: in each step, every device processes its own batch, and the gradients are averaged.

    python examples/data_parallel.py --backend llvm --devices 4

Up to rounding, the final parameters equal those of training on one device with all batches of a step together.
"""

from __future__ import annotations

import argparse

import numpy as np

import ocannl as oc
from ocannl import train


@oc.op
def two_layers(x, *, hidden, classes):
    w1 = oc.param()
    b1 = oc.param(0.0, o=[hidden])
    w2 = oc.param()
    b2 = oc.param(0.0, o=[classes])
    return w2 @ oc.tanh(w1 @ x + b1) + b2


def spirals(points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns points of a spiral with three arms in the plane, and the arm of each point as a one-hot row."""
    rng = np.random.default_rng(seed)
    arm, radius = rng.integers(0, 3, points), rng.uniform(0.1, 1, points)
    angle = 4 * radius + 2 * np.pi / 3 * arm + rng.normal(0, 0.1, points)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), np.eye(3)[arm]


def loss_of(size: int) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    x, t = oc.placeholder("x", b=[size], o=[2]), oc.placeholder("t", b=[size], o=[3])
    scores = two_layers(hidden=32, classes=3)(x)
    return (((scores - t) ** 2).sum() * (1 / size)).with_label("loss"), x, t


def main(backend: str | None, devices: int, steps: int, size: int = 32) -> float:
    """Trains on several devices and on one; returns the largest difference between corresponding parameters."""
    points, arms = spirals(steps * devices * size, seed=0)

    loss, x, t = loss_of(size)
    contexts = [oc.Context(backend, device=n, queue="threaded") for n in range(devices)]
    contexts[0].init(loss)
    start = {path: contexts[0][p] for path, p in loss.params.items()}
    step = train.DataParallel(contexts, loss, train.sgd(loss, 0.1, momentum=0.9))
    shards = [slice(at, at + size) for at in range(0, len(points), size)]
    losses = [batch_losses.mean() for batch_losses in step.each({x: points[part], t: arms[part]} for part in shards)]

    single, y, u = loss_of(size * devices)
    alone = oc.Context(backend)
    for path, p in single.params.items():
        alone[p] = start[path]
    batches = [slice(at, at + devices * size) for at in range(0, len(points), devices * size)]
    feeds = [{y: points[part], u: arms[part]} for part in batches]
    train.fit(alone, single, train.sgd(single, 0.1, momentum=0.9), feeds, show=False)

    apart = max(np.abs(contexts[-1][p] - alone[single.params[path]]).max() for path, p in loss.params.items())
    print(f"{devices} devices, {steps} steps: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    print(f"largest difference to one device: {apart:.1e}")
    return float(apart)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    main(arguments.backend, arguments.devices, arguments.steps)
