"""What a child of a fork finds when other threads were in the middle of something."""

import gc
import os
import threading

import pytest

from ocannl.base.forks import import_lock
from ocannl.base.gc_pause import gc_paused

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def in_child(check):
    child = os.fork()
    if child == 0:
        os._exit(0 if check() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def meanwhile(context):
    """Another thread is inside until it is told to leave."""
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with context:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait()
    return thread, leave


def test_gc_is_enabled_in_forked_child():
    thread, leave = meanwhile(gc_paused())
    try:
        assert not gc.isenabled()
        assert in_child(gc.isenabled)
    finally:
        leave.set()
        thread.join()
    assert gc.isenabled()


def test_gc_is_reenabled_despite_forks():
    with gc_paused():
        assert in_child(lambda: True)
        assert not gc.isenabled()
    assert gc.isenabled()


def test_disabled_gc_stays_disabled():
    gc.disable()
    try:
        with gc_paused():
            assert in_child(lambda: not gc.isenabled())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_fork_waits_for_import_lock():
    thread, leave = meanwhile(import_lock)
    timer = threading.Timer(0.2, leave.set)
    timer.start()
    assert in_child(lambda: leave.is_set() and import_lock.acquire(timeout=1))
    thread.join()


def test_holder_of_import_lock_can_fork():
    with import_lock:
        assert in_child(lambda: True)
    assert import_lock.acquire(blocking=False)
    import_lock.release()
