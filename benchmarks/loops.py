"""Times of recurrent networks as scans, beside PyTorch's modules and the same cells unrolled.

    python benchmarks/loops.py [--threads 1] [--unrolled]

Each row is a training step (values and gradients of all parameters) of one layer: steps, batch, input width, hidden
width. Both run in turns, and the best of several rounds counts. The compile time is that of the scan, without caches.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import ocannl as oc
from ocannl import train

SIZES = (
    (32, 32, 128, 256), (64, 4, 64, 128), (128, 16, 64, 64), (32, 64, 256, 512), (100, 1, 32, 256), (400, 8, 32, 64),
)  # fmt: skip
ROUNDS = 9


def lstm(state: Any, x: oc.Tensor, *, width: int) -> Any:
    h, c = state
    gates = oc.param("w") @ x + oc.param("u") @ h + oc.param("b", o=[4, width])
    i, f, o, z = (oc.einsum(f"...|{n},h => ...|h", gates) for n in range(4))
    c = oc.sigmoid(f) * c + oc.sigmoid(i) * oc.tanh(z)
    h = oc.sigmoid(o) * oc.tanh(c)
    return (h, c), h


def gru(h: oc.Tensor, x: oc.Tensor, *, width: int) -> Any:
    a, b = oc.param("w", o=[3, width]) @ x, oc.param("u", o=[3, width]) @ h + oc.param("b")
    (r, z, n), (hr, hz, hn) = ([oc.einsum(f"...|{k},h => ...|h", t) for k in range(3)] for t in (a, b))
    z = oc.sigmoid(z + hz)
    h = (1.0 - z) * oc.tanh(n + oc.sigmoid(r + hr) * hn) + z * h
    return h, h


def rnn(h: oc.Tensor, x: oc.Tensor, *, width: int) -> Any:
    h = oc.tanh(oc.param("w", o=[width]) @ x + oc.param("u") @ h + oc.param("b"))
    return h, h


CELLS = {"lstm": (lstm, torch.nn.LSTM), "gru": (gru, torch.nn.GRU), "rnn": (rnn, torch.nn.RNN)}


def routine(cell: Callable[..., Any], sizes: tuple[int, ...], threads: int, unrolled: bool) -> tuple[oc.Routine, float]:
    steps, batch, features, width = sizes
    xs = oc.placeholder("xs", batch=[steps, batch], output=[features])
    step, init = oc.op(cell)(width=width, label="cell"), (0.0, 0.0) if cell is lstm else 0.0
    if unrolled:
        state = oc.tensor(np.zeros((batch, width), "float32"), batch_axes=1)
        carry, losses = ((state, state) if cell is lstm else state), []
        for n in range(steps):
            carry, y = step(carry, xs[n])
            losses.append((y * y).sum())
        loss = sum(losses[1:], losses[0])
    else:
        _, ys = oc.scan(step, init, xs)
        loss = (ys * ys).sum()
    ctx = oc.Context("llvm", threads=threads)
    ctx.init(loss)
    ctx[xs] = np.random.default_rng(0).normal(size=(steps, batch, features))
    start = time.perf_counter()
    with oc.settings(cache="off"):
        compiled = ctx.compile(train.grad_update(loss), keep=[p.grad for p in loss.params.values()])
    return compiled, time.perf_counter() - start


def torch_step(module: type[torch.nn.Module], sizes: tuple[int, ...]) -> Callable[[], None]:
    steps, batch, features, width = sizes
    net, x = module(features, width), torch.randn(steps, batch, features)

    def step() -> None:
        net.zero_grad()
        (net(x)[0] ** 2).sum().backward()

    return step


def fastest(*functions: Callable[[], None]) -> list[float]:
    best = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for n, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[n] = min(best[n], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--unrolled", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print("cell  steps, batch, features, width   compile s   scan ms   torch ms   ratio")
    for name, (cell, module) in CELLS.items():
        for sizes in SIZES:
            scan, seconds = routine(cell, sizes, arguments.threads, unrolled=False)
            functions = [scan, torch_step(module, sizes)]
            if arguments.unrolled:
                functions.append(routine(cell, sizes, arguments.threads, unrolled=True)[0])
            times = fastest(*functions)
            suffix = f"   unrolled {times[2] * 1e3:.2f} ms" if arguments.unrolled else ""
            shown = ", ".join(map(str, sizes))
            print(
                f"{name:<5} {shown:<31} {seconds:>9.2f} {times[0] * 1e3:>9.2f} {times[1] * 1e3:>10.2f}"
                f" {times[1] / times[0]:>7.2f}{suffix}", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
