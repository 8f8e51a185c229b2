"""Training steps of a decoder by several processes with one thread each, beside one process with as many threads.

    python benchmarks/process_training.py [--processes 2] [--rounds 5]

Both process the same batch. They are started in turn, since threads of the one would take time from the other; the
figures are the minimum and, in parentheses, the median over all rounds of the time of a step, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

import ocannl as oc
from ocannl import nn, train

BATCH, LENGTH, WIDTH, LAYERS, HEADS, VOCABULARY = 8, 64, 256, 2, 4, 512
STEPS = 30


def decoder(batch: int) -> tuple[oc.Tensor, dict[oc.Tensor, np.ndarray]]:
    x, t = (oc.placeholder(name, b=[batch, LENGTH], o=[], dtype="int32") for name in ("x", "t"))
    model = nn.gpt(vocabulary=VOCABULARY, length=LENGTH, width=WIDTH, layers=LAYERS, heads=HEADS)
    loss = oc.cross_entropy(model(x), t).mean().with_label("loss")
    rng = np.random.default_rng(0)
    return loss, {node: rng.integers(0, VOCABULARY, (batch, LENGTH)) for node in (x, t)}


def processes_step(world: oc.World, bucket_bytes: int) -> Callable[[], object]:
    loss, batch = decoder(BATCH // world.size)
    step = train.DataParallel(
        [oc.Context("llvm", threads=1)], loss, train.adam(loss), world=world, bucket_bytes=bucket_bytes
    )
    return lambda: step(*[batch] * world.size)


def threads_step(threads: int) -> Callable[[], object]:
    loss, batch = decoder(BATCH)
    step = train.DataParallel([oc.Context("llvm", threads=threads)], loss, train.adam(loss))
    return lambda: step(batch)


def milliseconds(world: oc.World, step: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(STEPS):
        world.barrier()
        start = perf_counter()
        step()
        times.append((perf_counter() - start) * 1e3)
    return times[2:]  # without those that allocate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bucket-mib", type=float, default=4)
    parser.add_argument("--measure", choices=("processes", "threads"), help="only this, and print times as JSON")
    arguments = parser.parse_args()
    if arguments.measure:
        world = oc.World("mpi" if arguments.measure == "processes" else "single")
        step = (
            threads_step(arguments.processes)
            if arguments.measure == "threads"
            else processes_step(world, int(arguments.bucket_mib * 2**20))
        )
        times = milliseconds(world, step)
        if world.rank == 0:
            print(json.dumps(times))
        return
    launcher = [Path(sys.executable).with_name("mpiexec"), "-bind-to", "core", "-n", str(arguments.processes)]
    options = ["--processes", str(arguments.processes), "--bucket-mib", str(arguments.bucket_mib), "--measure"]
    results: dict[str, list[float]] = {"processes": [], "threads": []}
    for _ in range(arguments.rounds):
        for name, times in results.items():
            command = [*(launcher if name == "processes" else []), sys.executable, __file__, *options, name]
            times += json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for name, times in results.items():
        print(f"{arguments.processes} {name}: {min(times):.1f} ({median(times):.1f}) ms", flush=True)


if __name__ == "__main__":
    main()
