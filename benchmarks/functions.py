"""Time per element of float32 functions, in nanoseconds: compiled maps over arrays in the cache, and NumPy.

With `--ulps`, the largest error over all 2**32 arguments, in units in the last place. Arguments select functions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

import ocannl as oc
from ocannl.codegen.formulas import FORMULAS
from ocannl.ir.ops import BY_NAME
from ocannl.testing.function_accuracy import max_ulp_error

COUNT = 16384
CHUNK = 1 << 22
BACKENDS = ("llvm", "c")
RANGES = {"log": (0.0, 10.0), "log2": (0.0, 10.0), "pow": (0.0, 10.0)}


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
        self.inputs = [oc.placeholder(f"x{n}", o=[count]) for n in range(BY_NAME[name].arity)]
        self.result = oc.pow(*self.inputs) if name == "pow" else getattr(oc, name)(*self.inputs)
        self.context = oc.Context(backend)
        self.give([np.ones(count, np.float32)] * len(self.inputs))
        self.run = self.context.compile(self.result.forward)

    def give(self, xs: Sequence[np.ndarray]) -> None:
        for node, x in zip(self.inputs, xs, strict=True):
            self.context[node] = x

    def __call__(self, *xs: np.ndarray) -> np.ndarray:
        self.give(xs)
        self.run()
        return self.context[self.result]


def speed(names: list[str]) -> None:
    print("ns / element" + "".join(f"{name:>10}" for name in (*BACKENDS, "numpy")))
    random = np.random.default_rng(0)
    for name in names:
        low, high = RANGES.get(name, (-5.0, 5.0))
        xs = [random.uniform(low, high, COUNT).astype(np.float32) for _ in range(BY_NAME[name].arity)]
        figures = []
        for backend in BACKENDS:
            single, full = Map(name, 1, backend), Map(name, COUNT, backend)
            full(*xs)
            figures.append(seconds(full.run) - seconds(single.run))
        call, idle = by_numpy(name, xs), by_numpy(name, [x[:1] for x in xs])
        figures.append(seconds(call) - seconds(idle))
        print(f"{name:12}" + "".join(f"{1e9 * s / COUNT:10.3f}" for s in figures), flush=True)


def by_numpy(name: str, xs: Sequence[np.ndarray]) -> Callable[[], object]:
    ufunc, out = getattr(np, "power" if name == "pow" else name), np.empty_like(xs[0])
    return lambda: ufunc(*xs, out)


def ulps(names: list[str]) -> None:
    for name in names:
        for backend in BACKENDS:
            function, worst = Map(name, CHUNK, backend), (0.0, (0.0,))
            for first in range(0, 1 << 32, CHUNK):
                x = np.arange(first, first + CHUNK, dtype=np.uint32).view(np.float32)
                worst = max(worst, max_ulp_error(BY_NAME[name], function(x), x))
            print(f"{name:12}{backend:>6}  {worst[0]:.3f} ulp at {worst[1][0]!r}", flush=True)


if __name__ == "__main__":
    chosen = [argument for argument in sys.argv[1:] if argument != "--ulps"] or list(FORMULAS)
    if "--ulps" in sys.argv:
        ulps([name for name in chosen if BY_NAME[name].arity == 1])
    else:
        speed(chosen)
