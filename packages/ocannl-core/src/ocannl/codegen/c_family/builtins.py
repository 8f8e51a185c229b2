"""Definitions of the scalar functions that generated C-like code calls.

Results equal NumPy's and no function traps: integer division by zero returns zero, integer overflow wraps (which
requires a compiler flag), and conversions from floats to integers truncate towards zero and saturate. Conversions to
narrow floats round to nearest even, preserve NaN and support subnormal numbers; they overflow to infinity, or to NaN in
formats without infinities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ocannl.codegen.c_family.dialect import Definition, Dialect
from ocannl.codegen.formula_ir import FORMATS as FLOAT_FORMATS
from ocannl.codegen.numbers import FORMATS, bits, is_signed
from ocannl.ir import threefry
from ocannl.ir.ops import OPS
from ocannl.ir.precision import PRECISIONS, Precision, bfloat16, float32, float64, integer_limits, uint8, uint32
from ocannl.ir.printer import short_name

MATH = {
    "abs": "fabs", "trunc": "trunc", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sin": "sin",
    "cos": "cos", "tanh": "tanh", "sqrt": "sqrt", "pow": "pow", "fmod": "fmod", "atan": "atan", "atan2": "atan2",
    "erf": "erf", "erfc": "erfc", "lgamma": "lgamma",
}  # fmt: skip
"""Float operations that are functions of the C mathematical library."""


@dataclass(frozen=True, slots=True)
class SelectChain:
    """An operation that returns the value of the first case whose test holds, or else `default`."""

    params: str
    cases: tuple[tuple[str, str], ...]
    default: str

    @property
    def body(self) -> str:
        return f"return {' '.join(f'{test} ? {value} :' for test, value in self.cases)} {self.default};"


FLOAT_SELECTS: Mapping[str, SelectChain] = {
    "relu": SelectChain("x", (("x < 0", "0"),), "x"),  # NaN is not below zero
    "sat01": SelectChain("x", (("x < 0", "0"), ("x > 1", "1")), "x"),
    "max": SelectChain("x y", (("((x < y) | (y != y))", "y"),), "x"),
    "min": SelectChain("x y", (("((x > y) | (y != y))", "y"),), "x"),
    "relu_gate": SelectChain("x y", (("x > 0", "y"),), "0"),
    "sat01_gate": SelectChain("x y", (("((x > 0) & (x < 1))", "y"),), "0"),
}
SIGNED_SELECTS: Mapping[str, SelectChain] = {
    "abs": SelectChain("x", (("x < 0", "-x"),), "x"),
    "relu": FLOAT_SELECTS["relu"],
    "sat01": FLOAT_SELECTS["sat01"],
    "max": SelectChain("x y", (("x < y", "y"),), "x"),
    "min": SelectChain("x y", (("x > y", "y"),), "x"),
    "relu_gate": FLOAT_SELECTS["relu_gate"],
}
UNSIGNED_SELECTS: Mapping[str, SelectChain] = {
    "sat01": SelectChain("x", (("x > 1", "1"),), "x"),
    "max": SIGNED_SELECTS["max"],
    "min": SIGNED_SELECTS["min"],
    "relu_gate": FLOAT_SELECTS["relu_gate"],
}


def _bodies(chains: Mapping[str, SelectChain]) -> dict[str, tuple[str, str]]:
    return {name: (chain.params, chain.body) for name, chain in chains.items()}


FLOAT: Mapping[str, tuple[str, str]] = {
    **_bodies(FLOAT_SELECTS),
    "mod": (
        "x y",
        (
            "TYPE rest = FMOD(x, y);\n"
            "return rest == 0 ? (y < 0 ? -(TYPE)0 : (TYPE)0) : (rest < 0) != (y < 0) ? rest + y : rest;"
        ),
    ),
    "fma": ("x y z", "return x * y + z;"),
}
POWER_LOOP = (
    "TYPE product = 1;\nfor (UNSIGNED left = n; left; left >>= 1) {\n  if (left & 1) product *= x;\n  x *= x;\n}\n"
)
SIGNED: Mapping[str, tuple[str, str]] = {
    **_bodies(SIGNED_SELECTS),
    "trunc": ("x", "return x;"),
    "sat01_gate": ("x y", "return 0;"),  # no integer lies strictly between 0 and 1
    "fma": ("x y z", "return x * y + z;"),
    "div": ("x y", "return y == 0 ? 0 : y == -1 ? -x : x / y;"),
    "mod": (
        "x y",
        (
            "if (y == 0 || y == -1) return 0;\n"
            "TYPE rest = x % y;\nreturn rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;"
        ),
    ),
    "pow": ("x n", f"if (n < 0 && (x < -1 || x > 1)) return 0;\n{POWER_LOOP}return product;"),
    "left_shift": ("x n", "return (UNSIGNED)n < BITS ? (TYPE)((UNSIGNED)x << n) : 0;"),
    "right_shift": ("x n", "return (UNSIGNED)n < BITS ? x >> n : x < 0 ? -1 : 0;"),
}
UNSIGNED: Mapping[str, tuple[str, str]] = {
    **SIGNED,
    **_bodies(UNSIGNED_SELECTS),
    "abs": ("x", "return x;"),
    "relu": ("x", "return x;"),
    "div": ("x y", "return y == 0 ? 0 : x / y;"),
    "mod": ("x y", "return y == 0 ? 0 : x % y;"),
    "pow": ("x n", f"{POWER_LOOP}return product;"),
    "right_shift": ("x n", "return n < BITS ? x >> n : 0;"),
}
INDEX: Mapping[str, tuple[str, str]] = {
    "least": ("x y", "return x < y ? x : y;"),
    "most": ("x y", "return x > y ? x : y;"),
    "floor_div": ("x n", "return x / n - (x % n < 0);"),
}
"""Functions of loop counters and offsets."""


def _threefry(rounds: int) -> tuple[str, str]:
    """Returns one output word; compilers share the rounds between calls for neighbouring words."""
    lines = [f"TYPE k4 = {_hex(threefry.PARITY)} ^ k0 ^ k1 ^ k2 ^ k3;"]
    for step in threefry.steps(rounds):
        match step:
            case threefry.Mix(i, j, rotation):
                lines.append(f"x{i} += x{j}, x{j} = (x{j} << {rotation} | x{j} >> {32 - rotation}) ^ x{i};")
            case threefry.Inject(lane, key_word, number):
                lines.append(f"x{lane} += k{key_word}{f' + {number}' if number else ''};")
    lines.append("return lane & 2 ? lane & 1 ? x3 : x2 : lane & 1 ? x1 : x0;")
    return "k0 k1 k2 k3 x0 x1 x2 x3 lane", "\n".join(lines)


def _hex(value: int) -> str:
    return f"0x{value:X}u"


UINT32: Mapping[str, tuple[str, str]] = {
    **UNSIGNED, **{f"threefry4x32_{rounds}": _threefry(rounds) for rounds in threefry.ROUNDS}
}  # fmt: skip


def table(precision: Precision) -> Mapping[str, tuple[str, str]]:
    if precision.is_float:
        return FLOAT
    if precision is uint32:
        return UINT32
    return SIGNED if is_signed(precision) else UNSIGNED


def select_chain_of(name: str, precision: Precision) -> SelectChain | None:
    """The operation as a select chain, if it is one."""
    signed = SIGNED_SELECTS if is_signed(precision) else UNSIGNED_SELECTS
    return (FLOAT_SELECTS if precision.is_float else signed).get(name)


def conversion_name(source: Precision, target: Precision) -> str:
    return f"{short_name(source)}_to_{short_name(target)}"


def names() -> Iterator[str]:
    """All names of definitions of this module."""
    yield from ("f32_bits", "bits_f32", "f64_bits", "bits_f64", "f64_to_odd_f32", *INDEX)
    yield from (f"pow{exponent}_{short_name(precision)}" for exponent in range(2, 9) for precision in PRECISIONS)
    for source in PRECISIONS:
        yield from (conversion_name(source, target) for target in PRECISIONS)
        yield from (f"{name}_{short_name(source)}" for name in (*(op.name for op in OPS), *MATH))


def inline(
    d: Dialect, name: str, type_: str, params: tuple[str, ...], body: str,
    dependencies: tuple[Definition, ...] = (), form: str = "",
) -> Definition:  # fmt: skip
    """Defines a small function. `params` are declarations such as `float x`; `form` overrides the head, `d.inline`."""
    head = (form or d.inline).format(type=type_, name=name, params=", ".join(params))
    lines = [f"{d.indent}{line}" for line in body.splitlines()]
    if name in d.intrinsics:
        directive, alternatives = "#if", list[str]()
        for condition, alternative in d.intrinsics[name]:
            alternatives += [f"{directive} {condition}", *(f"{d.indent}{line}" for line in alternative.splitlines())]
            directive = "#elif"
        lines = [*alternatives, "#else", *lines, "#endif"]
    return Definition(name, "\n".join([head, "{", *lines, "}"]), dependencies)


def library_function(d: Dialect, name: str, precision: Precision) -> Definition:
    type_, function_name = d.types[precision], d.math[precision].format(MATH[name])
    params = ", ".join([type_] * (2 if name in ("pow", "fmod", "atan2") else 1))
    return Definition(function_name, d.prototype.format(type=type_, name=function_name, params=params))


def operation(d: Dialect, name: str, precision: Precision, prefix: str = "") -> Definition | None:
    """The function of an operation that is no C operator, or None if it is undefined for the precision. `prefix` is
    part of the name of a function that this module defines."""
    if precision.is_float and name in MATH:
        return library_function(d, name, precision)
    entry = table(precision).get(name)
    if entry is None:
        return None
    dependencies = (library_function(d, "fmod", precision),) if precision.is_float and name == "mod" else ()
    body = entry[1].replace("TYPE", d.types[precision])
    body = body.replace("FMOD", dependencies[0].name if dependencies else "")
    body = body.replace("UNSIGNED", d.types[_unsigned(precision)]).replace("BITS", str(bits(precision)))
    params = tuple(f"{d.types[precision]} {param}" for param in entry[0].split())
    return inline(d, f"{prefix}{name}_{short_name(precision)}", d.types[precision], params, body, dependencies)


def power(d: Dialect, exponent: int, precision: Precision) -> Definition:
    """Raises a value to a constant power of at least 2 by repeated squaring."""
    type_ = d.types[precision]
    lines, out, base, remaining = [], "", "x", exponent
    while remaining:
        if remaining & 1:
            out = f"{out} * {base}" if out else base
        remaining >>= 1
        if remaining:
            lines.append(f"{type_} {base}{base} = {base} * {base};")
            base += base
    return inline(
        d, f"pow{exponent}_{short_name(precision)}", type_, (f"{type_} x",), "\n".join([*lines, f"return {out};"])
    )


def index_function(d: Dialect, name: str) -> Definition:
    params, body = INDEX[name]
    return inline(d, name, d.index, tuple(f"{d.index} {param}" for param in params.split()), body)


def _unsigned(precision: Precision) -> Precision:
    return next((p for p in PRECISIONS if p.name == f"uint{bits(precision)}"), uint8)


# -------------------------------------------------------------------------------------------------------- conversions


def float_bits(d: Dialect, precision: Precision = float32) -> Definition:
    """Bit cast from a float type to unsigned integers."""
    word, number = d.types[FLOAT_FORMATS[precision].bits], d.types[precision]
    body = f"union {{ {number} number; {word} bits; }} held = {{ x }};\nreturn held.bits;"
    return inline(d, f"{short_name(precision)}_bits", word, (f"{number} x",), body)


def bits_float(d: Dialect, precision: Precision = float32) -> Definition:
    """Bit cast from unsigned integers to a float type."""
    word, number = d.types[FLOAT_FORMATS[precision].bits], d.types[precision]
    body = f"union {{ {word} bits; {number} number; }} held = {{ x }};\nreturn held.number;"
    return inline(d, f"bits_{short_name(precision)}", number, (f"{word} x",), body)


def widening(d: Dialect, source: Precision) -> Definition:
    """Converts the bits of a narrow float to float32, exactly."""
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
    dependencies = tuple(cast for cast in (float_bits(d), bits_float(d)) if f"{cast.name}(" in body)
    return inline(d, conversion_name(source, float32), d.types[float32], (f"{d.types[source]} x",), body, dependencies)


def narrowing(d: Dialect, target: Precision) -> Definition:
    """Converts float32 to the bits of a narrow float.

    Subnormal results are rounded by the addition of a magic number, chosen so that one ulp of the sum is the smallest
    subnormal number.
    """
    word, target_type = d.types[uint32], d.types[target]
    if target is bfloat16:
        body = f"""\
{word} bits = f32_bits(x);
return ({target_type})((x != x ? bits | 0x400000u : bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);"""
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
return ({target_type})(sign | (mag > 0x7F800000u ? {_hex(fmt.nan)} : number));"""
    dependencies = tuple(cast for cast in (float_bits(d), bits_float(d)) if f"{cast.name}(" in body)
    return inline(d, conversion_name(float32, target), target_type, (f"{d.types[float32]} x",), body, dependencies)


def round_to_odd(d: Dialect) -> Definition:
    """Converts float64 to float32 with rounding to odd, so that a second rounding cannot cause double rounding errors
    (Boldo and Melquiond 2008)."""
    word, single, double = d.types[uint32], d.types[float32], d.types[float64]
    magnitude = library_function(d, "abs", float64)
    body = f"""\
{single} near = ({single})x;
{word} cut = f32_bits(near) - ({magnitude.name}(({double})near) > {magnitude.name}(x));
return bits_f32(cut | (near < x || near > x));"""
    return inline(d, "f64_to_odd_f32", single, (f"{double} x",), body, (float_bits(d), bits_float(d), magnitude))


def to_integer(d: Dialect, source: Precision, target: Precision) -> Definition:
    """Converts float32 or float64 to an integer: truncates, saturates, and maps NaN to 0."""
    low, high = integer_limits(target)
    target_type = d.types[target]
    beyond, highest = d.literal(float(high + 1), source).text, d.literal(high, target).text
    bounds = f"x >= {beyond} ? {highest} : ({target_type})x"
    if low == 0:
        body = f"return !(x > 0) ? 0 : {bounds};"
    else:
        below, lowest = d.literal(float(low), source).text, d.literal(low, target).text
        body = f"return x != x ? 0 : x < {below} ? {lowest} : {bounds};"
    return inline(d, conversion_name(source, target), target_type, (f"{d.types[source]} x",), body)
