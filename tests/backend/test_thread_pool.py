"""The thread pool of parallel loops, as compiled by each CPU backend."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

import ocannl as oc
from ocannl.backend.cpu.thread_pool import ThreadPool, ThreadPoolCode

MAKERS = [b for b in ("llvm", "c", "numba") if find_spec(f"ocannl_backend_{b}")]
BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, BODY, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Pool:
    """A thread pool besides that of the process."""

    def __init__(self, code: ThreadPoolCode, size: int) -> None:
        self.pool, self.code = ThreadPool(1, 1), code
        self.call(code.init)
        worker_main = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.worker_main)
        address = ctypes.addressof(self.pool)
        self.threads = [
            threading.Thread(target=worker_main, args=(address, n), daemon=True) for n in range(1, size)
        ]
        for thread in self.threads:
            thread.start()
        self.pool.size = size

    def call(self, address: int) -> None:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(self.pool))

    def parallel_for(self, body, chunks: int, threads: int = 99) -> int:
        return PARALLEL_FOR(self.code.parallel_for)(
            ctypes.addressof(self.pool), BODY(lambda _frame, n, _thread: body(n) or 0), 0, chunks, threads
        )

    def end(self) -> None:
        self.call(self.code.stop)
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture(params=MAKERS)
def pool_of(request):
    pools = []

    def make(size: int) -> Pool:
        pools.append(Pool(import_module(f"ocannl_backend_{request.param}.thread_pool").thread_pool_code(), size))
        return pools[-1]

    yield make
    for pool in pools:
        pool.end()


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("chunks", [0, 1, 2, 1000])
def test_every_chunk_is_executed_once(pool_of, size, chunks):
    taken = []
    assert pool_of(size).parallel_for(taken.append, chunks) == 0
    assert sorted(taken) == list(range(chunks))


def test_the_threads_take_part_and_no_more_than_are_allowed(pool_of):
    pool, seen = pool_of(4), {}

    def body(n):
        seen.setdefault(threading.get_ident(), []).append(n)
        time.sleep(0.002)

    pool.parallel_for(body, 40)
    assert len(seen) == 4 and threading.get_ident() in seen
    seen.clear()
    pool.parallel_for(body, 40, threads=2)
    assert len(seen) == 2
    seen.clear()
    pool.parallel_for(body, 5, threads=1)
    assert list(seen) == [threading.get_ident()]


def test_threads_that_sleep_are_woken(pool_of):
    pool, seen = pool_of(3), set()
    for pause in (0, 0.05, 0.2):
        time.sleep(pause)
        seen.clear()
        pool.parallel_for(lambda n: (seen.add(threading.get_ident()), time.sleep(0.005))[1], 12)
        assert len(seen) == 3


@pytest.mark.parametrize("size", [1, 3])
def test_one_that_breaks_off_ends_it(pool_of, size):
    pool, taken = pool_of(size), []
    assert pool.parallel_for(lambda n: (taken.append(n), time.sleep(0.001), n == 5)[2], 10_000) == 1
    assert len(taken) < 100
    taken.clear()
    assert pool.parallel_for(taken.append, 50) == 0
    assert len(taken) == 50


def test_nested_loop_runs_serially_while_the_pool_is_busy(pool_of):
    pool, inner = pool_of(3), []

    def body(n):
        me = threading.get_ident()
        pool.parallel_for(lambda m: inner.append((n, m, threading.get_ident() == me)), 5)

    pool.parallel_for(body, 7)
    assert sorted(inner) == [(n, m, True) for n in range(7) for m in range(5)]


def test_many_short_jobs_from_many_threads(pool_of):
    pool, sums = pool_of(4), []

    def work(seed):
        for n in range(60):
            taken = []
            assert pool.parallel_for(taken.append, (seed * 7 + n) % 9) == 0
            assert sorted(taken) == list(range((seed * 7 + n) % 9))
        sums.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sums) == list(range(6))


# ------------------------------------------------------------------------------------------------------ in routines


def wide(n=300):
    """A product, and a chain after it: loops that are worth sharing, and some that cannot be."""
    x, w = oc.placeholder("x", o=[n, n]), oc.placeholder("w", o=[n, n])
    y = oc.einsum("ik; kj => ij", x, w)
    return x, w, oc.tanh(y).with_label("z"), (y * y).sum().with_label("s")


@pytest.fixture(params=[b for b in ("llvm", "c") if find_spec(f"ocannl_backend_{b}")])
def backend(request):
    row = {info.name: info for info in oc.backends()}[request.param]
    if not row.usable:
        pytest.skip(row.reason)
    return request.param


def results(backend, threads, queue="inline"):
    rng = np.random.default_rng(0)
    x, w, z, s = wide()
    ctx = oc.Context(backend, threads=threads, queue=queue)
    ctx[x], ctx[w] = rng.normal(size=(2, 300, 300))
    routine = ctx.compile(oc.forward(z, s))
    assert "parallel(" in routine.stages()["parallelize"]
    for _ in range(5):
        routine()
    return ctx[z].tobytes(), ctx[s].tobytes()


def test_results_are_the_same_bits_whatever_the_number_of_threads(backend):
    alone = results(backend, 1)
    for threads in (2, 3, 8, None):
        for queue in ("inline", "threaded"):
            assert results(backend, threads, queue) == alone


def test_two_backends_share_one_team():
    script = (
        "import threading, ocannl as oc, numpy as np\n"
        "for backend in ('llvm', 'c'):\n"
        "    x = oc.placeholder('x', o=[1000, 1000]); y = x * 2 + oc.sin(x)\n"
        "    ctx = oc.Context(backend, threads=3); ctx[x] = 1; ctx.run(y.forward)\n"
        "print(sum(t.name.startswith('ocannl worker') for t in threading.enumerate()))\n"
    )
    usable = [row.name for row in oc.backends() if row.usable]
    if not {"llvm", "c"} <= set(usable):
        pytest.skip("two backends are needed")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "2\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes_the_same(backend):
    wanted = results(backend, 3)
    x, w, z, _ = wide()
    ctx = oc.Context(backend, threads=3)
    ctx[x] = ctx[w] = 0.01
    routine = ctx.compile(z.forward)
    routine()
    before = ctx[z].tobytes()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            routine()
            same = ctx[z].tobytes() == before
            status = 0 if same and results(backend, 3) == wanted else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    routine()
    assert ctx[z].tobytes() == before
