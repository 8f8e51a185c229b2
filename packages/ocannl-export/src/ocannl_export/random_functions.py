"""C functions that draw the initial values of parameters, as `Context.init` does.

Uniform numbers are the same to the bit. Normal numbers are those of the Box-Muller transform (Box and Muller 1958) with
a logarithm and a cosine of their own, since a program without a C library has none; they differ by a rounding of
float64 before they are rounded to the type of the parameter.
"""

from __future__ import annotations

from collections.abc import Iterable

from ocannl.codegen.c_family import builtins
from ocannl.codegen.c_family.dialect import Definition, Dialect
from ocannl.codegen.numbers import is_narrow
from ocannl.ir.precision import Precision, float32, float64, uint32
from ocannl_export.initial_values import Drawn, random_bits
from ocannl_export.library import Field

THREEFRY = "threefry4x32_20"

WORD = """\
static uint32_t random_word(const uint32_t *key, uint32_t ordinal, uint64_t position)
{{
  uint64_t block = position / 4;
  return {threefry}(
      key[0], key[1], key[2], key[3], (uint32_t)block, (uint32_t)(block >> 32), ordinal, 0, (uint32_t)position % 4);
}}
"""
UNIT_FLOAT = """\
static float random_unit_float(const uint32_t *key, uint32_t ordinal, uint64_t n, int bits)
{
  return (float)(random_word(key, ordinal, n) >> (32 - bits)) / (float)(1u << bits);
}
"""
UNIT_DOUBLE = """\
static double random_unit_double(const uint32_t *key, uint32_t ordinal, uint64_t n, int bits)
{
  uint64_t high = random_word(key, ordinal, 2 * n), low = random_word(key, ordinal, 2 * n + 1);
  return (double)((high << 32 | low) >> (64 - bits)) / (double)((uint64_t)1 << bits);
}
"""
UNIFORM = """\
static void draw_uniform_{precision}(
    {type} *y, uint64_t cells, const uint32_t *key, uint32_t ordinal, {number} low, {number} span)
{{
  for (uint64_t n = 0; n < cells; n++) y[n] = {convert}(random_unit_{number}(key, ordinal, n, {bits}) * span + low);
}}
"""
NORMAL_NUMBER = """\
static double natural_logarithm(double x)  /* of 0 < x <= 1, by the series of atanh */
{
  int exponent = 0;
  while (x < 0.70710678118654752) {
    x *= 2;
    exponent--;
  }
  double s = (x - 1) / (x + 1), square = s * s, sum = 0;
  for (int k = 27; k > 0; k -= 2) sum = sum * square + 1.0 / k;
  return exponent * 0.69314718055994531 + 2 * s * sum;
}

static double cosine_of_turns(double t)  /* cos(2 pi t) for 0 <= t < 1 */
{
  int quarter = (int)(4 * t + 0.5);
  double x = (t - quarter * 0.25) * 6.28318530717958648, square = x * x, sine = 1, cosine = 1;
  for (int k = 20; k > 0; k -= 2) {
    cosine = 1 - square / (k * (k - 1)) * cosine;
    sine = 1 - square / (k * (k + 1)) * sine;
  }
  sine *= x;
  switch (quarter % 4) {
    case 0: return cosine;
    case 1: return -sine;
    case 2: return -cosine;
    default: return sine;
  }
}

static double normal_number(double first, double second)
{
  return SQRT(-2 * natural_logarithm(1 - first)) * cosine_of_turns(second);
}
"""
NORMAL = """\
static void draw_normal_{precision}(
    {type} *y, uint64_t cells, const uint32_t *key, uint32_t ordinal, double mean, double deviation)
{{
  for (uint64_t n = 0; n < cells; n++) {{
    double first = random_unit_{number}(key, ordinal, 2 * n, {bits});
    double second = random_unit_{number}(key, ordinal, 2 * n + 1, {bits});
    y[n] = {convert}(({number})(normal_number(first, second) * deviation + mean));
  }}
}}
"""


def definitions(dialect: Dialect, fields: Iterable[Field]) -> list[Definition]:
    """What the text of `random_functions` needs: the generator of random numbers, and conversions to narrow floats."""
    drawn = _draws(fields)
    narrow = sorted({p for p, _ in drawn if is_narrow(p)}, key=lambda precision: precision.name)
    return [_threefry(dialect), *(builtins.narrowing(dialect, p) for p in narrow)] if drawn else []


def random_functions(dialect: Dialect, fields: Iterable[Field]) -> list[str]:
    """The functions that the given fields need, in order of definition, after `definitions`."""
    drawn = _draws(fields)
    if not drawn:
        return []
    precisions = {precision for precision, _ in drawn}
    texts = [WORD.format(threefry=_threefry(dialect).name)]
    if precisions - {float64}:
        texts.append(UNIT_FLOAT)
    if float64 in precisions:
        texts.append(UNIT_DOUBLE)
    if any(initial.normal for _, initial in drawn):
        root = "sqrt" if dialect.prototype == "" else "__builtin_sqrt"
        texts.append(NORMAL_NUMBER.replace("SQRT", root))
    kinds = {(precision, initial.normal) for precision, initial in drawn}
    for precision, normal in sorted(kinds, key=lambda kind: (kind[0].name, kind[1])):
        template = NORMAL if normal else UNIFORM
        texts.append(
            template.format(
                precision=precision.name,
                type=dialect.types[precision],
                number="double" if precision is float64 else "float",
                bits=random_bits(precision, normal),
                convert=builtins.conversion_name(float32, precision) if is_narrow(precision) else "",
            )
        )
    return texts


def _threefry(dialect: Dialect) -> Definition:
    definition = builtins.operation(dialect, THREEFRY, uint32)
    assert definition is not None
    return definition


def _draws(fields: Iterable[Field]) -> list[tuple[Precision, Drawn]]:
    return [(field.node.precision, field.initial) for field in fields if isinstance(field.initial, Drawn)]


def draw_call(dialect: Dialect, field: Field, initial: Drawn, address: str) -> list[str]:
    """Statements that fill a field; `seed` is a variable of the function around them."""
    key = f"const uint32_t key[4] = {{ (uint32_t)seed, (uint32_t)(seed >> 32), {initial.key[0]}u, {initial.key[1]}u }};"
    precision = float64 if initial.normal or field.node.precision is float64 else float32
    kind = f"{'normal' if initial.normal else 'uniform'}_{field.node.precision.name}"
    low, span = (dialect.literal(number, precision).text for number in (initial.low, initial.span))
    call = f"draw_{kind}({address}, {field.cells}, key, {initial.ordinal}u, {low}, {span});"
    return ["{", f"  {key}", f"  {call}", "}"]
