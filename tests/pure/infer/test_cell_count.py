"""Cell counts of rows."""

from __future__ import annotations

import pytest

from ocannl.infer.capture import Capture
from ocannl.infer.cell_count import CellCount
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.solve import propagate
from ocannl.infer.terms import DimVar, Row, RowVar, Trail, print_row
from ocannl.infer.unify import bind, set_size


def count(number, *rows):
    trail = Trail()
    total = CellCount(number, rows, text="`..v..`")
    trail.queue.append(total)
    propagate(trail)
    return total


def know(step, *args):
    trail = Trail()
    step(trail, *args)
    propagate(trail)


def test_the_number_follows_from_solved_axes():
    number, axis, var = DimVar(), DimVar(), RowVar()
    count(number, Row((DimVar(2),), var, ()), Row((), None, (DimVar(5),)))
    know(bind, var, Row((), None, (axis,)))
    assert number.size is None
    know(set_size, axis, 3, None)
    assert number.size == 30


def test_a_single_unknown_axis_follows_from_the_number():
    axis = DimVar()
    count(DimVar(30), Row((), None, (DimVar(5), axis)))
    assert axis.size == 6
    first, second = DimVar(), DimVar()
    count(DimVar(5), Row((), None, (DimVar(5), first, second)))
    assert (first.size, second.size) == (1, 1)


@pytest.mark.parametrize("sizes", [(4, None), (5, 2), (0, None)], ids=str)
def test_numbers_that_do_not_fit(sizes):
    with pytest.raises(Mismatch, match=r"`\.\.v\.\.` is .*, but its number of cells is 30"):
        count(DimVar(30), Row((), None, tuple(map(DimVar, sizes))))


def test_a_counted_row_gets_a_single_axis_by_default(net):
    y = net.einsum("..v.. => ..v..", net.x("?"), v=6)
    assert str(y) == "6"
    y = net.einsum("..v.., 2 => ..v..", net.x("3,2,5"), v=6)
    assert str(y) == "3,2"
    match = r"`..v..` is 3,2, which makes 6 cells, but `v`, given as v=7, is 7"
    net.refuses(match, net.einsum, "..v.. => ..v..", net.x("3,2"), v=7)


def test_a_captured_row_is_the_product_of_axes(net):
    """VR-01, VR-05, VR-09"""
    r, s = Capture("r"), Capture("s")
    net.einsum("..r.., a => ..r..", net.x("3,4,7"), captures={"r": r, "a": s})
    assert (r.value, s.value) == (12, 7)
    mix, n = Capture("mix"), Capture("n")
    m = net.x("2,4,?".replace(",?", ",8"))
    t = net.einsum("..mix.., n => n, ..mix..", m, captures={"mix": mix, "n": n})
    mix.equal(n)
    assert str(t) == "8,2,4"


@pytest.mark.parametrize(
    ("cells", "rows", "use", "want"),
    [
        (12, "?|?->?", None, "12|"),
        (12, "3|?->?", None, "3|4"),
        (12, "?|4->", None, "3|4->"),
        (12, "?|?->?", "3", "4|3"),
        (12, "?|?->?", "2|3", "2,2|3"),
        (1, "?|?->?", None, ""),
        (0, "?|?->?", None, "0|"),
        (12, "3,4", None, "3,4"),
    ],
    ids=str,
)
def test_data_of_explicit_length(net, cells, rows, use, want):
    x = net.leaf("x", rows, "data", cells=cells)
    if use is not None:
        net.add(x, net.x(use, "k"))
    assert str(x) == want


def test_data_whose_length_does_not_fit(net):
    net.refuses("`x` is 5, which makes 5 cells, but", net.leaf, "x", "5", "data", cells=12)
    x = net.leaf("x", "?", "data", cells=12)
    net.refuses("`x` is 5,\\?, which makes a multiple of 5 cells, but", net.einsum, "ij; i => j", x, net.x("5", "k"))
    x = net.leaf("x", "?", "data", cells=12)
    net.refuses("`x` is 0,\\?, which makes 0 cells, but", net.einsum, "ij; i => j", x, net.x("0", "k"))


def test_nothing_waits_for_a_row_that_is_taken_back():
    var, number = RowVar(), DimVar(6)
    trail = Trail()
    trail.queue.append(CellCount(number, (Row((), var, ()),), text="v"))
    propagate(trail)
    assert var.watchers and number.size_equations
    trail.undo()
    assert not var.watchers and not number.size_equations and print_row(Row((), var, ())) == "..."
