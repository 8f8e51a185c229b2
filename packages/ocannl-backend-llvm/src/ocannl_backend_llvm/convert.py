"""Casts between precisions, and floats narrower than float32 as bits.

float32 is the hub: float64 narrows to bfloat16 and the float8 types by way of float32, as ml_dtypes does; to float16 in
one rounding, as NumPy does. float16 uses the processor's conversions where it has them. All round to nearest even, keep
NaN, and know subnormal numbers; beyond the largest number lies infinity, or NaN in a type that has none.
"""

from __future__ import annotations

from ocannl.codegen.numbers import FORMATS, is_narrow, is_signed
from ocannl.ir.precision import Family, Precision, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, float64
from ocannl_backend_llvm.build import Builder
from ocannl_backend_llvm.types import HELD, double

SHORT = {float16: "f16", float8_e5m2: "f8e5m2", float8_e4m3fn: "f8e4m3fn"}


def widening(source: Precision) -> str:
    """The function from bits to float; every value is exact."""
    fmt = FORMATS[source]
    keep = 23 - fmt.mantissa
    return f"""\
define float @ocannl-{SHORT[source]}.to.f32(i{fmt.width} %x) nounwind memory(none) {{
  %bits = zext i{fmt.width} %x to i32
  %signed = and i32 %bits, {fmt.sign}
  %sign = shl i32 %signed, {32 - fmt.width}
  %mag = and i32 %bits, {fmt.sign - 1}
  %steps = uitofp i32 %mag to float
  %small = fmul float %steps, {double(2.0**fmt.smallest_step)}
  %small.bits = bitcast float %small to i32
  %shifted = shl i32 %mag, {keep}
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
    """The function from float to bits.

    Below the normal range an addition does the rounding: the magic number is so large that the last place of the sum is
    the smallest step.
    """
    fmt = FORMATS[target]
    drop = 23 - fmt.mantissa
    magic = fmt.smallest_step + 23
    return f"""\
define i{fmt.width} @ocannl-f32.to.{SHORT[target]}(float %x) nounwind memory(none) {{
  %bits = bitcast float %x to i32
  %signed = lshr i32 %bits, {32 - fmt.width}
  %sign = and i32 %signed, {fmt.sign}
  %mag = and i32 %bits, {0x7FFFFFFF}
  %above = lshr i32 %mag, {drop}
  %odd = and i32 %above, 1
  %half = add i32 %mag, {(1 << (drop - 1)) - 1 - ((127 - fmt.bias) << 23)}
  %rounded = add i32 %half, %odd
  %normal = lshr i32 %rounded, {drop}
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


ODD = """\
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
"""Cut towards zero with the last bit set when anything was lost, so that a second rounding is as good as one."""


def _helper(b: Builder, name: str, text: str) -> str:
    if not b.module.has(name):
        b.module.define(name, text)
    return name


def widen(b: Builder, value: str, source: Precision) -> str:
    """The float that narrow bits stand for."""
    held = HELD[source]
    if source is bfloat16:
        return b.cast("bitcast", b.op("shl", "i32", b.cast("zext", value, held, "i32"), "16"), "i32", "float")
    if source is float16 and b.module.instructions.half:
        return b.cast("fpext", b.cast("bitcast", value, held, "half"), "half", "float")
    return b.call("float", _helper(b, f"ocannl-{SHORT[source]}.to.f32", widening(source)), held, value)


def narrow(b: Builder, value: str, target: Precision) -> str:
    """A float rounded to narrow bits."""
    held = HELD[target]
    if target is bfloat16:
        bits = b.cast("bitcast", value, "float", "i32")
        odd = b.op("and", "i32", b.op("lshr", "i32", bits, "16"), "1")
        rounded = b.op("add", "i32", b.op("add", "i32", bits, str(0x7FFF)), odd)
        quiet = b.op("or", "i32", bits, str(0x400000))
        kept = b.select(b.test("fcmp uno", "float", value, "0.0"), "i32", quiet, rounded)
        return b.cast("trunc", b.op("lshr", "i32", kept, "16"), "i32", held)
    if target is float16 and b.module.instructions.half:
        return b.cast("bitcast", b.cast("fptrunc", value, "float", "half"), "half", held)
    return b.call(held, _helper(b, f"ocannl-f32.to.{SHORT[target]}", narrowing(target)), "float", value)


def _floating(b: Builder, value: str, source: Precision, target: Precision) -> str:
    """Between floats."""
    if is_narrow(source):
        wide = widen(b, value, source)
        return wide if target is float32 else _floating(b, wide, float32, target)
    if source is float32:
        return b.cast("fpext", value, "float", "double") if target is float64 else narrow(b, value, target)
    if target is float16:
        b.module.declare("llvm.fabs.f64", "double", ("double",))
        return narrow(b, b.call("float", _helper(b, "ocannl-f64.to.odd.f32", ODD), "double", value), target)
    single = b.cast("fptrunc", value, "double", "float")
    return single if target is float32 else narrow(b, single, target)


def convert(b: Builder, value: str, source: Precision, target: Precision) -> str:
    """A value of one precision as another.

    Floats are cut off towards zero to integers and saturate, integers wrap, and what is not zero is true.
    """
    if source is target:
        return value
    held, wanted = HELD[source], HELD[target]
    if target.family is Family.BOOL:
        return b.cast("zext", is_true(b, value, source), "i1", wanted)
    if source.is_float and target.is_float:
        return _floating(b, value, source, target)
    if source.is_float:
        if is_narrow(source):
            held, value = "float", widen(b, value, source)
        return b.to_integer(value, held, wanted, is_signed(target))
    if target.is_float:
        middle = float32 if is_narrow(target) else target
        number = b.cast("sitofp" if is_signed(source) else "uitofp", value, held, HELD[middle])
        return _floating(b, number, middle, target) if middle is not target else number
    if source.nbytes == target.nbytes:
        return value
    if source.nbytes > target.nbytes:
        return b.cast("trunc", value, held, wanted)
    return b.cast("sext" if is_signed(source) else "zext", value, held, wanted)


def is_true(b: Builder, value: str, precision: Precision) -> str:
    """An i1: whether the value is not zero; NaN is not."""
    if is_narrow(precision):
        mag = b.op("and", HELD[precision], value, str((1 << 8 * precision.nbytes - 1) - 1))
        return b.test("icmp ne", HELD[precision], mag, "0")
    if precision.is_float:
        return b.test("fcmp une", HELD[precision], value, "0.0")
    return b.test("icmp ne", HELD[precision], value, "0")
