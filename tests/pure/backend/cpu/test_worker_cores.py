"""The cores that workers of the thread pool run on."""

import os
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
