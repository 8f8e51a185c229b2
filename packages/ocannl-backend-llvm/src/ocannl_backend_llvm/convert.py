"""Conversions between precisions; floats narrower than float32 are stored as their bits.

Narrow floats convert via float32: float64 is rounded twice on the way to bfloat16 and the float8 types, as in
ml_dtypes, but once on the way to float16, as in NumPy. float16 uses conversion instructions of the CPU where available.
All conversions round to nearest even, preserve NaN and support subnormal numbers; they overflow to infinity, or to NaN
in formats without infinities.
"""

from __future__ import annotations

import numpy as np

from ocannl.codegen.numbers import FORMATS, is_narrow, is_signed
from ocannl.ir.precision import Family, Precision, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, float64
from ocannl_backend_llvm.builder import Builder
from ocannl_backend_llvm.types import LLVM_TYPES, double

SHORT_NAMES = {float16: "f16", float8_e5m2: "f8e5m2", float8_e4m3fn: "f8e4m3fn"}


def widening(source: Precision) -> str:
    """The helper function that converts narrow bits to float, exactly."""
    fmt = FORMATS[source]
    shift = 23 - fmt.mantissa
    return f"""\
define float @ocannl-{SHORT_NAMES[source]}.to.f32(i{fmt.width} %x) nounwind memory(none) {{
  %bits = zext i{fmt.width} %x to i32
  %signed = and i32 %bits, {fmt.sign}
  %sign = shl i32 %signed, {32 - fmt.width}
  %mag = and i32 %bits, {fmt.sign - 1}
  %steps = uitofp i32 %mag to float
  %small = fmul float %steps, {double(2.0**fmt.smallest_step)}
  %small.bits = bitcast float %small to i32
  %shifted = shl i32 %mag, {shift}
  %normal = add i32 %shifted, {(127 - fmt.bias) << 23}
  %special = or i32 %shifted, {0x7F800000}
  %is.small = icmp ult i32 %mag, {1 << fmt.mantissa}
  %is.special = icmp uge i32 %mag, {fmt.top}
  %finite = select i1 %is.small, i32 %small.bits, i32 %normal
  %all = select i1 %is.special, i32 %special, i32 %finite
  %result = or i32 %all, %sign
  %float = bitcast i32 %result to float
  ret float %float
}}
"""


def narrowing(target: Precision) -> str:
    """The helper function that converts float to narrow bits.

    Subnormal results are rounded by the addition of a magic number, chosen so that one ulp of the sum is the smallest
    subnormal number.
    """
    fmt = FORMATS[target]
    dropped_bits = 23 - fmt.mantissa
    magic = fmt.smallest_step + 23
    return f"""\
define i{fmt.width} @ocannl-f32.to.{SHORT_NAMES[target]}(float %x) nounwind memory(none) {{
  %bits = bitcast float %x to i32
  %signed = lshr i32 %bits, {32 - fmt.width}
  %sign = and i32 %signed, {fmt.sign}
  %mag = and i32 %bits, {0x7FFFFFFF}
  %above = lshr i32 %mag, {dropped_bits}
  %odd = and i32 %above, 1
  %half = add i32 %mag, {(1 << (dropped_bits - 1)) - 1 - ((127 - fmt.bias) << 23)}
  %rounded = add i32 %half, %odd
  %normal = lshr i32 %rounded, {dropped_bits}
  %abs = bitcast i32 %mag to float
  %sum = fadd float %abs, {double(2.0**magic)}
  %sum.bits = bitcast float %sum to i32
  %small = sub i32 %sum.bits, {(magic + 127) << 23}
  %is.small = icmp ult i32 %mag, {(128 - fmt.bias) << 23}
  %near = select i1 %is.small, i32 %small, i32 %normal
  %is.far = icmp ugt i32 %near, {fmt.top}
  %number = select i1 %is.far, i32 {fmt.top}, i32 %near
  %is.nan = icmp ugt i32 %mag, {0x7F800000}
  %all = select i1 %is.nan, i32 {fmt.nan}, i32 %number
  %result = or i32 %all, %sign
  %narrow = trunc i32 %result to i{fmt.width}
  ret i{fmt.width} %narrow
}}
"""


ROUND_TO_ODD = """\
define float @ocannl-f64.to.odd.f32(double %x) nounwind memory(none) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %inexact = fcmp one double %back, %x
  %abs.back = call double @llvm.fabs.f64(double %back)
  %abs = call double @llvm.fabs.f64(double %x)
  %away = fcmp ogt double %abs.back, %abs
  %bits = bitcast float %near to i32
  %below = sub i32 %bits, 1
  %cut = select i1 %away, i32 %below, i32 %bits
  %sticky = zext i1 %inexact to i32
  %odd = or i32 %cut, %sticky
  %result = bitcast i32 %odd to float
  ret float %result
}
"""
"""Rounds float64 to float32 with rounding to odd, so that a second rounding cannot cause double rounding errors (Boldo
and Melquiond 2008)."""


def _helper(b: Builder, name: str, text: str) -> str:
    if not b.module.has(name):
        b.module.define(name, text)
    return name


def widen(b: Builder, value: str, source: Precision) -> str:
    """Converts narrow bits to float."""
    source_type = LLVM_TYPES[source]
    if source is bfloat16:
        return b.cast("bitcast", b.op("shl", "i32", b.cast("zext", value, source_type, "i32"), "16"), "i32", "float")
    if source is float16 and b.module.instructions.half:
        return b.cast("fpext", b.cast("bitcast", value, source_type, "half"), "half", "float")
    return b.call("float", _helper(b, f"ocannl-{SHORT_NAMES[source]}.to.f32", widening(source)), source_type, value)


def narrow(b: Builder, value: str, target: Precision) -> str:
    """Rounds a float to narrow bits."""
    target_type = LLVM_TYPES[target]
    if target is bfloat16:
        bits = b.cast("bitcast", value, "float", "i32")
        is_odd = b.op("and", "i32", b.op("lshr", "i32", bits, "16"), "1")
        rounded_bits = b.op("add", "i32", b.op("add", "i32", bits, str(0x7FFF)), is_odd)
        quiet_nan = b.op("or", "i32", bits, str(0x400000))
        bits_or_nan = b.select(b.test("fcmp uno", "float", value, "0.0"), "i32", quiet_nan, rounded_bits)
        return b.cast("trunc", b.op("lshr", "i32", bits_or_nan, "16"), "i32", target_type)
    if target is float16 and b.module.instructions.half:
        return b.cast("bitcast", b.cast("fptrunc", value, "float", "half"), "half", target_type)
    return b.call(target_type, _helper(b, f"ocannl-f32.to.{SHORT_NAMES[target]}", narrowing(target)), "float", value)


def _convert_float(b: Builder, value: str, source: Precision, target: Precision) -> str:
    """Converts between float precisions."""
    if is_narrow(source):
        wide = widen(b, value, source)
        return wide if target is float32 else _convert_float(b, wide, float32, target)
    if source is float32:
        return b.cast("fpext", value, "float", "double") if target is float64 else narrow(b, value, target)
    if target is float16:
        b.module.declare("llvm.fabs.f64", "double", ("double",))
        return narrow(b, b.call("float", _helper(b, "ocannl-f64.to.odd.f32", ROUND_TO_ODD), "double", value), target)
    single = b.cast("fptrunc", value, "double", "float")
    return single if target is float32 else narrow(b, single, target)


def convert(b: Builder, value: str, source: Precision, target: Precision) -> str:
    """Converts a value from one precision to another.

    Floats are truncated towards zero to integers and saturate, integers wrap, and nonzero values are true.
    """
    if source is target:
        return value
    source_type, target_type = LLVM_TYPES[source], LLVM_TYPES[target]
    if target.family is Family.BOOL:
        return b.cast("zext", is_true(b, value, source), "i1", target_type)
    if source.is_float and target.is_float:
        return _convert_float(b, value, source, target)
    if source.is_float:
        if is_narrow(source):
            value = widen(b, value, source)
        return _to_integer(b, value, source if source is float64 else float32, target)
    if target.is_float:
        intermediate = float32 if is_narrow(target) else target
        number = b.cast("sitofp" if is_signed(source) else "uitofp", value, source_type, LLVM_TYPES[intermediate])
        return _convert_float(b, number, intermediate, target) if intermediate is not target else number
    if source.nbytes == target.nbytes:
        return value
    if source.nbytes > target.nbytes:
        return b.cast("trunc", value, source_type, target_type)
    return b.cast("sext" if is_signed(source) else "zext", value, source_type, target_type)


def _to_integer(b: Builder, value: str, source: Precision, target: Precision) -> str:
    """Truncates a float to an integer, with saturation, and NaN to 0. LLVM's own saturating conversion takes several
    times as long in vectors."""
    limits, type_ = np.iinfo(target.numpy), LLVM_TYPES[source]
    if limits.max > np.iinfo(np.int32).max:
        return b.to_integer(value, type_, LLVM_TYPES[target], is_signed(target))
    number_type = source.numpy.type
    highest = np.nextafter(number_type(limits.max + 1), number_type(0))  # below the first number out of range
    number = b.select(b.test("fcmp ord", type_, value, value), type_, value, "0.0")
    for relation, limit in (("ogt", limits.min), ("olt", highest)):
        bound = double(float(limit))
        number = b.select(b.test(f"fcmp {relation}", type_, number, bound), type_, number, bound)
    result = b.cast("fptosi", number, type_, "i32")
    if target.nbytes < 4:
        return b.cast("trunc", result, "i32", LLVM_TYPES[target])
    is_above = b.test("fcmp ogt", type_, value, double(float(highest)))
    return b.select(is_above, "i32", str(limits.max), result)


def is_true(b: Builder, value: str, precision: Precision) -> str:
    """An i1: whether the value is nonzero, which includes NaN."""
    if is_narrow(precision):
        mag = b.op("and", LLVM_TYPES[precision], value, str((1 << 8 * precision.nbytes - 1) - 1))
        return b.test("icmp ne", LLVM_TYPES[precision], mag, "0")
    if precision.is_float:
        return b.test("fcmp une", LLVM_TYPES[precision], value, "0.0")
    return b.test("icmp ne", LLVM_TYPES[precision], value, "0")
