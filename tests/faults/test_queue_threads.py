"""Threads that cannot be started, and contexts that are closed while their work runs."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from time_limit import time_limit

import ocannl as oc
from ocannl.backend.cpu import stack_threads, thread_pool


@pytest.fixture
def no_threads(monkeypatch):
    """Sets how many threads can still be started."""
    start, left = threading.Thread.start, [0]

    def refuse(thread):
        if thread.name.startswith("ocannl"):
            if left[0] == 0:
                raise RuntimeError("can't start new thread")
            left[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return left


def test_queue_without_thread_raises_and_recovers(backend, no_threads):
    with oc.Context(backend, queue="threaded") as context, time_limit(30, elapsed=True):
        x = oc.placeholder("x", o=[3])
        for _ in range(3):
            with pytest.raises(oc.BackendError, match="thread of a queue cannot be started"):
                context[x] = 1
        no_threads[0] = 1
        context[x] = 2
        assert (context[x] == 2).all()


def test_threads_of_a_pool_that_could_not_all_start(no_threads, monkeypatch):
    monkeypatch.setattr(thread_pool, "_threads", [])
    for started in range(4):
        no_threads[0] = started
        before = threading.active_count()
        with pytest.raises(oc.BackendError, match=f"{started} of 4 threads could be started.*`threads`"):
            thread_pool._start_workers(range(1, 5), 0)  # the address is not called
        deadline = time.monotonic() + 20
        while threading.active_count() > before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threading.active_count() <= before
    assert thread_pool._threads == []


def long_work(context):
    """Code that runs for minutes."""
    x = oc.placeholder("x", o=[1 << 16])
    context[x] = 1
    with oc.cd("long") as code:
        for _ in range(10):
            x[...] = oc.sin(x)
    routine = context.compile(code)
    for _ in range(1000):
        routine()
    return x


@pytest.mark.parametrize("waits", [False, True])
def test_close_cancels_pending_work(compiled, waits):
    context, failures = oc.Context(compiled, queue="threaded"), []
    long_work(context)

    def wait():
        try:
            context.synchronize()
        except oc.BackendError as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    if waits:
        thread.start()
        time.sleep(0.1)
    start = time.monotonic()
    with time_limit(60, elapsed=True):
        context.close(cancel=True)
    assert time.monotonic() - start < 20
    if waits:
        thread.join(20)
        assert not thread.is_alive()
    with pytest.raises(oc.CodeError, match="is closed"):
        context.synchronize() or long_work(context)


def test_close_cancels_nothing_that_has_run(backend):
    with oc.Context(backend) as context:
        x = oc.placeholder("x", o=[3])
        context[x] = 5
        assert np.array_equal(context[x], [5, 5, 5])
        context.close(cancel=True)
        context.close(cancel=True)


def test_started_thread_has_default_stack_again():
    before = threading.stack_size()
    stack_threads.start_thread(threading.Thread(target=lambda: None, name="ocannl test"))
    assert threading.stack_size() == before
