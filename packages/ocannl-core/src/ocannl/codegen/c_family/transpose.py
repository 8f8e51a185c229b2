"""C functions that transpose register tiles: loads and stores of rows (vectors) whose cells are contiguous across rows.

    f32x8 rows_1[6];                   /* six rows of eight lanes */
    ...
    put_6_f32x8(&y[j * 100], 9, rows_1);    /* y[j * 100 + lane * 9 + row] */
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from ocannl.codegen.c_family.builtins import inline
from ocannl.codegen.c_family.dialect import Definition, Dialect
from ocannl.codegen.c_family.vectors import WIDTHS, mask, storage_precision, vector
from ocannl.codegen.numbers import next_power_of_two
from ocannl.codegen.register_transpose import transpose_network
from ocannl.ir.precision import PRECISIONS, Precision
from ocannl.ir.printer import short_name

MAX_ROWS = 16  # of a register tile
UNROLL_PRAGMA = f"#pragma GCC unroll {MAX_ROWS}"  # keeps the tile in registers

SHUFFLE = Definition(
    "SHUFFLE",
    """\
#ifdef __clang__
#define SHUFFLE(mask, x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define SHUFFLE(mask, x, y, ...) __builtin_shuffle(x, y, (mask){ __VA_ARGS__ })
#endif""",
)
"""Selects lanes of two vectors; the lanes of the second vector are numbered after those of the first."""


def names() -> Iterator[str]:
    """All names of definitions of this module."""
    yield "SHUFFLE"
    types = {short_name(precision) for precision in PRECISIONS}
    for stem, rows, width in product(("take", "put"), range(2, MAX_ROWS + 1), WIDTHS):
        yield from (f"{stem}_{rows}_{type_}x{width}" for type_ in types)


@cache
def transposed_store(d: Dialect, precision: Precision, rows: int, width: int) -> Definition:
    """Stores rows (vectors) to cells that are contiguous across the rows and `step` elements apart across the lanes."""
    type_, padded_rows = vector(d, precision, width), next_power_of_two(rows)
    params = (f"{d.types[storage_precision(precision)]} *y", f"{d.index} step", f"const {type_.name} *x")
    body = [f"for (int n = 0; n < {width}; n++)", f"  for (int m = 0; m < {rows}; m++) y[n * step + m] = x[m][n];"]
    if width % padded_rows == 0:
        values = ", ".join(f"x[{min(n, rows - 1)}]" for n in range(padded_rows))
        copy = f"__builtin_memcpy(y + n * step, {_column_start(padded_rows)}, {rows} * sizeof *y);"
        body = [
            f"{type_.name} r[{padded_rows}] = {{ {values} }};",
            *_transpose_lines(d, precision, padded_rows, width),
            *_unrolled_loop(width, copy),
        ]
    text = "\n".join(body)
    return inline(
        d, f"put_{rows}_{type_.name}", "void", params, text, _dependencies(d, precision, width), d.always_inline
    )


@cache
def transposed_load(d: Dialect, precision: Precision, rows: int, width: int) -> Definition:
    """Loads such cells into rows (vectors)."""
    type_, padded_rows = vector(d, precision, width), next_power_of_two(rows)
    params = (f"{type_.name} *y", f"const {d.types[storage_precision(precision)]} *x", f"{d.index} step")
    body = [f"for (int n = 0; n < {width}; n++)", f"  for (int m = 0; m < {rows}; m++) y[m][n] = x[n * step + m];"]
    if width % padded_rows == 0:
        copy = f"__builtin_memcpy({_column_start(padded_rows)}, x + n * step, {rows} * sizeof *x);"
        body = [f"{type_.name} r[{padded_rows}] = {{ 0 }};", *_unrolled_loop(width, copy)]
        body += [*_transpose_lines(d, precision, padded_rows, width), *_unrolled_loop(rows, "y[n] = r[n];")]
    text = "\n".join(body)
    return inline(
        d, f"take_{rows}_{type_.name}", "void", params, text, _dependencies(d, precision, width), d.always_inline
    )


def _dependencies(d: Dialect, precision: Precision, width: int) -> tuple[Definition, ...]:
    return vector(d, precision, width), mask(d, storage_precision(precision).nbytes, width), SHUFFLE


def _column_start(num_rows: int) -> str:
    """The address of the cells of lane `n` in the transposed rows `r`."""
    return f"(char *)&r[n % {num_rows}] + n / {num_rows} * {num_rows} * sizeof r[0][0]"


def _unrolled_loop(count: int, line: str) -> tuple[str, ...]:
    return UNROLL_PRAGMA, f"for (int n = 0; n < {count}; n++) {line}"


def _transpose_lines(d: Dialect, precision: Precision, num_rows: int, width: int) -> Iterator[str]:
    """The statements that transpose the rows `r` in place (see `transpose_network`)."""
    type_ = vector(d, precision, width).name
    mask_type = mask(d, storage_precision(precision).nbytes, width).name
    for step, *masks in transpose_network(num_rows, width):
        upper, lower = (", ".join(map(str, lanes)) for lanes in masks)
        yield UNROLL_PRAGMA
        yield f"for (int n = 0; n < {num_rows // 2}; n++) {{"
        yield f"  const int m = n / {step} * {2 * step} + n % {step};"
        yield f"  const {type_} a = r[m], b = r[m + {step}];"
        yield f"  r[m] = SHUFFLE({mask_type}, a, b, {upper});"
        yield f"  r[m + {step}] = SHUFFLE({mask_type}, a, b, {lower});"
        yield "}"
