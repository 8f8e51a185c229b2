"""What a target can do, as data: declared by backends, read by the optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.precision import PRECISIONS


@dataclass(frozen=True, slots=True)
class Caches:
    """What lies between a core and memory; plans of loops depend on it, sums and their order never do."""

    core_bytes: int = 1 << 20  # of the last cache that a core has for itself
    core_ways: int = 16  # places in it for a line, of which its address says the others
    all_bytes: int = 1 << 25  # of the last one before memory

    @property
    def far_bytes(self) -> int:
        """Through which a nest goes so that nothing of it is there when it is wanted again: others are at work, too."""
        return self.all_bytes // 2


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do, read by the optimizer and by the conformance kit: what is claimed must work, what is not
    must raise `Unsupported` naming the field."""

    precisions: frozenset[str] = frozenset(p.name for p in PRECISIONS)
    scheduled: bool = True  # takes nests in the form `realize` gives them; False: as they were lowered
    grouped: bool = False  # where they are not scheduled: takes sums together with what is done with them
    online: bool = False  # takes softmax in one walk over its keys, with running maxima
    lanes: int = 0  # numbers that a grid of programs works on at a time; 0: there is no grid
    alignment_bytes: int = 64  # of every array in a pool or an arena
    vector_bytes: int = 0  # of the vectors that loops over lanes are best made of; 0: of numbers one by one
    vector_registers: int = 16  # that hold such vectors
    caches: Caches = Caches()
    stamps: bool = False  # knows the statement `Stamp`, by which a profile tells the parts of a nest apart

    def canonical(self) -> str:
        """One line of text: part of cache keys."""
        return (
            f"precisions={','.join(sorted(self.precisions))} scheduled={self.scheduled} grouped={self.grouped} "
            f"online={self.online} lanes={self.lanes} align={self.alignment_bytes} "
            f"vectors={self.vector_registers}x{self.vector_bytes} "
            f"caches={self.caches.core_bytes}/{self.caches.core_ways},{self.caches.all_bytes}"
        )
