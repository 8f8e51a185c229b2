"""Contexts: transfers, merge buffers, and concurrent threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ocannl.backend.reference.backend import NAME as REFERENCE
from ocannl.base.config import settings
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.recorder import cd
from ocannl.runtime.context import Context
from ocannl.runtime.transfer import transfer
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.harness import Bench, call
from ocannl.testing.kit.linking import scaled
from ocannl.testing.kit.numbers import agree
from ocannl.testing.kit.statements import cases
from ocannl.testing.program import LANGUAGE as oc

THREADS = 8
Make = Callable[[int], Sequence[Context]]


def node(name: str, bench: Bench, count: int = 4) -> Tensor:
    tensor: Tensor = oc.placeholder(name, o=[count], dtype=bench.number)
    return tensor


def adding(target: Tensor, value: Any) -> Any:
    with cd("adding") as code:
        target += value
    return code


def merging(target: Tensor) -> Any:
    with cd("merging") as code:
        target += target.merge
    return code


def at_once(work: Callable[[int], object]) -> None:
    """Runs the work of all threads concurrently; raises the first failure."""
    start = threading.Barrier(THREADS)

    def begin(n: int) -> None:
        start.wait()
        work(n)

    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(begin, n) for n in range(THREADS)]:
            done.result()


class Contextual(Area):
    @pytest.fixture(params=["inline", "threaded"])
    def contexts(self, bench: Bench, request: pytest.FixtureRequest) -> Iterator[Make]:
        """A factory of contexts, distributed over the devices round-robin."""
        created: list[Context] = []
        count = bench.backend.device_count()

        def make(wanted: int) -> Sequence[Context]:
            created.extend(Context(bench.backend.name, device=n % count, queue=request.param) for n in range(wanted))
            return created

        with settings(cache=False):
            yield make
        for ctx in created:
            ctx.close()


class Transfers(Contextual):
    """A transfer is ordered after the earlier work of its source, and before the later work."""

    def test_a_node_is_copied(self, bench: Bench, contexts: Make) -> None:
        first, second = contexts(2)
        x = node("x", bench)
        first[x], second[x] = [1, 2, 3, 4], [9, 9, 9, 9]
        copy = transfer(x, first, second, "node")
        assert second[x].tolist() == [9, 9, 9, 9]
        first[x] = [5, 6, 7, 8]
        copy()
        assert second[x].tolist() == [5, 6, 7, 8] and first[x].tolist() == [5, 6, 7, 8]

    def test_what_is_merged_is_added(self, bench: Bench, contexts: Make) -> None:
        first, second = contexts(2)
        x = node("x", bench)
        first[x], second[x] = [1, 2, 3, 4], [10, 20, 30, 40]
        copy = transfer(x, first, second)
        merge = second.compile(merging(x))
        copy()
        assert second[x].tolist() == [10, 20, 30, 40]
        merge()
        merge()
        assert second[x].tolist() == [12, 24, 36, 48]
        assert first[x].tolist() == [1, 2, 3, 4]

    def test_it_waits_for_its_source_and_its_source_for_it(self, bench: Bench, contexts: Make) -> None:
        """The source keeps writing the node; each transfer copies the value at the time of its call."""
        first, second = contexts(2)
        x = node("x", bench, 5000)
        total = node("total", bench, 5000)
        first[x], second[x] = np.zeros(5000), np.zeros(5000)
        second[total] = np.zeros(5000)
        step, copy = first.compile(adding(x, 1)), transfer(x, first, second, "node")
        collect = second.compile(adding(total, x))
        for _ in range(12):
            step()
            copy()
            collect()
        assert set(second[total].tolist()) == {sum(range(1, 13))}
        assert set(first[x].tolist()) == {12}

    def test_sums_travel_around_all_contexts(self, bench: Bench, contexts: Make) -> None:
        members = contexts(5)
        x = node("x", bench)
        for n, ctx in enumerate(members):
            ctx[x] = np.full(4, n + 1)
        for source, target in pairwise(members):
            transfer(x, source, target)()
            target.run(merging(x))
        assert [int(ctx[x][0]) for ctx in members] == [1, 3, 6, 10, 15]

    def test_to_another_backend_and_back(self, bench: Bench, contexts: Make) -> None:
        (ctx,) = contexts(1)
        x = node("x", bench)
        ctx[x] = [1, 2, 3, 4]
        with Context(REFERENCE) as peer:
            transfer(x, ctx, peer, "node")()
            peer.run(adding(x, 10))
            transfer(x, peer, ctx)()
            ctx.run(merging(x))
        assert ctx[x].tolist() == [12, 14, 16, 18]

    def test_memory_goes_with_the_context(self, bench: Bench) -> None:
        before = bench.device.bytes_in_use
        for queue in ("inline", "threaded"):
            with Context(bench.backend.name, queue=queue) as ctx:
                x = node("x", bench, 1000)
                ctx[x] = np.ones(1000)
                ctx.run(adding(x, 1))
                assert bench.device.bytes_in_use > before
        assert bench.device.bytes_in_use == before


class Concurrency(Contextual):
    """Threads may use separate objects concurrently, and share contexts, queues and the backend."""

    def test_threads_in_one_context(self, bench: Bench, contexts: Make) -> None:
        (ctx,) = contexts(1)
        shared, nodes = node("shared", bench), [node(f"x{n}", bench) for n in range(THREADS)]
        for tensor in (shared, *nodes):
            ctx[tensor] = np.zeros(4)
        both = ctx.compile(adding(shared, 1))

        def work(n: int) -> None:
            routine = ctx.compile(adding(nodes[n], n + 1))
            for _ in range(25):
                routine()
                both()

        at_once(work)
        assert ctx[shared].tolist() == [25 * THREADS] * 4
        assert [int(ctx[tensor][0]) for tensor in nodes] == [25 * (n + 1) for n in range(THREADS)]

    def test_threads_in_contexts_of_their_own(self, bench: Bench, contexts: Make) -> None:
        members = contexts(THREADS)
        nodes = [node(f"x{n}", bench) for n in range(THREADS)]

        def work(n: int) -> None:
            members[n][nodes[n]] = np.full(4, n)
            routine = members[n].compile(adding(nodes[n], 2))
            for _ in range(25):
                routine()
            assert members[n][nodes[n]].tolist() == [n + 50] * 4

        at_once(work)

    def test_threads_that_compile(self, bench: Bench) -> None:
        programs = list(cases(bench.number).values())[-THREADS:]

        def work(n: int) -> None:
            example = programs[n]
            for queue in (bench.device.queue(threaded=False), bench.device.queue(threaded=True)):
                bench.check(example, code=bench.backend.compile([example.proc]), queue=queue)

        at_once(work)

    def test_threads_that_link_one_code(self, bench: Bench) -> None:
        example = scaled(bench, "scaled", 3)
        code = bench.backend.compile([example.proc])

        def work(n: int) -> None:
            x, y = example.inputs
            with bench.placed(example.proc, (x + n, y), bench.device.queue(threaded=n % 2 == 1)) as placed:
                entry = bench.link(code, example.proc, placed)
                for k in range(20):
                    call(placed.queue, entry, k)
                    agree("y", placed.read()[1], (3 * (x + n) + k).astype(x.dtype))

        at_once(work)

    def test_threads_that_share_a_queue(self, bench: Bench) -> None:
        queue, seen = bench.device.queue(threaded=True), list[int]()

        def work(n: int) -> None:
            for k in range(100):
                queue.submit(lambda value: seen.append(value), 1000 * n + k)
            queue.record().synchronize()

        at_once(work)
        queue.synchronize()
        assert len(seen) == 100 * THREADS
        for n in range(THREADS):
            assert [v - 1000 * n for v in seen if v // 1000 == n] == list(range(100))

    def test_threads_that_allocate(self, bench: Bench) -> None:
        before = bench.device.bytes_in_use

        def work(n: int) -> None:
            for _ in range(200):
                bench.device.free_pool(bench.device.alloc_pool(64 * (n + 1)))

        at_once(work)
        assert bench.device.bytes_in_use == before

    def test_queues_that_wait_for_each_other_by_turns(self, bench: Bench) -> None:
        queues, seen = [bench.device.queue(threaded=True) for _ in range(THREADS)], list[int]()
        for n in range(40):
            queue, after = queues[n % THREADS], queues[(n + 1) % THREADS]
            queue.submit(lambda n: seen.append(n), n)
            after.wait(queue.record())
        for queue in queues:
            queue.synchronize()
        assert seen == list(range(40))
