"""The LLVM storage type of each precision, and literals.

Floats narrower than float32 are stored as their bits and converted for arithmetic; bool is a byte, 0 or 1.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from ocannl.codegen.numbers import is_narrow, pattern, rounded
from ocannl.ir.precision import (
    Precision,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

LLVM_TYPES: dict[Precision, str] = {
    bool_: "i8",
    uint8: "i8",
    uint16: "i16",
    uint32: "i32",
    uint64: "i64",
    int8: "i8",
    int16: "i16",
    int32: "i32",
    int64: "i64",
    float8_e5m2: "i8",
    float8_e4m3fn: "i8",
    float16: "i16",
    bfloat16: "i16",
    float32: "float",
    float64: "double",
}


def constant(value: int | float, precision: Precision) -> str:
    """A literal of the storage type of `precision`."""
    return _constant(value, str(value), precision)  # the text distinguishes 0.0 from -0.0 in the cache


@lru_cache(maxsize=4096, typed=True)
def _constant(value: int | float, _text: str, precision: Precision) -> str:
    if is_narrow(precision):
        return str(pattern(value, precision))
    number = rounded(value, precision)
    return double(number) if isinstance(number, float) else str(number)


def double(value: float) -> str:
    """A literal of `float` or `double`: an exact short decimal if there is one, else the bits of the double."""
    text = repr(value)
    if "." in text and "e" not in text and len(text) <= 12 and Fraction(text) == Fraction(value):
        return text
    return f"0x{int(np.float64(value).view(np.uint64)):016X}"
