"""How numbers are held: the LLVM type of each precision, and its constants.

A value is held as it is stored. Floats narrower than float32 are held as their bits and converted for arithmetic; bool
is a byte that is 0 or 1.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ocannl.ir.precision import (
    Family,
    Precision,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

HELD: dict[Precision, str] = {
    bool_: "i8",
    uint8: "i8",
    uint16: "i16",
    uint32: "i32",
    uint64: "i64",
    int32: "i32",
    int64: "i64",
    float8_e5m2: "i8",
    float8_e4m3fn: "i8",
    float16: "i16",
    bfloat16: "i16",
    float32: "float",
    float64: "double",
}


def is_narrow(precision: Precision) -> bool:
    """A float that is held as its bits."""
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


def constant(value: int | float, precision: Precision) -> str:
    """A literal of the type that holds `precision`."""
    number = rounded(value, precision)
    if is_narrow(precision):
        return str(int(np.asarray(number, precision.numpy).view(np.dtype(f"u{precision.nbytes}"))))
    return double(number) if isinstance(number, float) else str(number)


def double(value: float) -> str:
    """A literal of `float` or `double`: in decimal where that is exact and short, else the bits of the double."""
    text = repr(value)
    if "." in text and "e" not in text and len(text) <= 12 and Fraction(text) == Fraction(value):
        return text
    return f"0x{int(np.float64(value).view(np.uint64)):016X}"
