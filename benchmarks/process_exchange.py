"""All-reduce of float32 between processes of one host: ocannl over MPI beside MPI's own all-reduce and gloo.

    mpiexec -n 2 python benchmarks/process_exchange.py

The three alternate in short rounds; the figures are the minimum and, in parentheses, the median of the time of a call
over the rounds, in microseconds. On a loaded machine, where processes wait for cores, only the minimum is meaningful.
Without PyTorch, gloo is left out.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from statistics import median
from time import perf_counter

import numpy as np
from mpi4py import MPI

import ocannl as oc
from ocannl import train

SIZES_BYTES = (4, 256 << 10, 4 << 20)
ROUNDS = 60
ROUND_SECONDS = 0.005


def ocannl_call(world: oc.World, size_bytes: int) -> Callable[[], object]:
    x = oc.placeholder("x", o=[size_bytes // 4])
    ctx = oc.Context("llvm")
    steps = train.all_reduce([x], [ctx], world=world)
    ctx[x] = np.zeros(size_bytes // 4)

    def call() -> None:
        for step in steps:
            step()

    return call


def mpi_call(size_bytes: int) -> Callable[[], object]:
    sent, received = np.zeros(size_bytes // 4, np.float32), np.zeros(size_bytes // 4, np.float32)
    return lambda: MPI.COMM_WORLD.Allreduce(sent, received)


def gloo_call(size_bytes: int) -> Callable[[], object]:
    import torch
    import torch.distributed as dist

    tensor = torch.zeros(size_bytes // 4)
    return lambda: dist.all_reduce(tensor)


def start_gloo(world: oc.World) -> bool:
    """Connects the processes by a file, whose name rank 0 chooses."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch.distributed as dist

    name = world.gather(os.path.join(tempfile.gettempdir(), f"gloo-{os.getpid()}").encode())[0].decode()
    dist.init_process_group(
        "gloo", init_method=f"file://{name}", rank=world.rank, world_size=world.size, timeout=timedelta(seconds=60)
    )
    return True


def microseconds(world: oc.World, calls: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """The minimum and the median of the time of a call of each, over alternating rounds."""
    counts = {}
    for name, call in calls.items():
        world.barrier()
        durations = []
        for _ in range(10):
            start = perf_counter()
            call()
            durations.append(perf_counter() - start)
        seconds = min(durations)
        counts[name] = int.from_bytes(world.gather(max(1, int(ROUND_SECONDS / seconds)).to_bytes(8))[0])
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            world.barrier()
            start = perf_counter()
            for _ in range(counts[name]):
                call()
            times[name].append((perf_counter() - start) / counts[name] * 1e6)
    return {name: (min(values), median(values)) for name, values in times.items()}


def main() -> None:
    world = oc.World("mpi")
    has_gloo = world.size > 1 and start_gloo(world)
    for size_bytes in SIZES_BYTES:
        calls = {"ocannl": ocannl_call(world, size_bytes), "MPI": mpi_call(size_bytes)}
        if has_gloo:
            calls["gloo"] = gloo_call(size_bytes)
        figures = microseconds(world, calls)
        if world.rank == 0:
            listed = ", ".join(f"{name} {fastest:.1f} ({typical:.1f})" for name, (fastest, typical) in figures.items())
            print(f"{world.size} processes, {size_bytes} bytes: {listed} us", flush=True)


if __name__ == "__main__":
    sys.exit(main())
