"""Iteration in a thread, ahead of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

Item = TypeVar("Item")
_END: Any = object()


def prefetched(items: Iterator[Item], depth: int) -> Generator[Item]:
    """The same items, computed by a thread, `depth` of them ahead.

    An exception is raised where its item would be. The thread ends with the iteration, also when it is left early.
    """
    executor = ThreadPoolExecutor(1, thread_name_prefix="ocannl-prefetch")
    settings = copy_context()
    pending: deque[Future[Item]] = deque()

    def submit() -> None:
        pending.append(executor.submit(settings.run, lambda: next(items, _END)))

    try:
        for _ in range(depth):
            submit()
        while (item := pending.popleft().result()) is not _END:
            submit()
            yield item
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
        close = getattr(items, "close", None)
        if close is not None:
            close()
