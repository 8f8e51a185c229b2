"""Inequalities between axes and rows: immediate propagation, suspended constraints, refusals."""

from __future__ import annotations

import itertools

import pytest

from ocannl.infer.broadcast import PRUNE_THRESHOLD, order, order_rows
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.solve import propagate
from ocannl.infer.terms import DimVar, Row, RowVar, Trail, find, print_row, resolve
from ocannl.infer.unify import bind, join, set_min_size, set_size, set_unit


def closed(*sizes):
    return Row((), None, tuple(map(DimVar, sizes)))


def row(lead, var, trail):
    return Row(tuple(map(DimVar, lead)), var, tuple(map(DimVar, trail)))


def bare(var):
    return Row((), var, ())


def below(res, opnd):
    trail = Trail()
    (order if isinstance(res, DimVar) else lambda t, a, b: order_rows(t, a, b, 0, False))(trail, res, opnd)
    propagate(trail)
    return trail


def know(step, *args):
    trail = Trail()
    step(trail, *args)
    propagate(trail)


# --- axes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("res", "opnd", "fits"),
    [
        ((5, None), (5, None), True),
        ((5, None), (1, None), True),  # SI-19
        ((5, "rgb"), (1, None), True),
        ((1, "rgb"), (1, None), True),
        ((5, "rgb"), (5, None), True),
        ((5, "rgb"), (5, "xyz"), False),  # SI-17
        ((5, "rgb"), (1, "rgb"), False),  # SI-35
        ((1, None), (5, None), False),
        ((1, "rgb"), (1, "xyz"), False),
        ((4, None), (5, None), False),
        ((0, None), (1, None), True),
        ((1, None), (0, None), False),
    ],
    ids=str,
)
def test_solved_axes(res, opnd, fits):
    if fits:
        below(DimVar(*res), DimVar(*opnd))
    else:
        with pytest.raises(Mismatch):
            below(DimVar(*res), DimVar(*opnd))


def test_an_axis_that_fits_under_a_rigid_axis_is_joined():
    res = DimVar()
    below(res, DimVar(5, "rgb"))
    assert (find(res).size, find(res).unit) == (5, "rgb")


def test_an_axis_above_size_1_has_size_1():
    opnd = DimVar()
    below(DimVar(1), opnd)
    assert opnd.size == 1


def test_a_bound_travels_up_through_unknown_axes():
    a, b, c = DimVar(), DimVar(), DimVar()
    below(b, c)
    below(a, b)
    below(DimVar(5), a)
    assert (a.lower_bound, b.lower_bound, c.lower_bound) == (5, 5, 5) and c.size is None
    below(DimVar(4), b)
    assert (a.size, b.size, c.size) == (None, 1, 1)


@pytest.mark.parametrize("last", ["size", "unit", "index", "join"])
def test_a_rigid_axis_is_joined_with_smaller_axes(last):
    res, mid, opnd = DimVar(), DimVar(), DimVar(1) if last == "unit" else DimVar()
    below(res, mid)
    below(mid, opnd)
    match last:
        case "size": know(set_size, opnd, 5, None)
        case "unit": know(set_unit, opnd, "rgb")
        case "index": know(set_min_size, opnd, 3)
        case "join": know(join, opnd, DimVar(5))
    assert find(res) is find(mid) is find(opnd)


def test_a_stretched_axis_may_not_become_rigid():
    opnd = DimVar(1)
    below(DimVar(5), opnd)
    with pytest.raises(Mismatch):
        know(set_unit, opnd, "rgb")


def test_mutual_bounds_end_equal():
    a, b = DimVar(), DimVar()
    below(a, b)
    below(b, a)
    know(set_size, a, 5, None)
    assert find(a) is find(b)


def test_a_stretched_axis_prunes_redundant_uses():
    stretchable, unknown = DimVar(1), DimVar()
    below(unknown, stretchable)
    for _ in range(40 * PRUNE_THRESHOLD):
        below(DimVar(7), stretchable)
    assert len(stretchable.below) <= 2 * PRUNE_THRESHOLD and unknown in stretchable.below
    with pytest.raises(Mismatch):
        know(set_unit, stretchable, "rgb")


# --- rows -------------------------------------------------------------------------------------------------------------


def test_closed_rows_align_from_the_last_axis():
    """SI-09, SI-11"""
    below(closed(3), closed(3))
    below(closed(3, 5), closed(5))
    with pytest.raises(Mismatch):
        below(closed(3, 5), closed(3))
    with pytest.raises(Mismatch, match="cannot have more axes"):
        below(closed(3), closed(1, 3))
    var = RowVar()
    below(row([3], var, []), row([], var, [3]))


def test_a_result_row_is_as_long_as_the_operands_require():
    res = RowVar()
    below(bare(res), closed(3, 7))
    assert print_row(bare(res)) == "...,3,7"
    below(bare(res), closed(2, 4, 3, 7))
    assert print_row(bare(res)) == "...,2,4,3,7"
    assert resolve(bare(res)).var is not None


def test_a_leading_axis_waits_until_the_row_is_closed():
    res = RowVar()
    below(row([3], res, []), closed(3))
    assert print_row(row([3], res, [])) == "3,..."
    know(bind, res, Row())
    with pytest.raises(Mismatch):
        middle = RowVar()
        below(row([4], middle, []), closed(3))
        know(bind, middle, Row())


def test_an_operand_waits_until_the_use_is_closed():
    opnd, res = RowVar(), RowVar()
    below(bare(res), bare(opnd))
    assert print_row(bare(opnd)) == "..."
    know(bind, opnd, closed(3))
    assert print_row(bare(res)) == "...,3"


def test_an_operand_whose_use_leaves_no_room_ends():
    opnd = RowVar()
    below(closed(3, 4), row([], opnd, [3, 1]))
    assert print_row(bare(opnd)) == ""


@pytest.mark.parametrize("swap", [False, True])
def test_cyclic_ranks_are_refused(swap):
    """SI-01, SI-03"""
    a, b = RowVar(), RowVar()
    flanks = ([2], []) if swap else ([], [2])
    below(bare(a), row(flanks[0], b, flanks[1]))
    with pytest.raises(Mismatch, match="grow without end"):
        below(bare(b), row(flanks[0], a, flanks[1]))


def test_a_row_cannot_be_longer_than_itself():
    var = RowVar()
    with pytest.raises(Mismatch, match="no number of axes satisfies both"):
        below(bare(var), row([], var, [3]))
    below(row([], var, [3]), bare(var))


@pytest.mark.parametrize("permutation", [*itertools.permutations(range(4))], ids=str)
def test_propagation_does_not_depend_on_the_order(permutation):
    a, b, c = RowVar(), RowVar(), RowVar()
    facts = [
        lambda: below(bare(a), bare(b)),
        lambda: below(bare(b), closed(3, 1)),
        lambda: below(bare(c), row([], a, [5])),
        lambda: below(bare(a), closed(7)),
    ]
    for n in permutation:
        facts[n]()
    assert [print_row(bare(v)) for v in (a, b, c)] == ["...,3,7", "...,3,?", "...,3,7,5"]


def test_a_trail_takes_everything_back():
    a, b, unit_axis = RowVar(), RowVar(), DimVar(1)
    below(bare(a), bare(b))
    before = (len(a.watchers), len(b.watchers), print_row(bare(a)))
    trail = Trail()
    order_rows(trail, bare(a), Row((), None, (unit_axis, DimVar(3))), 0, False)
    bind(trail, b, closed(4, 3))
    with pytest.raises(Mismatch):
        propagate(trail) or order_rows(trail, bare(a), closed(9), 0, False)
    trail.undo()
    assert (len(a.watchers), len(b.watchers), print_row(bare(a))) == before and unit_axis.below is None
