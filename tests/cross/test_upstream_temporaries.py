"""What upstream's tests say of nodes that are never stored: each case is run here, or what happens instead, with the
reason.

A case is called as upstream's list calls it. How a temporary lives shows in the program after `sweep`, where cheap ones
are in their readers: it is an array of the arena, or nothing at all.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from upstream import Cases

import ocannl as oc
from ocannl.ir.tnode import Placement

AREAS = {"VN": "01 03 05 07 09 11 13 15 17 19 21 23"}

OVERRIDDEN = {
    "VN-07": "what exists only under a test that differs between neighbours is an array, as vectors have it",
    "VN-13": "a read takes the value at its own index, ahead or not: nothing has to be stored for that",
}

case = Cases(AREAS, OVERRIDDEN)

x = np.arange(1.0, 6.0, dtype="float32")
y = np.array([3, -1, 4, 1, -5], "float32")
m = np.arange(25.0, dtype="float32").reshape(5, 5)
X, Y, M = oc.tensor(x, label="x"), oc.tensor(y, label="y"), oc.tensor(m, label="m")


def run(ctx: oc.Context, code: oc.Code) -> oc.Routine:
    routine = ctx.compile(code)
    routine()
    return routine


def arrays(routine: oc.Routine) -> list[str]:
    """Temporaries that are stored."""
    return re.findall(r"^  (\S+) +: .* arena", routine.stages()["eliminate_dead_code"], re.MULTILINE)


def stores(routine: oc.Routine, name: str, stage: str = "eliminate_dead_code") -> list[str]:
    """What is written to an array, without the loops."""
    return re.findall(rf"^ +{name}(?:\[.*?\])? \+?= (.*)$", routine.stages()[stage], re.MULTILINE)


@case("VN-01")
def test_a_diagonal_is_a_test_in_its_reader(ctx):
    wide = oc.einsum("i => ii", X * 2).with_label("wide")
    z = (wide + M).with_label("z")
    routine = run(ctx, z.forward)
    np.testing.assert_array_equal(ctx[z], np.diag(2 * x) + m)
    assert arrays(routine) == ["mul"]  # which has fewer cells
    assert stores(routine, "z") == ["(mul[o0_2] if o0_2-o1 == 0 else 0) + m[o0_2, o1]"]


@case("VN-01")
def test_a_sum_does_not_test_every_term(ctx):
    wide = oc.einsum("i => ii", X).with_label("wide")
    z = oc.einsum("ij; jk => ik", wide, M)
    routine = run(ctx, oc.forward(z))
    np.testing.assert_array_equal(ctx[z], x[:, None] * m)
    assert arrays(routine) == ["wide"] and stores(routine, "wide") == ["x[i] if i-j == 0 else 0"]


@case("VN-03")
def test_a_diagonal_of_planes_and_a_row_of_a_diagonal(ctx):
    planes = oc.einsum("ij => iji", M)
    row = oc.einsum("0j => j", oc.einsum("i => ii", X))
    routine = run(ctx, oc.forward(sums := planes + 1, row := row + Y))
    want = np.zeros((5, 5, 5), "float32")
    want[np.arange(5), :, np.arange(5)] = m
    np.testing.assert_array_equal(ctx[sums], want + 1)
    np.testing.assert_array_equal(ctx[row], np.eye(5)[0] + y)
    assert arrays(routine) == []


@case("VN-05")
def test_what_is_written_cell_by_cell_is_in_its_readers(ctx):
    turned = oc.einsum("ij => ji", M * 2)
    z = (turned + X).with_label("z")
    routine = run(ctx, z.forward)
    np.testing.assert_array_equal(ctx[z], 2 * m.T + x)
    assert arrays(routine) == [] and stores(routine, "z") == ["m[o1_2, o0_2] * 2 + x[o1_2]"]


@case("VN-07")
@pytest.mark.parametrize(("spec", "at"), [("i => 1*i+2", slice(2, 7)), ("i => 2*i+1", slice(1, 11, 2))])
def test_what_is_written_at_steps_lies_among_zeros(ctx, spec, at):
    spread = oc.einsum(spec, X * 2).with_label("spread")
    z = spread + 1
    routine = run(ctx, z.forward)
    want = np.zeros(ctx[z].size, "float32")
    want[at] = 2 * x
    np.testing.assert_array_equal(ctx[z], want + 1)
    assert arrays(routine) == ["spread"]


@case("VN-07")
def test_rows_among_zeros_are_a_range_in_their_readers(ctx):
    spread = oc.einsum("i,j => 1*i+2,j", M).with_label("spread")
    z = (spread + 1).with_label("z")
    routine = run(ctx, z.forward)
    want = np.zeros((7, 5), "float32")
    want[2:] = m
    np.testing.assert_array_equal(ctx[z], want + 1)
    assert arrays(routine) == [] and stores(routine, "z") == ["(m[o0-2, o1] if o0-2 >= 0 else 0) + 1"]


@case("VN-09")
def test_sums_along_antidiagonals_are_stored(ctx):
    totals = oc.einsum("i, j => i+j", M).with_label("totals")
    z = totals * totals
    routine = run(ctx, z.forward)
    want = np.array([np.fliplr(m).trace(4 - n) for n in range(9)])
    np.testing.assert_array_equal(ctx[z], want**2)
    assert arrays(routine) == ["totals"]


@case("VN-11")
def test_of_two_temporaries_only_one_is_stored(ctx):
    twice, total = (M * 2).with_label("twice"), oc.einsum("ij => j", M).with_label("total")
    z = twice + total
    routine = run(ctx, z.forward)
    np.testing.assert_array_equal(ctx[z], 2 * m + m.sum(0))
    assert arrays(routine) == ["total"] and not stores(routine, "twice")


@case("VN-13")
def test_a_read_ahead_takes_the_value_there(ctx):
    twice = (X * 2).with_label("twice")
    z = oc.einsum("1*i+1 => i", twice)
    routine = run(ctx, oc.forward(z))
    np.testing.assert_array_equal(ctx[z], 2 * x[1:])
    assert arrays(routine) == []


@case("VN-15")
def test_of_an_expression_of_numbers_only_parameters_and_the_result_are_stored(ctx):
    a, b = oc.param("a", 2.0), oc.param("b", -3.0)
    c = a * b + 10
    f = oc.relu((c * c - 4) / 2 + 1).with_label("f")
    ctx.init(f)
    routine = run(ctx, f.forward)
    assert ctx[f].item() == ((2 * -3 + 10) ** 2 - 4) / 2 + 1
    kept = {node.label for node, where in routine.placements.items() if where.placement is Placement.KEPT}
    assert arrays(routine) == [] and kept == {"a", "b", "f"}
    assert re.findall(r"= (.*)", routine.stages()["lower"])[0] == "a * b"  # a literal was never an array


@case("VN-17")
def test_cells_beside_a_column_are_zeros_for_both_readers(ctx):
    column = oc.virtual(oc.node("column", output=[5, 3]))
    first, last = oc.node("first", output=[5]), oc.node("last", output=[5])
    with oc.cd("code") as code:
        column["=:", "i => i0"] = X * 2
        first["=:", "i2 => i"] = column
        last["=:", "i0 => i"] = column
        last["=+", "i2 => i"] = column
    routine = run(ctx, code)
    assert ctx[first].tolist() == [0.0] * 5 and ctx[last].tolist() == (2 * x).tolist()
    assert arrays(routine) == ["mul"]  # of the numbers in the column


@case("VN-19")
def test_equal_sums_see_what_was_there_when_they_were_made(ctx):
    src = oc.placeholder("src", o=[5, 5])
    first, second, trace, later = (oc.node(label, output=[]) for label in ("one", "other", "trace", "later"))
    with oc.cd("code") as code:
        first["=:+", "ij => "] = src
        second["=:+", "kl => "] = src
        trace["=:+", "ii => "] = src
        src[...] = src * 2
        later["=:+", "ij => "] = src
    ctx[src] = m
    run(ctx, code)
    assert [ctx[node].item() for node in (first, second, trace, later)] == [m.sum(), m.sum(), m.trace(), 2 * m.sum()]


@case("VN-19")
def test_equal_sums_are_one(ctx):
    src = oc.placeholder("src", o=[5, 5])
    first, second, trace = oc.einsum("ij => i", src), oc.einsum("kl => k", src), oc.einsum("ii => i", src)
    z = (first * second + trace).with_label("z")
    ctx[src] = m
    routine = run(ctx, z.forward)
    np.testing.assert_array_equal(ctx[z], m.sum(1) ** 2 + m.diagonal())
    assert len(arrays(routine)) == 1


@case("VN-21")
def test_a_sum_begins_with_its_fill_and_is_cleared_again_where_the_program_says(ctx):
    total = oc.virtual(oc.node("total", output=[5]))
    before, after = oc.node("before", output=[5]), oc.node("after", output=[5])
    with oc.cd("code") as code:
        total[...] = 0
        total["=+", "ij => i"] = M
        before[...] = total * 2
        total[...] = 0
        total["=+", "ij => j"] = M
        after[...] = total * 2
    routine = run(ctx, code)
    np.testing.assert_array_equal(ctx[before], 2 * m.sum(1))
    np.testing.assert_array_equal(ctx[after], 2 * m.sum(0))
    if "fuse_epilogues" in routine.stages():  # the fills are where the sums begin
        assert not stores(routine, "total", "fuse_epilogues") and len(stores(routine, r"acc\w*", "fuse_epilogues")) == 4


@case("VN-23")
def test_what_is_read_before_it_is_written_comes_in_and_stays(ctx):
    state, old = oc.node("state", output=[5]), oc.node("old", output=[5])
    with oc.cd("code") as code:
        old[...] = state * 2
        state += X
    ctx[state] = y
    routine = run(ctx, code)
    assert {node.label for node in routine.inputs} == {"state", "x"}
    assert ctx[old].tolist() == (2 * y).tolist() and ctx[state].tolist() == (x + y).tolist()


def test_every_case_is_run_or_overridden():
    case.check()
