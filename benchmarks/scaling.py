"""A cost model of a data-parallel training step, its constants on this host, and its predictions.

    python benchmarks/scaling.py                                     predictions for 8 to 1,024 hosts
    mpiexec -bind-to core -n 2 python benchmarks/scaling.py measure  constants, and exchanges beside the model
    mpiexec -n 4 python benchmarks/scaling.py measure                the same of four, with constants of two

A message of n bytes takes `latency + n * seconds_per_byte`, and an addition `n * add_seconds_per_byte`. See
docs/scaling.md.

Sources: Hockney 1994, "The communication challenge for MPP"; Thakur, Rabenseifner and Gropp 2005, "Optimization of
collective communication operations in MPICH"; Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for
clusters of workstations"; Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion parameter
models".
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf, log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ocannl import World

MIB = 1 << 20
HOSTS = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Network:
    """Connections between processes. `cores` is the number of processes that work at once; others wait for a core."""

    latency_seconds: float
    seconds_per_byte: float
    add_seconds_per_byte: float
    cores: float = inf


@dataclass(frozen=True)
class Step:
    """A training step of one process: seconds of all computations, of those after the first gradients are final, and of
    the update; bytes of gradients and of their buckets."""

    compute_seconds: float
    backward_seconds: float
    update_seconds: float
    gradient_bytes: float
    bucket_bytes: float = 4 * MIB


def tree_seconds(network: Network, processes: int, size_bytes: float) -> float:
    """An all-reduce by messages of everything along a binary tree, and back, as by `train.DataParallel`."""
    seconds, active = 0.0, processes
    while active > 1:
        wait = max(1.0, active / network.cores)
        message = network.latency_seconds + size_bytes * network.seconds_per_byte
        seconds += wait * (2 * message + size_bytes * network.add_seconds_per_byte)
        active = ceil(active / 2)
    return seconds


def ring_seconds(network: Network, processes: int, size_bytes: float) -> float:
    """A ring reduce-scatter and all-gather: in each of 2 (p - 1) rounds all send a part to the next process."""
    rounds, part = processes - 1, size_bytes / processes
    message = network.latency_seconds + part * network.seconds_per_byte
    wait = max(1.0, processes / network.cores)
    return wait * rounds * (2 * message + part * network.add_seconds_per_byte)


def halving_seconds(network: Network, processes: int, size_bytes: float) -> float:
    """A reduce-scatter by recursive halving and an all-gather by recursive doubling, of a power of two processes."""
    rounds, share = ceil(log2(processes)), 1 - 1 / processes
    wait = max(1.0, processes / network.cores)
    transfer = size_bytes * share * (2 * network.seconds_per_byte + network.add_seconds_per_byte)
    return wait * (2 * rounds * network.latency_seconds + transfer)


def window_seconds(network: Network, processes: int, size_bytes: float) -> float:
    """A sum in shared memory: each process reads and writes its part of the cells of all, between two signals."""
    wait = max(1.0, processes / network.cores)
    return wait * (2 * network.latency_seconds + 2 * size_bytes * network.seconds_per_byte)


AllReduce = Callable[[Network, int, float], float]
ALGORITHMS: dict[str, AllReduce] = {"tree": tree_seconds, "ring": ring_seconds, "halving": halving_seconds}


def exposed_seconds(
    step: Step, network: Network, processes: int, all_reduce: AllReduce, share: float = 1.0
) -> float:  # fmt: skip
    """The time of exchanges that does not overlap the computation. Buckets are exchanged one after the other while the
    gradients of the next ones are computed; the last is final at the end. `share` is that of an all-reduce."""
    if processes == 1:
        return 0.0
    buckets = max(1, int(step.gradient_bytes // step.bucket_bytes))
    bucket_seconds = share * all_reduce(network, processes, step.gradient_bytes / buckets)
    interval = step.backward_seconds / buckets
    return bucket_seconds + (buckets - 1) * max(0.0, bucket_seconds - interval)


def step_seconds(
    step: Step, network: Network, processes: int, all_reduce: AllReduce, *, shards_update: bool = False
) -> float:
    """The time of a step with one batch for each process. With `shards_update` gradients are reduced and scattered, a
    process updates its part of the parameters, and these are gathered after the update: half an all-reduce each."""
    wait = max(1.0, processes / network.cores)
    if not shards_update or processes == 1:
        exposed = exposed_seconds(step, network, processes, all_reduce)
        return wait * (step.compute_seconds + step.update_seconds) + exposed
    exposed = exposed_seconds(step, network, processes, all_reduce, 0.5)
    gather = 0.5 * all_reduce(network, processes, step.gradient_bytes)
    return wait * (step.compute_seconds + step.update_seconds / processes) + exposed + gather


def efficiency(step: Step, network: Network, processes: int, all_reduce: AllReduce, **options: bool) -> float:
    """The time of a process alone, relative to that of a step of many."""
    alone = step.compute_seconds + step.update_seconds
    return alone / step_seconds(step, network, processes, all_reduce, **options)


def largest_tree_bytes(network: Network, processes: int) -> float:
    """The size of a message up to which a tree takes less time than a ring, without additions."""
    levels = ceil(log2(processes))
    latencies, transfers = processes - 1 - levels, levels - (1 - 1 / processes)
    return latencies * network.latency_seconds / (transfers * network.seconds_per_byte)


def bytes_per_parameter(processes: int, stage: int, *, parameter: int = 4, gradient: int = 4, state: int = 8) -> float:
    """Memory of a parameter in one process: ZeRO divides the state of the optimizer (stage 1), gradients (2) and
    parameters (3) among processes. The state of Adam in float32 has 8 bytes."""
    parts = [processes if stage >= divided else 1 for divided in (3, 2, 1)]
    return parameter / parts[0] + gradient / parts[1] + state / parts[2]


GIGABIT_25 = Network(20e-6, 8 / 25e9, 1 / 8e9)
GIGABIT_200 = Network(3e-6, 8 / 200e9, 1 / 8e9)
EXAMPLE = Step(compute_seconds=0.5, backward_seconds=0.3, update_seconds=0.1, gradient_bytes=4 * 124e6)
"""A model of 124 million parameters."""


def predict() -> None:
    for name, network in (("25 Gbit/s, 20 us", GIGABIT_25), ("200 Gbit/s, 3 us", GIGABIT_200)):
        print(f"\n{name}: efficiency of a step, and the largest message for which a tree is faster than a ring")
        print(f"{'hosts':>6}" + "".join(f"{label:>10}" for label in ALGORITHMS) + f"{'sharded':>10}{'message':>12}")
        for hosts in HOSTS:
            values = [efficiency(EXAMPLE, network, hosts, all_reduce) for all_reduce in ALGORITHMS.values()]
            values.append(efficiency(EXAMPLE, network, hosts, halving_seconds, shards_update=True))
            size = largest_tree_bytes(network, hosts) / 1024
            print(f"{hosts:6}" + "".join(f"{100 * value:9.0f}%" for value in values) + f"{size:8.0f} KiB")
    print("\nbytes of a parameter with Adam, by stage of ZeRO (0 to 3)")
    for hosts in (1, *HOSTS):
        print(f"{hosts:6}" + "".join(f"{bytes_per_parameter(hosts, stage):10.2f}" for stage in range(4)))


# -------------------------------------------------------------------------------------------------- measurements


def measure() -> None:
    """Prints the constants of messages and of shared memory on this host, and exchanges and steps beside the model."""
    import os

    import ocannl as oc

    world, cores = oc.World("mpi"), float(os.cpu_count() or 1)
    add = _add_seconds_per_byte()
    for name, model, network in (("messages", tree_seconds, MESSAGES), ("window", window_seconds, WINDOW)):
        if world.size > 1:
            measured = {size: _exchange_seconds(world, size, name == "window") for size in SIZES_BYTES}
            if world.size == 2:
                network = _fitted(measured, 0.0 if name == "window" else add, cores)
            if world.rank == 0:
                print(f"{name}: {network}")
                for size, seconds in measured.items():
                    _report(world.size, f"{name}, {size >> 10} KiB", seconds, model(network, world.size, size))
    alone, together, gradient_bytes = _steps_seconds(world)
    step = Step(alone, 0.0, 0.0, gradient_bytes, gradient_bytes)
    if world.rank == 0:
        _report(world.size, "step of a decoder", together, step_seconds(step, network, world.size, window_seconds))


SIZES_BYTES = (64 << 10, 1 * MIB, 4 * MIB)


def _report(processes: int, subject: str, measured: float, predicted: float) -> None:
    print(f"{processes} processes, {subject}: {measured * 1e6:.0f} us, predicted {predicted * 1e6:.0f} us", flush=True)


def _fitted(measured: dict[int, float], add: float, cores: float) -> Network:
    """The constants of the smallest and the largest exchange of two processes, which has two messages or signals."""
    (small, first), *_, (large, last) = measured.items()
    per_byte = (last - first) / (large - small)
    return Network((first - small * per_byte) / 2, (per_byte - add) / 2, add, cores)


def _add_seconds_per_byte() -> float:
    from time import perf_counter

    import numpy as np

    a, b, times = np.zeros(MIB, np.float32), np.zeros(MIB, np.float32), []
    for _ in range(20):
        start = perf_counter()
        np.add(a, b, a)
        times.append(perf_counter() - start)
    return min(times) / a.nbytes


def _exchange_seconds(world: World, size_bytes: int, shares_memory: bool) -> float:
    from process_exchange import microseconds, ocannl_call

    world.shares_memory = shares_memory
    call = ocannl_call(world, size_bytes)
    return min(microseconds(world, {"": call})[""][0] for _ in range(3)) * 1e-6


def _steps_seconds(world: World) -> tuple[float, float, float]:
    """Seconds of a step of rank 0 while the others wait, and of all together; bytes of gradients."""
    from time import perf_counter

    from process_training import decoder

    import ocannl as oc
    from ocannl import train

    loss, batch = decoder(4)
    contexts = [oc.Context("llvm", threads=1) for _ in range(2)]
    update, worlds = train.adam(loss), (None, world)
    steps = [train.DataParallel([ctx], loss, update, world=w) for ctx, w in zip(contexts, worlds, strict=True)]
    best = [inf, inf]
    for number in range(30):
        is_alone = number % 2 == 0
        world.barrier()
        start = perf_counter()
        if is_alone and world.rank == 0:
            steps[0](batch)
        elif not is_alone:
            steps[1](*[batch] * world.size)
        best[number % 2] = min(best[number % 2], perf_counter() - start)
    sizes = [4.0 * contexts[0][p].size for p in loss.params.values()]
    return best[0], best[1], sum(sizes)


MESSAGES = Network(10e-6, 2.3e-10, 3.2e-11, 2.0)
WINDOW = Network(5.7e-6, 1.9e-11, 0.0, 2.0)
"""Of a virtual machine with two cores of Zen 3, measured with two processes."""


if __name__ == "__main__":
    sys.exit(measure() if sys.argv[1:] == ["measure"] else predict())
