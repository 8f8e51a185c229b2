"""Emits dot products of pairs of bfloat16 numbers by instructions of AVX512-BF16, and of pairs of int16 by `pmaddwd`,
which LLVM fuses with the addition on processors with AVX512-VNNI.

A pair is a word of 32 bits with the first number in its low half. The instructions for bfloat16 flush subnormal numbers
to zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.ir.precision import Precision, float32, int32
from ocannl_backend_llvm.builder import Builder

WIDTHS = (4, 8, 16)  # lanes of the instructions
PMADDWD = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}


def has_dot(b: Builder, sums: Precision) -> bool:
    """Whether the target has an instruction for dot products of this precision in vectors of the builder."""
    present = b.module.instructions
    if sums is float32:
        return present.bfloat16_dots and b.width <= max(WIDTHS)
    return sums is int32 and min(WIDTHS) <= b.width <= present.int16_lanes


def pair_of(b: Builder, low: str, high: str) -> str:
    """Returns the words of pairs."""
    low, high = (b.cast("zext", half, "i16", "i32") for half in (low, high))
    return b.op("or", "i32", low, b.op("shl", "i32", high, "16"))


def add_dot(b: Builder, sums: Precision, total: str, left: str, right: str) -> str:
    """Returns `total` plus the dot products of pairs. Other numbers of lanes are padded, so that all are rounded in the
    same way."""
    width = next(width for width in WIDTHS if width >= b.width)
    operands = [_padded(b, "i32", word, width) for word in (left, right)]
    if sums is int32:
        dot = _lanes(b, "i32", _int16_dot(b, operands, width), width, b.width)
        return b.op("add", "i32", total, dot)
    dot = bfloat16_dot(b, _padded(b, "float", total, width), operands, width)
    if b.width == 1:
        return b.assign(f"extractelement <{width} x float> {dot}, i64 0")
    return _lanes(b, "float", dot, width, b.width)


def bfloat16_dot(b: Builder, total: str, operands: Sequence[str], width: int) -> str:
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * width}"
    sums, halves = f"<{width} x float>", f"<{2 * width} x bfloat>"
    b.module.declare(name, sums, (sums, halves, halves))
    left, right = (b.assign(f"bitcast <{width} x i32> {word} to {halves}") for word in operands)
    return b.assign(f"call {sums} @{name}({sums} {total}, {halves} {left}, {halves} {right})", "dot")


def _int16_dot(b: Builder, operands: Sequence[str], width: int) -> str:
    sums, halves = f"<{width} x i32>", f"<{2 * width} x i16>"
    b.module.declare(PMADDWD[width], sums, (halves, halves))
    left, right = (b.assign(f"bitcast <{width} x i32> {word} to {halves}") for word in operands)
    return b.assign(f"call {sums} @{PMADDWD[width]}({halves} {left}, {halves} {right})", "dot")


def _padded(b: Builder, type_: str, value: str, width: int) -> str:
    """Extends a vector, or a scalar, to `width` lanes."""
    if b.width == 1:
        return b.assign(f"insertelement <{width} x {type_}> poison, {type_} {value}, i64 0")
    value = b.operand(type_, value)
    return _lanes(b, type_, value, b.width, width)


def _lanes(b: Builder, type_: str, value: str, width: int, lanes: int) -> str:
    """Returns the first lanes of a vector; those that it does not have are undefined."""
    if width == lanes:
        return value
    vector, mask = f"<{width} x {type_}>", ", ".join(f"i32 {n if n < width else 'poison'}" for n in range(lanes))
    return b.assign(f"shufflevector {vector} {value}, {vector} poison, <{lanes} x i32> <{mask}>")
