"""Windows, strides, concatenations and merged axes: size equations, propagated in every direction."""

from __future__ import annotations

import pytest

from ocannl.infer.mismatch import Mismatch
from ocannl.infer.size_equations import Product, Strided, Sum, attach
from ocannl.infer.solve import propagate
from ocannl.infer.spec import Margins, Padding
from ocannl.infer.terms import DimVar, Trail


def solve(law):
    trail = Trail()
    attach(trail, law)
    propagate(trail)


def window(axis, over, taps, padding=Padding.VALID, **more):
    cells = DimVar(axis), DimVar(over), None if taps == "no" else DimVar(taps)
    solve(Strided(*cells, padding=padding, text="window", **more))
    return tuple(cell.size for cell in cells if cell is not None)


SAME, VALID, UNSTATED = Padding.SAME, Padding.VALID, Padding.UNSTATED


@pytest.mark.parametrize(
    ("axis", "over", "taps", "padding", "more", "want"),
    [
        (4, None, 2, VALID, {"stride": 2}, (4, 2, 2)),  # CV-01
        (5, None, 3, SAME, {}, (5, 5, 3)),  # CV-03
        (5, None, 3, VALID, {}, (5, 3, 3)),  # CV-05
        (9, None, 3, VALID, {"stride": 2}, (9, 4, 3)),  # CV-07
        (7, None, 3, VALID, {"stride": 2}, (7, 3, 3)),  # CV-11
        (5, None, 2, VALID, {}, (5, 4, 2)),  # CV-19
        (None, 4, 3, VALID, {"stride": 2}, (9, 4, 3)),
        (9, 4, None, VALID, {"stride": 2}, (9, 4, 3)),
        (9, None, 3, VALID, {"dilation": 2}, (9, 5, 3)),
        (9, 5, None, VALID, {"dilation": 2}, (9, 5, 3)),
        (10, None, 3, VALID, {"offset": 1}, (10, 7, 3)),
        (3, None, 3, VALID, {"stride": 5}, (3, 1, 3)),
        (8, None, None, SAME, {"stride": 2}, (8, 4, None)),
        (None, 4, None, SAME, {"stride": 2}, (8, 4, None)),
        (None, None, 3, SAME, {}, (None, None, 3)),
        (6, None, "no", UNSTATED, {"stride": 2}, (6, 3)),
        (None, 3, "no", UNSTATED, {"stride": 2}, (6, 3)),  # CV-21
        (None, 3, "no", UNSTATED, {"stride": 2, "offset": 1}, (6, 3)),
        (5, None, "no", UNSTATED, {"offset": 3}, (5, 2)),
        (0, None, "no", UNSTATED, {"stride": 2}, (0, 0)),
        (7, 3, 3, UNSTATED, {"stride": 2}, (7, 3, 3)),
        (9, None, 3, UNSTATED, {}, (9, None, 3)),
        (5, None, 3, Margins(1, 1), {}, (5, 5, 3)),
        (224, None, 7, Margins(3, 3), {"stride": 2}, (224, 112, 7)),
        (8, None, 3, Margins(0, 0), {"stride": 3}, (8, 2, 3)),
        (8, 2, 3, Margins(0, 0), {"stride": 3}, (8, 2, 3)),
        (None, 4, 3, Margins(1, 1), {}, (4, 4, 3)),
        (4, 4, None, Margins(1, 1), {}, (4, 4, 3)),
        (None, 4, 3, Margins(1, 1), {"stride": 2, "is_shortest": True}, (7, 4, 3)),
        (7, 4, None, Margins(1, 1), {"stride": 2, "is_shortest": True}, (7, 4, 3)),
        (7, 4, None, Margins(1, 1), {"stride": 2}, (7, 4, None)),
    ],
)
def test_windows(axis, over, taps, padding, more, want):
    assert window(axis, over, taps, padding, **more) == want


@pytest.mark.parametrize(
    ("axis", "over", "taps", "padding", "more", "message"),
    [
        (5, None, 2, VALID, {"stride": 2}, r"does not fit axis 5, window 2: 3 is no multiple of the stride 2"),
        (2, None, 3, VALID, {}, "the window is longer than the axis"),
        (9, 3, 3, VALID, {"stride": 2}, r"axis 9, places 3, window 3: 7 would fit in place of 9"),
        (9, 4, None, VALID, {"dilation": 2}, "5 is no multiple of the dilation 2"),
        (3, 4, None, VALID, {"stride": 2}, "the window is longer than the axis"),
        (9, None, 3, SAME, {"stride": 2}, "9 is no multiple of the stride 2"),
        (9, 0, 3, VALID, {}, "a window needs at least one tap and one position"),
        (None, 3, 0, VALID, {}, "a window needs at least one tap and one position"),
        (7, None, "no", UNSTATED, {"stride": 2}, "7 is no multiple of the stride 2"),
        (2, None, "no", UNSTATED, {"offset": 3}, "nothing is left"),
        (2, None, 5, Margins(1, 1), {}, "the window is longer than the axis"),
        (8, 3, 3, Margins(0, 0), {"stride": 3}, "is 8, but it is indexed up to 8"),
        (9, 2, 3, Margins(0, 0), {"stride": 3}, "3 would fit in place of 2"),
        (6, 3, 3, UNSTATED, {"stride": 2}, "is 6, but it is indexed up to 6"),
    ],
)
def test_windows_that_do_not_fit(axis, over, taps, padding, more, message):
    with pytest.raises(Mismatch, match=message):
        window(axis, over, taps, padding, **more)


def test_a_window_shares_the_unit_of_the_axis():
    """SI-39, SI-41"""
    axis, over = DimVar(None), DimVar(4, "x")
    solve(Strided(axis, over, None, stride=2))
    assert (axis.size, axis.unit) == (8, "x")
    axis, over = DimVar(8, "x"), DimVar()
    solve(Strided(axis, over, None, stride=2))
    assert (over.size, over.unit) == (4, "x")
    with pytest.raises(Mismatch, match="units differ"):
        solve(Strided(DimVar(), DimVar(4, "x"), DimVar(3, "y"), padding=VALID))
    axis, taps = DimVar(), DimVar(3)
    solve(Strided(axis, DimVar(4, "x"), taps, padding=VALID))
    assert (axis.size, axis.unit, taps.unit) == (6, "x", None)


def laid(total, parts, **more):
    cells = DimVar(total), *map(DimVar, parts)
    solve(Sum(cells[0], cells[1:], text="a^b", **more))
    return tuple(cell.size for cell in cells)


@pytest.mark.parametrize(
    ("total", "parts", "more", "want"),
    [
        (None, (2, 4), {}, (6, 2, 4)),
        (6, (2, None), {}, (6, 2, 4)),
        (6, (None,), {"constant": 2}, (6, 4)),
        (None, (2,), {"constant": 1}, (3, 2)),
        (6, (6, None, None), {}, (6, 6, 0, 0)),
        (6, (None, None), {}, (6, None, None)),
        (None, (), {"constant": 3}, (3,)),
        (2, (2, None), {}, (2, 2, 0)),
    ],
)
def test_concatenations(total, parts, more, want):
    assert laid(total, parts, **more) == want


@pytest.mark.parametrize(
    ("total", "parts", "more"), [(5, (2, 4), {}), (5, (6, None), {}), (5, (None,), {"constant": 7})], ids=str
)
def test_concatenations_that_do_not_fit(total, parts, more):
    with pytest.raises(Mismatch, match="the sizes in `a\\^b` make"):
        laid(total, parts, **more)


def test_a_repeated_part_counts_twice():
    total, part = DimVar(6), DimVar()
    solve(Sum(total, (part, part)))
    assert part.size == 3
    with pytest.raises(Mismatch):
        solve(Sum(DimVar(5), (DimVar(), part := DimVar(), part, DimVar(0))[1:]))


def test_parts_of_a_concatenation_share_their_unit():
    """SI-37"""
    total, part = DimVar(), DimVar(3)
    solve(Sum(total, (DimVar(2, "x"), part)))
    assert (total.size, total.unit, part.unit) == (5, "x", "x")
    with pytest.raises(Mismatch, match="units differ"):
        solve(Sum(DimVar(), (DimVar(2, "x"), DimVar(3, "y"))))


def merged(total, parts, **more):
    cells = DimVar(total), *map(DimVar, parts)
    solve(Product(cells[0], cells[1:], text="(a b)", **more))
    return tuple(cell.size for cell in cells)


@pytest.mark.parametrize(
    ("total", "parts", "more", "want"),
    [
        (None, (3, 4), {}, (12, 3, 4)),
        (12, (3, None), {}, (12, 3, 4)),
        (12, (12, None, None), {}, (12, 12, 1, 1)),
        (None, (0, None), {}, (0, 0, None)),
        (12, (None, None), {}, (12, None, None)),
        (None, (4,), {"factor": 2}, (8, 4)),
        (8, (None,), {"factor": 2}, (8, 4)),
    ],
)
def test_merged_axes(total, parts, more, want):
    assert merged(total, parts, **more) == want


@pytest.mark.parametrize(("total", "parts"), [(10, (3, None)), (10, (3, 4)), (10, (0, None)), (5, (None, 0))])
def test_merged_axes_that_do_not_fit(total, parts):
    with pytest.raises(Mismatch, match="the sizes in `\\(a b\\)` make"):
        merged(total, parts)


def test_the_side_of_a_square():
    side = DimVar()
    solve(Product(DimVar(9), (side, side)))
    assert side.size == 3
    with pytest.raises(Mismatch):
        solve(Product(DimVar(8), ((side := DimVar()), side)))


# --- in specs ---------------------------------------------------------------------------------------------------------


def test_windows_in_specs(net):
    x, k = net.x("5,5,1"), net.param("k", "3,3,?,4".replace("?", "1"))
    y = net.einsum("oh=+kh, ow=+kw, ic; kh, kw, ic, oc => oh, ow, oc", x, k)
    assert str(y) == "5,5,4"  # CV-03
    x = net.x("?")
    y = net.einsum("2*o<+k; k => o", x, net.x("3", "k"))
    net.add(y, net.x("4", "t"))
    assert net.shapes(y, x) == ["4", "9"]


def test_a_use_does_not_size_an_axis_left_open_by_an_equation(net):
    head = net.einsum("a^b => a", net.x("5"))
    net.refuses("what is left in `a\\^b` is 5", net.add, head, net.x("3", "k"))
    assert str(head) == "5"
    net.refuses(r"nothing says how `o<\+k` divides", net.einsum, "o<+k => o, k", net.x("5"))


def test_leaves_in_equations_grow_to_the_uses_of_the_total(net):
    x = net.x("?", "x")
    windows = net.einsum("o<+k => o", x, k=3)
    net.add(windows, net.x("6", "k"))
    assert net.shapes(x, windows) == ["8", "6"]


def test_spare_parts_vanish(net):
    assert str(net.einsum("a^b => a", net.x("5"))) == "5"
    assert str(net.einsum("a^b^c => b", net.x("5"))) == "5"
    assert str(net.einsum("a^b => 0", net.x("5"))) == "1"


def test_ambiguous_equations_are_refused_by_name(net):
    x = net.x("12")
    net.refuses(r"nothing says how `\(a b\)` divides output axis 1 of `x`, which is 12", net.einsum, "(a b) => a, b", x)
    assert str(net.einsum("(a b) => a, b", net.x("12"), a=3)) == "3,4"
    net.refuses("nothing says how `a\\^b` divides", net.einsum, "a^b => a, b", x)
    assert str(net.einsum("(a b) => a, b", net.x("1"))) == "1,1"


def test_coefficients_by_name(net):
    assert str(net.einsum("s*o<+d*k; k => o", net.x("9"), net.x("3", "k"), s=2, d=2)) == "3"
    net.refuses("the coefficient `s` has no value", net.einsum, "s*o => o", net.x("9"))
    net.refuses("the coefficient `s` is 0", net.einsum, "s*o => o", net.x("9"), s=0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_concatenation_facts_come_in_any_order(net, order):
    total, b = net.x("?", "whole"), net.x("?", "b")
    facts = [
        lambda: net.einsum("x, ...; y, ... => x^y, ...", net.x("2,3", "a"), b, result=total),
        lambda: net.add(total, result=net.x("6,3", "c")),
    ]
    for n in order:
        facts[n]()
    assert net.shapes(total, b) == ["6,3", "4,3"]
