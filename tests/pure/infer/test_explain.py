"""Error messages of wrong programs: both conflicting sizes, their sources, and a fix."""

from __future__ import annotations

import re

import pytest

from ocannl.base.errors import ShapeError
from ocannl.infer.capture import Capture
from ocannl.infer.explain import align
from ocannl.infer.logic import COMPOSE, slice_batch
from ocannl.infer.shape import Provenance, Shape

WRONG = {}


def wrong(text):
    """A wrong program and its complete error message."""

    def keep(program):
        WRONG[program.__name__.replace("_", " ")] = program, text.strip("\n")
        return program

    return keep


@wrong("""
output axis 2 of `a` is 3, but output axis 2 of `b` is 4
  in   a + b  model.py:100
  a    2,3    placeholder, model.py:8
  b    2,4    placeholder, model.py:9
  fix  make the two sizes equal, or one of them 1
""")
def sizes_that_differ(net):
    net.add(net.x("2,3", "a"), net.x("2,4", "b"))


@wrong("""
the input row of `w` is 784, but the output row of `x` is 28,28: an operand cannot have more axes than the shape it broadcasts to
  in   w @ x     model.py:100
  w    784->16   param, model.py:30
  x    32|28,28  placeholder, model.py:31
  fix  give both rows the same number of axes; `(a b)` in a spec merges axes
""")  # noqa: E501
def an_image_that_was_not_flattened(net):
    net.mul(net.param("w", "784->16"), net.x("32|28,28"))


@wrong("""
input axis 1 of `w` is 5, but output axis 1 of `x` is 4
  in   w @ x  model.py:100
  w    5->16  param, model.py:30
  x    4      placeholder, model.py:31
  fix  make the two sizes equal, or one of them 1
""")
def sizes_that_do_not_contract(net):
    net.mul(net.param("w", "5->16"), net.x("4"))


@wrong("""
output axis 1 of `a` is rgb 3, but output axis 1 of `b` is xyz 3: their units differ
  in   a + b  model.py:100
  a    rgb=3  placeholder, model.py:8
  b    xyz=3  placeholder, model.py:9
  fix  give both the same unit, or leave one out
""")
def units_that_clash(net):
    net.add(net.x("3 rgb", "a"), net.x("3 xyz", "b"))


@wrong("""
output axis 1 of `a` is rgb 1, but output axis 1 of `b` is 3
  in   a + b  model.py:100
  a    rgb=1  placeholder, model.py:8
  b    3      placeholder, model.py:9
  fix  leave out the unit of the axis of size 1, so that it stretches
""")
def an_axis_with_a_unit_does_not_stretch(net):
    net.add(net.x("1 rgb", "a"), net.x("3", "b"))


@wrong("""
output axis 2 of `a` is 3, but output axis 1 of `b` is 1
  in   ij; jk => ik  model.py:100
  a    2,3           placeholder, model.py:8
  b    1,5           placeholder, model.py:9
  fix  make the two sizes equal; a spec does not broadcast
""")
def a_spec_stretches_nothing(net):
    net.einsum("ij; jk => ik", net.x("2,3", "a"), net.x("1,5", "b"))


@wrong("""
`i, j` in `ij => ji` has 2 axes, but the output row of `x` is 2,3,4
  in   ij => ji  model.py:100
  x    2,3,4     placeholder, model.py:31
  fix  write 3 axes there, or `...` for any number
""")
def a_spec_with_too_few_axes(net):
    net.einsum("ij => ji", net.x("2,3,4"))


@wrong("""
the batch row that is not written in `i => i` has no axes, but the batch row of `x` is 7
  in   i => i  model.py:100
  x    7|2     placeholder, model.py:31
  fix  write 1 axis there, or `...` for any number
""")
def a_row_that_the_spec_leaves_out(net):
    """SI-61"""
    net.einsum("i => i", net.x("7|2"))


@wrong("""
`..., i, j` in `...ij => ...` has at least 2 axes, but the output row of `x` is 4
  in   ...ij => ...  model.py:100
  x    4             placeholder, model.py:31
  fix  write 1 axis there, or `...` for any number
""")
def a_spec_with_excess_axes(net):
    net.einsum("...ij => ...", net.x("4"))


@wrong("""
output axis 1 of `x` is 2, but output axis 2 of `x` is 3
  in   ii => i  model.py:100
  x    2,3      placeholder, model.py:31
  fix  make the two sizes equal; a spec does not broadcast
""")
def a_diagonal_of_no_square(net):
    net.einsum("ii => i", net.x("2,3"))


@wrong("""
output axis 2 of `x` is 3, but it is indexed up to 5
  in   i5 => i  model.py:100
  x    2,3      placeholder, model.py:31
  fix  make the axis 6 or longer, or use indices below 3
""")
def an_index_beyond_the_axis(net):
    net.einsum("i5 => i", net.x("2,3"))


@wrong("""
`2*o<+k` does not fit axis 10 (output axis 1 of `x`), window 3 (output axis 1 of `k`): 7 is no multiple of the stride 2
  in   2*o<+k; k => o  model.py:100
  x    10              placeholder, model.py:31
  k    3               placeholder, model.py:18
  fix  change the axis, the window or the stride; pad (`=`, padding="same"), or drop the rest (`[0,0]`, padding=0)
""")
def a_stride_with_a_remainder(net):
    net.einsum("2*o<+k; k => o", net.x("10"), net.x("3", "k"))


@wrong("""
`2*i` does not fit axis 9 (output axis 1 of `x`): 9 is no multiple of the stride 2
  in   2*i => i  model.py:100
  x    9         placeholder, model.py:31
  fix  change the axis or the stride
""")
def every_second_of_an_odd_number(net):
    net.einsum("2*i => i", net.x("9"))


@wrong("""
the sizes in `7^a` make 7 + ?, but output axis 1 of `x` is 5
  in   7^a => a  model.py:100
  x    5         placeholder, model.py:31
  fix  make that size 7 or more
""")
def a_part_larger_than_the_total(net):
    net.einsum("7^a => a", net.x("5"))


@wrong("""
the sizes in `(a b)` make 3 * ? (`a`, given as a=3), but output axis 1 of `x` is 10
  in   (a b) => a, b  model.py:100
  x    10             placeholder, model.py:31
  fix  make that size a multiple of 3, or change the parts
""")
def a_split_with_a_remainder(net):
    net.einsum("(a b) => a, b", net.x("10"), a=3)


@wrong("""
nothing says how `(a b)` divides output axis 1 of `x`, which is 10
  in   (a b) => a, b  model.py:100
  x    10             placeholder, model.py:31
  fix  give the size of a part by its name
""")
def a_split_without_sizes(net):
    str(net.einsum("(a b) => a, b", net.x("10")))


@wrong("""
output axis 1 of `x` is 10, but `i`, given as i=3, is 3
  in   i => i  model.py:100
  x    10      placeholder, model.py:31
  fix  make the two sizes equal; a spec does not broadcast
""")
def a_size_by_name_that_is_not_so(net):
    net.einsum("i => i", net.x("10"), i=3)


@wrong("""
the coefficient `s` has no value
  in   s*i => i  model.py:100
  x    10        placeholder, model.py:31
  fix  pass s=..., a number from 1
""")
def a_stride_without_a_value(net):
    net.einsum("s*i => i", net.x("10"))


@wrong("""
`j` is not a name of `i => i`, which has `i`
  in   i => i  model.py:100
  fix  use a name of the spec
""")
def a_size_of_an_absent_name(net):
    net.einsum("i => i", net.x("10"), j=3)


@wrong("""
a compose takes 2 operands, and 1 are given
  in   compose  model.py:100
  fix  give as many operands as the spec has
""")
def an_operand_too_few(net):
    net.relate(COMPOSE, net.x("3"), text="compose")


@wrong("""
batch axis 1 of `x` is 10, but it is indexed up to 10
  in   x[10]  model.py:100
  x    10|3   placeholder, model.py:31
  fix  make the axis 11 or longer, or use indices below 10
""")
def a_slice_beyond_the_axis(net):
    net.relate(slice_batch(10), net.x("10|3"), text="x[10]")


@wrong("""
`x[1]` is a slice along the first batch axis, but the batch row of `x` is empty
  in   x[1]  model.py:100
  x    3     placeholder, model.py:31
  fix  give `x` a batch axis, or take a part by a spec
""")
def a_slice_without_a_batch_axis(net):
    net.relate(slice_batch(1), net.x("3"), text="x[1]")


@wrong("""
you forgot a hidden dimension: nothing says what the output row of `w1` and the input row of `w2` are
  in            w1 @ x             model.py:100
  in            w2 @ relu(w1 @ x)  model.py:100
  w1            ...,4->...         param, model.py:79
  w2            ...->3             param, model.py:80
  x             5|4                placeholder, model.py:31
  relu(w1 @ x)  5|...              result, model.py:100
  fix           give `w1` output=[...] or `w2` input=[...]
""")
def a_forgotten_hidden_dimension(net):
    str(net.mul(net.param("w2", "?->3"), net.relu(net.mul(net.param("w1"), net.x("5|4")))))


@wrong("""
output axis 1 of `k` is 6, but output axis 1 of `q` is 5
  in     w @ x + q                      model.py:100
  via    w @ x + b                      model.py:100
  via    b + k                          model.py:100
  asked  the shape of `w`, fixed since  test_explain.py:N
  k      6                              placeholder, model.py:18
  q      5                              placeholder, model.py:24
  w @ x  6                              result, model.py:100
  b      6                              param, model.py:9
  w      4->6                           param, model.py:30
  fix    make the two sizes equal, or one of them 1
""")
def sizes_that_have_travelled(net):
    """The size propagates from `k` to the bias, from the bias to `w`, and from `w` to the product."""
    b, w = net.param("b"), net.param("w", "4->?")
    total = net.add(b, net.x("6", "k"))  # operations are reported as long as their results are alive
    h = net.mul(w, net.x("4"))
    used = net.add(h, b)
    used.dims  # noqa: B018
    return total, used, net.add(h, net.x("5", "q"))


@wrong("""
output axis 1 of `x` is 10, but `d` is 4
  in   d.set(4)
  in   d => d  model.py:100
  x    10      placeholder, model.py:31
  fix  make the two sizes equal
""")
def a_captured_size_that_is_set_to_another(net):
    d = Capture("d")
    net.einsum("d => d", net.x("10"), captures={"d": d})
    d.set(4)


@wrong("""
`x` would have 1099511627776*1099511627776 cells, more than any memory can hold
  x    1099511627776,1099511627776  placeholder, model.py:31
  fix  make an axis smaller
""")
def more_cells_than_any_memory(net):
    net.x(f"{2**40},{2**40}").dims  # noqa: B018


@wrong("""
no number of axes satisfies all these operations: the output row of `x` would have to be 1 axis longer than itself
  in           ... => ...i  model.py:100
  in           ... => ...i  model.py:100
  x            ...          placeholder, model.py:31
  ... => ...i  ...,3        result, model.py:100
  fix          give one of the tensors all its axes
""")
def a_row_longer_than_itself(net):
    x = net.x("?")
    y = net.einsum("... => ...i", x, i=3)
    net.add(y, result=x)


@wrong("""
no number of axes satisfies all these operations: the output row of `b` would have to be 2 axes longer than itself
  in   u            model.py:100
  in   ... => ...i  model.py:100
  in   ... => ...i  model.py:100
  in   t            model.py:100
  b    ...          placeholder, model.py:9
  u    ...,?,?      placeholder, model.py:28
  a    ...,?        placeholder, model.py:8
  t    ...,?        placeholder, model.py:27
  fix  give one of the tensors all its axes
""")
def cyclic_ranks(net):
    """SI-01"""
    a, b, t, u = (net.x("?", name) for name in "abtu")
    net.einsum("... => ...i", b, result=t)
    net.add(t, result=a)
    net.einsum("... => ...i", a, result=u)
    net.add(u, result=b)


@pytest.mark.parametrize("name", [*WRONG])
def test_error_message(net, name):
    program, text = WRONG[name]
    assert re.sub(r"test_explain\.py:\d+", "test_explain.py:N", net.refuses(".", program, net)) == text


def test_texts_are_evaluated_lazily():
    name = "unbound"
    x = Shape.leaf(Provenance(lambda: name, "data"), batch=[], input=[], output=[3])
    y = Shape.leaf(Provenance("y", "data"), batch=[], input=[], output=[4])
    from ocannl.infer.logic import pointwise
    from ocannl.infer.shape import relate

    name = "bound"
    with pytest.raises(ShapeError, match="output axis 1 of `bound` is 3"):
        relate(pointwise(2), [x, y], None, Provenance("?", text=lambda: f"{name} + y"))


def test_columns_are_aligned():
    assert align([("in", "a + b", "m.py:1"), ("long", "3", "data"), ("fix", "a much longer text", "")]) == [
        "  in    a + b  m.py:1",
        "  long  3      data",
        "  fix   a much longer text",
    ]
