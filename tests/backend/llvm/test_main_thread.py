"""The main thread, in which Python raises KeyboardInterrupt, enters no function of llvmlite."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType

import numpy as np
import pytest
from llvmlite.binding import ffi

import ocannl as oc
from ocannl.runtime import compile_cache
from ocannl_backend_llvm import interrupts
from ocannl_backend_llvm.interrupts import not_interrupted


def llvmlite_calls(work) -> list[str]:
    entered = []

    def trace(frame: FrameType, _event: str, _argument: object) -> None:
        if "llvmlite" in frame.f_code.co_filename:
            entered.append(frame.f_code.co_name)

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(former)
    return entered


def test_compilation_and_unloading():
    def work() -> None:
        for size in (3, 4):
            context = oc.Context("llvm", threads=2)
            x = oc.placeholder("x", o=[size])
            with oc.settings(cache=False):
                routine = context.compile((x * size).forward, keep=[x])
            context[x] = 1
            routine()
            del routine, context
            compile_cache.clear()
            gc.collect()

    assert llvmlite_calls(work) == []


def test_loading_of_stored_code(tmp_path):
    def work() -> None:
        compile_cache.clear()
        x = oc.placeholder("x", o=[7])
        y = oc.exp(x)
        context = oc.Context("llvm")
        routine = context.compile(y.forward, keep=[y])
        context[x] = 0
        routine()
        assert np.array_equal(context[y], np.ones(7))

    with oc.settings(cache_dir=tmp_path):
        work()
        assert llvmlite_calls(work) == []


def test_work_without_further_threads(monkeypatch):
    def refuse(*_: object) -> None:
        raise interrupts.ThreadStartError("can't start new thread")

    monkeypatch.setattr(interrupts, "call_on_thread", refuse)
    assert not_interrupted(threading.get_ident) == threading.get_ident()


def test_threads():
    main = threading.get_ident()
    assert not_interrupted(threading.get_ident) != main
    idents = []
    thread = threading.Thread(target=lambda: idents.append(not_interrupted(threading.get_ident)))
    thread.start()
    thread.join()
    assert idents == [thread.ident]
    with pytest.raises(KeyError, match="absent"):
        not_interrupted(lambda: {}["absent"])


def test_libraries_unloaded_during_a_fork():
    """The main thread holds the lock of llvmlite then, and must not wait for a thread that needs it."""
    context = oc.Context("llvm")
    x = oc.placeholder("x", o=[9])
    with oc.settings(cache=False):
        routine = context.compile((x * 3.0).forward)
    with ffi.lib._lock:
        del routine, context
        compile_cache.clear()
        gc.collect()
        assert not_interrupted(threading.get_ident) == threading.get_ident()
