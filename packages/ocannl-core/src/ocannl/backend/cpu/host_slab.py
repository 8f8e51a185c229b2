"""Aligned memory of the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

ALIGNMENT_BYTES = 64  # size of a cache line and of the widest vector
HUGE_PAGE_BYTES = 1 << 21
MIN_HUGE_BYTES = HUGE_PAGE_BYTES // 2  # of a slab in huge pages
MIN_ADVISED_BYTES = 1 << 22  # of an allocation for which NumPy asks the system for huge pages
MIN_ZEROED_BYTES = 1 << 26  # of an allocation whose pages are always new, and zero


@dataclass(eq=False, slots=True)
class HostSlab:
    """Aligned host memory, freed when the slab is garbage-collected."""

    bytes: np.ndarray[Any, np.dtype[np.uint8]]
    address: int
    is_zeroed: bool = False  # when it was allocated


def aligned_slab(size_bytes: int) -> HostSlab:
    """Allocates a slab. A large one begins at a huge page, of which far fewer than of small pages cover the arrays of a
    program: addresses are translated faster, and the first access to the memory takes less time. What the allocation
    is larger than the slab is never touched, and takes no memory."""
    is_large = size_bytes >= MIN_HUGE_BYTES
    alignment_bytes = HUGE_PAGE_BYTES if is_large else ALIGNMENT_BYTES
    allocated_bytes = max(size_bytes + alignment_bytes, MIN_ADVISED_BYTES if is_large else 0)
    is_zeroed = size_bytes >= MIN_ZEROED_BYTES
    raw = (np.zeros if is_zeroed else np.empty)(allocated_bytes, np.uint8)
    start = -raw.ctypes.data % alignment_bytes
    return HostSlab(raw[start : start + size_bytes], raw.ctypes.data + start, is_zeroed)
