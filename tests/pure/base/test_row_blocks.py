"""Blocks of rows on one and several threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

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
