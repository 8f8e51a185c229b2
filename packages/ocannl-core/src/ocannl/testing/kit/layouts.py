"""Arrays of every layout: strides, offsets, transposes, broadcasts, windows, gaps; and the arena."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from ocannl.ir.affine import Affine
from ocannl.ir.loops import AccessMode, Apply, Const, Store, Update, loop
from ocannl.ir.ops import ADD
from ocannl.ir.precision import Precision, bfloat16, bool_, float32, float64, int64, uint8, uint16, uint32
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.cases import A, Array, Case, block, case, cell, load, pool, sym
from ocannl.testing.kit.harness import Bench

Build = Callable[[Precision], Case]
SIZES = (bool_, uint8, uint16, bfloat16, float32, uint32, float64, int64)  # of one, two, four and eight bytes


def ramp(p: Precision, count: int) -> Array:
    """Distinct numbers, exact in every type of more than one byte."""
    if p is bool_:
        return np.asarray(np.arange(count) % 3 == 1)
    return (np.arange(count) % 200 + 1).astype(p.numpy)


def copied(name: str, p: Precision, shape: tuple[int, ...], source: str, sink: str, size: int, room: int) -> Case:
    """`y[SINK] = x[SOURCE]` over the loops `i` and `j`; the memory of `x` and `y` holds `size` and `room`
    elements."""
    i, j = sym("i", shape[0]), sym("j", shape[1])
    scope = {"i": A(i), "j": A(j)}
    (x_shape, x_strides, x_at), (y_shape, y_strides, y_at) = (eval(text, scope) for text in (source, sink))
    inputs, before = ramp(p, size), np.roll(ramp(p, room), 1)
    x = pool("x", inputs, AccessMode.IN, x_shape, x_strides)
    y = pool("y", before, AccessMode.INOUT, y_shape, y_strides)
    body = (loop(i, (loop(j, (Store(cell(y, *y_at), load(x, *x_at)),)),)),)
    return case(name, [(x, inputs), (y, before)], body)


# name: (loops, (shape, strides, indices) of x, the same of y, elements of x, elements of y)
COPIES: dict[str, tuple[tuple[int, int], str, str, int, int]] = {
    "row_major": ((3, 4), "(3, 4), (4, 1), (i, j)", "(3, 4), (4, 1), (i, j)", 12, 12),
    "transposed": ((3, 4), "(4, 3), (3, 1), (j, i)", "(3, 4), (4, 1), (i, j)", 12, 12),
    "column_major": ((3, 4), "(3, 4), (1, 3), (i, j)", "(3, 4), (4, 1), (i, j)", 12, 12),
    "column_major_target": ((3, 4), "(3, 4), (4, 1), (i, j)", "(3, 4), (1, 3), (i, j)", 12, 12),
    "broadcast_row": ((3, 4), "(4,), (1,), (j,)", "(3, 4), (4, 1), (i, j)", 4, 12),
    "broadcast_column": ((3, 4), "(3,), (1,), (i,)", "(3, 4), (4, 1), (i, j)", 3, 12),
    "broadcast_scalar": ((3, 4), "(), (), ()", "(3, 4), (4, 1), (i, j)", 1, 12),
    "offset": ((3, 4), "(5, 6), (6, 1), (i + 2, j + 1)", "(4, 5), (5, 1), (i + 1, j)", 30, 20),
    "last_column": ((3, 4), "(3, 5), (5, 1), (i, 4)", "(3, 4), (4, 1), (i, j)", 15, 12),
    "every_other": ((3, 4), "(6, 8), (8, 1), (2*i + 1, 2*j)", "(3, 4), (4, 1), (i, j)", 48, 12),
    "every_other_target": ((3, 4), "(3, 4), (4, 1), (i, j)", "(6, 8), (8, 1), (2*i, 2*j + 1)", 12, 48),
    "reversed": ((3, 4), "(3, 4), (4, 1), (-i + 2, -j + 3)", "(3, 4), (4, 1), (i, j)", 12, 12),
    "reversed_target": ((3, 4), "(3, 4), (4, 1), (i, j)", "(3, 4), (4, 1), (i, -j + 3)", 12, 12),
    "gaps": ((3, 4), "(3, 4), (9, 2), (i, j)", "(3, 4), (4, 1), (i, j)", 25, 12),
    "gaps_in_target": ((3, 4), "(3, 4), (4, 1), (i, j)", "(3, 4), (9, 2), (i, j)", 12, 25),
    "window": ((3, 4), "(9,), (1,), (2*i + j,)", "(3, 4), (4, 1), (i, j)", 9, 12),
    "diagonal": ((3, 4), "(7, 7), (7, 1), (i + j, i + j)", "(3, 4), (4, 1), (i, j)", 49, 12),
    "flattened": ((3, 4), "(12,), (1,), (4*i + j,)", "(3, 4), (4, 1), (i, j)", 12, 12),
    "three_axes": ((3, 4), "(3, 2, 4), (8, 4, 1), (i, 1, j)", "(4, 1, 3), (3, 3, 1), (j, 0, i)", 24, 12),
    "last_one_stays": ((3, 4), "(3, 4), (4, 1), (i, j)", "(3,), (1,), (i,)", 12, 3),
    "one_cell": ((1, 1), "(1, 1), (1, 1), (i, j)", "(), (), ()", 1, 1),
    "long_rows": ((2, 133), "(2, 133), (133, 1), (i, j)", "(133, 2), (2, 1), (j, i)", 266, 266),
}


@cache
def copies(p: Precision) -> dict[str, Case]:
    cases = {}
    for name, (shape, source, sink, size, room) in COPIES.items():
        cases[name] = copied(f"copy_{name}", p, shape, source, sink, size, room)
    return cases


def through_arena(offsets: tuple[int, int], p: Precision, arena: int) -> Case:
    """`s = x + 1; t = s + 1; y = t`, with temporaries in the arena."""
    inputs = np.arange(8).astype(p.numpy)
    x, y = pool("x", inputs, AccessMode.IN), pool("y", inputs, AccessMode.OUT)
    s, t = (block(name, p, offset, 8) for name, offset in zip("st", offsets, strict=True))
    i, j, k = (sym(name, 8) for name in "ijk")
    unit = Const(1, p)
    body = (
        loop(i, (Store(cell(s, i), Apply(ADD, (load(x, i), unit))),)),
        loop(j, (Store(cell(t, j), Apply(ADD, (load(s, j), unit))),)),
        loop(k, (Store(cell(y, k), load(t, k)),)),
    )
    name = "arena_" + "_".join(map(str, offsets))
    arrays = [(x, inputs), (y, np.zeros_like(inputs))]
    return case(name, arrays, body, temporaries=(s, t), arena=arena, want=(inputs, inputs + 2))


def simultaneous(offsets: tuple[int, int], p: Precision, arena: int) -> Case:
    """`s = x + 1; t = x; y[i] = s[i] + t[7 - i]`: both temporaries are live at the end."""
    inputs = np.arange(8).astype(p.numpy)
    x, y = pool("x", inputs, AccessMode.IN), pool("y", inputs, AccessMode.OUT)
    s, t = (block(name, p, offset, 8) for name, offset in zip("st", offsets, strict=True))
    i, j, k = (sym(name, 8) for name in "ijk")
    body = (
        loop(i, (Store(cell(s, i), Apply(ADD, (load(x, i), Const(1, p)))),)),
        loop(j, (Store(cell(t, j), load(x, j)),)),
        loop(k, (Store(cell(y, k), Apply(ADD, (load(s, k), load(t, A(7) - k)))),)),
    )
    want = (inputs, np.full(8, 8, p.numpy))
    arrays = [(x, inputs), (y, np.zeros_like(inputs))]
    return case("together", arrays, body, temporaries=(s, t), arena=arena, want=want)


class Layouts(Area):
    """Strides and indices determine the accessed cells; no others are written."""

    @pytest.mark.parametrize("name", COPIES)
    @pytest.mark.parametrize("p", SIZES, ids=str)
    def test_a_copy(self, bench: Bench, p: Precision, name: str) -> None:
        example = copies(p)[name]
        if bench.claims(p):
            bench.check(example, copies(p).values())
        else:
            bench.refuses(example.proc)

    def test_an_array_without_elements(self, bench: Bench) -> None:
        p = bench.number
        empty, values = np.zeros((0, 4), p.numpy), np.arange(4).astype(p.numpy)
        x, y, i, j = pool("x", empty, AccessMode.IN), pool("y", values), sym("i", 0), sym("j", 4)
        body = (loop(j, (loop(i, (Update(cell(y, j), ADD, load(x, i, j)),)),)),)
        bench.check(case("none", [(x, empty), (y, values)], body, want=(empty, values)))

    def test_a_temporary_without_elements(self, bench: Bench) -> None:
        """The program has no arena."""
        p = bench.number
        values = np.arange(4).astype(p.numpy)
        x, t, i = pool("x", values), block("t", p, 0, 0, 4), sym("i", 0)
        body = (loop(i, (Store(cell(t, i, 1), load(x, i)),)), Update(cell(x, 1), ADD, Const(1, p)))
        bench.check(case("empty", [(x, values)], body, temporaries=(t,)))

    def test_an_array_without_axes(self, bench: Bench) -> None:
        p = bench.number
        y = pool("y", np.zeros((), p.numpy), AccessMode.OUT)
        stored = (Store(cell(y), Const(3, p)),)
        bench.check(case("scalar", [(y, np.zeros((), p.numpy))], stored, want=(np.full((), 3, p.numpy),)))

    @pytest.mark.parametrize("offsets", [(0, 1), (1, 0), (0, 0), (2, 5)], ids=str)
    def test_temporaries_in_the_arena(self, bench: Bench, offsets: tuple[int, int]) -> None:
        """Temporaries that are not live simultaneously may overlap or be adjacent."""
        step = max(bench.backend.capabilities.alignment_bytes, 64)
        first, second = (n * step for n in offsets)
        bench.check(through_arena((first, second), bench.number, 6 * step))

    @pytest.mark.parametrize("offsets", [(0, 1), (1, 0), (2, 5)], ids=str)
    def test_temporaries_that_are_needed_together(self, bench: Bench, offsets: tuple[int, int]) -> None:
        step = max(bench.backend.capabilities.alignment_bytes, 64)
        first, second = (n * step for n in offsets)
        bench.check(simultaneous((first, second), bench.number, 6 * step))

    def test_arrays_in_another_order(self, bench: Bench) -> None:
        p = bench.number
        a, b = ramp(p, 5), ramp(p, 9)
        x, y, i = pool("x", a, AccessMode.IN), pool("y", b), sym("i", 5)
        body = (loop(i, (Update(cell(y, Affine.of(i) + 4), ADD, load(x, i)),)),)
        for order in ((x, y), (y, x)):
            arrays = [(buf, a if buf is x else b) for buf in order]
            bench.check(case("order", arrays, body))
