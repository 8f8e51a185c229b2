"""The cost model of a step: limits that are known exactly, and where algorithms are equal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import scaling
from scaling import MIB, Network, Step

LATENCY = Network(1.0, 0.0, 0.0)
BANDWIDTH = Network(0.0, 1.0, 0.0)
STEP = Step(compute_seconds=3.0, backward_seconds=2.0, update_seconds=1.0, gradient_bytes=16 * MIB)


@pytest.mark.parametrize(("processes", "tree", "ring", "halving"), [(2, 2, 2, 2), (4, 4, 6, 4), (1024, 20, 2046, 20)])
def test_latencies(processes: int, tree: float, ring: float, halving: float) -> None:
    seconds = [call(LATENCY, processes, 100.0) for call in scaling.ALGORITHMS.values()]
    assert seconds == [tree, ring, halving]


@pytest.mark.parametrize("processes", [2, 4, 64])
def test_transferred_bytes(processes: int) -> None:
    """Ring and halving send 2 (p - 1) / p of the bytes, which is the least possible; a tree sends all in each level."""
    least = 2 * 100.0 * (processes - 1) / processes
    assert scaling.ring_seconds(BANDWIDTH, processes, 100.0) == pytest.approx(least)
    assert scaling.halving_seconds(BANDWIDTH, processes, 100.0) == pytest.approx(least)
    assert scaling.tree_seconds(BANDWIDTH, processes, 100.0) == pytest.approx(200.0 * (processes.bit_length() - 1))


def test_processes_wait_for_cores() -> None:
    network = Network(1.0, 0.0, 0.0, cores=2)
    assert scaling.tree_seconds(network, 4, 0.0) == 2 * 2 + 2  # the last level has two processes
    assert scaling.window_seconds(network, 4, 0.0) == 2 * 2
    assert scaling.step_seconds(STEP, network, 1, scaling.window_seconds) == 4.0


@pytest.mark.parametrize("processes", [8, 128, 1024])
def test_a_tree_is_faster_than_a_ring_up_to_some_size(processes: int) -> None:
    network = Network(20e-6, 3e-10, 0.0)
    size = scaling.largest_tree_bytes(network, processes)
    tree, ring = (call(network, processes, size) for call in (scaling.tree_seconds, scaling.ring_seconds))
    assert tree == pytest.approx(ring)
    assert scaling.tree_seconds(network, processes, size / 2) < scaling.ring_seconds(network, processes, size / 2)


def test_all_buckets_but_the_last_overlap() -> None:
    """Four buckets: gradients of a quarter are final every 0.5 seconds."""

    def hidden(*_: object) -> float:
        return 0.5

    def exposed(*_: object) -> float:
        return 0.75

    assert scaling.exposed_seconds(STEP, LATENCY, 8, hidden) == 0.5
    assert scaling.exposed_seconds(STEP, LATENCY, 8, exposed) == 0.75 + 3 * 0.25
    assert scaling.exposed_seconds(STEP, LATENCY, 1, exposed) == 0.0
    assert scaling.efficiency(STEP, LATENCY, 8, hidden) == pytest.approx(4.0 / 4.5)


def test_sharded_updates_divide_time_and_memory() -> None:
    free = Network(0.0, 0.0, 0.0)
    assert scaling.step_seconds(STEP, free, 4, scaling.ring_seconds, shards_update=True) == 3.25
    assert [scaling.bytes_per_parameter(8, stage) for stage in range(4)] == [16.0, 9.0, 5.5, 2.0]
