"""A matrix product and a small routine on several CPU backends, beside the first one.

    python benchmarks/native_backends.py [--size 512] [BACKEND ...]

The first backend is llvm unless others are named. Rounds alternate between the backends, with one thread; each figure
is the minimum.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from time import perf_counter

import numpy as np

import ocannl as oc

ROUNDS = 20
ROUND_SECONDS = 0.02
Call = Callable[[], object]


def product(backend: str, size: int) -> Call:
    a, b = np.random.default_rng(0).standard_normal((2, size, size)).astype("f4")
    ctx = oc.Context(backend, threads=1)
    result = oc.einsum("m,k; k,n => m,n", oc.tensor(a), oc.tensor(b))
    routine = ctx.compile(result.forward)
    routine()
    assert np.max(np.abs(ctx[result] - a @ b)) < 1e-4 * size
    return routine


def small_routine(backend: str) -> Call:
    x = oc.tensor(np.ones(8, "f4"))
    return oc.Context(backend, threads=1).compile((x * 2 + 1).forward)


def best_times(calls: list[Call]) -> list[float]:
    """The seconds of one call, the least of all rounds."""
    counts = []
    for call in calls:
        start = perf_counter()
        call()
        counts.append(max(1, int(ROUND_SECONDS / (perf_counter() - start))))
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for n, (call, count) in enumerate(zip(calls, counts, strict=True)):
            start = perf_counter()
            for _ in range(count):
                call()
            best[n] = min(best[n], (perf_counter() - start) / count)
    return best


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("backends", nargs="*", default=["llvm", "numba"])
    arguments = parser.parse_args()
    backends, size = arguments.backends, arguments.size
    products = best_times([product(backend, size) for backend in backends])
    routines = best_times([small_routine(backend) for backend in backends])
    print(f"{'':8}  product of {size}      relative  call of a routine  relative")
    for backend, seconds, call in zip(backends, products, routines, strict=True):
        rate = f"{2 * size**3 / seconds / 1e9:14.1f} GF/s{products[0] / seconds:12.2f}"
        print(f"{backend:8}{rate}{call * 1e9:16.0f} ns{call / routines[0]:10.2f}")


if __name__ == "__main__":
    main()
