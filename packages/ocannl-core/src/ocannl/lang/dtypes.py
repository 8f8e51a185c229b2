"""Public names of the data types."""

from ocannl.ir.precision import (
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

bool = bool_

__all__ = [
    "bfloat16", "bool", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "int16", "int32", "int64",
    "int8", "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip
