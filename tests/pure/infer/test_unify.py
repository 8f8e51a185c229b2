"""Unification of sizes, units and rows."""

from __future__ import annotations

import pytest

from ocannl.infer.mismatch import Mismatch
from ocannl.infer.solve import propagate
from ocannl.infer.terms import MAX_AXES, DimVar, Row, RowVar, Trail, find, print_row, resolve
from ocannl.infer.unify import bind, equate, join, raise_lower_bound, set_min_size, set_size, set_unit


def closed(*sizes):
    return Row((), None, tuple(map(DimVar, sizes)))


def row(lead, var, trail):
    return Row(tuple(map(DimVar, lead)), var, tuple(map(DimVar, trail)))


def equal(a, b):
    trail = Trail()
    equate(trail, a, b)
    propagate(trail)
    return trail


def shown(var):
    value = resolve(Row((), var, ()))
    return print_row(value), len(value.lead)


# --- axes -------------------------------------------------------------------------------------------------------------


def test_joined_axes_share_sizes_and_units():
    trail = Trail()
    a, b, c = DimVar(), DimVar(3), DimVar(None, "rgb")
    join(trail, a, b)
    join(trail, c, a)
    assert all((find(d).size, find(d).unit) == (3, "rgb") for d in (a, b, c))
    trail.undo()
    assert [(d.link, d.rank) for d in (a, b, c)] == [(None, 0)] * 3
    assert [(d.size, d.unit) for d in (a, b, c)] == [(None, None), (3, None), (None, "rgb")]


@pytest.mark.parametrize(
    ("a", "b", "agree"),
    [
        ((3, None), (3, None), True),
        ((3, "rgb"), (3, None), True),  # SI-17: an axis without a unit takes its partner's
        ((3, "rgb"), (3, "xyz"), False),
        ((1, "rgb"), (1, None), True),
        ((1, "rgb"), (1, "xyz"), False),
        ((3, None), (4, None), False),
        ((3, None), (1, None), False),
        ((0, None), (0, None), True),
    ],
    ids=str,
)
def test_sizes_and_units_that_are_joined_must_agree(a, b, agree):
    for left, right in ((a, b), (b, a)):
        if agree:
            join(Trail(), DimVar(*left), DimVar(*right))
        else:
            with pytest.raises(Mismatch):
                join(Trail(), DimVar(*left), DimVar(*right))


def test_an_axis_covers_the_largest_index():
    d = DimVar()
    set_min_size(Trail(), d, 3)
    set_min_size(Trail(), d, 2)
    assert d.is_rigid and d.min_size == 3
    with pytest.raises(Mismatch, match="is 2, but it is indexed up to 2"):
        set_size(Trail(), d, 2, None)
    with pytest.raises(Mismatch, match="indexed up to 4"):
        set_min_size(Trail(), DimVar(4), 5)


def test_two_lower_bounds_leave_only_stretching():
    d = DimVar()
    raise_lower_bound(Trail(), d, 3)
    raise_lower_bound(Trail(), d, 3)
    assert d.size is None
    raise_lower_bound(Trail(), d, 4)
    assert d.size == 1


def test_a_unit_is_set_once():
    d = DimVar(3)
    set_unit(Trail(), d, "rgb")
    set_unit(Trail(), d, "rgb")
    with pytest.raises(Mismatch, match="units differ"):
        set_unit(Trail(), d, "xyz")


def test_ranks_keep_chains_of_links_short():
    dims = [DimVar() for _ in range(1024)]
    for step in (1 << n for n in range(10)):
        for n in range(0, 1024, 2 * step):
            join(Trail(), dims[n], dims[n + step])

    def depth(d):
        return 0 if d.link is None else 1 + depth(d.link)

    assert max(map(depth, dims)) <= 10


# --- rows -------------------------------------------------------------------------------------------------------------


def test_closed_rows_agree_pairwise():
    a, b = Row((DimVar(3),), None, (DimVar(4),)), Row((), None, (DimVar(), DimVar(4)))
    equal(a, b)
    assert print_row(b) == "3,4"
    with pytest.raises(Mismatch, match="one row is 3,4, another is 3: they must have equally many axes"):
        equal(closed(3, 4), closed(3))


def test_a_variable_is_bound_to_the_remainder_of_a_closed_row():
    """SI-23, SI-25"""
    var = RowVar()
    equal(row([3], var, [7]), closed(3, 4, 5, 7))
    assert shown(var) == ("4,5", 0)
    var = RowVar()
    equal(row([3], var, [7]), closed(3, 4, 7))
    assert shown(var) == ("4", 0)
    var = RowVar()
    equal(closed(3, 7), row([3], var, [7]))
    assert shown(var) == ("", 0)
    with pytest.raises(Mismatch):
        equal(row([3], RowVar(), [7]), closed(3))


def test_a_variable_is_bound_to_the_surplus_of_an_open_row():
    a, b = RowVar(), RowVar()
    equal(row([3], a, [7]), Row((), b, ()))
    assert shown(b) == ("3,...,7", 1)
    a, b = RowVar(), RowVar()
    equal(row([3, 4], a, [7]), row([3], b, [6, 7]))
    assert shown(a)[0] == "..." and shown(b)[0] == "..."  # surplus axes at opposite ends: undecided
    bind(trail := Trail(), b, closed(4))
    propagate(trail)
    assert shown(a) == ("6", 0)


def test_rows_of_equal_variables_have_equal_rank():
    """SI-05, SI-07"""
    var = RowVar()
    with pytest.raises(Mismatch):
        equal(row([], var, [3]), row([], var, [5]))
    equal(row([], var, [3]), row([], var, [3]))
    with pytest.raises(Mismatch, match="no number of axes satisfies both"):
        equal(row([], var, [3]), row([], var, [3, 3]))
    equal(row([3], var, []), row([], var, [5]))  # undecided: SI-05 refuses it when the row ends
    with pytest.raises(Mismatch):
        bind(trail := Trail(), var, Row())
        propagate(trail)


def test_equal_rows_may_overlap():
    """differs from SI-13; a row 3,5 satisfies both"""
    a, b = RowVar(), RowVar()
    equal(row([], a, [5]), row([3, 5], b, []))
    bind(trail := Trail(), b, Row())
    propagate(trail)
    assert shown(a) == ("3", 1)


def test_a_row_does_not_grow_without_end():
    trail, var = Trail(), RowVar()
    with pytest.raises(Mismatch, match="grow without end"):
        for _ in range(MAX_AXES + 1):
            remainder = RowVar(depth=var.depth + 1)
            bind(trail, var, Row((DimVar(),), remainder, ()))
            var = remainder


def test_binding_propagates_the_flags_of_the_variable():
    owner = object()
    var, remainder, axis = RowVar(owner), RowVar(), DimVar()
    var.is_required = True
    trail = Trail()
    bind(trail, var, Row((axis,), remainder, ()))
    assert (axis.leaf, axis.is_required) == (owner, True)
    assert (remainder.leaf, remainder.is_required, remainder.constrained, remainder.depth) == (owner, True, True, 1)
    trail.undo()
    assert (axis.leaf, axis.is_required) == (None, False)
    assert (remainder.leaf, remainder.is_required, remainder.constrained, remainder.depth) == (None, False, False, 0)
