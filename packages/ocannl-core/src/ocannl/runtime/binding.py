"""Programs that are bound to the arrays of a context."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.backend.api import Entry
from ocannl.runtime.precomputed_arrays import PrecomputedArrays
from ocannl.runtime.slabs import Slab


@dataclass(frozen=True, slots=True)
class Binding:
    """The entry of a bound program, and the memory that it uses."""

    entry: Entry
    slabs: tuple[Slab, ...]
    precomputed: tuple[PrecomputedArrays, ...] = ()

    def prepare_run(self) -> None:
        """Lets the next run compute the precomputed arrays that are not up to date."""
        for arrays in self.precomputed:
            arrays.prepare_run()

    @property
    def is_settled(self) -> bool:
        """Whether runs need no further preparation while the epoch of the context is the same."""
        return all(arrays.is_settled for arrays in self.precomputed)
