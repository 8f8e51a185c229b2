"""`interrupts.py BACKEND RUNS SEED [--calls] [PHASE ...]`: Ctrl-C at random moments of each phase of a program's life,
or with `--calls`, KeyboardInterrupt when a random function of the framework is entered, where Python raises it.

The former seldom hit the few instructions that matter. Each interrupt must end in KeyboardInterrupt or come too late;
afterwards, the context compiles and runs programs, in another thread as well, and no compiler is left. Python itself
drops interrupts that come during a finalizer or the callback of a weak reference; these are counted. Prints what
happened, as JSON.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from math import inf
from random import Random
from types import FrameType

import numpy as np
from programs import build, check, inputs

import ocannl as oc
from ocannl.runtime import compile_cache

BACKEND, RUNS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
LIMIT_SECONDS = 40


class Life:
    """A context, and one step of each phase; the number of a step decides its program."""

    def __init__(self, queue: str) -> None:
        self.context = oc.Context(BACKEND, queue=queue)
        self.target = oc.Context(BACKEND, device=1)
        y, x, w = build(0)
        self.routine, self.x = self.context.compile(y.forward, keep=[y]), x
        self.context[x], self.context[w] = inputs(0)
        self.a = a = oc.placeholder("a", o=[1 << 18])
        with oc.cd("long") as code:
            for _ in range(20):
                a[...] = oc.sin(a) + 2.0
        self.context[a] = 1
        self.long = self.context.compile(code)
        self.transfer = oc.transfer(x, src=self.context, dst=self.target, into="node")

    def compile_new(self, n: int) -> None:
        compile_cache.clear()
        with oc.settings(cache=False):
            y, _, _ = build(n)
            self.context.compile(y.forward, keep=[y])

    def compile_and_store(self, n: int) -> None:
        y, _, _ = build(n)
        self.context.compile(y.forward, keep=[y])

    def load(self, n: int) -> None:
        compile_cache.clear()
        y, _, _ = build(0)
        self.context.compile(y.forward, name="program", keep=[y])

    def call(self, n: int) -> None:
        for _ in range(100):
            self.routine()
        self.context.synchronize()

    def call_long(self, n: int) -> None:
        self.context[self.a] = 1
        self.long()
        self.context.synchronize()

    def copy(self, n: int) -> None:
        for _ in range(20):
            self.transfer()
            self.target[self.x]

    def open_and_close(self, n: int) -> None:
        with oc.Context(BACKEND) as context:
            context[self.x] = 1


PHASES = ("compile_new", "compile_and_store", "load", "call", "call_long", "copy", "open_and_close")


dropped: list[object] = []  # by Python
kept: list[KeyboardInterrupt] = []  # with the frames of their tracebacks, as by a debugger
TRACED = (f"{os.sep}ocannl", "contextlib.py", "threading.py", "subprocess.py", f"{os.sep}llvmlite")
UNTRACED = (__file__, "programs.py")


def interrupted_at_call(step: Callable[[int], None], n: int, position: int) -> int:
    """Raises KeyboardInterrupt when the function at a position in the order of calls is entered; returns the number of
    calls."""
    calls = 0

    def trace(frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal calls
        file = frame.f_code.co_filename
        if not file.endswith(UNTRACED) and any(part in file for part in TRACED):
            calls += 1
            if calls == position:
                raise KeyboardInterrupt

    sys.settrace(trace)
    try:
        step(n)
    except KeyboardInterrupt as error:
        kept.append(error)
    finally:
        sys.settrace(None)
    return calls


def interrupted(step: Callable[[int], None], n: int, delay_seconds: float) -> tuple[bool, float]:
    """Whether the interrupt came before the end of the step, and the seconds of the step if it did not."""
    dropped.clear()
    elapsed_seconds = inf
    try:
        signal.setitimer(signal.ITIMER_REAL, delay_seconds)
        start = time.perf_counter()
        step(n)
        elapsed_seconds = time.perf_counter() - start
        while not dropped:  # the interrupt comes after the step
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0, "the interrupt was swallowed"
            time.sleep(0.01)
        return False, elapsed_seconds
    except KeyboardInterrupt as error:
        trace = error.__traceback__
        return trace is not None and trace.tb_next is not None, elapsed_seconds
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def is_usable(life: Life, n: int) -> None:
    """The context works, here and in another thread, and garbage is collected."""
    assert gc.isenabled()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            check(n, life.context)
            life.transfer()
            assert np.isfinite(life.target[life.x]).all()
        except BaseException as error:
            failures.append(error)

    if life.x not in life.context:  # what an interrupted call writes is not initialized
        life.context[life.x] = inputs(0)[0]
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LIMIT_SECONDS)
    if thread.is_alive():
        faulthandler.dump_traceback()
        raise AssertionError("a lock is held")
    if failures:
        raise failures[0]
    check(n + 1, life.context)


def children() -> list[str]:
    """The children that run. One that has ended may be left as a zombie: an interrupt inside `Popen`, after the fork,
    drops the only object that could wait for it."""
    me = str(os.getpid())
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parts = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if parts[1] == me and parts[0] != "Z":
            found.append(f"{name} {parts[0]}")
    return found


def main() -> int:
    faulthandler.enable()
    faulthandler.dump_traceback_later(LIMIT_SECONDS * 20, exit=True)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.unraisablehook = dropped.append
    random, counts = Random(SEED), Counter()
    lives = [Life("inline"), Life("threaded")]
    number = 1000
    at_calls = "--calls" in sys.argv
    for phase in [name for name in sys.argv[4:] if name != "--calls"] or PHASES:
        lengths = []
        for life in lives:
            number += 1
            step, start = getattr(life, phase), time.perf_counter()
            if at_calls:
                lengths.append(interrupted_at_call(step, number, 0))
            else:
                step(number)
                lengths.append(time.perf_counter() - start)
        for run in range(RUNS):
            which = run % 2
            life, length = lives[which], lengths[which]
            number += 1
            if at_calls:
                before = len(kept)
                interrupted_at_call(getattr(life, phase), number, random.randint(1, length))
                counts[phase] += len(kept) - before
            else:
                delay = random.uniform(1e-5, 1.1 * length)
                is_interrupted, elapsed_seconds = interrupted(getattr(life, phase), number, delay)
                counts[phase] += is_interrupted
                lengths[which] = min(length, elapsed_seconds)  # a busy machine may have delayed the first step
                counts["dropped"] += len(dropped)
            if at_calls or run % 10 == 0 or run == RUNS - 1:
                is_usable(life, 2 * run % 20)
    time.sleep(0.5)
    print(json.dumps({"seed": SEED, "left": children(), **counts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
