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
        self._state: object = None  # of the weights in the last run; None: unknown
        self.slab: Slab = arrays.slab(size_bytes)
        self.locations: list[Location] = [self.slab.at(offset) for offset in offsets]
        for weight in self._weights:
            weight.is_watched = True

    def prepare_run(self) -> None:
        """Lets the next run compute the arrays, unless they are up to date."""
        state = self._current_state()
        if state is None or state != self._state:
            self._arrays.run(self._arrays.queue.from_host, self.locations[0], CHANGED)
        self._state = state

    @property
    def may_change(self) -> bool:
        """Whether a weight may be written unnoticed, so that every run computes the arrays."""
        return any(weight.may_change for weight in self._weights)

    @property
    def is_settled(self) -> bool:
        """Whether the arrays have been up to date since `prepare_run`, and a write of a weight will change the epoch.
        It is false if a host call of the run has written a weight, or a routine that could write one has ended."""
        return self._state is not None and self._state == self._current_state()

    def _current_state(self) -> object:
        """The state of the weights, which changes with every write; None if they may be written unnoticed."""
        if self.may_change:
            return None
        return (self._arrays.losses, *[weight.version for weight in self._weights])
