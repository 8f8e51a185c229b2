"""What an operation is tried on: operands and settings of one call, away from where it has no derivative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

MARGIN = 0.1
"""So far do drawn numbers keep from where there is no derivative."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Draw:
    """An operand of different numbers between two, none of them near those to `avoid`. The first `batch_axes` axes are
    of the batch, the last `input_axes` of the input, the rest of the output row."""

    low: float = -2.0
    high: float = 2.0
    dims: tuple[int, ...] = (2, 3)
    avoid: tuple[float, ...] = ()
    batch_axes: int = 0
    input_axes: int = 0

    def array(self, rng: np.random.Generator) -> Array:
        cells = prod(self.dims)
        steps = (rng.permutation(cells) + rng.uniform(0.2, 0.8, cells)) / max(cells, 1)  # far from each other, so that
        return self._away(self.low + (self.high - self.low) * steps).reshape(self.dims)  # extrema are of one cell

    def example(self, turn: int = 0) -> Array:
        """Round numbers, to be shown; others for another turn."""
        steps = np.linspace(self.low, self.high, prod(self.dims) + 2)[1:-1] + 0.1  # whose sum is not 0
        return self._away(np.roll(np.round(steps, 1), turn)).reshape(self.dims)

    def _away(self, numbers: Array) -> Array:
        for kink in self.avoid:
            side = np.where(numbers < kink, -1.0, 1.0)
            numbers = np.where(abs(numbers - kink) < MARGIN, kink + side * MARGIN, numbers)
        return numbers


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: what is drawn, also inside lists, is differentiated by; anything else is given as it is."""

    operands: tuple[Any, ...]
    settings: Mapping[str, Any]


def sample(*operands: Any, **settings: Any) -> Sample:
    """A call to try an operation on: a `Draw` for each operand to differentiate by, arrays and settings as they are."""
    return Sample(operands, settings)
