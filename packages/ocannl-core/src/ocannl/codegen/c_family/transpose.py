"""Planes of lanes turned in registers, as functions of C: rows that are vectors, and cells that lie side by side along
the other way.

    f32x8 rows_1[6];                   /* six rows of eight lanes */
    ...
    put_6_f32x8(&y[j * 100], 9, rows_1);    /* y[j * 100 + lane * 9 + row] */
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from ocannl.codegen.c_family.builtins import inline
from ocannl.codegen.c_family.dialect import Dialect, Function
from ocannl.codegen.c_family.vectors import MASKS, WIDTHS, holder, mask, vector
from ocannl.codegen.transpose import exchanges, square
from ocannl.ir.precision import PRECISIONS, Precision
from ocannl.ir.text import short

MOST = 16  # rows that are turned at a time
UNROLLED = f"#pragma GCC unroll {MOST}"  # so that all stays in registers

SHUFFLE = Function(
    "SHUFFLE",
    """\
#ifdef __clang__
#define SHUFFLE(mask, x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define SHUFFLE(mask, x, y, ...) __builtin_shuffle(x, y, (mask){ __VA_ARGS__ })
#endif""",
)
"""Lanes of two vectors by number: those of the second one come after those of the first."""


def names() -> Iterator[str]:
    """All that a function of this module may be called."""
    yield "SHUFFLE"
    types = {*(short(precision) for precision in PRECISIONS), *(name for name, _ in MASKS.values())}
    for stem, rows, width in product(("take", "put"), range(2, MOST + 1), WIDTHS):
        yield from (f"{stem}_{rows}_{type_}x{width}" for type_ in types)


@cache
def put(d: Dialect, precision: Precision, rows: int, width: int) -> Function:
    """Rows, as vectors, into cells that lie side by side along the rows, and so many steps apart along the lanes."""
    given, size = vector(d, precision, width), square(rows)
    params = (f"{d.types[holder(precision)]} *y", f"{d.index} step", f"const {given.name} *x")
    body = [f"for (int n = 0; n < {width}; n++)", f"  for (int m = 0; m < {rows}; m++) y[n * step + m] = x[m][n];"]
    if width % size == 0:
        padded = ", ".join(f"x[{min(n, rows - 1)}]" for n in range(size))
        copied = f"__builtin_memcpy(y + n * step, {_cells(size)}, {rows} * sizeof *y);"
        body = [f"{given.name} r[{size}] = {{ {padded} }};", *_turn(d, precision, size, width), *_each(width, copied)]
    text = "\n".join(body)
    return inline(d, f"put_{rows}_{given.name}", "void", params, text, _needs(d, precision, width), d.inlined)


@cache
def take(d: Dialect, precision: Precision, rows: int, width: int) -> Function:
    """The cells as rows."""
    given, size = vector(d, precision, width), square(rows)
    params = (f"{given.name} *y", f"const {d.types[holder(precision)]} *x", f"{d.index} step")
    body = [f"for (int n = 0; n < {width}; n++)", f"  for (int m = 0; m < {rows}; m++) y[m][n] = x[n * step + m];"]
    if width % size == 0:
        copied = f"__builtin_memcpy({_cells(size)}, x + n * step, {rows} * sizeof *x);"
        body = [f"{given.name} r[{size}] = {{ 0 }};", *_each(width, copied)]
        body += [*_turn(d, precision, size, width), *_each(rows, "y[n] = r[n];")]
    text = "\n".join(body)
    return inline(d, f"take_{rows}_{given.name}", "void", params, text, _needs(d, precision, width), d.inlined)


def _needs(d: Dialect, precision: Precision, width: int) -> tuple[Function, ...]:
    return vector(d, precision, width), mask(d, holder(precision).nbytes, width), SHUFFLE


def _cells(size: int) -> str:
    """Where the cells of lane `n` are in the turned rows."""
    return f"(char *)&r[n % {size}] + n / {size} * {size} * sizeof r[0][0]"


def _each(count: int, line: str) -> tuple[str, ...]:
    return UNROLLED, f"for (int n = 0; n < {count}; n++) {line}"


def _turn(d: Dialect, precision: Precision, size: int, width: int) -> Iterator[str]:
    """The rows as what lanes have in all of them (see `exchanges`)."""
    type_ = vector(d, precision, width).name
    which = mask(d, holder(precision).nbytes, width).name
    for step, *masks in exchanges(size, width):
        above, below = (", ".join(map(str, lanes)) for lanes in masks)
        yield UNROLLED
        yield f"for (int n = 0; n < {size // 2}; n++) {{"
        yield f"  const int m = n / {step} * {2 * step} + n % {step};"
        yield f"  const {type_} a = r[m], b = r[m + {step}];"
        yield f"  r[m] = SHUFFLE({which}, a, b, {above});"
        yield f"  r[m + {step}] = SHUFFLE({which}, a, b, {below});"
        yield "}"
