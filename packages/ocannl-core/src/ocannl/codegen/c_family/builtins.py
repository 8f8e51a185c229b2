"""The functions that generated C-like code calls, as text.

They give what NumPy gives, and never trap: integers divide by zero to zero and wrap where they overflow (which the
compiler has to be told), floats become integers cut off towards zero and saturate. Casts to narrow floats round to
nearest even, keep NaN, and know subnormal numbers; beyond the largest number lies infinity, or NaN in a type that has
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ocannl.codegen.c_family.dialect import Dialect, Function
from ocannl.codegen.numbers import FORMATS, bits, is_signed, limits
from ocannl.ir import threefry
from ocannl.ir.ops import OPS
from ocannl.ir.precision import PRECISIONS, Precision, bfloat16, float32, float64, uint8, uint32
from ocannl.ir.text import short

MATH = {
    "abs": "fabs", "trunc": "trunc", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sin": "sin",
    "cos": "cos", "tanh": "tanh", "sqrt": "sqrt", "pow": "pow", "fmod": "fmod",
}  # fmt: skip
"""Operations on floats that are functions of the mathematical library."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An operation that gives the first value whose test holds, or else the last one."""

    params: str
    cases: tuple[tuple[str, str], ...]
    last: str

    @property
    def body(self) -> str:
        return f"return {' '.join(f'{test} ? {value} :' for test, value in self.cases)} {self.last};"


FLOAT_CHOICES: Mapping[str, Choice] = {
    "relu": Choice("x", (("x < 0", "0"),), "x"),  # NaN is not below zero
    "sat01": Choice("x", (("x < 0", "0"), ("x > 1", "1")), "x"),
    "max": Choice("x y", (("(x < y) | (y != y)", "y"),), "x"),
    "min": Choice("x y", (("(x > y) | (y != y)", "y"),), "x"),
    "relu_gate": Choice("x y", (("x > 0", "y"),), "0"),
    "sat01_gate": Choice("x y", (("(x > 0) & (x < 1)", "y"),), "0"),
}
SIGNED_CHOICES: Mapping[str, Choice] = {
    "abs": Choice("x", (("x < 0", "-x"),), "x"),
    "relu": FLOAT_CHOICES["relu"],
    "sat01": FLOAT_CHOICES["sat01"],
    "max": Choice("x y", (("x < y", "y"),), "x"),
    "min": Choice("x y", (("x > y", "y"),), "x"),
    "relu_gate": FLOAT_CHOICES["relu_gate"],
}
UNSIGNED_CHOICES: Mapping[str, Choice] = {
    "sat01": Choice("x", (("x > 1", "1"),), "x"),
    "max": SIGNED_CHOICES["max"],
    "min": SIGNED_CHOICES["min"],
    "relu_gate": FLOAT_CHOICES["relu_gate"],
}


def _bodies(choices: Mapping[str, Choice]) -> dict[str, tuple[str, str]]:
    return {name: (choice.params, choice.body) for name, choice in choices.items()}


FLOAT: Mapping[str, tuple[str, str]] = {
    **_bodies(FLOAT_CHOICES),
    "mod": (
        "x y",
        "TYPE rest = FMOD(x, y);\nreturn (rest != 0) & ((rest < 0) != (y < 0)) ? rest + y : rest;",
    ),
    "fma": ("x y z", "return x * y + z;"),
}
POWER = "TYPE product = 1;\nfor (UNSIGNED left = n; left; left >>= 1) {\n  if (left & 1) product *= x;\n  x *= x;\n}\n"
SIGNED: Mapping[str, tuple[str, str]] = {
    **_bodies(SIGNED_CHOICES),
    "trunc": ("x", "return x;"),
    "sat01_gate": ("x y", "return 0;"),  # no whole number lies between
    "fma": ("x y z", "return x * y + z;"),
    "div": ("x y", "return y == 0 ? 0 : y == -1 ? -x : x / y;"),
    "mod": (
        "x y",
        (
            "if (y == 0 || y == -1) return 0;\n"
            "TYPE rest = x % y;\nreturn rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;"
        ),
    ),
    "pow": ("x n", f"if (n < 0 && (x < -1 || x > 1)) return 0;\n{POWER}return product;"),
    "left_shift": ("x n", "return (UNSIGNED)n < BITS ? (TYPE)((UNSIGNED)x << n) : 0;"),
    "right_shift": ("x n", "return (UNSIGNED)n < BITS ? x >> n : x < 0 ? -1 : 0;"),
}
UNSIGNED: Mapping[str, tuple[str, str]] = {
    **SIGNED,
    **_bodies(UNSIGNED_CHOICES),
    "abs": ("x", "return x;"),
    "relu": ("x", "return x;"),
    "div": ("x y", "return y == 0 ? 0 : x / y;"),
    "mod": ("x y", "return y == 0 ? 0 : x % y;"),
    "pow": ("x n", f"{POWER}return product;"),
    "right_shift": ("x n", "return n < BITS ? x >> n : 0;"),
}
INDEX: Mapping[str, tuple[str, str]] = {
    "least": ("x y", "return x < y ? x : y;"),
    "most": ("x y", "return x > y ? x : y;"),
    "floor_div": ("x n", "return x / n - (x % n < 0);"),
}
"""On counters."""


def _threefry(rounds: int) -> tuple[str, str]:
    """One word: compilers see that neighbours share the rounds."""
    lines = [f"TYPE k4 = {_hex(threefry.PARITY)} ^ k0 ^ k1 ^ k2 ^ k3;"]
    for step in threefry.steps(rounds):
        match step:
            case threefry.Mix(i, j, turn):
                lines.append(f"x{i} += x{j}, x{j} = (x{j} << {turn} | x{j} >> {32 - turn}) ^ x{i};")
            case threefry.Inject(lane, word, number):
                lines.append(f"x{lane} += k{word}{f' + {number}' if number else ''};")
    lines.append("return lane & 2 ? lane & 1 ? x3 : x2 : lane & 1 ? x1 : x0;")
    return "k0 k1 k2 k3 x0 x1 x2 x3 lane", "\n".join(lines)


def _hex(value: int) -> str:
    return f"0x{value:X}u"


WORD: Mapping[str, tuple[str, str]] = {
    **UNSIGNED, **{f"threefry4x32_{rounds}": _threefry(rounds) for rounds in threefry.ROUNDS}
}  # fmt: skip


def table(precision: Precision) -> Mapping[str, tuple[str, str]]:
    if precision.is_float:
        return FLOAT
    if precision is uint32:
        return WORD
    return SIGNED if is_signed(precision) else UNSIGNED


def choice(name: str, precision: Precision) -> Choice | None:
    """The operation as a choice, if it is one."""
    signed = SIGNED_CHOICES if is_signed(precision) else UNSIGNED_CHOICES
    return (FLOAT_CHOICES if precision.is_float else signed).get(name)


def conversion_name(source: Precision, target: Precision) -> str:
    return f"{short(source)}_to_{short(target)}"


def names() -> Iterator[str]:
    """All that a function of this module may be called."""
    yield from ("f32_bits", "bits_f32", "f64_to_odd_f32", *INDEX)
    yield from (f"pow{exponent}_{short(precision)}" for exponent in range(2, 9) for precision in PRECISIONS)
    for source in PRECISIONS:
        yield from (conversion_name(source, target) for target in PRECISIONS)
        yield from (f"{name}_{short(source)}" for name in (*(op.name for op in OPS), *MATH))


def inline(
    d: Dialect, name: str, type_: str, params: tuple[str, ...], body: str,
    needs: tuple[Function, ...] = (), form: str = "",
) -> Function:  # fmt: skip
    """A small function. `params` are declarations, such as `float x`; `form` is how it begins, if not as others do."""
    head = (form or d.inline).format(type=type_, name=name, params=", ".join(params))
    lines = [f"{d.indent}{line}" for line in body.splitlines()]
    if name in d.fast:
        condition, instruction = d.fast[name]
        instructions = [f"{d.indent}{line}" for line in instruction.splitlines()]
        lines = [f"#if {condition}", *instructions, "#else", *lines, "#endif"]
    return Function(name, "\n".join([head, "{", *lines, "}"]), needs)


def library_function(d: Dialect, name: str, precision: Precision) -> Function:
    type_, called = d.types[precision], d.math[precision].format(MATH[name])
    params = ", ".join([type_] * (2 if name in ("pow", "fmod") else 1))
    return Function(called, d.prototype.format(type=type_, name=called, params=params))


def operation(d: Dialect, name: str, precision: Precision) -> Function | None:
    """What computes an operation that is no operator; None where it has no meaning."""
    if precision.is_float and name in MATH:
        return library_function(d, name, precision)
    found = table(precision).get(name)
    if found is None:
        return None
    needs = (library_function(d, "fmod", precision),) if precision.is_float and name == "mod" else ()
    body = found[1].replace("TYPE", d.types[precision])
    body = body.replace("FMOD", needs[0].name if needs else "")
    body = body.replace("UNSIGNED", d.types[_unsigned(precision)]).replace("BITS", str(bits(precision)))
    params = tuple(f"{d.types[precision]} {param}" for param in found[0].split())
    return inline(d, f"{name}_{short(precision)}", d.types[precision], params, body, needs)


def power(d: Dialect, exponent: int, precision: Precision) -> Function:
    """The value to a constant power of at least 2, by squaring."""
    type_ = d.types[precision]
    lines, out, base, left = [], "", "x", exponent
    while left:
        if left & 1:
            out = f"{out} * {base}" if out else base
        left >>= 1
        if left:
            lines.append(f"{type_} {base}{base} = {base} * {base};")
            base += base
    return inline(
        d, f"pow{exponent}_{short(precision)}", type_, (f"{type_} x",), "\n".join([*lines, f"return {out};"])
    )


def on_index(d: Dialect, name: str) -> Function:
    params, body = INDEX[name]
    return inline(d, name, d.index, tuple(f"{d.index} {param}" for param in params.split()), body)


def _unsigned(precision: Precision) -> Precision:
    return next((p for p in PRECISIONS if p.name == f"uint{bits(precision)}"), uint8)


# -------------------------------------------------------------------------------------------------------- conversions


def float_bits(d: Dialect) -> Function:
    """float32 as its bits."""
    word, single = d.types[uint32], d.types[float32]
    body = f"union {{ {single} number; {word} bits; }} held = {{ x }};\nreturn held.bits;"
    return inline(d, "f32_bits", word, (f"{single} x",), body)


def bits_float(d: Dialect) -> Function:
    """float32 from its bits."""
    word, single = d.types[uint32], d.types[float32]
    body = f"union {{ {word} bits; {single} number; }} held = {{ x }};\nreturn held.number;"
    return inline(d, "bits_f32", single, (f"{word} x",), body)


def widening(d: Dialect, source: Precision) -> Function:
    """From narrow bits to float32; every value is exact."""
    word = d.types[uint32]
    if source is bfloat16:
        body = f"return bits_f32(({word})x << 16);"
    else:
        fmt = FORMATS[source]
        keep = 23 - fmt.mantissa
        step = d.literal(2.0**fmt.smallest_step, float32)
        body = f"""\
{word} sign = ({word})(x & {_hex(fmt.sign)}) << {32 - fmt.width}, mag = x & {_hex(fmt.sign - 1)};
{word} small = f32_bits((int)mag * {step.text}), normal = (mag << {keep}) + {_hex((127 - fmt.bias) << 23)};
{word} finite = mag < {_hex(1 << fmt.mantissa)} ? small : normal;
return bits_f32(sign | (mag < {_hex(fmt.top)} ? finite : mag << {keep} | 0x7F800000u));"""
    needs = (float_bits(d), bits_float(d))
    return inline(d, conversion_name(source, float32), d.types[float32], (f"{d.types[source]} x",), body, needs)


def narrowing(d: Dialect, target: Precision) -> Function:
    """From float32 to narrow bits.

    Below the normal range an addition does the rounding: the magic number is so large that the last place of the sum is
    the smallest step.
    """
    word, held = d.types[uint32], d.types[target]
    if target is bfloat16:
        body = f"""\
{word} bits = f32_bits(x);
return ({held})((x != x ? bits | 0x400000u : bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);"""
    else:
        fmt = FORMATS[target]
        drop, magic = 23 - fmt.mantissa, fmt.smallest_step + 23
        half = ((1 << (drop - 1)) - 1 - ((127 - fmt.bias) << 23)) % 2**32
        body = f"""\
{word} bits = f32_bits(x), mag = bits & 0x7FFFFFFFu, sign = bits >> {32 - fmt.width} & {_hex(fmt.sign)};
{word} normal = (mag + {_hex(half)} + (mag >> {drop} & 1)) >> {drop};
{word} small = f32_bits(bits_f32(mag) + {d.literal(2.0**magic, float32).text}) - {_hex((magic + 127) << 23)};
{word} near = mag < {_hex((128 - fmt.bias) << 23)} ? small : normal;
{word} number = near > {_hex(fmt.top)} ? {_hex(fmt.top)} : near;
return ({held})(sign | (mag > 0x7F800000u ? {_hex(fmt.nan)} : number));"""
    needs = (float_bits(d), bits_float(d))
    return inline(d, conversion_name(float32, target), held, (f"{d.types[float32]} x",), body, needs)


def to_odd(d: Dialect) -> Function:
    """float64 cut towards zero to float32 with the last bit set when anything was lost, so that a second rounding is as
    good as one."""
    word, single, double = d.types[uint32], d.types[float32], d.types[float64]
    size = library_function(d, "abs", float64)
    body = f"""\
{single} near = ({single})x;
{word} cut = f32_bits(near) - ({size.name}(({double})near) > {size.name}(x));
return bits_f32(cut | (near < x || near > x));"""
    return inline(d, "f64_to_odd_f32", single, (f"{double} x",), body, (float_bits(d), bits_float(d), size))


def to_integer(d: Dialect, source: Precision, target: Precision) -> Function:
    """From float32 or float64."""
    low, high = limits(target)
    held = d.types[target]
    beyond, largest = d.literal(float(high + 1), source).text, d.literal(high, target).text
    bounds = f"x >= {beyond} ? {largest} : ({held})x"
    if low == 0:
        body = f"return !(x > 0) ? 0 : {bounds};"
    else:
        below, least = d.literal(float(low), source).text, d.literal(low, target).text
        body = f"return x != x ? 0 : x < {below} ? {least} : {bounds};"
    return inline(d, conversion_name(source, target), held, (f"{d.types[source]} x",), body)
