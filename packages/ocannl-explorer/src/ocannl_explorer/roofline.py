"""The roofline of a processor (Williams, Waterman and Patterson 2009): what its cores compute and load at most."""

from __future__ import annotations

from typing import Any

from ocannl.runtime.context_protocol import ExecutionContext


def limits(context: ExecutionContext) -> dict[str, Any] | None:
    """The arithmetic limit in GFLOP/s of float32, and the bandwidths in GB/s of the caches and of memory, by the
    measured description of the processor, for the threads of the context. None for backends without vectors."""
    capabilities = context.backend.capabilities
    cpu, lanes = capabilities.cpu, capabilities.vector_bytes // 4
    if not lanes or not capabilities.wants_schedule:
        return None
    levels = {
        "L1": cpu.l1.bytes_per_cycle, "L2": cpu.l2.bytes_per_cycle, "last-level cache": cpu.l3.bytes_per_cycle,
        "memory": cpu.memory_bytes_per_cycle,
    }  # fmt: skip
    return {
        "threads": context.threads,
        "gflops": 2 * lanes * cpu.fmas_per_cycle * cpu.wide_megahertz / 1e3 * context.threads,
        "bandwidths": {name: rate * cpu.megahertz / 1e3 * context.threads for name, rate in levels.items()},
    }
