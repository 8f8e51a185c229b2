"""Blocks of rows of arrays, processed by host calls whose NumPy functions release the global interpreter lock.

One thread takes blocks that stay in the cache. Several threads take larger ones: between two functions of NumPy they
wait for the lock, each time about as long as 100,000 cells take.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from threading import Thread

BLOCK_CELLS, PARALLEL_BLOCK_CELLS = 1 << 18, 1 << 20

host_threads: ContextVar[int] = ContextVar("host_threads", default=1)
"""The number of threads of the host call that is being executed."""


def for_each_block(work: Callable[[slice], None], rows: int, cells_per_row: int) -> None:
    """Calls `work` with consecutive blocks of rows, on the threads of the host call."""
    cells_per_row = max(1, cells_per_row)
    threads = host_threads.get() if rows * cells_per_row > 2 * BLOCK_CELLS else 1
    cells = BLOCK_CELLS if threads == 1 else min(PARALLEL_BLOCK_CELLS, rows * cells_per_row // threads)
    step = max(1, cells // cells_per_row)
    blocks = deque(slice(start, min(start + step, rows)) for start in range(0, rows, step))
    errors: list[BaseException] = []

    def process_blocks() -> None:
        try:
            while (block := _next_of(blocks)) is not None:
                work(block)
        except BaseException as error:
            errors.append(error)
            blocks.clear()

    helpers = [Thread(target=copy_context().run, args=(process_blocks,)) for _ in range(min(threads, len(blocks)) - 1)]
    try:
        for helper in helpers:
            helper.start()
        process_blocks()
    finally:
        for helper in helpers:
            if helper.ident is not None:
                helper.join()
    if errors:
        raise errors[0]


def _next_of(blocks: deque[slice]) -> slice | None:
    try:
        return blocks.popleft()
    except IndexError:  # another thread has taken the last one
        return None
