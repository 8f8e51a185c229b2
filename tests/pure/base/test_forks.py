"""What a child of a fork finds when other threads were in the middle of something."""

import gc
import os
import threading

import pytest

from ocannl.base.forks import undivided
from ocannl.base.gc_pause import resting

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


def test_the_collector_works_in_a_child_though_it_rests_in_the_parent():
    thread, leave = meanwhile(resting())
    try:
        assert not gc.isenabled()
        assert in_child(gc.isenabled)
    finally:
        leave.set()
        thread.join()
    assert gc.isenabled()


def test_the_collector_rests_and_works_again_whoever_forks():
    with resting():
        assert in_child(lambda: True)
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        with resting():
            assert in_child(lambda: not gc.isenabled())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_fork_waits_for_what_is_undivided():
    thread, leave = meanwhile(undivided)
    timer = threading.Timer(0.2, leave.set)
    timer.start()
    assert in_child(lambda: leave.is_set() and undivided.acquire(timeout=1))
    thread.join()


def test_whoever_holds_it_may_fork():
    with undivided:
        assert in_child(lambda: True)
    assert undivided.acquire(blocking=False)
    undivided.release()
