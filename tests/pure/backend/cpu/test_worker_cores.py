"""The cores that workers of the thread pool run on."""

import os
import subprocess
import sys
import threading

import pytest

from ocannl.backend.cpu import thread_pool
from ocannl.backend.cpu.device import cores

linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity of threads")


def cores_of_worker(callers_core, number):
    """The cores that a worker with this number may run on."""
    cores = []
    arguments = lambda *_: cores.append(os.sched_getaffinity(0)), callers_core, 0, number
    thread = threading.Thread(target=thread_pool._work, args=arguments)
    thread.start()
    thread.join()
    return cores[0]


@linux
def test_a_worker_avoids_the_core_of_its_caller():
    all_cores = os.sched_getaffinity(0)
    core = thread_pool.current_core()
    assert core in all_cores
    expected = all_cores - {core} if len(all_cores) > 1 else all_cores
    assert cores_of_worker(core, 1) == expected
    assert os.sched_getaffinity(0) == all_cores


@linux
def test_workers_beyond_the_number_of_cores_run_anywhere():
    all_cores = os.sched_getaffinity(0)
    assert cores_of_worker(thread_pool.current_core(), cores()) == all_cores
    assert cores_of_worker(None, 1) == all_cores


def test_a_system_that_does_not_tell_the_core(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert thread_pool.current_core() is None


@linux
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_a_worker_leaves_the_core_that_its_caller_moves_to(backend):
    """In a process of its own, which changes the cores of its threads."""
    if cores() < 2 or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core")
    pytest.importorskip(f"ocannl_backend_{backend}")
    subprocess.run([sys.executable, "-c", MOVED_CALLER, backend], check=True, timeout=120)


MOVED_CALLER = """
import os, sys, threading, time
import numpy as np
import ocannl as oc

x = oc.tensor(np.ones((512, 512), np.float32))
ctx = oc.Context(sys.argv[1], threads=2)
product = ctx.compile(oc.einsum("m, k; k, n => m, n", x, x).forward)
product()
(worker,) = [thread.native_id for thread in threading.enumerate() if thread.name == "ocannl worker 1"]
all_cores = os.sched_getaffinity(0)
for core in sorted(all_cores)[:2]:
    os.sched_setaffinity(worker, {core})
    for _ in range(500):
        time.sleep(0.01)  # the worker falls asleep
        os.sched_setaffinity(0, {core})  # the caller moves there, but may move on
        os.sched_setaffinity(0, all_cores)
        product()
        if os.sched_getaffinity(worker) != {core}:
            break
    assert os.sched_getaffinity(worker) == all_cores - {core}
"""
