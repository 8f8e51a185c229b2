"""Numbers as the values of a precision, and where the bits of narrow floats are: what printers of constants need."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ocannl.ir.precision import Family, Precision, float8_e4m3fn, float8_e5m2, float16


def is_narrow(precision: Precision) -> bool:
    """A float narrower than the type that arithmetic runs in: held as its bits."""
    return precision.is_float and precision.nbytes < 4


def is_signed(precision: Precision) -> bool:
    return precision.family is Family.SIGNED


def bits(precision: Precision) -> int:
    return 8 * precision.nbytes


def limits(precision: Precision) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    if is_signed(precision):
        return -(1 << bits(precision) - 1), (1 << bits(precision) - 1) - 1
    return 0, (1 << bits(precision)) - 1


def integer(value: int | float, precision: Precision) -> int:
    """A number as a value of an integer type: whole numbers wrap, floats are cut off towards zero and saturate."""
    if precision.family is Family.BOOL:
        return int(value != 0)
    low, high = limits(precision)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        return low if value < low else high if value > high else int(value)
    return (value - low) % (1 << bits(precision)) + low


def floating(value: int | float) -> float:
    """A number as a double; integers beyond its range become infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def rounded(value: int | float, precision: Precision) -> int | float:
    """A number as a value of the type."""
    if not precision.is_float:
        return integer(value, precision)
    with np.errstate(all="ignore"):
        return float(np.asarray(floating(value), np.float64).astype(precision.numpy))


def pattern(value: int | float, precision: Precision) -> int:
    """The bits of a number as a value of a float type."""
    number = np.asarray(rounded(value, precision), precision.numpy)
    return int(number.view(np.dtype(f"u{precision.nbytes}")))


@dataclass(frozen=True, slots=True)
class Format:
    """Where the bits of a narrow float are; without infinities only the all-ones pattern is NaN."""

    width: int
    mantissa: int
    bias: int
    infinities: bool

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def top(self) -> int:
        """The pattern beyond the largest number: infinity, or NaN."""
        return self.sign - (1 << self.mantissa) if self.infinities else self.sign - 1

    @property
    def nan(self) -> int:
        return self.top | 1 << (self.mantissa - 1) if self.infinities else self.top

    @property
    def smallest_step(self) -> int:
        """The exponent of the smallest positive number."""
        return 1 - self.bias - self.mantissa


FORMATS = {
    float16: Format(16, 10, 15, True),
    float8_e5m2: Format(8, 2, 15, True),
    float8_e4m3fn: Format(8, 3, 7, False),
}
