"""Programs whose local arrays need more of the stack than the thread has that calls them."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from ocannl.backend.cpu import stack_guard
from ocannl.backend.cpu.stack_guard import ALWAYS_BYTES
from ocannl.backend.cpu.stack_threads import stack_bytes
from ocannl.base.errors import CompileError
from ocannl.codegen import signature
from ocannl.ir.index import Affine, Sym, SymKind
from ocannl.ir.loops import Access, Apply, Buf, Home, Idx, Load, Local, Poll, Proc, Ref, Store, Update, loop, row_major
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import float32
from ocannl.ir.stack import BLOCK_BYTES

A = Affine.of
SMALL = 1 << 18  # bytes of a stack


def kept(run, cells, offset, turns=8, rounds=1, claimed=0):
    """`y[n] = sum over i of n + i + s`, by way of an array on the stack that is as long."""
    y = np.zeros(turns, np.float32)
    out = run.like("y", y, Access.OUT)
    local = Buf("kept", float32, (cells,), row_major((cells,)), Home.REG, Access.TEMP, offset=offset)
    n, i, j, k = (Sym(name, 0, size - 1) for name, size in zip("nijk", (turns, cells, cells, rounds), strict=True))
    s = Sym("s", 0, 9, SymKind.STATIC)
    sine = Apply(BY_NAME["sin"], (Load(Ref(local, (A(j),))),))
    total = Update(Ref(out, (A(n),)), ADD, Load(Ref(local, (A(j),))) if rounds == 1 else sine)
    body = (
        Local(local),
        loop(i, (Store(Ref(local, (A(i),)), Idx(A(n) + A(i) + s, float32)),)),
        Store(Ref(out, (A(n),)), Idx(A(0), float32)),
        loop(k, (loop(j, (total,)), *[Poll()] * (rounds > 1))),
    )
    proc = Proc("kept", (out,), (s,), (replace(loop(n, body), claimed=claimed),))
    wanted = [float(cells) * (m + 3) + cells * (cells - 1) / 2 for m in range(turns)]
    return proc, y, wanted


def in_a_small_thread(call):
    """What it gives, and the room there was."""
    results = []
    usual = threading.stack_size(SMALL)
    try:
        thread = threading.Thread(target=lambda: results.extend((stack_bytes(), call())))
        thread.start()
    finally:
        threading.stack_size(usual)
    thread.join()
    return results


@pytest.mark.parametrize("claimed", [0, 1])
@pytest.mark.parametrize("offset", [None, 0, 128])
@pytest.mark.parametrize("cells", [(BLOCK_BYTES - 4096) // 4, 50_000, 1000, 0])
def test_any_thread_can_call_any_program(run, cells, offset, claimed):
    proc, y, wanted = kept(run, cells, offset, claimed=claimed)
    code = run.backend.compile([proc])
    size, (got,) = in_a_small_thread(lambda: run(proc, y, syms=[3], code=code))
    assert SMALL <= size < 2 * SMALL
    np.testing.assert_allclose(got, wanted, rtol=1e-4)
    np.testing.assert_array_equal(run(proc, y, syms=[3], code=code)[0], got)


def test_what_a_program_needs_is_told(run):
    for cells, offset in ((1000, None), (1000, 64), (100_000, 0)):
        proc, *_ = kept(run, cells, offset)
        assert signature(proc).stack_bytes == 4 * cells + (offset or 0)
    two = Proc("two", (), (), (*kept(run, 1000, None)[0].body, *kept(run, 3000, None)[0].body))
    assert signature(two).stack_bytes == 12_000
    inside = Proc("inside", (), (), kept(run, 1000, 0)[0].body + kept(run, 500, None)[0].body[0].body[:1])
    assert signature(inside).stack_bytes == 4000 + 2000
    too_much, *_ = kept(run, BLOCK_BYTES // 4 + 1, None)
    with pytest.raises(CompileError, match="bytes of stack"):
        run.backend.compile([too_much])


def test_short_programs_that_need_little_are_called_by_python_itself(run):
    for cells, direct in ((1000, True), (ALWAYS_BYTES // 4 + 1, False)):
        proc, y, _ = kept(run, cells, None, turns=1)
        assert signature(proc).brief
        entry = run.backend.link(run.backend.compile([proc]), "kept", run.queue, run.locations(proc, [y]))
        assert hasattr(entry, "direct") == direct


def test_errors_reach_the_caller_from_elsewhere():
    class Control:
        cancelled = False

    def fails():
        assert threading.current_thread() is not threading.main_thread()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        stack_guard.with_room(fails, 1 << 40, Control())()
    assert stack_guard.with_room(lambda: 7, 1 << 40, Control())() == 7


def test_an_interrupt_ends_what_runs_elsewhere(run, monkeypatch):
    proc, y, _ = kept(run, 50_000, 0, turns=64, rounds=1000, claimed=1)
    entry = run.backend.link(run.backend.compile([proc]), "kept", run.queue, run.locations(proc, [y]))
    monkeypatch.setattr(stack_guard, "stack_bytes", lambda: 0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            entry(3)
    finally:
        signal.signal(signal.SIGINT, before)
        timer.join()
    assert time.perf_counter() - start < 5  # of a minute or so
    assert not run.queue.control.cancelled


def test_the_first_thread_may_have_little(native):
    code = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_room, ocannl
from ocannl.backend import registry
from ocannl.testing.runner import Runner
run = Runner(registry.resolve({native.name!r}))
proc, y, wanted = test_room.kept(run, 250_000, 0)
print(test_room.stack_bytes(), run(proc, y, syms=[3])[0].tolist() == test_room.np.float32(wanted).tolist())
"""
    limit = lambda: resource.setrlimit(resource.RLIMIT_STACK, (900_000, 900_000))  # noqa: E731
    done = subprocess.run([sys.executable, "-c", code], preexec_fn=limit, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("900000 ")
