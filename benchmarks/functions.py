"""What a function of float32 costs for each element, in nanoseconds: compiled maps over numbers that stay in the cache,
and NumPy. With `--ulps`, how far off all 2**32 numbers are, in units in the last place; names choose functions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import ocannl as oc
from ocannl.codegen.formulas import FORMULAS
from ocannl.ir.ops import BY_NAME
from ocannl.testing.functions import farthest

COUNT = 16384
CHUNK = 1 << 22
BACKENDS = ("llvm", "c")
RANGES = {"log": (0.0, 10.0), "log2": (0.0, 10.0)}


def seconds(call: Callable[[], object], stretches: int = 20) -> float:
    """Of one call, the best of some stretches."""
    call()
    start = time.perf_counter()
    call()
    times = max(1, int(0.005 / (time.perf_counter() - start)))
    best = float("inf")
    for _ in range(stretches):
        start = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, (time.perf_counter() - start) / times)
    return best


class Map:
    """A function on so many numbers, compiled."""

    def __init__(self, name: str, count: int, backend: str) -> None:
        self.x = oc.placeholder("x", o=[count])
        self.y = getattr(oc, name)(self.x)
        self.context = oc.Context(backend)
        self.context[self.x] = np.ones(count, np.float32)
        self.run = self.context.compile(self.y.forward)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.context[self.x] = x
        self.run()
        return self.context[self.y]


def speed(names: list[str]) -> None:
    print("ns / element" + "".join(f"{name:>10}" for name in (*BACKENDS, "numpy")))
    random = np.random.default_rng(0)
    for name in names:
        x = random.uniform(*RANGES.get(name, (-5.0, 5.0)), COUNT).astype(np.float32)
        figures = []
        for backend in BACKENDS:
            one, many = Map(name, 1, backend), Map(name, COUNT, backend)
            many(x)
            figures.append(seconds(many.run) - seconds(one.run))
        ufunc, y = getattr(np, name), np.empty_like(x)
        figures.append(seconds(lambda f=ufunc, x=x, y=y: f(x, y)) - seconds(lambda f=ufunc, x=x, y=y: f(x[:1], y[:1])))
        print(f"{name:12}" + "".join(f"{1e9 * s / COUNT:10.3f}" for s in figures), flush=True)


def ulps(names: list[str]) -> None:
    for name in names:
        for backend in BACKENDS:
            function, worst = Map(name, CHUNK, backend), (0.0, (0.0,))
            for first in range(0, 1 << 32, CHUNK):
                x = np.arange(first, first + CHUNK, dtype=np.uint32).view(np.float32)
                worst = max(worst, farthest(BY_NAME[name], function(x), x))
            print(f"{name:12}{backend:>6}  {worst[0]:.3f} ulp at {worst[1][0]!r}", flush=True)


if __name__ == "__main__":
    chosen = [argument for argument in sys.argv[1:] if argument != "--ulps"] or list(FORMULAS)
    (ulps if "--ulps" in sys.argv else speed)(chosen)
