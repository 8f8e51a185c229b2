"""Scaling of shape inference and lowering with the size of the graph of a transformer training step.

Targets, on one core: 1 000 operations are inferred in less than 1 s and lowered in less than 2 s; the inference time is
linear from 250 to 4 000 operations.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ocannl as oc
from ocannl import train
from ocannl.ir.assign import assigns
from ocannl.lang.core import graph
from ocannl.lower.lower import lower

SIZES = (250, 500, 1000, 2000, 4000)
HEADS, HEAD, HIDDEN, SEQUENCE, BATCH = 4, 8, 64, 16, 2
REPEATS = 3


@oc.op
def normed(x):
    gain, bias = oc.param("gain", 1.0), oc.param("bias", 0.0)
    centered = x - x.mean("...|d => ...|0")
    variance = (centered**2).mean("...|d => ...|0")
    return centered * oc.recip_sqrt(variance + 1e-5) * gain + bias


@oc.op
def attention(x, mask):
    q, k, v = (oc.param(name, o=[HEADS, HEAD]) @ x for name in ("q", "k", "v"))
    scores = oc.einsum("...s|hd; ...t|hd => ...st|h", q, k) * HEAD**-0.5 + mask
    e = oc.exp(scores - scores.max("...st|h => ...s0|h"))
    weights = e / e.sum("...st|h => ...s0|h")
    mixed = oc.einsum("...st|h; ...t|hd => ...s|hd", weights, v)
    return oc.param("o", o=[HEADS * HEAD]) @ mixed


@oc.op
def feed_forward(x):
    inner = oc.gelu(oc.param("w1", o=[HIDDEN]) @ x + oc.param("b1", 0.0))
    return oc.param("w2", o=[HEADS * HEAD]) @ inner + oc.param("b2", 0.0)


def operations(t: oc.Tensor) -> int:
    return sum(each.application is not None for each in graph.ancestors([t]))


def transformer(min_operations: int) -> oc.Tensor:
    """The loss of a transformer of at least so many operations."""
    x = oc.placeholder("x", batch=[BATCH, SEQUENCE], input=[], output=[HEADS * HEAD])
    mask = oc.placeholder("mask", batch=[SEQUENCE, SEQUENCE], input=[], output=[])
    per_layer = 0
    operation_count = 0
    while operation_count < min_operations - 2:
        x = x + attention(normed(x), mask)
        x = x + feed_forward(normed(x))
        per_layer = per_layer or operations(x)
        operation_count += per_layer
    return (x * x).mean()


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def row(min_operations: int) -> tuple[int, float, float, float, float, int]:
    """Operations; seconds to write the graph, finish all shapes, give the assignments of a step, and lower them."""
    write, loss = timed(lambda: transformer(min_operations))
    finish, _ = timed(lambda: [t.dims for t in graph.ancestors([loss])])
    elaborate, done = timed(lambda: train.grad_update(loss).elaborate())
    lowering, _ = timed(lambda: lower(done.comp, "step"))
    return operations(loss), write, finish, elaborate, lowering, sum(1 for _ in assigns(done.comp))


def table(sizes: tuple[int, ...]) -> np.ndarray:
    """Operations, seconds to infer, seconds from there to loops: a row for each size, the best of several runs."""
    print("     ops  write ms  finish ms  infer us/op  elaborate ms  lower ms  assignments")
    measurements = []
    for size in sizes:
        best = min((row(size) for _ in range(REPEATS)), key=lambda r: r[1] + r[2])
        ops, write, finish, elaborate, lowering, statements = best
        measurements.append((ops, write + finish, elaborate + lowering))
        print(
            f"{ops:8d}  {1e3 * write:8.1f}  {1e3 * finish:9.1f}  {1e6 * (write + finish) / ops:11.1f}  "
            f"{1e3 * elaborate:12.1f}  {1e3 * lowering:8.1f}  {statements:11d}"
        )
    figures = np.array(measurements)
    for name, seconds in (("inferring", figures[:, 1]), ("elaborating and lowering", figures[:, 2])):
        exponent = np.polyfit(np.log(figures[:, 0]), np.log(seconds), 1)[0]
        print(f"{name} grows as operations to the power {exponent:.2f}")
    return figures


def main() -> None:
    row(100)  # imports, caches of specs
    print("with garbage collection:")
    figures = table(SIZES)
    print("\nwith cyclic garbage collection disabled:")
    gc.disable()
    table(SIZES)
    ops, infer, code = figures[int(np.argmin(np.abs(figures[:, 0] - 1000)))]
    print()
    for name, seconds, aim in (("inferred", infer, 1.0), ("lowered", code, 2.0)):
        met = "met" if seconds < aim else "MISSED"
        print(f"{ops:.0f} operations are {name} in {seconds:.2f} s; target {aim:g} s: {met}")


if __name__ == "__main__":
    main()
