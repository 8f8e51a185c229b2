"""Floats of eight bits, which are held as their bits: the functions that kernels convert them with, on every GPU alike.

Numbers of float32, which others become first, are rounded to the nearest, ties to even. What is too large becomes
infinite, or NaN in a type without infinities.
"""

from __future__ import annotations

import numpy as np

from ocannl.codegen.numbers import FORMATS, Format
from ocannl.ir.precision import Precision

FORMATS8: dict[Precision, Format] = {precision: of for precision, of in FORMATS.items() if of.width == 8}
BIAS, MANTISSA = 127, 23  # of float32
HALF_BIAS, HALF_MANTISSA = 15, 10


def widened(of: Format) -> str:
    """The body of a function from bits to float32. The bits of a half that has the same exponent and mantissa are those
    of a number that is a power of two times too small."""
    shift, factor = HALF_MANTISSA - of.mantissa, 2 ** (HALF_BIAS - of.bias)
    lines = [
        "wide = tl.cast(x, tl.uint32)",
        f"half = tl.cast(((wide & 128) << 8) | ((wide & 127) << {shift}), tl.uint16)",
        "number = tl.cast(tl.cast(half, tl.float16, bitcast=True), tl.float32)",
    ]
    if factor != 1:
        lines.append(f"number = number * {factor}")
    if not of.infinities:
        lines.append(f'number = tl.where((wide & 127) == {of.nan}, float("nan"), number)')
    return "\n".join([*lines, "return number"])


def narrowed(of: Format) -> str:
    """The body of a function from float32 to bits. Below the smallest normal number the addition of a power of two
    rounds to as many digits as there are."""
    shift, rebias = MANTISSA - of.mantissa, BIAS - of.bias
    power = 2.0 ** (of.smallest_step + MANTISSA)
    lines = [
        "bits = tl.cast(x, tl.uint32, bitcast=True)",
        "size = bits & 0x7FFFFFFF",
        f"normal = ((size + {(1 << shift - 1) - 1} + ((size >> {shift}) & 1)) >> {shift}) - {rebias << of.mantissa}",
        f"small = tl.cast(tl.abs(x) + {power}, tl.uint32, bitcast=True) - {int(np.float32(power).view(np.uint32))}",
        f"number = tl.where(size < {rebias + 1 << MANTISSA}, small, tl.minimum(normal, {of.top}))",
        f"number = tl.where(size > 0x7F800000, {of.nan}, number)",
        "return tl.cast(number | ((bits >> 24) & 128), tl.uint8)",
    ]
    return "\n".join(lines)
