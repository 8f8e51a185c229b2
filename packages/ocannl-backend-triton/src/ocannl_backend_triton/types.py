"""The types of numbers, in the words of triton."""

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
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)


@dataclass(frozen=True, slots=True)
class Held:
    """How a number is held: `pointer` is what a parameter of a kernel points to, `value` the type of a value."""

    pointer: str
    value: str


HELD: dict[Precision, Held] = {
    bool_: Held("u8", "tl.uint8"),  # 0 or 1
    uint8: Held("u8", "tl.uint8"),
    uint16: Held("u16", "tl.uint16"),
    uint32: Held("u32", "tl.uint32"),
    uint64: Held("u64", "tl.uint64"),
    int32: Held("i32", "tl.int32"),
    int64: Held("i64", "tl.int64"),
    float8_e5m2: Held("u8", "tl.uint8"),  # their bits
    float8_e4m3fn: Held("u8", "tl.uint8"),
    float16: Held("fp16", "tl.float16"),
    bfloat16: Held("bf16", "tl.bfloat16"),
    float32: Held("fp32", "tl.float32"),
    float64: Held("fp64", "tl.float64"),
}


def held(precision: Precision) -> Held:
    return HELD[precision]
