"""Machines that programs are planned for: the one at hand, and others whose caches and vectors are smaller.

Plans depend on caches and vectors, code on the processor: with small caches, what large arrays are for (panels, blocks,
streams, loops that several nests share) happens to small ones, on any processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from ocannl.ir.capabilities import Caches, Capabilities

SMALL = Caches(private_bytes=1 << 14, associativity=4, shared_bytes=1 << 18)
MEDIUM = Caches(private_bytes=1 << 18, associativity=8, shared_bytes=1 << 21)

MACHINES: dict[str, Callable[[Capabilities], Capabilities]] = {
    "here": lambda given: given,
    "small caches": lambda given: replace(given, caches=SMALL),
    "vectors of 16 bytes": lambda given: replace(given, vector_bytes=16, vector_registers=16),
    "vectors of 32 bytes": lambda given: replace(given, vector_bytes=32, vector_registers=16, caches=MEDIUM),
}


@contextmanager
def planned_for(machine: str, backend: Any) -> Iterator[None]:
    """Has the backend say that it compiles for such a machine."""
    described = MACHINES[machine](backend.capabilities)
    with mock.patch.object(type(backend), "capabilities", described):
        yield
