"""Blocks of rows of arrays, processed by host calls whose NumPy functions release the global interpreter lock.

One thread takes blocks that stay in the cache. Several threads take larger ones: between two functions of NumPy they
wait for the lock, each time for about as long as an elementwise function of 100,000 cells takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from threading import Lock, Thread

BLOCK_CELLS, PARALLEL_BLOCK_CELLS = 1 << 18, 1 << 19

host_threads: ContextVar[int] = ContextVar("host_threads", default=1)
"""The number of threads of the host call that is being executed."""


def threads_for(cells: int) -> int:
    """Returns how many threads of the host call share so many cells: one if they are few."""
    return host_threads.get() if cells > 2 * BLOCK_CELLS else 1


def for_each_block(work: Callable[[slice], None], rows: int, cells_per_row: int) -> None:
    """Calls `work` with consecutive blocks of rows, or of cells if a row is a cell, on the threads of the host call.
    After an error, the remaining blocks are not processed."""
    cells_per_row = max(1, cells_per_row)
    threads = threads_for(rows * cells_per_row)
    cells = BLOCK_CELLS if threads == 1 else min(PARALLEL_BLOCK_CELLS, rows * cells_per_row // threads)
    step = max(1, cells // cells_per_row)
    blocks = deque(slice(start, min(start + step, rows)) for start in range(0, rows, step))
    errors: list[BaseException] = []

    def process_blocks() -> None:
        try:
            while (block := _next_of(blocks)) is not None:
                work(block)
        except BaseException as error:  # of any thread; the caller raises it
            errors.append(error)
            blocks.clear()

    helpers = [_Helper(process_blocks) for _ in range(min(threads, len(blocks)) - 1)]
    try:
        with suppress(RuntimeError):  # there can be no more threads; the others process all blocks
            for helper in helpers:
                helper.start()
        process_blocks()
    finally:
        blocks.clear()  # a helper that has not begun finds no block
        _wait([helper for helper in helpers if helper.ident is not None])
    if errors:
        try:
            raise next((error for error in errors if not isinstance(error, Exception)), errors[0])
        finally:
            errors.clear()  # the traceback of an error refers to the list


def _next_of(blocks: deque[slice]) -> slice | None:
    try:
        return blocks.popleft()
    except IndexError:  # another thread has taken the last one
        return None


class _Helper(Thread):
    """A thread that processes blocks in the context of the caller."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="ocannl host call", daemon=True)
        self.work, self.context = work, copy_context()
        self.busy = Lock()  # held until the end: `Thread.join` of CPython 3.11 takes an interrupted wait for the end
        self.busy.acquire()

    def run(self) -> None:
        try:
            self.context.run(self.work)
        finally:
            self.busy.release()


def _wait(helpers: list[_Helper]) -> None:
    """Waits until the helpers, which write into arrays of the caller, have finished, and raises interrupts afterwards.
    """
    interrupt: KeyboardInterrupt | None = None
    while helpers:
        try:
            with helpers[-1].busy:
                pass
            helpers.pop()
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
