"""Affine forms against plain arithmetic."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocannl.ir.affine import TRUE, Affine, Bound, Cond, Sym, SymKind, bounds_condition

I, J, N = Sym("i", 0, 3), Sym("j", -1, 2), Sym("n", 2, 4, SymKind.STATIC)
SYMS = (I, J, N)
POINTS = [dict(zip(SYMS, p, strict=True)) for p in product(*(range(s.lo, s.hi + 1) for s in SYMS))]

numbers = st.integers(-5, 5)
affine = st.builds(Affine.sum, st.lists(st.tuples(numbers, st.sampled_from(SYMS)), max_size=4), numbers)


@given(affine, affine, numbers)
def test_arithmetic(a: Affine, b: Affine, c: int) -> None:
    for at in POINTS[::7]:
        x, y = a.evaluate(at), b.evaluate(at)
        assert (a + b).evaluate(at) == x + y
        assert (a - b).evaluate(at) == x - y
        assert (a + c).evaluate(at) == (c + a).evaluate(at) == x + c
        assert (a * c).evaluate(at) == (c * a).evaluate(at) == x * c
        assert (-a).evaluate(at) == -x
        assert a.substitute({I: b}).evaluate(at) == a.evaluate({**at, I: y})


@given(affine, affine)
def test_equal_exactly_when_the_same_function(a: Affine, b: Affine) -> None:
    same = all(a.evaluate(at) == b.evaluate(at) for at in POINTS)
    assert (a == b) is same
    assert not same or hash(a) == hash(b)
    assert (a - b == Affine()) is same


@given(affine)
def test_range_is_attained(a: Affine) -> None:
    values = [a.evaluate(at) for at in POINTS]
    assert a.range() == (min(values), max(values))


@given(affine, st.integers(1, 6))
def test_inside_says_just_what_ranges_leave_open(a: Affine, size: int) -> None:
    cond = bounds_condition(a, size)
    for at in POINTS:
        assert all(f.evaluate(at) >= 0 for f in cond.ge0) == (0 <= a.evaluate(at) < size)
    assert cond.is_true == all(0 <= a.evaluate(at) < size for at in POINTS)


def test_inside_an_empty_loop_is_never_asked() -> None:
    assert bounds_condition(Affine.of(Sym("e", 0, -1)) - 7, 2) == TRUE


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (Affine(), "0"),
        (Affine.of(-3), "-3"),
        (Affine.of(I), "i"),
        (2 * Affine.of(I) + J - 1, "2*i+j-1"),
        (-Affine.of(I) + 3, "-i+3"),
        (Affine.of(J) - 2 * Affine.of(N), "j-2*n"),
    ],
)
def test_text(index: Affine, text: str) -> None:
    assert str(index) == text


def test_parts_of_an_index() -> None:
    index = 2 * Affine.of(I) + J - 1
    assert (index.coef(I), index.coef(J), index.coef(N)) == (2, 1, 0)
    assert index.syms == (I, J)
    assert index.only_sym is None and Affine.of(I).only_sym is I and (Affine.of(I) + 1).only_sym is None
    assert Affine.of(3).is_const and not index.is_const


def test_extent_of_an_empty_range() -> None:
    assert (I.extent, Sym("e", 0, -1).extent, Sym("e", 5, 0).extent) == (4, 0, 0)


def test_conditions() -> None:
    i, j = Affine.of(I), Affine.of(J)
    both = Cond((i,)) & Cond((i, j), (i - j,))
    assert both == Cond((i, j), (i - j,))
    assert str(both) == "i >= 0 && j >= 0 && i-j == 0" and str(TRUE) == "true"
    assert both.syms == (I, J)
    assert both.substitute({I: j}) == Cond((j, j), (Affine(),))


def test_bounds() -> None:
    assert Bound.lower(3).constant == 3
    assert Bound.upper(3).constant == 2
    assert Bound.lower(Affine.of(I)).constant is None
    assert Bound(((Affine.of(3), 2),)).constant is None
    assert Bound(((Affine.of(I), 2), (Affine.of(J), 1))).syms == (I, J)
