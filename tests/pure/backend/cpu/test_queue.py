"""Queues of work on the processor."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

from ocannl.backend.cpu.device import CpuDevice
from ocannl.backend.cpu.work_queue import QueueEvent
from ocannl.base.errors import BackendError


@pytest.fixture
def queue():
    return CpuDevice().queue(threaded=True)


def test_inline_queue_is_synchronous():
    queue, seen = CpuDevice().queue(threaded=False), []
    queue.submit(seen.append, 1)
    assert seen == [1] and queue.record().is_done()
    with pytest.raises(ZeroDivisionError):
        queue.submit(lambda: 1 / 0)
    queue.submit(seen.append, 2)
    assert seen == [1, 2]


def test_work_executes_in_order_without_blocking(queue):
    seen, go = [], threading.Event()
    queue.submit(lambda: go.wait() and None)
    for n in range(1000):
        queue.submit(seen.append, n)
    point = queue.record()
    assert not seen and not point.is_done()
    go.set()
    queue.synchronize()
    assert seen == list(range(1000)) and point.is_done()


def test_full_queue_blocks_the_caller(queue, monkeypatch):
    monkeypatch.setattr("ocannl.backend.cpu.work_queue.MAX_PENDING", 3)
    seen = []
    for n in range(50):
        queue.submit(lambda n: (time.sleep(0.001), seen.append(n))[1], n)
    assert len(seen) >= 45
    queue.synchronize()
    assert seen == list(range(50))


def test_wait_for_event_of_second_queue(queue):
    second_queue, seen, go = CpuDevice().queue(threaded=True), [], threading.Event()
    second_queue.submit(lambda: go.wait() and None)
    second_queue.submit(seen.append, 1)
    queue.wait(second_queue.record())
    queue.submit(seen.append, 2)
    assert not seen
    go.set()
    queue.synchronize()
    assert seen == [1, 2]


def test_inline_wait_blocks_the_caller(queue):
    seen, inline = [], CpuDevice().queue(threaded=False)
    queue.submit(lambda: (time.sleep(0.02), seen.append(1))[1])
    inline.wait(queue.record())
    inline.submit(seen.append, 2)
    assert seen == [1, 2]


def test_failure_drops_pending_work_and_raises_once(queue):
    seen, go = [], threading.Event()
    queue.submit(lambda: go.wait() and None)
    queue.submit(lambda: 1 / 0)
    queue.submit(seen.append, 1)
    point = queue.record()
    go.set()
    with pytest.raises(BackendError, match="failed: division by zero"):
        point.synchronize()
    with pytest.raises(ZeroDivisionError):
        queue.synchronize()
    queue.submit(seen.append, 2)
    queue.synchronize()
    assert seen == [2]


def test_failure_propagates_to_waiting_queues(queue):
    second_queue, seen, go = CpuDevice().queue(threaded=True), [], threading.Event()
    second_queue.submit(lambda: go.wait() and None)
    second_queue.submit(lambda: 1 / 0)
    queue.wait(second_queue.record())
    queue.submit(seen.append, 1)
    go.set()
    with pytest.raises(BackendError, match="division by zero"):
        queue.synchronize()
    assert not seen
    with pytest.raises(ZeroDivisionError):
        second_queue.submit(seen.append, 2)
        second_queue.synchronize()


def test_cancelled_work_is_a_failure(queue):
    queue.submit(lambda: 1)
    with pytest.raises(BackendError, match="cancelled"):
        queue.synchronize()


def test_interrupt_cancels_work(queue, monkeypatch):
    seen = []

    def interrupted(*_):
        raise KeyboardInterrupt

    def long():
        while not queue.control.cancelled:
            time.sleep(0.001)
        return True

    queue.submit(long)
    queue.submit(seen.append, 1)
    monkeypatch.setattr(QueueEvent, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.synchronize()
    monkeypatch.undo()
    assert not queue.control.cancelled
    queue.submit(seen.append, 2)
    queue.synchronize()
    assert seen == [2]


def test_thread_ends_with_the_queue():
    queue = CpuDevice().queue(threaded=True)
    queue.submit(int)
    queue.synchronize()
    (thread,) = [t for t in threading.enumerate() if t is queue._work_queue._thread]
    gone = weakref.ref(queue)
    del queue
    gc.collect()
    thread.join(5)
    assert gone() is None and not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_queues_work_in_forked_child(queue, busy):
    go = threading.Event()
    queue.submit(int)
    queue.synchronize()
    if busy:
        queue.submit(lambda: go.wait() and None)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if busy:
                with pytest.raises(BackendError, match="forked"):
                    queue.synchronize()
            seen = []
            queue.submit(seen.append, 7)
            queue.synchronize()
            status = 0 if seen == [7] else 2
        finally:
            os._exit(status)
    go.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    queue.synchronize()


def test_process_exits_with_pending_work():
    script = (
        "import time\n"
        "from ocannl.backend.cpu.device import CpuDevice\n"
        "queue = CpuDevice().queue(threaded=True)\n"
        "def long():\n"
        "    while not queue.control.cancelled: time.sleep(0.001)\n"
        "    print('cancelled', flush=True)\n"
        "    return True\n"
        "queue.submit(long)\n"
        "queue.submit(print, 1)\n"
        "time.sleep(0.05)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "cancelled\n", "")


def test_no_work_is_running_after_synchronize(queue):
    """So that a fork at that moment does not take the work before for lost."""
    go, running = threading.Event(), []
    queue.submit(lambda: go.wait() and None)

    class Spy(QueueEvent):
        def complete(self, error=None):
            running.append(queue._work_queue._running)
            super().complete(error)

    queue._work_queue.put(point := Spy())
    go.set()
    point.wait()
    assert running == [False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_does_not_deadlock_on_allocation():
    from ocannl.backend.cpu.device import devices

    with devices()[0]._lock:
        child = os.fork()
        if child == 0:
            devices()[0].alloc_pool(8)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
