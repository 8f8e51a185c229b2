"""Constants as values of a precision, and the bit layouts of narrow floats."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ocannl.ir.precision import Family, Precision, float8_e4m3fn, float8_e5m2, float16, integer_limits


def is_narrow(precision: Precision) -> bool:
    """Whether the precision is a float narrower than float32, which is stored as its bit pattern."""
    return precision.is_float and precision.nbytes < 4


def is_signed(precision: Precision) -> bool:
    return precision.family is Family.SIGNED


def bits(precision: Precision) -> int:
    return 8 * precision.nbytes


def next_power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << max(size - 1, 0).bit_length()


def integer(value: int | float, precision: Precision) -> int:
    """Converts to an integer type: integers wrap around; floats are truncated towards zero and saturate."""
    if precision.family is Family.BOOL:
        return int(value != 0)
    low, high = integer_limits(precision)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        return low if value < low else high if value > high else int(value)
    return (value - low) % (1 << bits(precision)) + low


def floating(value: int | float) -> float:
    """Converts to float64; integers beyond its range become infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def rounded(value: int | float, precision: Precision) -> int | float:
    """Converts a number to a precision."""
    if not precision.is_float:
        return integer(value, precision)
    with np.errstate(all="ignore"):
        return float(np.asarray(floating(value), np.float64).astype(precision.numpy))


def pattern(value: int | float, precision: Precision) -> int:
    """The bit pattern of a number in a float type."""
    number = np.asarray(rounded(value, precision), precision.numpy)
    return int(number.view(np.dtype(f"u{precision.nbytes}")))


@dataclass(frozen=True, slots=True)
class Format:
    """The bit layout of a narrow float; formats without infinities have only the all-ones pattern as NaN."""

    width: int
    mantissa: int
    bias: int
    infinities: bool

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def top(self) -> int:
        """The pattern that follows the largest finite number: infinity or NaN."""
        return self.sign - (1 << self.mantissa) if self.infinities else self.sign - 1

    @property
    def nan(self) -> int:
        return self.top | 1 << (self.mantissa - 1) if self.infinities else self.top

    @property
    def smallest_step(self) -> int:
        """The exponent of the smallest subnormal number."""
        return 1 - self.bias - self.mantissa


FORMATS = {
    float16: Format(16, 10, 15, True),
    float8_e5m2: Format(8, 2, 15, True),
    float8_e4m3fn: Format(8, 3, 7, False),
}
