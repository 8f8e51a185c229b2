"""Contexts of the backend: transfers between them, merge buffers, and many threads at once."""

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
from ocannl.testing.kit.area import Area
from ocannl.testing.kit.bench import Bench, call
from ocannl.testing.kit.linking import scaled
from ocannl.testing.kit.numbers import agree
from ocannl.testing.kit.statements import cases
from ocannl.testing.program import LANGUAGE as oc

THREADS = 8
Make = Callable[[int], Sequence[Context]]


def node(name: str, bench: Bench, count: int = 4) -> Tensor:
    made: Tensor = oc.placeholder(name, o=[count], dtype=bench.number)
    return made


def adding(target: Tensor, value: Any) -> Any:
    with cd("adding") as code:
        target += value
    return code


def merging(target: Tensor) -> Any:
    with cd("merging") as code:
        target += target.merge
    return code


def at_once(work: Callable[[int], object]) -> None:
    """The work of every thread, all beginning together; the first failure is raised."""
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
        """Makes contexts on devices 0, 1, ..., around and around."""
        made: list[Context] = []
        count = bench.backend.device_count()

        def make(wanted: int) -> Sequence[Context]:
            made.extend(Context(bench.backend.name, device=n % count, queue=request.param) for n in range(wanted))
            return made

        with settings(cache=False):
            yield make
        for ctx in made:
            ctx.close()


class Transfers(Contextual):
    """A node travels when the transfer is called: after what its source was told before, not after what comes later."""

    def test_a_node_is_copied(self, bench: Bench, contexts: Make) -> None:
        here, there = contexts(2)
        x = node("x", bench)
        here[x], there[x] = [1, 2, 3, 4], [9, 9, 9, 9]
        copy = transfer(x, here, there, "node")
        assert there[x].tolist() == [9, 9, 9, 9]
        here[x] = [5, 6, 7, 8]
        copy()
        assert there[x].tolist() == [5, 6, 7, 8] and here[x].tolist() == [5, 6, 7, 8]

    def test_what_is_merged_is_added(self, bench: Bench, contexts: Make) -> None:
        here, there = contexts(2)
        x = node("x", bench)
        here[x], there[x] = [1, 2, 3, 4], [10, 20, 30, 40]
        copy = transfer(x, here, there)
        merge = there.compile(merging(x))
        copy()
        assert there[x].tolist() == [10, 20, 30, 40]
        merge()
        merge()
        assert there[x].tolist() == [12, 24, 36, 48]
        assert here[x].tolist() == [1, 2, 3, 4]

    def test_it_waits_for_its_source_and_its_source_for_it(self, bench: Bench, contexts: Make) -> None:
        """The source goes on writing the node; each transfer takes what was there when it was called."""
        here, there = contexts(2)
        x = node("x", bench, 5000)
        total = node("total", bench, 5000)
        here[x], there[x] = np.zeros(5000), np.zeros(5000)
        there[total] = np.zeros(5000)
        step, copy = here.compile(adding(x, 1)), transfer(x, here, there, "node")
        collect = there.compile(adding(total, x))
        for _ in range(12):
            step()
            copy()
            collect()
        assert set(there[total].tolist()) == {sum(range(1, 13))}
        assert set(here[x].tolist()) == {12}

    def test_sums_travel_around_all_contexts(self, bench: Bench, contexts: Make) -> None:
        made = contexts(5)
        x = node("x", bench)
        for n, ctx in enumerate(made):
            ctx[x] = np.full(4, n + 1)
        for source, target in pairwise(made):
            transfer(x, source, target)()
            target.run(merging(x))
        assert [int(ctx[x][0]) for ctx in made] == [1, 3, 6, 10, 15]

    def test_to_another_backend_and_back(self, bench: Bench, contexts: Make) -> None:
        (ctx,) = contexts(1)
        x = node("x", bench)
        ctx[x] = [1, 2, 3, 4]
        with Context(REFERENCE) as other:
            transfer(x, ctx, other, "node")()
            other.run(adding(x, 10))
            transfer(x, other, ctx)()
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
    """Threads may do what they like with what is theirs, and share contexts, queues and the backend."""

    def test_threads_in_one_context(self, bench: Bench, contexts: Make) -> None:
        (ctx,) = contexts(1)
        shared, nodes = node("shared", bench), [node(f"x{n}", bench) for n in range(THREADS)]
        for each in (shared, *nodes):
            ctx[each] = np.zeros(4)
        both = ctx.compile(adding(shared, 1))

        def work(n: int) -> None:
            own = ctx.compile(adding(nodes[n], n + 1))
            for _ in range(25):
                own()
                both()

        at_once(work)
        assert ctx[shared].tolist() == [25 * THREADS] * 4
        assert [int(ctx[each][0]) for each in nodes] == [25 * (n + 1) for n in range(THREADS)]

    def test_threads_in_contexts_of_their_own(self, bench: Bench, contexts: Make) -> None:
        made = contexts(THREADS)
        nodes = [node(f"x{n}", bench) for n in range(THREADS)]

        def work(n: int) -> None:
            made[n][nodes[n]] = np.full(4, n)
            routine = made[n].compile(adding(nodes[n], 2))
            for _ in range(25):
                routine()
            assert made[n][nodes[n]].tolist() == [n + 50] * 4

        at_once(work)

    def test_threads_that_compile(self, bench: Bench) -> None:
        made = list(cases(bench.number).values())[-THREADS:]

        def work(n: int) -> None:
            one = made[n]
            for queue in (bench.device.queue(threaded=False), bench.device.queue(threaded=True)):
                bench.check(one, code=bench.backend.compile([one.proc]), queue=queue)

        at_once(work)

    def test_threads_that_link_one_code(self, bench: Bench) -> None:
        one = scaled(bench, "scaled", 3)
        code = bench.backend.compile([one.proc])

        def work(n: int) -> None:
            x, y = one.given
            with bench.placed(one.proc, (x + n, y), bench.device.queue(threaded=n % 2 == 1)) as placed:
                entry = bench.link(code, one.proc, placed)
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
