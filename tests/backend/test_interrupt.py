"""Ctrl-C during a long routine: it returns soon, what it writes is uninitialized, and everything else stays."""

import os
import signal
import threading
import time
from importlib.util import find_spec

import numpy as np
import pytest

import ocannl as oc

BACKENDS = [b for b in ("numpy", "llvm", "c", "numba") if b == "numpy" or find_spec(f"ocannl_backend_{b}")]
SOON = 0.1  # seconds


@pytest.fixture(params=BACKENDS)
def backend(request):
    row = {info.name: info for info in oc.backends()}[request.param]
    if not row.usable:
        pytest.skip(row.reason)
    return request.param


@pytest.fixture(autouse=True)
def _ctrl_c():
    """Raises KeyboardInterrupt, whatever the runner of the tests makes of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def long_code():
    """Many sines of a few million cells, and long sums: loops that are long, and an entry function that calls functions
    of parts."""
    x, y = oc.placeholder("x", o=[2000, 2000]), oc.placeholder("y", o=[2000, 2000])
    with oc.cd("long") as code:
        for _ in range(60):
            y[...] = oc.sin(x) + y
            y["=:+", "ij; jk => ik"] = y * x
    return x, y, code


def interrupted_after(seconds, call):
    """How long the call goes on after a signal that comes in its midst."""
    sent = []

    def send():
        time.sleep(seconds)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        try:
            call()
        finally:
            ended = time.perf_counter()
            thread.join()
    return ended - sent[0]


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_a_long_routine_is_interrupted(backend, queue):
    x, y, code = long_code()
    ctx = oc.Context(backend, queue=queue)
    step = ctx.compile(code)

    def call():
        step()
        ctx.synchronize()
        pytest.fail("the routine was too short")

    delays = []
    while not delays or (min(delays) > SOON and len(delays) < 5):  # this machine may be busy with something else
        ctx[x] = ctx[y] = 0.001
        ctx.synchronize()
        delays.append(interrupted_after(0.3, call))
    assert min(delays) <= SOON
    with pytest.raises(oc.UninitializedError, match="`y`"):
        ctx[y]
    assert np.all(ctx[x] == np.float32(0.001))
    ctx[y] = 5
    with oc.cd("inc") as short:
        y += 1
    ctx.run(short)
    assert np.all(ctx[y] == 6)


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_an_exception_of_a_signal_handler_comes_out_of_the_call(backend, queue):
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    x, y, code = long_code()
    ctx = oc.Context(backend, queue=queue)
    ctx[x] = ctx[y] = 0.001
    step = ctx.compile(code)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Alarm):
            step()
            ctx.synchronize()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_while_a_routine_does(backend):
    x, y, _ = long_code()
    ctx = oc.Context(backend)
    ctx[x] = ctx[y] = 0.001
    with oc.cd("one") as first:
        y["=:+", "ij; jk => ik"] = y * x
    step = ctx.compile(first)
    counted, done = [], threading.Event()

    def count():
        while not done.is_set():
            counted.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    for _try in range(3):
        before = len(counted)
        start = time.perf_counter()
        step()
        ran = time.perf_counter() - start
        if len(counted) - before > ran * 100:
            break
    done.set()
    thread.join()
    assert len(counted) > before
