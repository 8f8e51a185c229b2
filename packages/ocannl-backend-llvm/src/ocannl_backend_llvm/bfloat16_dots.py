"""Emits dot products of pairs of bfloat16 numbers by instructions of AVX512-BF16.

A pair is a word of 32 bits with the first number in its low half. The instructions flush subnormal numbers to zero.
"""

from __future__ import annotations

from ocannl_backend_llvm.builder import Builder

WIDTHS = (4, 8, 16)  # lanes of the instructions


def pair_of(b: Builder, low: str, high: str) -> str:
    """Returns the words of pairs."""
    low, high = (b.cast("zext", half, "i16", "i32") for half in (low, high))
    return b.op("or", "i32", low, b.op("shl", "i32", high, "16"))


def add_dot(b: Builder, total: str, left: str, right: str) -> str:
    """Returns `total` plus the dot products of pairs. Other numbers of lanes are padded, so that all are rounded in the
    same way."""
    width = next(width for width in WIDTHS if width >= b.width)
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * width}"
    sums, halves = f"<{width} x float>", f"<{2 * width} x bfloat>"
    b.module.declare(name, sums, (sums, halves, halves))
    pairs = [
        b.assign(f"bitcast <{width} x i32> {_padded(b, 'i32', word, width)} to {halves}") for word in (left, right)
    ]
    operands = f"{sums} {_padded(b, 'float', total, width)}, {halves} {pairs[0]}, {halves} {pairs[1]}"
    dot = b.assign(f"call {sums} @{name}({operands})", "dot")
    if b.width == 1:
        return b.assign(f"extractelement {sums} {dot}, i64 0")
    return dot if width == b.width else _lanes(b, "float", dot, width, b.width)


def _padded(b: Builder, type_: str, value: str, width: int) -> str:
    """Extends a vector, or a scalar, to `width` lanes."""
    if b.width == 1:
        return b.assign(f"insertelement <{width} x {type_}> poison, {type_} {value}, i64 0")
    value = b.operand(type_, value)
    return value if width == b.width else _lanes(b, type_, value, b.width, width)


def _lanes(b: Builder, type_: str, value: str, width: int, lanes: int) -> str:
    """Returns the first lanes of a vector; those that it does not have are undefined."""
    vector, mask = f"<{width} x {type_}>", ", ".join(f"i32 {n if n < width else 'poison'}" for n in range(lanes))
    return b.assign(f"shufflevector {vector} {value}, {vector} poison, <{lanes} x i32> <{mask}>")
