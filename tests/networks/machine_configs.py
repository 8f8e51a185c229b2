"""Machine configurations that programs are planned for: this machine, and others with small caches.

With small caches, optimizations of large arrays (packing, blocking, non-temporal stores, loop fusion) apply to small
arrays as well. Low thresholds in `opt.machine_model` have the same effect on other passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from unittest import mock

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.cpu import CacheLevel, Cpu
from ocannl.opt import machine_model

SMALL = Cpu(l2=CacheLevel(1 << 14, 4, 16, 48), l3=CacheLevel(1 << 18, 4, 64, 16))
MEDIUM = Cpu(l2=CacheLevel(1 << 18, 8, 16, 48), l3=CacheLevel(1 << 21, 8, 64, 16))

MACHINES: dict[str, Callable[[Capabilities], Capabilities]] = {
    "here": lambda host: host,
    "small caches": lambda host: replace(host, cpu=SMALL),
    "vectors of 16 bytes": lambda host: replace(host, vector_bytes=16, vector_registers=16),
    "vectors of 32 bytes": lambda host: replace(host, vector_bytes=32, vector_registers=16, cpu=MEDIUM),
    "online softmax": lambda host: replace(host, wants_online_softmax=True),
}

Thresholds = Mapping[str, object]
EAGER: Thresholds = MappingProxyType({
    "CONFLICT_STRIDE_BYTES": 64,
    "L1_MIN_ASSOCIATIVITY": 1,
    "MAX_FUSION_SLOWDOWN": 1e9,
    "MAX_REGISTER_ROW": 4,
    "MAX_REREAD_BYTES_PER_ROW": 1 << 24,
    "MAX_UNROLLED_EPILOGUE_OPS": 20,
    "MIN_BUSY_ROWS": 2,
    "MIN_BYTES_SAVED": 0,
    "MIN_CHUNK_OPS": 1 << 6,
    "MIN_KEYS": 2,
    "KEY_BLOCK": 4,
    "MIN_LOOP_ORDER_SAVING": 0.0,
    "MIN_NONTEMPORAL_BYTES": 1 << 8,
    "MIN_OPERAND_REUSE": 2,
    "MIN_OUTER_TRIPS": 2,
    "MIN_PARALLEL_OPS": 1 << 8,
    "MIN_PARALLEL_TILE_CYCLES": 1 << 6,
    "PREFETCHED_L2_RATIO": 1e-4,
    "MIN_REDUCTION_PARTS": 2,
    "MIN_REDUCTION_PER_BLOCK": 4,
    "MIN_SIZE_RATIO": 0,
    "MIN_SPLIT_ITERATIONS": 1 << 6,
    "MIN_TERMS_PER_COPIED_CELL": 4,
    "POLL_INTERVAL_OPS": 1 << 12,
    "SOFTMAX_BLOCK": 4,
})  # fmt: skip
PLANNING: dict[str, Thresholds] = {
    "usual": {},
    "eager": EAGER,
    "eager in parallel": {
        **EAGER, "MAX_HOISTING_SLOWDOWN": 1e9, "MIN_HOISTED_BYTES": 0, "MIN_HOISTED_TRIPS": 2, "MIN_SHARING_NESTS": 1,
    },
}  # fmt: skip
"""Hoisted loops are in the way of reductions that are fused with rows: a table for each of the two."""


@contextmanager
def planned_for(machine: str, backend: Any, planning: str = "usual") -> Iterator[None]:
    """Has the backend say that it compiles for such a machine, and passes compare with such thresholds."""
    described = MACHINES[machine](backend.capabilities)
    thresholds = PLANNING[planning]
    assert thresholds.keys() <= vars(machine_model).keys()
    capabilities = mock.patch.object(type(backend), "capabilities", described)
    with capabilities, mock.patch.dict(vars(machine_model), thresholds):
        yield
