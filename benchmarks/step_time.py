"""Time of a training step of a small network, with LLVM and with the reference backend, and call overhead.

Target: ten times as fast as the reference backend.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ocannl as oc
from ocannl import train

BATCH, FEATURES, HIDDEN, CLASSES = 50, 64, 64, 10
AIM = 10.0


@oc.op
def network(x):
    w1, b1 = oc.param(), oc.param(0.0, o=[HIDDEN])
    w2, b2 = oc.param(), oc.param(0.0, o=[CLASSES])
    return w2 @ oc.relu(w1 @ x + b1) + b2


def data() -> tuple[np.ndarray, np.ndarray]:
    """Batches of digits and of their classes; random numbers of the same shape without scikit-learn."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        rng = np.random.default_rng(0)
        images, labels = rng.uniform(size=(1500, FEATURES)), rng.integers(CLASSES, size=1500)
    else:
        images, labels = load_digits(return_X_y=True)
        images = images / 16
    n = len(images) // BATCH * BATCH
    one_hot = np.eye(CLASSES, dtype="float32")[labels[:n]]
    return images[:n].astype("float32").reshape(-1, BATCH, FEATURES), one_hot.reshape(-1, BATCH, CLASSES)


def step(backend: str) -> Callable[..., Any]:
    xs, ys = data()
    ctx = oc.Context(backend)
    n = oc.symbol("n", 0, len(xs))
    logits = network(oc.tensor(xs, batch_axes=2)[n])
    shifted = logits - logits.max("...|... => ...|0")
    log_z = oc.log(oc.exp(shifted).sum("...|... => ...|0"))
    loss = ((log_z - shifted) * oc.tensor(ys, batch_axes=2)[n]).sum() / BATCH
    ctx.init(loss)
    return ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.05, momentum=0.9)))


def seconds(call: Callable[..., Any], min_s: float = 0.5, **symbols: int) -> float:
    """Of one call, the best of five stretches."""
    call(**symbols)
    start = time.perf_counter()
    call(**symbols)
    times = max(1, int(min_s / 5 / (time.perf_counter() - start)))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(times):
            call(**symbols)
        best = min(best, (time.perf_counter() - start) / times)
    return best


def overhead(backend: str) -> tuple[float, float]:
    """Seconds of a call that does next to nothing, without and with a symbol."""
    ctx = oc.Context(backend)
    x = oc.tensor(np.ones((4, 1), "float32"), batch_axes=1)
    n = oc.symbol("n", 0, 4)
    plain, chosen = oc.tensor([1.0]) + 1.0, x[n] + 1.0
    return seconds(ctx.compile(plain.forward)), seconds(ctx.compile(chosen.forward), n=2)


def main() -> None:
    times = {}
    for row in oc.backends():
        if row.usable:
            start = time.perf_counter()
            routine = step(row.name)
            made = time.perf_counter() - start
            times[row.name] = seconds(routine, n=1)
            bare, chosen = overhead(row.name)
            print(
                f"{row.name:8}  step {1e6 * times[row.name]:10.1f} us   made in {1e3 * made:7.1f} ms   "
                f"call {1e6 * bare:6.2f} us, with a symbol {1e6 * chosen:6.2f} us"
            )
    if "llvm" in times:
        ratio = times["numpy"] / times["llvm"]
        verdict = "met" if ratio >= AIM else "MISSED"
        print(f"llvm is {ratio:.1f} times as fast as the reference; target {AIM:g}: {verdict}")


if __name__ == "__main__":
    main()
