"""Memory of a process that compiles many distinct programs: those whose routines are alive, and those compiled in turn.

    python benchmarks/memory_growth.py --alive 10000 --turns 100000 --backend llvm

Every program has constants and sizes of its own, so that none is in a cache. The resident memory is sampled ten times
in each part. What is retained by each program is the slope after the first half, in which caches fill up.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import perf_counter

import numpy as np

import ocannl as oc

SAMPLES = 10
NUMBERS = count(1)


def resident_bytes() -> int:
    fields = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in fields if line.startswith("VmRSS"))


def compiled(context: oc.Context) -> oc.Routine:
    """A routine of a new program, called once."""
    n = next(NUMBERS)
    x = oc.placeholder("x", batch=[2 + n % 5], output=[3 + n % 7])
    y = x * float(n) + 1.0
    routine = context.compile(y.forward, keep=[y])
    context.set(x, np.ones(x.dims, np.float32))
    routine()
    return routine


def measured(title: str, programs: int, step: Callable[[], object]) -> None:
    """Prints the memory while a step is executed repeatedly, and what it retains in the second half."""
    step()
    gc.collect()
    samples = [(0, resident_bytes())]
    start = perf_counter()
    for part in range(SAMPLES):
        done, goal = samples[-1][0], programs * (part + 1) // SAMPLES
        for _ in range(goal - done):
            step()
        gc.collect()
        samples.append((goal, resident_bytes()))
        mebibytes, seconds = samples[-1][1] / 2**20, perf_counter() - start
        print(f"{title}: {goal:7} programs  {mebibytes:8.1f} MiB  {seconds:6.1f} s", flush=True)
    half = SAMPLES // 2
    (first, before), (last, after) = samples[half], samples[-1]
    print(f"{title}: {(after - before) / max(1, last - first) / 1024:.2f} KiB for each program in the second half")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="llvm")
    parser.add_argument("--alive", type=int, default=10_000, help="number of routines that are alive at once")
    parser.add_argument("--turns", type=int, default=100_000, help="number of programs that are compiled in turn")
    options = parser.parse_args()
    with oc.settings(cache=False, verify="off"):
        context = oc.Context(options.backend)
        measured("in turn", options.turns, lambda: compiled(context))
        routines: list[oc.Routine] = []
        measured("alive", options.alive, lambda: routines.append(compiled(context)))


if __name__ == "__main__":
    main()
