"""Programs whose local arrays exceed the stack of the calling thread."""

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
from ocannl.backend.cpu.stack_guard import GUARANTEED_STACK_BYTES
from ocannl.backend.cpu.stack_threads import stack_bytes
from ocannl.base.errors import CompileError
from ocannl.codegen import signature
from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    IndexValue,
    Load,
    Local,
    MemorySpace,
    Poll,
    Proc,
    Ref,
    Store,
    Update,
    loop,
    row_major,
)
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import float32
from ocannl.ir.stack_size import MAX_LOCAL_BYTES

A = Affine.of
SMALL = 1 << 18  # bytes of a stack


def sum_over_local(run, cells, offset, trip_count=8, rounds=1, parallel_chunk=0):
    """`y[n] = sum over i of n + i + s`, using a local array of `cells` elements."""
    y = np.zeros(trip_count, np.float32)
    out = run.like("y", y, AccessMode.OUT)
    local = Buf("kept", float32, (cells,), row_major((cells,)), MemorySpace.LOCAL, AccessMode.TEMP, offset=offset)
    n, i, j, k = (Sym(name, 0, size - 1) for name, size in zip("nijk", (trip_count, cells, cells, rounds), strict=True))
    s = Sym("s", 0, 9, SymKind.STATIC)
    sine = Apply(BY_NAME["sin"], (Load(Ref(local, (A(j),))),))
    total = Update(Ref(out, (A(n),)), ADD, Load(Ref(local, (A(j),))) if rounds == 1 else sine)
    body = (
        Local(local),
        loop(i, (Store(Ref(local, (A(i),)), IndexValue(A(n) + A(i) + s, float32)),)),
        Store(Ref(out, (A(n),)), IndexValue(A(0), float32)),
        loop(k, (loop(j, (total,)), *[Poll()] * (rounds > 1))),
    )
    proc = Proc("kept", (out,), (s,), (replace(loop(n, body), parallel_chunk=parallel_chunk),))
    wanted = [float(cells) * (m + 3) + cells * (cells - 1) / 2 for m in range(trip_count)]
    return proc, y, wanted


def run_in_small_thread(call):
    """Calls a function on a thread with a small stack; returns the stack size and the results."""
    results = []
    usual = threading.stack_size(SMALL)
    try:
        thread = threading.Thread(target=lambda: results.extend((stack_bytes(), call())))
        thread.start()
    finally:
        threading.stack_size(usual)
    thread.join()
    return results


@pytest.mark.parametrize("parallel_chunk", [0, 1])
@pytest.mark.parametrize("offset", [None, 0, 128])
@pytest.mark.parametrize("cells", [(MAX_LOCAL_BYTES - 4096) // 4, 50_000, 1000, 0])
def test_threads_with_small_stacks(run, cells, offset, parallel_chunk):
    proc, y, wanted = sum_over_local(run, cells, offset, parallel_chunk=parallel_chunk)
    code = run.backend.compile([proc])
    size, (got,) = run_in_small_thread(lambda: run(proc, y, syms=[3], code=code))
    assert SMALL <= size < 2 * SMALL
    np.testing.assert_allclose(got, wanted, rtol=1e-4)
    np.testing.assert_array_equal(run(proc, y, syms=[3], code=code)[0], got)


def test_stack_bytes_of_signatures(run):
    for cells, offset in ((1000, None), (1000, 64), (100_000, 0)):
        proc, *_ = sum_over_local(run, cells, offset)
        assert signature(proc).stack_bytes == 4 * cells + (offset or 0)
    both = Proc("two", (), (), (*sum_over_local(run, 1000, None)[0].body, *sum_over_local(run, 3000, None)[0].body))
    assert signature(both).stack_bytes == 12_000
    nested = Proc(
        "inside", (), (), sum_over_local(run, 1000, 0)[0].body + sum_over_local(run, 500, None)[0].body[0].body[:1]
    )
    assert signature(nested).stack_bytes == 4000 + 2000
    too_large, *_ = sum_over_local(run, MAX_LOCAL_BYTES // 4 + 1, None)
    with pytest.raises(CompileError, match="bytes of stack"):
        run.backend.compile([too_large])


def test_direct_calls_need_little_stack(run):
    for cells, direct in ((1000, True), (GUARANTEED_STACK_BYTES // 4 + 1, False)):
        proc, y, _ = sum_over_local(run, cells, None, trip_count=1)
        assert signature(proc).holds_gil
        entry = run.backend.link(run.backend.compile([proc]), "kept", run.queue, run.locations(proc, [y]))
        assert hasattr(entry, "vectorcall") == direct


def test_errors_propagate_to_the_caller():
    class Control:
        cancelled = False

    def fails():
        assert threading.current_thread() is not threading.main_thread()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        stack_guard.with_stack(fails, 1 << 40, Control())()
    assert stack_guard.with_stack(lambda: 7, 1 << 40, Control())() == 7


def test_interrupts_during_calls_on_a_large_stack(run, monkeypatch):
    proc, y, _ = sum_over_local(run, 50_000, 0, trip_count=64, rounds=1000, parallel_chunk=1)
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


def test_a_main_thread_with_a_small_stack(native):
    code = f"""
import sys
sys.path[:0] = {[os.path.dirname(__file__), *sys.path]!r}
import test_stack_guard as guard, ocannl
from ocannl.backend import registry
from loop_programs.program_runner import Runner
run = Runner(registry.resolve({native.name!r}))
proc, y, wanted = guard.sum_over_local(run, 250_000, 0)
print(guard.stack_bytes(), run(proc, y, syms=[3])[0].tolist() == guard.np.float32(wanted).tolist())
"""
    limit = lambda: resource.setrlimit(resource.RLIMIT_STACK, (900_000, 900_000))  # noqa: E731
    done = subprocess.run([sys.executable, "-c", code], preexec_fn=limit, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("900000 ")
