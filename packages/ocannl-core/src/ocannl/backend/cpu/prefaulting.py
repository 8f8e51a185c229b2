"""Prefaulting of memory: the system provides the pages of large slabs on a thread of their own.

Without it, each page is provided when a program first writes to it, which may take longer than the program itself.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from contextlib import suppress
from typing import Any

import numpy as np

MIN_BYTES = 1 << 26  # the pages of less memory take no noticeable time
PART_BYTES = 1 << 21  # for which the system holds a lock that allocations of other threads wait for
MADV_POPULATE_WRITE = 23  # since Linux 5.14; keeps the contents


def prefault(memory: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    """Starts to provide the pages of the memory, if it is large and the system is able to. Contents do not change."""
    if memory.nbytes >= MIN_BYTES and sys.platform == "linux":
        with suppress(RuntimeError):  # no thread can be started
            threading.Thread(target=_populate, args=(memory,), name="ocannl prefaulting", daemon=True).start()


def _populate(memory: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    start, page_bytes = memory.ctypes.data, mmap.PAGESIZE
    first, end = -(-start // page_bytes) * page_bytes, (start + memory.nbytes) // page_bytes * page_bytes
    advise = ctypes.CDLL(None).madvise  # which does not hold the GIL
    for part in range(first, end, PART_BYTES):
        size = min(PART_BYTES, end - part)
        if advise(ctypes.c_void_p(part), ctypes.c_size_t(size), MADV_POPULATE_WRITE):
            return  # the system is older, or out of memory
