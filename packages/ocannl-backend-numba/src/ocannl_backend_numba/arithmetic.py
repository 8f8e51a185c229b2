"""Scalar operations as text, and the functions that the text calls."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ocannl.ir.capabilities import ALL_OPERATIONS
from ocannl_backend_numba.runtime import inner

LIBM = (
    "trunc", "exp", "exp2", "log", "log2", "sin", "cos", "atan", "tanh", "erf", "erfc", "lgamma", "sqrt", "atan2",
)  # fmt: skip
"""Operations that the C library computes; a suffix `f` selects float32."""

TEMPLATES = {
    "id": "{0}", "neg": "-{0}", "abs": "abs({0})", "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}",
    "div": "{0} / {1}", "mod": "{0} % {1}", "max": "maximum({0}, {1})", "min": "minimum({0}, {1})",
    "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}", "eq": "{0} == {1}",
    "ne": "{0} != {1}", "and": "({0} != 0) & ({1} != 0)", "or": "({0} != 0) | ({1} != 0)",
    "where": "{1} if {0} != 0 else {2}",
}  # fmt: skip
FLOAT_TEMPLATES = {
    "pow": "pow_{kind}({0}, {1})", "fma": "fma({0}, {1}, {2})",
    **{name: f"{name}_{{kind}}({', '.join(['{0}', '{1}'][:1 + (name == 'atan2')])})" for name in LIBM},
}  # fmt: skip
INTEGER_TEMPLATES = {
    "pow": "power({0}, {1})", "fma": "{0} * {1} + {2}", "max": "max({0}, {1})", "min": "min({0}, {1})",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}",
    "left_shift": "shifted_left({0}, {1}, {bits})", "right_shift": "shifted_right({0}, {1}, {bits})",
}  # fmt: skip
OPERATIONS = ALL_OPERATIONS & {*TEMPLATES, *FLOAT_TEMPLATES, *INTEGER_TEMPLATES}


def template(name: str, is_float: bool) -> str:
    """The text of an operation; `{kind}` stands for the type and `{bits}` for its width."""
    return (TEMPLATES | (FLOAT_TEMPLATES if is_float else INTEGER_TEMPLATES))[name]


@intrinsic
def saturate(typing: Any, x: Any, kind: Any) -> Any:
    """A float as an integer: truncated towards zero, limited to the range of the type, and 0 for NaN."""
    target = kind.dtype

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = f"llvm.fpto{'s' if target.signed else 'u'}i.sat.i{target.bitwidth}.f{x.bitwidth}"
        function_type = ir.FunctionType(ir.IntType(target.bitwidth), [args[0].type])
        return builder.call(builder.module.declare_intrinsic(name, (), function_type), [args[0]])

    return target(x, kind), generate


@inner
def power(x, y):
    """The power of integers modulo 2**64; negative exponents truncate towards zero."""
    unit = types.uint64(1)  # operations on a uint64 and an int64 have the type float64
    if y < 0:
        if x == 1 or (x == -1 and y % 2 == 0):
            return unit
        return types.uint64(x) if x == -1 else types.uint64(0)
    result, base, exponent = unit, types.uint64(x), types.uint64(y)
    while exponent != 0:
        if exponent & unit != 0:
            result *= base
        base *= base
        exponent >>= unit
    return result


@inner
def shifted_left(x, n, bits):
    """A shift out of the range of the type shifts out all bits."""
    return x << n if 0 <= n < bits else x - x


@inner
def shifted_right(x, n, bits):
    if 0 <= n < bits:
        return x >> n
    return x - x if x >= 0 else ~(x - x)


NUMBERS = {str(kind): kind for kind in (*types.integer_domain, types.float32, types.float64)}
NAMES: dict[str, object] = {
    **NUMBERS, "saturate": saturate, "power": power, "shifted_left": shifted_left, "shifted_right": shifted_right,
    "inf": math.inf, "nan": math.nan,
}  # fmt: skip
for suffix, number in (("f", types.float32), ("", types.float64)):
    for name in (*LIBM, "pow"):
        parameters = [number] * (2 if name in ("atan2", "pow") else 1)
        NAMES[f"{name}_{number}"] = types.ExternalFunction(f"{name}{suffix}", number(*parameters))
