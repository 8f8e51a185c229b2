"""Public behaviour of shapes: explicit rows, inferred rows, partial shapes, and rollback after errors."""

from __future__ import annotations

import gc
import itertools
import weakref

import numpy as np
import pytest

from ocannl.base.errors import ShapeError
from ocannl.infer.shape import Axis, Provenance, Shape, finish
from ocannl.infer.terms import DimVar, RowVar


def leaf(**rows):
    return Shape.leaf(Provenance("x", "data"), **rows)


# --- leaves -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "text", "dims"),
    [
        ({"batch": [32], "input": [784], "output": [128]}, "32|784->128", (32, 128, 784)),
        ({"batch": [32], "input": [], "output": [10]}, "32|10", (32, 10)),
        ({"batch": [], "input": [7], "output": [3]}, "7->3", (3, 7)),
        ({"batch": [], "input": [], "output": [5]}, "5", (5,)),
        ({"batch": [], "input": [], "output": []}, "", ()),
        ({"batch": [2], "input": [3], "output": []}, "2|3->", (2, 3)),
        ({"batch": (0, 2), "input": [], "output": (np.int64(4), 1)}, "0,2|4,1", (0, 2, 4, 1)),
        ({"batch": [], "input": [], "output": [("rgb", 3), (None, 2)]}, "rgb=3,2", (3, 2)),
    ],
    ids=str,
)
def test_explicit_rows_are_printed_in_the_order_batch_input_output(rows, text, dims):
    x = leaf(**rows)
    assert x.is_solved and x.known == text
    assert str(x) == text
    assert x.dims == dims


def test_axes_tell_size_and_unit():
    x = leaf(batch=[2], input=[], output=[("rgb", 3), 4])
    assert x.output == (Axis(3, "rgb"), Axis(4, None)) and x.batch == (Axis(2, None),) and x.input == ()


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ([-1], "output axis 1 of `x` is -1: a size cannot be negative"),
        ([3, True], "output axis 2 of `x` is True: an axis is a size"),
        (["3"], "output axis 1 of `x` is '3': an axis is a size"),
        ([2.0], "output axis 1 of `x` is 2.0: an axis is a size"),
        ([("rgb",)], r"output axis 1 of `x` is \('rgb',\): an axis is a size"),
        ([(3, "rgb")], r"output axis 1 of `x` is \(3, 'rgb'\): an axis is a size"),
        ([(3, 4)], "output axis 1 of `x` has the unit 3: a unit must be a word"),
        ([("", 4)], "output axis 1 of `x` has the unit '': a unit must be a word"),
        ([None], "output axis 1 of `x` is None: an axis is a size"),
        (3, "the output row of `x` is 3, not a list of sizes"),
        ("34", "the output row of `x` is '34', not a list of sizes"),
    ],
    ids=str,
)
def test_invalid_sizes_are_refused(axes, message):
    with pytest.raises(ShapeError, match=f"^{message}"):
        leaf(batch=[], input=[], output=axes)


def test_omitted_rows_are_variables_until_queried():
    x = leaf(batch=[2])
    assert x.known == "2|...->..." and not x.is_solved and repr(x) == "<Shape 2|...->...>"
    assert str(x) == "2|" and x.is_solved


def test_a_square_leaf_has_equal_rows(net):
    w = net.param("w", "?->?", square=True)
    net.mul(w, net.x("5|4"))
    assert str(w) == "4->4"
    net.refuses("`v` is square, but its input row is 3, and its output row 4,5", net.param, "v", "3->4,5", square=True)


# --- broadcasting and composition -------------------------------------------------------------------------------------


def test_pointwise_broadcasts_rows_independently(net):
    """SI-59"""
    a, b, c = net.x("2|3"), net.x("3"), net.x("2|4->1")
    assert net.shapes(net.add(a, b), net.add(a, c)) == ["2|3", "2|4->3"]


def test_inference_flows_down_to_leaves_of_unknown_shape(net):
    x, w = net.x("5|2,3"), net.param("w", "?->7")
    y = net.mul(w, x)
    assert (w.known, y.known) == ("...,2,3->7", "5|7")
    assert net.shapes(w, y) == ["2,3->7", "5|7"]


def test_hidden_rows_are_inferred_through_a_chain(net):
    w1, b1, w2, b2 = net.param("w1"), net.param("b1", "6"), net.param("w2"), net.param("b2", "2,3")
    y = net.add(net.mul(w2, net.relu(net.add(net.mul(w1, net.x("5|4")), b1))), b2)
    assert net.shapes(w1, w2, y) == ["4->6", "6->2,3", "5|2,3"]


def test_a_number_meets_everything_and_tells_nothing(net):
    w, b = net.param("w"), net.param("b")
    h = net.mul(w, net.add(net.x("5|4"), net.x("", "0.5")))
    y = net.add(net.add(h, b), net.x("6", "k"), net.x("", "1"))
    assert net.shapes(w, b, y) == ["4->6", "6", "5|6"]


def test_transposition_swaps_input_and_output(net):
    """S10"""
    assert str(net.transpose(net.x("2|3->4,5"))) == "2|4,5->3"
    w = net.param("w")
    net.mul(net.transpose(w), net.x("7"))
    net.add(w, net.x("3->1", "k"))
    assert str(w) == "3->7"


def test_a_parameter_that_nothing_constrains_is_a_number(net):
    b = net.param("b")
    assert net.shapes(net.add(b, net.x("")), b) == ["", ""]


def test_a_tensor_may_meet_itself(net):
    x = net.x("3,3")
    assert net.shapes(net.add(x, x), net.mul(net.x("3->3"), net.x("3"))) == ["3,3", "3"]
    w = net.param("w")
    net.mul(w, net.mul(w, net.x("4")))
    assert str(w) == "4->4"


# --- leaves are as large as their uses --------------------------------------------------------------------------------


def test_order_of_construction_does_not_matter(net):
    def build(order):
        x, w, b = net.x("5|4"), net.param("w"), net.param("b")
        facts = {
            "use": lambda: net.add(net.mul(w, x), b),
            "bias": lambda: net.add(b, net.x("6", "k")),
            "rows": lambda: net.einsum("...|i->o => ...|o", w),
        }
        shapes = {k: facts[k]() for k in order}
        return net.shapes(shapes["use"], w, b)

    got = {tuple(build(order)) for order in itertools.permutations(["use", "bias", "rows"])}
    assert got == {("5|6", "4->6", "6")}


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))], ids=str)
def test_a_leaf_takes_the_size_of_the_larger_use(net, order):
    """SI-15: {3 <= a, b <= a}"""
    a, b = net.x("?", "a"), net.x("?", "b")
    facts = [lambda: net.add(a, result=net.x("3")), lambda: net.add(a, result=b), lambda: net.add(b, net.x("1"))]
    for n in order:
        facts[n]()
    assert net.shapes(a, b) == ["3", "3"]


def test_uses_of_two_sizes_leave_a_leaf_nothing_but_stretching(net):
    """SI-29, sizes"""
    b = net.param("b")
    net.add(b, result=net.x("2,7"))
    net.add(b, result=net.x("3,7"))
    assert str(b) == "1,7"


def test_a_use_whose_row_is_complete_limits_a_leaf(net):
    b = net.param("b")
    net.add(b, net.x("2,7"))
    net.add(b, result=net.x("7"))
    assert str(b) == "7"


def test_a_leaf_takes_the_axes_of_the_longest_use(net):
    b = net.param("b")
    y, z = net.add(b, net.x("7")), net.add(b, net.x("2,7"))
    assert net.shapes(b, y, z) == ["2,7", "2,7", "2,7"]


def test_computed_axes_stay_as_small_as_possible(net):
    a, b = net.x("1"), net.x("1", "b")
    c = net.add(a, b)
    d = net.add(c, net.x("5", "k"))
    assert net.shapes(c, d) == ["1", "5"]


def test_a_leaf_does_not_diverge_with_a_growing_use(net):
    x = net.x("?", "x")
    y = net.add(net.einsum("..., i => ..., i, j", x, j=1), x)
    assert net.shapes(x, y) == ["1", "1,1"]


# --- forgotten hidden dimensions --------------------------------------------------------------------------------------


def test_a_forgotten_hidden_dimension_names_the_parameters(net):
    """SI-45, SI-47"""
    w1, w2 = net.param("w1"), net.param("w2", "?->3")
    y = net.mul(w2, net.relu(net.mul(w1, net.x("5|4"))))
    message = net.refuses("forgot a hidden dimension", lambda: y.dims)
    assert "the output row of `w1`" in message and "the input row of `w2`" in message
    assert "give `w1` output=[...] or `w2` input=[...]" in message


def test_numbers_in_between_do_not_tell_a_hidden_dimension(net):
    w1, w2 = net.param("w1"), net.param("w2", "?->3")
    h = net.add(net.mul(w1, net.x("5|4")), net.x("", "1"))
    y = net.mul(w2, net.add(h, net.x("", "0.5")))
    net.refuses("`w1`", lambda: y.dims)


def test_a_scalar_operand_makes_an_input_row_empty(net):
    w = net.param("w", "?->3")
    assert net.shapes(net.mul(w, net.x("5|")), w) == ["5|3", "3"]


def test_an_axis_of_size_1_constrains_an_input_row(net):
    w = net.param("w", "?->3")
    assert net.shapes(net.mul(w, net.relu(net.x("1"))), w) == ["3", "1->3"]


def test_a_hidden_layer_of_width_1_may_have_a_bias_of_open_shape(net):
    w1, b1, w2 = net.param("w1", "?->1"), net.param("b1"), net.param("w2", "?->4")
    h = net.add(net.mul(w1, net.x("5|4")), b1)
    assert net.shapes(net.mul(w2, net.relu(h)), w1, b1, w2) == ["5|4", "4->1", "1", "1->4"]


def test_a_hidden_layer_of_width_1_may_be_concatenated(net):
    x, w1, b1, w2 = net.x("5|4"), net.param("w1", "?->1"), net.param("b1"), net.param("w2", "?->4")
    h = net.einsum("b|p; b|q => b|p^q", net.add(net.mul(w1, x), b1), x)
    assert net.shapes(net.mul(w2, h), b1, w2) == ["5|4", "1", "5->4"]


def test_a_bias_alone_does_not_size_a_hidden_dimension(net):
    w1, b1, w2 = net.param("w1"), net.param("b1"), net.param("w2", "?->4")
    y = net.mul(w2, net.add(net.mul(w1, net.x("5|4")), b1))
    net.refuses("forgot a hidden dimension", lambda: y.dims)


def test_a_use_that_meets_an_axis_of_size_1_has_size_1(net):
    w = net.param("w")
    y = net.add(net.mul(w, net.x("32|4")), net.x("32|1", "target"))
    assert net.shapes(y, w) == ["32|1", "4->1"]


def test_only_parameters_must_be_constrained(net):
    w = net.x("?->?", "w")
    assert net.shapes(net.mul(w, net.x("4")), w) == ["", "4->"]


# --- what is known, what errors leave ---------------------------------------------------------------------------------


def test_an_error_changes_nothing(net):
    x, w, b = net.x("5|4"), net.param("w"), net.param("b")
    y = net.add(net.mul(w, x), b)
    before = [s.known for s in (x, w, b, y)]
    for act in (
        lambda: net.einsum("...|i->o; ..., i, o => i", w, net.x("9,9", "k")),
        lambda: net.add(y, w, net.x("9|7", "k")),
        lambda: net.einsum("i->o; o => i", w, net.x("2,3", "k")),
        lambda: net.add(net.x("3", "k"), net.x("2", "l"), result=w),
        lambda: y.dims,
    ):
        net.refuses(".", act)
        assert [s.known for s in (x, w, b, y)] == before
        assert not any(s.is_required for s in (x, b)) and len(b.relations) == 1
    net.add(b, net.x("6", "k"))
    assert net.shapes(y, w, b) == ["5|6", "4->6", "6"]


def test_partial_shapes_do_not_change_inference(net):
    w = net.param("w")
    y = net.mul(w, net.x("5|4"))
    assert (y.known, w.known, y.known) == ("5|...", "...,4->...", "5|...")
    net.add(w, result=net.x("4->3", "l"))
    assert str(y) == "5|3"


def test_a_query_fixes_sizes_against_later_uses(net):
    b = net.param("b")
    assert str(b) == ""
    assert str(net.add(b, net.x("6"))) == "6"
    assert str(b) == ""


def test_excessive_cells_are_refused_before_allocation(net):
    big = 2**40
    x = net.x(f"{big},{big}")
    net.refuses(f"`x` would have {big}\\*{big} cells", lambda: x.dims)
    y = net.einsum("i; j => ij", net.x(f"{big}", "a"), net.x(f"{big}", "b"))
    net.refuses("`i; j => ij` would have", lambda: y.dims)
    assert net.x(f"0,{big},{big}").dims == (0, big, big)


def test_sizes_of_zero_are_sizes(net):
    x, w, b = net.x("0|4"), net.param("w", "?->3"), net.param("b")
    assert net.shapes(net.add(net.mul(w, x), b), w) == ["0|3", "4->3"]
    net.refuses("is 0, but", net.add, net.x("0", "a"), net.x("2", "c"))
    assert str(net.add(net.x("0", "a"), net.x("1", "c"))) == "0"


# --- what is connected ------------------------------------------------------------------------------------------------


def test_a_query_decides_connected_tensors_only(net):
    b, c, d = net.param("b"), net.param("c"), net.param("d")
    y, z = net.add(b, c), net.add(d, net.x("3"))
    finish(y)
    assert b.is_solved and c.is_solved and not d.is_solved and not z.is_solved


def test_solved_tensors_keep_nothing_alive(net):
    x = net.x("4")
    y = net.relu(net.relu(x))
    finish(y)
    seen = weakref.ref(y)
    del y
    gc.collect()
    assert seen() is None and not x.relations


def test_a_data_tensor_does_not_reference_users(net):
    x, scalar = net.x("5|4"), net.x("1", "one")
    for _ in range(200):
        finish(net.add(net.relu(x), scalar))
    gc.collect()
    reached, todo = set(), [x, scalar]
    while todo:
        for referent in gc.get_referents(todo.pop()):
            ours = type(referent).__module__.startswith("ocannl") or isinstance(referent, tuple | list)
            if ours and id(referent) not in reached:
                reached.add(id(referent))
                todo.append(referent)
    assert len(reached) < 500


@pytest.mark.slow
def test_long_chains_need_no_recursion(net):
    t = net.x("5|4")
    b = net.param("b")
    for _ in range(3000):
        t = net.add(net.relu(t), b)
    assert str(t) == "5|4" and str(b) == "4"


def test_queries_of_a_growing_graph_visit_only_new_tensors(net, monkeypatch):
    created = []

    def count(cls):
        init = cls.__init__

        def counted(self, *args, **more):
            created.append(cls)
            init(self, *args, **more)

        monkeypatch.setattr(cls, "__init__", counted)

    count(DimVar)
    count(RowVar)
    t = net.x("5|4")
    counts = []
    for _ in range(60):
        created.clear()
        t = net.relu(t)
        t.dims  # noqa: B018
        counts.append(len(created))
    assert len(set(counts[1:])) == 1
