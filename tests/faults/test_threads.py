"""Eight threads at once, in one context and in many."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import numpy as np
import pytest

import ocannl as oc
from ocannl.runtime import compile_cache

THREADS = 8
ROUNDS = 25


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(tmp_path))
    compile_cache.clear()


@pytest.fixture(params=["inline", "threaded"])
def queue(request):
    return request.param


def together(work, count=THREADS):
    """Calls `work(n)` in threads that start at the same moment; raises what one of them raised."""
    start, failures = threading.Barrier(count, timeout=60), []

    def body(n):
        try:
            start.wait()
            work(n)
        except BaseException as wrong:
            failures.append(wrong)

    threads = [threading.Thread(target=body, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


def momentum(n):
    """v = v / 2 + g; p = p - v, over small dyadic numbers; the names of its nodes, and code."""
    p, v, g = (oc.placeholder(f"{label}{n}", o=[n + 5]) for label in "pvg")
    with oc.cd("momentum") as code:
        v[...] = v * 0.5 + g
        p -= v
    return p, v, g, code


def reference(n, rounds):
    p, v, g = np.zeros(n + 5), np.zeros(n + 5), np.arange(n + 5.0)
    for _ in range(rounds):
        v = v * 0.5 + g
        p = p - v
    return p


def train(n, context):
    p, v, g, code = momentum(n)
    context[p], context[v], context[g] = 0, 0, np.arange(n + 5.0)
    step = context.compile(code)
    for k in range(1, ROUNDS + 1):
        step()
        if k % 5 == 0:
            np.testing.assert_allclose(context[p], reference(n, k), rtol=1e-5)


def test_in_one_context(backend, queue):
    with oc.Context(backend, queue=queue) as context:
        together(lambda n: train(n, context))


def test_context_per_thread(backend, queue):
    with ExitStack() as stack:
        contexts = [stack.enter_context(oc.Context(backend, device=n % 2, queue=queue)) for n in range(THREADS)]
        together(lambda n: train(n, contexts[n]))


def test_contexts_come_and_go(backend, queue):
    def work(n):
        for k in range(4):
            with oc.Context(backend, queue=queue) as context:
                train((n + k) % 5, context)

    together(work)


def test_routine_shared_by_threads(backend, queue):
    """Calls exclude each other: nothing is counted twice, or not at all."""
    with oc.Context(backend, queue=queue) as context:
        x = oc.placeholder("x", o=[1000])
        context[x] = 0
        with oc.cd("count") as code:
            x += 1
        count = context.compile(code)
        together(lambda n: [count() for _ in range(100)])
        assert (context[x] == 100 * THREADS).all()


def test_a_ring_of_transfers(backend, queue):
    """Each thread sends to its neighbour while it is sent to; no order of threads makes them wait for each other."""
    with ExitStack() as stack:
        ring = [stack.enter_context(oc.Context(backend, device=n % 3, queue=queue)) for n in range(THREADS)]
        x, total = oc.placeholder("x", o=[500]), oc.placeholder("total", o=[500])
        for n, context in enumerate(ring):
            context[x], context[total] = n, 0
        with oc.cd("merge") as code:
            total += x.merge
        copies = [oc.transfer(x, src=ring[n], dst=ring[(n + 1) % THREADS]) for n in range(THREADS)]
        merges = [context.compile(code) for context in ring]

        def work(n):
            for _ in range(ROUNDS):
                copies[n]()  # from here to the neighbour
                merges[(n + 1) % THREADS]()

        together(work)
        for n, context in enumerate(ring):
            assert (context[total] == ROUNDS * ((n - 1) % THREADS)).all()


def test_the_same_program_is_compiled_once(compiled, monkeypatch):
    contexts = [oc.Context(compiled) for _ in range(THREADS)]
    kind, calls = type(contexts[0].backend), []
    compile_ = kind.compile
    monkeypatch.setattr(kind, "compile", lambda self, procs: calls.append(procs) or compile_(self, procs))

    def work(n):
        *_, code = momentum(3)
        contexts[n].compile(code)

    together(work)
    assert len(calls) == 1
