"""Description of a CPU core and its memory system, with which the cost models of the optimizer calculate.

No field decides about the order of a floating-point summation: programs that are planned for different processors with
the same vectors have equal results.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """A data cache, as a single core experiences it."""

    size_bytes: int
    associativity: int
    latency_cycles: int  # of a load that depends on the previous one
    bytes_per_cycle: int  # that a core reads in order


@dataclass(frozen=True, slots=True)
class Cpu:
    """A processor; the defaults are those of a common server. Cycles are those of a core that executes scalar code.

    `l1` and `l2` are private to a core. `l3` is the part of the last-level cache that one core can fill, which in a
    virtual machine is much less than what the operating system reports; it is equal to `l2` if there is no such cache.
    """

    l1: CacheLevel = CacheLevel(32 << 10, 8, 4, 64)
    l2: CacheLevel = CacheLevel(1 << 20, 16, 16, 48)
    l3: CacheLevel = CacheLevel(1 << 25, 16, 64, 16)
    memory_latency_cycles: int = 384
    memory_bytes_per_cycle: int = 4  # that a core reads in order
    line_bytes: int = 64
    page_bytes: int = 4096
    l1_tlb_entries: int = 64
    l2_tlb_entries: int = 1536
    l1_tlb_miss_cycles: int = 8  # additional latency of a load whose page is in the second-level TLB only
    l2_tlb_miss_cycles: int = 32  # additional latency of a load whose page is in neither
    fmas_per_cycle: float = 2  # multiply-additions of whole vectors
    loads_per_cycle: float = 2  # loads of whole vectors from the first-level cache
    line_crossing_cycles: float = 1  # additional time of a vector load that spans two lines
    megahertz: int = 3000
    wide_megahertz: int = 3000  # while the widest vectors are multiplied

    @property
    def streaming_threshold_bytes(self) -> int:
        """The working set from which data is evicted before it is reused, with headroom for concurrent work."""
        return self.l3.size_bytes // 2

    @property
    def l1_tlb_bytes(self) -> int:
        return self.l1_tlb_entries * self.page_bytes

    @property
    def l2_tlb_bytes(self) -> int:
        return self.l2_tlb_entries * self.page_bytes

    def canonical(self) -> str:
        """Returns a line of text for cache keys."""
        return " ".join(f"{name}={value}" for name, value in self.flat().items())

    def flat(self) -> dict[str, int | float]:
        """Returns the numbers by name; those of caches are called `l1.size_bytes` and so on."""
        return {
            f"{name}.{part}" if part else name: number
            for name, value in asdict(self).items()
            for part, number in (value.items() if isinstance(value, dict) else [("", value)])
        }


COMMON_CPU = Cpu()
CACHE_LEVELS = ("l1", "l2", "l3")


def cpu_from_tree(tree: object) -> Cpu:
    """Returns the description whose `asdict` is `tree`; raises ValueError if a number is missing, unknown or not
    positive."""
    values = _values(tree, Cpu, "")
    for name in CACHE_LEVELS:
        values[name] = CacheLevel(**_numbers(_values(values[name], CacheLevel, f"{name}."), f"{name}."))
    numbers = {name: value for name, value in values.items() if name not in CACHE_LEVELS}
    return Cpu(**{**values, **_numbers(numbers, "")})


def _values(tree: object, kind: type[Cpu | CacheLevel], prefix: str) -> dict[str, Any]:
    names = [field.name for field in fields(kind)]
    if not isinstance(tree, dict) or sorted(map(str, tree)) != sorted(names):
        raise ValueError(f"expected {', '.join(prefix + name for name in names)}")
    return dict(tree)


def _numbers(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1 << 50:
            raise ValueError(f"`{prefix}{name}` must be a positive number, not {value!r}")
    return values
