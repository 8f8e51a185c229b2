"""Software conversions of 8-bit floats, which are stored as bit patterns; they give equal results on every GPU.

Conversion from float32 rounds to nearest, ties to even. Overflow becomes infinity, or NaN in a format without
infinities.
"""

from __future__ import annotations

import numpy as np

from ocannl.codegen.numbers import FORMATS, Format
from ocannl.ir.precision import Precision

FORMATS8: dict[Precision, Format] = {precision: layout for precision, layout in FORMATS.items() if layout.width == 8}
BIAS, MANTISSA = 127, 23  # of float32
HALF_BIAS, HALF_MANTISSA = 15, 10


def widening_body(layout: Format) -> str:
    """Body of a function from bits to float32: the bits are widened to a float16 of the same exponent and mantissa
    fields, whose value differs by a power of two."""
    shift, factor = HALF_MANTISSA - layout.mantissa, 2 ** (HALF_BIAS - layout.bias)
    lines = [
        "wide = tl.cast(x, tl.uint32)",
        f"half = tl.cast(((wide & 128) << 8) | ((wide & 127) << {shift}), tl.uint16)",
        "number = tl.cast(tl.cast(half, tl.float16, bitcast=True), tl.float32)",
    ]
    if factor != 1:
        lines.append(f"number = number * {factor}")
    if not layout.infinities:
        lines.append(f'number = tl.where((wide & 127) == {layout.nan}, float("nan"), number)')
    return "\n".join([*lines, "return number"])


def narrowing_body(layout: Format) -> str:
    """Body of a function from float32 to bits. Subnormals are rounded by adding a power of two, which shifts the last
    kept digit to the end of the mantissa."""
    shift, rebias = MANTISSA - layout.mantissa, BIAS - layout.bias
    half_ulp = (1 << shift - 1) - 1
    power = 2.0 ** (layout.smallest_step + MANTISSA)
    lines = [
        "bits = tl.cast(x, tl.uint32, bitcast=True)",
        "size = bits & 0x7FFFFFFF",
        f"normal = ((size + {half_ulp} + ((size >> {shift}) & 1)) >> {shift}) - {rebias << layout.mantissa}",
        f"small = tl.cast(tl.abs(x) + {power}, tl.uint32, bitcast=True) - {int(np.float32(power).view(np.uint32))}",
        f"number = tl.where(size < {rebias + 1 << MANTISSA}, small, tl.minimum(normal, {layout.top}))",
        f"number = tl.where(size > 0x7F800000, {layout.nan}, number)",
        "return tl.cast(number | ((bits >> 24) & 128), tl.uint8)",
    ]
    return "\n".join(lines)
