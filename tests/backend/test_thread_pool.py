"""The team of threads that compiled code shares loops with, whichever backend makes it."""

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

MAKERS = [b for b in ("llvm", "c") if find_spec(f"ocannl_backend_{b}.thread_pool")]
BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
SHARE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, BODY, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Crew:
    """A team of its own, beside that of the process."""

    def __init__(self, code: ThreadPoolCode, size: int) -> None:
        self.team, self.code = ThreadPool(1, 1), code
        self.of_team(code.start)
        work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.work)
        self.threads = [
            threading.Thread(target=work, args=(ctypes.addressof(self.team), n), daemon=True) for n in range(1, size)
        ]
        for thread in self.threads:
            thread.start()
        self.team.size = size

    def of_team(self, address: int) -> None:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(self.team))

    def share(self, body, claims: int, threads: int = 99) -> int:
        return SHARE(self.code.share)(
            ctypes.addressof(self.team), BODY(lambda _frame, n, _thread: body(n) or 0), 0, claims, threads
        )

    def end(self) -> None:
        self.of_team(self.code.stop)
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture(params=MAKERS)
def crew(request):
    made = []

    def make(size: int) -> Crew:
        made.append(Crew(import_module(f"ocannl_backend_{request.param}.thread_pool").thread_pool_code(), size))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("claims", [0, 1, 2, 1000])
def test_every_claim_is_taken_once(crew, size, claims):
    taken = []
    assert crew(size).share(taken.append, claims) == 0
    assert sorted(taken) == list(range(claims))


def test_the_threads_take_part_and_no_more_than_are_allowed(crew):
    team, who = crew(4), {}

    def body(n):
        who.setdefault(threading.get_ident(), []).append(n)
        time.sleep(0.002)

    team.share(body, 40)
    assert len(who) == 4 and threading.get_ident() in who
    who.clear()
    team.share(body, 40, threads=2)
    assert len(who) == 2
    who.clear()
    team.share(body, 5, threads=1)
    assert list(who) == [threading.get_ident()]


def test_threads_that_sleep_are_woken(crew):
    team, who = crew(3), set()
    for pause in (0, 0.05, 0.2):
        time.sleep(pause)
        who.clear()
        team.share(lambda n: (who.add(threading.get_ident()), time.sleep(0.005))[1], 12)
        assert len(who) == 3


@pytest.mark.parametrize("size", [1, 3])
def test_one_that_breaks_off_ends_it(crew, size):
    team, taken = crew(size), []
    assert team.share(lambda n: (taken.append(n), time.sleep(0.001), n == 5)[2], 10_000) == 1
    assert len(taken) < 100
    taken.clear()
    assert team.share(taken.append, 50) == 0
    assert len(taken) == 50


def test_a_busy_team_leaves_the_second_to_itself(crew):
    team, inner = crew(3), []

    def body(n):
        me = threading.get_ident()
        team.share(lambda m: inner.append((n, m, threading.get_ident() == me)), 5)

    team.share(body, 7)
    assert sorted(inner) == [(n, m, True) for n in range(7) for m in range(5)]


def test_many_short_jobs_from_many_threads(crew):
    team, sums = crew(4), []

    def work(seed):
        for n in range(60):
            taken = []
            assert team.share(taken.append, (seed * 7 + n) % 9) == 0
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
    found = {row.name: row for row in oc.backends()}[request.param]
    if not found.usable:
        pytest.skip(found.reason)
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
        "print(sum(t.name.startswith('ocannl team') for t in threading.enumerate()))\n"
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
