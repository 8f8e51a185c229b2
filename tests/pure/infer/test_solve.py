"""The stages of defaulting: each is necessary."""

from __future__ import annotations

import pytest

from ocannl.base.errors import ShapeError
from ocannl.infer import solve
from ocannl.infer.capture import Capture
from ocannl.infer.logic import Logic
from ocannl.infer.solve import STAGES
from ocannl.infer.spec import Label, RowSpec, ShapeSpec, Spec

NEEDED = {}


def needs(stage, want):
    """A program whose solution differs without the stage."""

    def keep(program):
        NEEDED[stage] = program, want
        return program

    return keep


@needs("rows of leaves grow to their uses", "6")
def growing(net):
    b = net.param("b")
    net.add(b, net.x("6", "k"))
    return b


@needs("axes of counted rows fit their uses", "4|3")
def fitting_counted(net):
    x = net.leaf("x", "?|?->?", "data", cells=12)
    net.add(x, net.x("3", "k"))
    return x


@needs("counted rows are filled", "12|")
def filling(net):
    return net.leaf("x", "?|?->?", "data", cells=12)


@needs("equal rows are laid over each other", "2,3")
def overlapping(net):
    x = net.x("?")
    net.einsum("a, ... => a", x, a=2)
    net.einsum("..., b => b", x, b=3)
    return x


@needs("rows end", "")
def ending(net):
    return net.x("?")


@needs("names that nothing sizes are refused", "`o+k` does")
def sizing(net):
    x = net.x("?")
    net.einsum("o+k; k => o", x, net.x("?", "k"), result=x)
    net.einsum("i+1 => i", net.einsum("i => 2*i", x))
    return x


@needs("axes of leaves fit their uses", "3|6")
def fitting(net):
    x = net.x("?|?->?")
    net.add(x, net.x("3|6", "k"))
    return x


@needs("indexed axes reach their indices", "3,6")
def indexing(net):
    x = net.x("?")
    net.einsum("i5 => i", x, i=3)
    return x


@needs("axes in arithmetic fit their uses", "3")
def fitting_arithmetic(net):
    head = net.einsum("a^b => a", net.x("?"))
    net.add(head, net.x("3", "k"))
    return head


@needs("unconstrained axes of leaves are 1", "you forgot")
def freeing(net):
    w = net.param("w")
    net.einsum("i->o => o", w)
    return w


@needs("spare parts of concatenations vanish", "5")
def sparing(net):
    return net.einsum("a^b => a", net.x("5"), captures={"a": Capture("a")})


@needs("computed axes are 1", "1")
def shrinking(net):
    return net.relate(Logic("iota", Spec((), ShapeSpec(output=RowSpec(trail=(Label("n"),)))), ()))


def answer(program, net):
    try:
        return str(program(net))
    except ShapeError as error:
        return str(error)[:10]
    except AssertionError:
        return "undecided"


@pytest.mark.parametrize("name", [name for name, _ in STAGES])
def test_every_stage_is_needed(net, monkeypatch, name):
    program, want = NEEDED[name]
    assert answer(program, net) == want
    monkeypatch.setattr(solve, "STAGES", tuple(stage for stage in STAGES if stage[0] != name))
    assert answer(program, net) != want


def test_every_stage_has_a_description():
    assert [*NEEDED] == [name for name, _ in STAGES]
    assert all(stage.__doc__ for _, stage in STAGES)


# --- cases of upstream ------------------------------------------------------------------------------------------------


def test_a_cyclic_permutation_fits_a_periodic_shape(net):
    """SI-31"""
    x = net.x("3,5,3")
    assert str(net.add(x, net.einsum("a, b, ..r.. => ..r.., b, a", x))) == "3,5,3"
    net.refuses("output axis", net.add, x := net.x("3,5,4"), net.einsum("a, b, ..r.. => ..r.., b, a", x))


def test_leaves_of_a_common_bound_agree(net):
    """SI-15"""
    a, b = net.x("?", "a"), net.x("?", "b")
    net.add(a, result=b)
    net.add(a, result=net.x("3"))
    assert net.shapes(a, b) == ["3", "1"] or net.shapes(a, b) == ["3", "3"]


@pytest.mark.parametrize(
    ("spec", "rows", "want"),
    [
        ("i, f; j, f => i, j, f", ["3,4", "3,4"], "3,3,4"),  # SI-55
        ("..g.. | v, u; ..g.. | u, f => ..g.. | v, f", ["2|3,3", "2|3,4"], "2|3,4"),  # SI-57
        ("abc; bcd => ad", ["3,5,7", "5,7,3"], "3,3"),  # VR-07
        ("...|...->... => 0", ["2|3->4"], "1"),
        ("2..v..|... => ..v..", ["5,6|4"], "6"),
        ("i..v..j => j..v..i", ["2,3,4,5"], "5,3,4,2"),
        ("...|h,d; ...|t,d => ...|h,t", ["2|3,4", "2|5,4"], "2|3,5"),
        ("...s|hd; ...t|hd => ...s|t->h", ["2,9|4,8", "2,9|4,8"], "2,9|9->4"),
        ("i => i, 0", ["3"], "3,1"),
    ],
    ids=str,
)
def test_shapes_of_specs(net, spec, rows, want):
    assert str(net.einsum(spec, *(net.x(row, f"x{n}") for n, row in enumerate(rows)))) == want


def test_a_row_is_lengthened_if_the_end_conflicts_with_an_operand(net):
    """The first input axis of `w` is 1, and cannot meet the leading 2 of the operand of `w`; `y` grows to this use."""
    w, y = net.x("?->2,3", "w"), net.x("?", "y")
    total = net.add(net.einsum("|i, ...->... => i, ...->...", w, i=1), y)
    longer = net.add(total, y)
    net.mul(w, total)
    assert net.shapes(w, y, longer) == ["1,2,3->2,3", "1,2,3", "1,2,3->1,2,3"]
