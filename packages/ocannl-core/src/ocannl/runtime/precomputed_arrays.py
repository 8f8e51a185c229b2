"""The arrays that a routine keeps between calls because they depend on weights only, such as packed weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocannl.backend.api import Location
from ocannl.runtime.device_arrays import Arrays, Resident
from ocannl.runtime.program import Precomputed
from ocannl.runtime.slabs import Slab, pack

CHANGED = np.ones((), np.int64)


class PrecomputedArrays:
    """Requests the computation of the arrays when a weight may have been written since the last one."""

    __slots__ = ("_arrays", "_state", "_weights", "locations", "slab")

    def __init__(self, arrays: Arrays, precomputed: Precomputed, alignment_bytes: int) -> None:
        offsets, size_bytes = pack(precomputed.sizes_bytes, alignment_bytes)
        self._arrays = arrays
        self._weights: Sequence[Resident] = [arrays[node] for node in precomputed.weights]
        self._state: object = None  # of the last computation
        self.slab: Slab = arrays.slab(size_bytes)
        self.locations: list[Location] = [self.slab.at(offset) for offset in offsets]
        for weight in self._weights:
            weight.is_watched = True

    def prepare_run(self) -> None:
        """Lets the next run compute the arrays, unless they are up to date."""
        state: object = (self._arrays.losses, *[weight.version for weight in self._weights])
        if not self.is_settled:
            state = None  # unknown at the next run
        if state is None or state != self._state:
            self._arrays.run(self._arrays.queue.from_host, self.locations[0], CHANGED)
        self._state = state

    @property
    def is_settled(self) -> bool:
        """Whether every write of a weight will change its version."""
        return not any(weight.may_change for weight in self._weights)
