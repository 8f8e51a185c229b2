"""The description of the processor at hand (see `ocannl.ir.cpu`)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from ocannl.ir.cpu import Cpu

CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")


@cache
def reported_cpu(folder: Path = CACHE_FOLDER) -> Cpu:
    """Returns the description with the caches that the operating system reports; the remainder is that of a common
    processor."""
    cpu, by_level = Cpu(), dict[int, tuple[int, int]]()
    for index in sorted(folder.glob("index*")):
        with suppress(OSError, ValueError):
            level, kind, size, associativity = (
                (index / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size", "ways_of_associativity")
            )
            if kind != "Instruction" and int(size.removesuffix("K")) > 0 and int(associativity) > 0:
                by_level[int(level)] = int(size.removesuffix("K")) << 10, int(associativity)
    if 2 not in by_level:
        return cpu
    sizes = by_level.get(1, (cpu.l1.size_bytes, cpu.l1.associativity)), by_level[2], by_level[max(by_level)]
    l1, l2, l3 = (
        replace(level, size_bytes=size, associativity=ways)
        for level, (size, ways) in zip((cpu.l1, cpu.l2, cpu.l3), sizes, strict=True)
    )
    return replace(cpu, l1=l1, l2=l2, l3=l3)
