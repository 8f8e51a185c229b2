"""What a child of a fork finds when other threads were in the middle of something."""

import gc
import importlib
import os
import signal
import threading

import pytest

from ocannl.base.forks import after_fork_in_child, hold_during_fork, import_lock, replace_after_fork
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


guard = threading.Lock()
replace_after_fork(globals(), "guard", threading.Lock)
resets = []


@after_fork_in_child
def note_reset():
    resets.append(os.getpid())


def test_registered_function_runs_only_in_child():
    assert in_child(lambda: resets == [os.getpid()])
    assert resets == []


def test_child_replaces_lock_held_by_another_thread():
    thread, leave = meanwhile(guard)
    try:
        assert in_child(lambda: guard.acquire(timeout=1))
        assert guard.locked()
    finally:
        leave.set()
        thread.join()
    assert not guard.locked()


def test_holder_of_replaced_lock_can_fork_and_release():
    def release():
        lock.release()
        return guard is not lock and not guard.locked()

    with guard as _:
        lock = guard
        assert in_child(release)
    assert not guard.locked()


def test_only_existing_names_are_replaced():
    with pytest.raises(AssertionError):
        replace_after_fork(globals(), "absent", threading.Lock)


def test_gc_is_enabled_in_forked_child():
    paused = threading.Event()
    leave = threading.Event()

    @gc_paused
    def work():
        paused.set()
        leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    paused.wait()
    try:
        assert not gc.isenabled()
        assert in_child(gc.isenabled)
    finally:
        leave.set()
        thread.join()
    assert gc.isenabled()


def test_gc_is_reenabled_despite_forks():
    @gc_paused
    def work():
        return in_child(lambda: True) and not gc.isenabled()

    assert work() and gc.isenabled()


def test_disabled_gc_stays_disabled():
    gc.disable()
    try:
        assert gc_paused(in_child)(lambda: not gc.isenabled())
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


def test_locks_added_while_a_fork_waits_are_not_released():
    """As by the import of llvmlite in another thread."""
    added, thread_leave = [], meanwhile(import_lock)
    thread, leave = thread_leave

    def add():
        hold_during_fork(lambda: added.append("acquired"), lambda: added.append("released"))
        leave.set()

    timer = threading.Timer(0.2, add)
    timer.start()
    assert in_child(lambda: added == ["acquired", "released"])
    thread.join()
    assert added == ["acquired", "released"]


def test_fork_waits_for_imports_of_other_threads(tmp_path, monkeypatch):
    (tmp_path / "slowly_imported.py").write_text("import time; time.sleep(0.5)")
    monkeypatch.syspath_prepend(tmp_path)
    thread = threading.Thread(target=importlib.import_module, args=("slowly_imported",))
    thread.start()
    while "slowly_imported" not in importlib._bootstrap._module_locks:
        pass

    def imports_at_once():
        signal.alarm(20)
        return importlib.import_module("slowly_imported") is not None

    assert in_child(imports_at_once)
    thread.join()


def test_fork_during_an_import_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "forking.py").write_text(
        "import os\npid = os.fork()\nif not pid: os._exit(0)\nstatus = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("forking").status == 0
