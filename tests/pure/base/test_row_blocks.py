"""Blocks of rows on one and several threads."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from ocannl.base import row_blocks
from ocannl.base.row_blocks import for_each_block, host_threads

ROWS, CELLS_PER_ROW = 3001, 1000


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_row_is_in_one_block(threads: int) -> None:
    counts = np.zeros(ROWS, int)

    def count(block: slice) -> None:
        counts[block] += 1

    token = host_threads.set(threads)
    try:
        for_each_block(count, ROWS, CELLS_PER_ROW)
        for_each_block(count, 0, CELLS_PER_ROW)
    finally:
        host_threads.reset(token)
    assert (counts == 1).all()


def test_small_arrays_stay_on_the_calling_thread() -> None:
    names = []
    token = host_threads.set(8)
    try:
        for_each_block(lambda _: names.append(threading.get_ident()), 100, 100)
    finally:
        host_threads.reset(token)
    assert names == [threading.get_ident()]


@pytest.mark.parametrize("threads", [1, 2])
def test_first_error_is_raised_and_settings_of_numpy_hold_in_all_threads(threads: int) -> None:
    both = threading.Barrier(threads, timeout=60)

    def divide(block: slice) -> None:
        both.wait()
        np.ones(1) / np.zeros(1)

    token = host_threads.set(threads)
    try:
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            for_each_block(divide, ROWS, CELLS_PER_ROW)
    finally:
        host_threads.reset(token)


@pytest.fixture
def two_threads():
    token = host_threads.set(2)
    yield
    host_threads.reset(token)


def is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


@pytest.mark.skipif(not hasattr(signal, "raise_signal") or os.name != "posix", reason="there are no signals")
@pytest.mark.usefixtures("two_threads")
def test_no_thread_writes_after_an_interrupt() -> None:
    active: list[int] = []

    def work(block: slice) -> None:
        if is_main():
            return
        active.append(block.start)
        os.kill(os.getpid(), signal.SIGINT)  # the main thread waits for this one
        time.sleep(0.2)
        active.pop()

    with pytest.raises(KeyboardInterrupt):
        for _ in range(50):  # until the helper takes a block
            for_each_block(work, 4, 1 << 20)
    assert not active


@pytest.mark.usefixtures("two_threads")
def test_an_interrupt_is_raised_rather_than_an_error_of_another_thread() -> None:
    begun, failed = threading.Event(), threading.Event()

    def work(block: slice) -> None:
        if is_main():
            begun.set()
            failed.wait(1)
            raise KeyboardInterrupt
        begun.wait(20)
        failed.set()
        raise ValueError

    with pytest.raises(KeyboardInterrupt):
        for_each_block(work, 4, 1 << 20)


@pytest.mark.usefixtures("two_threads")
def test_the_caller_processes_all_blocks_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(row_blocks._Helper, "start", refuse)
    rows: list[int] = []
    for_each_block(lambda block: rows.extend(range(block.start, block.stop)), 4, 1 << 20)
    assert rows == [0, 1, 2, 3]
