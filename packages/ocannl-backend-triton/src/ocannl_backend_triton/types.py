"""Triton element types of the compiler's number types."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class TritonType:
    """`pointee` is the element type of a pointer parameter of a kernel, `dtype` the type of a loaded value."""

    pointee: str
    dtype: str


TRITON_TYPES: dict[Precision, TritonType] = {
    bool_: TritonType("u8", "tl.uint8"),  # 0 or 1
    uint8: TritonType("u8", "tl.uint8"),
    uint16: TritonType("u16", "tl.uint16"),
    uint32: TritonType("u32", "tl.uint32"),
    uint64: TritonType("u64", "tl.uint64"),
    int8: TritonType("i8", "tl.int8"),
    int16: TritonType("i16", "tl.int16"),
    int32: TritonType("i32", "tl.int32"),
    int64: TritonType("i64", "tl.int64"),
    float8_e5m2: TritonType("u8", "tl.uint8"),  # bit pattern
    float8_e4m3fn: TritonType("u8", "tl.uint8"),
    float16: TritonType("fp16", "tl.float16"),
    bfloat16: TritonType("bf16", "tl.bfloat16"),
    float32: TritonType("fp32", "tl.float32"),
    float64: TritonType("fp64", "tl.float64"),
}


def triton_type(precision: Precision) -> TritonType:
    return TRITON_TYPES[precision]
