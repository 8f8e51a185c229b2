"""Sample calls of operations, whose random operands avoid points without a derivative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ocannl.base.traceback_filtering import public_class
from ocannl.lang.declare.inputs import require_types

MARGIN = 0.1
"""Minimal distance of drawn numbers from the kinks to avoid."""

Array = np.ndarray[Any, Any]


@public_class(exclude=("array", "example"))
@dataclass(frozen=True, slots=True)
class Draw:
    """A random operand of distinct numbers between `low` and `high`, none of them near those to `avoid`.

    The first `batch_axes` axes belong to the batch row, the last `input_axes` to the input row, the remaining axes to
    the output row.
    """

    low: float = -2.0
    high: float = 2.0
    dims: tuple[int, ...] = (2, 3)
    avoid: tuple[float, ...] = ()
    batch_axes: int = 0
    input_axes: int = 0

    def __post_init__(self) -> None:
        require_types(self, low=int | float, high=int | float, dims=tuple | list, avoid=tuple | list)

    def array(self, rng: np.random.Generator) -> Array:
        cells = prod(self.dims)
        # well separated, so that extrema are unique
        steps = (rng.permutation(cells) + rng.uniform(0.2, 0.8, cells)) / max(cells, 1)
        return self._avoid_kinks(self.low + (self.high - self.low) * steps).reshape(self.dims)

    def example(self, shift: int = 0) -> Array:
        """Round numbers for documentation, rotated by `shift`."""
        steps = np.linspace(self.low, self.high, prod(self.dims) + 2)[1:-1] + 0.1  # with a nonzero sum
        return self._avoid_kinks(np.roll(np.round(steps, 1), shift)).reshape(self.dims)

    def _avoid_kinks(self, numbers: Array) -> Array:
        for kink in self.avoid:
            side = np.where(numbers < kink, -1.0, 1.0)
            numbers = np.where(abs(numbers - kink) < MARGIN, kink + side * MARGIN, numbers)
        return numbers


@public_class()
@dataclass(frozen=True, slots=True)
class Sample:
    """The operands and settings of one call; gradients are checked for every `Draw`, also inside lists."""

    operands: tuple[Any, ...]
    settings: Mapping[str, Any]


def sample(*operands: Any, **settings: Any) -> Sample:
    """A sample call: a `Draw` for each operand to differentiate, arrays for all constant operands, and settings."""
    return Sample(operands, settings)
