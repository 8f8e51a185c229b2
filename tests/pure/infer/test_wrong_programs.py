"""A table of wrong programs with their complete error messages.

Each message names the tensors by the author's labels, the two conflicting sizes with their source lines, and a fix.
Lines are written `file.py:N`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import ocannl as oc

Program = Callable[[], object]

WRONG: dict[str, tuple[Program, str]] = {}


def wrong(message: str) -> Callable[[Program], Program]:
    """A wrong program and its complete error message."""

    def keep(program: Program) -> Program:
        WRONG[program.__name__.replace("_", " ")] = program, message.strip("\n")
        return program

    return keep


# --- pointwise ------------------------------------------------------------------------------------------------------


@wrong("""
output axis 2 of `a` is 3, but output axis 2 of `b` is 4
  in   a + b         file.py:N
  a    ...|...->2,3  placeholder, file.py:N
  b    ...|...->2,4  placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def output_rows_that_differ():
    a = oc.placeholder(o=[2, 3])
    b = oc.placeholder(o=[2, 4])
    return a + b


@wrong("""
input axis 1 of `v` is 3, but input axis 1 of `w` is 4
  in   v * w     file.py:N
  v    ...|3->5  placeholder, file.py:N
  w    ...|4->5  placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def input_rows_that_differ():
    v = oc.placeholder(i=[3], o=[5])
    w = oc.placeholder(i=[4], o=[5])
    return v * w


@wrong("""
batch axis 1 of `x` is 32, but batch axis 1 of `y` is 16
  in   x - y       file.py:N
  x    32|...->10  placeholder, file.py:N
  y    16|...->10  placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def batch_rows_that_differ():
    x = oc.placeholder(b=[32], o=[10])
    y = oc.placeholder(b=[16], o=[10])
    return x - y


@wrong("""
output axis 1 of `weights` is 2, but output axis 1 of `heights` is 3
  in       weights / heights  file.py:N
  weights  2                  data, file.py:N
  heights  3                  data, file.py:N
  fix      make the two sizes equal, or one of them 1
""")
def data_of_different_lengths():
    heights = oc.tensor([1.7, 1.8, 1.6])
    weights = oc.tensor([61.0, 75.0])
    return weights / heights


@wrong("""
output axis 1 of `mask` is 7, but output axis 1 of `a` is 8
  in    where(mask, a, b)  file.py:N
  mask  ...|...->7         placeholder, file.py:N
  a     ...|...->8         placeholder, file.py:N
  b     ...|...->8         placeholder, file.py:N
  fix   make the two sizes equal, or one of them 1
""")
def three_operands_of_different_sizes():
    mask = oc.placeholder(o=[7])
    a = oc.placeholder(o=[8])
    b = oc.placeholder(o=[8])
    return oc.where(mask, a, b)


@wrong("""
input axis 1 of `w` is 3, but input axis 1 of `g` is 2
  in   w + g     file.py:N
  w    ...|3->3  placeholder, file.py:N
  g    3|2->3    placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def a_kernel_instead_of_a_vector():
    w = oc.placeholder(i=[3], o=[3])
    g = oc.placeholder(b=[3], i=[2], o=[3])
    return w + g


@wrong("""
output axis 1 of `x` is 2, but output axis 1 of `low` is 3
  in   max(x, low)  file.py:N
  x    4|...->2,5   placeholder, file.py:N
  low  4|...->3,5   placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def a_maximum_of_axes_that_differ():
    low = oc.placeholder(b=[4], o=[3, 5])
    x = oc.placeholder(b=[4], o=[2, 5])
    return oc.maximum(x, low)


# --- units ----------------------------------------------------------------------------------------------------------


@wrong("""
output axis 1 of `image` is rgb 3, but output axis 1 of `point` is xyz 3: their units differ
  in     image + point   file.py:N
  image  ...|...->rgb=3  placeholder, file.py:N
  point  ...|...->xyz=3  placeholder, file.py:N
  fix    give both the same unit, or leave one out
""")
def units_that_clash():
    image = oc.placeholder(o=[("rgb", 3)])
    point = oc.placeholder(o=[("xyz", 3)])
    return image + point


@wrong("""
output axis 1 of `seen` is h 4, but output axis 1 of `turned` is w 4: their units differ
  in      seen * turned  file.py:N
  seen    h=4,w=6        data, file.py:N
  turned  w=4,h=6        data, file.py:N
  fix     give both the same unit, or leave one out
""")
def units_of_data_that_clash():
    seen = oc.tensor(np.zeros((4, 6)), units=("h", "w"))
    turned = oc.tensor(np.zeros((4, 6)), units=("w", "h"))
    return seen * turned


@wrong("""
output axis 1 of `gray` is gray 1, but output axis 1 of `x` is 5
  in    gray * x         file.py:N
  gray  ...|...->gray=1  placeholder, file.py:N
  x     ...|...->5       placeholder, file.py:N
  fix   leave out the unit of the axis of size 1, so that it stretches
""")
def a_single_axis_with_a_unit_stretches_to_nothing():
    gray = oc.placeholder(o=[("gray", 1)])
    x = oc.placeholder(o=[5])
    return gray * x


@wrong("""
output axis 1 of `image` is rgb 3, but output axis 1 of `point` is xyz 3: their units differ
  in      bright + point   file.py:N
  via     relu(image * 2)  file.py:N
  via     image * 2        file.py:N
  image   ...|...->rgb=3   placeholder, file.py:N
  point   ...|...->xyz=3   placeholder, file.py:N
  bright  ...|...->rgb=3   result, file.py:N
  fix     give both the same unit, or leave one out
""")
def units_that_clash_after_a_journey():
    image = oc.placeholder(o=[("rgb", 3)])
    bright = oc.relu(image * 2.0)
    point = oc.placeholder(o=[("xyz", 3)])
    return bright + point


@wrong("""
input axis 1 of `w` is xyz 3, but output axis 1 of `image` is rgb 3: their units differ
  in     w @ image       file.py:N
  w      xyz=3->8        param, file.py:N
  image  ...|...->rgb=3  placeholder, file.py:N
  fix    give both the same unit, or leave one out
""")
def units_that_clash_in_a_contraction():
    image = oc.placeholder(o=[("rgb", 3)])
    w = oc.param(i=[("xyz", 3)], o=[8])
    return w @ image


@wrong("""
output axis 1 of `below` is h 3, but output axis 1 of `left` is w 3: their units differ
  in     concat("a; b => a^b", left, below)  file.py:N
  below  ...|...->h=3                        placeholder, file.py:N
  left   ...|...->w=3                        placeholder, file.py:N
  fix    give both the same unit, or leave one out
""")
def units_that_clash_in_a_concatenation():
    left = oc.placeholder(o=[("w", 3)])
    below = oc.placeholder(o=[("h", 3)])
    return oc.concat("a; b => a^b", left, below)


# --- tensor multiplication ------------------------------------------------------------------------------------------


@wrong("""
input axis 1 of `w` is 5, but output axis 1 of `x` is 4
  in   w @ x       file.py:N
  w    5->16       param, file.py:N
  x    ...|...->4  placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def sizes_that_do_not_contract():
    w = oc.param(i=[5], o=[16])
    x = oc.placeholder(o=[4])
    return w @ x


@wrong("""
the input row of `w` is 784, but the output row of `x` is 28,28: an operand cannot have more axes than the shape it broadcasts to
  in   w @ x          file.py:N
  w    784->16        param, file.py:N
  x    32|...->28,28  placeholder, file.py:N
  fix  give both rows the same number of axes; `(a b)` in a spec merges axes
""")  # noqa: E501
def an_image_that_was_not_flattened():
    w = oc.param(i=[784], o=[16])
    x = oc.placeholder(b=[32], o=[28, 28])
    return w @ x


@wrong("""
input axis 1 of `w` is 16, but output axis 1 of `x` is 784
  in   w @ x        file.py:N
  w    16->784      param, file.py:N
  x    32|...->784  placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def a_transposed_matrix():
    w = oc.param(i=[16], o=[784])
    x = oc.placeholder(b=[32], o=[784])
    return w @ x


@wrong("""
the input row of `v` is empty, but the output row of `x` is 3: an operand cannot have more axes than the shape it broadcasts to
  in   v @ x  file.py:N
  v    3      data, file.py:N
  x    3      data, file.py:N
  fix  `@` sums over the input row of its left operand: give it input axes (input=[n], or input_axes=1 of an array), or write oc.einsum("...|i,k; ...|k,j => ...|i,j", x, y)
""")  # noqa: E501
def a_vector_that_has_no_input():
    v = oc.tensor([1.0, 2.0, 3.0])
    x = oc.tensor([4.0, 5.0, 6.0])
    return v @ x


@wrong("""
input axis 1 of `w2` is 64, but output axis 1 of `w1` is 128
  in    w2 @ relu(matmul)  file.py:N
  via   relu(w1 @ x)       file.py:N
  via   w1 @ x             file.py:N
  w2    64->10             param, file.py:N
  w1    ...,784->128       param, file.py:N
  relu  32|...->128        result, file.py:N
  x     32|...->784        placeholder, file.py:N
  fix   make the two sizes equal, or one of them 1
""")
def layers_that_do_not_fit():
    x = oc.placeholder(b=[32], o=[784])
    w1 = oc.param(o=[128])
    w2 = oc.param(i=[64], o=[10])
    return w2 @ oc.relu(w1 @ x)


@wrong("""
batch axis 1 of `q` is 8, but batch axis 1 of `x` is 9
  in   q @ x     file.py:N
  q    8|4->4    placeholder, file.py:N
  x    9|...->4  placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def batches_of_two_factors_that_differ():
    q = oc.placeholder(b=[8], i=[4], o=[4])
    x = oc.placeholder(b=[9], o=[4])
    return q @ x


@wrong("""
output axis 1 of `w` is 5, but output axis 1 of `x` is 3
  in         w.T @ x     file.py:N
  w          3->5        param, file.py:N
  x          ...|...->3  placeholder, file.py:N
  transpose  5->3        result, file.py:N
  fix        make the two sizes equal, or one of them 1
""")
def a_transposed_weight_that_does_not_fit():
    w = oc.param(i=[3], o=[5])
    x = oc.placeholder(o=[3])
    return w.T @ x


# --- forgotten hidden sizes -----------------------------------------------------------------------------------------


@wrong("""
you forgot a hidden dimension: nothing says what the output row of `w1` and the input row of `w2` are
  in    w1 @ x             file.py:N
  in    w2 @ relu(matmul)  file.py:N
  w1    ...,3->...         param, file.py:N
  w2    ...->1             param, file.py:N
  x     3                  data, file.py:N
  relu  ...                result, file.py:N
  fix   give `w1` output=[...] or `w2` input=[...]
""")
def a_hidden_size_that_was_forgotten():
    x = oc.tensor([1.0, 2.0, 3.0])
    w1 = oc.param()
    w2 = oc.param(o=[1])
    y = w2 @ oc.relu(w1 @ x)
    return y.dims


@wrong("""
you forgot a hidden dimension: nothing says what the output row of `b1`, the output row of `w1` and the input row of `w2` are
  in      (w1 @ x) + b1   file.py:N
  in      w1 @ x          file.py:N
  in      w2 @ relu(add)  file.py:N
  b1      ...->...        param, file.py:N
  w1      ...,8->...      param, file.py:N
  w2      ...->2          param, file.py:N
  matmul  32|...->...     result, file.py:N
  x       32|...->8       placeholder, file.py:N
  relu    32|...->...     result, file.py:N
  fix     give `b1` output=[...], `w1` output=[...] or `w2` input=[...]
""")  # noqa: E501
def a_hidden_size_unconstrained_by_a_bias():
    x = oc.placeholder(b=[32], o=[8])
    w1, b1, w2 = oc.param("w1"), oc.param("b1"), oc.param("w2", o=[2])
    y = w2 @ oc.relu(w1 @ x + b1)
    return y.dims


@wrong("""
you forgot a hidden dimension: nothing says what the output row of `k` and the output row of `q` are
  in   einsum("...t|m; m->h,d => ...t|h,d", x, k)  file.py:N
  in   einsum("...s|m; m->h,d => ...s|h,d", x, q)  file.py:N
  k    32->?,?                                     param, file.py:N
  q    32->?,?                                     param, file.py:N
  x    4,16|32                                     placeholder, file.py:N
  fix  give `k` output=[...] or `q` output=[...]
""")
def heads_without_a_number():
    x = oc.placeholder(b=[4, 16], o=[32])
    q, k = oc.param("q"), oc.param("k")
    xq = oc.einsum("...s|m; m->h,d => ...s|h,d", x, q)
    xk = oc.einsum("...t|m; m->h,d => ...t|h,d", x, k)
    return oc.einsum("...s|h,d; ...t|h,d => ...s|t->h", xq, xk).dims


@wrong("""
you forgot a hidden dimension: nothing says what the output row of `w` is
  in   einsum("ij => ji", w)  file.py:N
  w    ?,?                    param, file.py:N
  fix  give `w` output=[...]
""")
def an_unconstrained_parameter():
    w = oc.param()
    return oc.einsum("ij => ji", w).dims


@wrong("""
you forgot a hidden dimension: nothing says what the output row of `k` is
  in   einsum("o<+k; k => o", x, k)  file.py:N
  k    ?                             param, file.py:N
  x    16                            placeholder, file.py:N
  fix  give `k` output=[...]
""")
def a_kernel_without_a_size():
    x = oc.placeholder(o=[16])
    k = oc.param()
    return oc.einsum("o<+k; k => o", x, k).dims


# --- einsum ---------------------------------------------------------------------------------------------------------


@wrong("""
output axis 2 of `a` is 3, but output axis 1 of `b` is 1
  in   einsum("ij; jk => ik", a, b)  file.py:N
  a    ...|...->2,3                  placeholder, file.py:N
  b    ...|...->1,5                  placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def a_spec_stretches_nothing():
    a = oc.placeholder(o=[2, 3])
    b = oc.placeholder(o=[1, 5])
    return oc.einsum("ij; jk => ik", a, b)


@wrong("""
`i, j` in `ij => ji` has 2 axes, but the output row of `x` is 2,3,4
  in   einsum("ij => ji", x)  file.py:N
  x    ...|...->2,3,4         placeholder, file.py:N
  fix  write 3 axes there, or `...` for any number
""")
def a_spec_with_too_few_axes():
    x = oc.placeholder(o=[2, 3, 4])
    return oc.einsum("ij => ji", x)


@wrong("""
`hd,` in `...|s,hd; hd => ...|s` has 1 axis, but the output row of `w` is 8,64
  in   einsum("...|s,hd; hd => ...|s", x, w)  file.py:N
  w    ...|...->8,64                          placeholder, file.py:N
  x    2|...->24,512                          placeholder, file.py:N
  fix  write `h,d` for 2 axes; names in this spec are whole words, so `hd` is one
""")
def letters_that_a_comma_makes_a_word():
    x = oc.placeholder(b=[2], o=[24, 512])
    w = oc.placeholder(o=[8, 64])
    return oc.einsum("...|s,hd; hd => ...|s", x, w)


@wrong("""
`..., i, j, k` in `...ijk => ...` has at least 3 axes, but the output row of `x` is 4
  in   einsum("...ijk => ...", x)  file.py:N
  x    ...|...->4                  placeholder, file.py:N
  fix  write 1 axis there, or `...` for any number
""")
def a_spec_with_excess_axes():
    x = oc.placeholder(o=[4])
    return oc.einsum("...ijk => ...", x)


@wrong("""
the batch row that is not written in `i => i` has no axes, but the batch row of `x` is 7
  in   einsum("i => i", x)  file.py:N
  x    7|...->2             placeholder, file.py:N
  fix  write 1 axis there, or `...` for any number
""")
def a_kind_that_the_spec_leaves_out():
    x = oc.placeholder(b=[7], o=[2])
    return oc.einsum("i => i", x)


@wrong("""
`b` in `b|i => i|b` has 1 axis, but the batch row of `x` is empty
  in   einsum("b|i => i|b", x)  file.py:N
  x    2                        data, file.py:N
  fix  write no axes there, or `...` for any number
""")
def a_kind_that_the_tensor_lacks():
    x = oc.tensor([1.0, 2.0])
    return oc.einsum("b|i => i|b", x)


@wrong("""
the input row that is not written in `...|o => ...|o` has no axes, but the input row of `w` is 3
  in   einsum("...|o => ...|o", w)  file.py:N
  w    3->4                         param, file.py:N
  fix  write 1 axis there, or `...` for any number
""")
def an_input_row_that_the_spec_leaves_out():
    w = oc.param(i=[3], o=[4])
    return oc.einsum("...|o => ...|o", w)


@wrong("""
output axis 1 of `x` is 2, but output axis 2 of `x` is 3
  in   einsum("ii => i", x)  file.py:N
  x    ...|...->2,3          placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def a_diagonal_of_no_square():
    x = oc.placeholder(o=[2, 3])
    return oc.einsum("ii => i", x)


@wrong("""
input axis 1 of `w` is 4, but output axis 1 of `w` is 5
  in   einsum("i->i => i", w)  file.py:N
  w    ...|4->5                placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def a_diagonal_across_rows():
    w = oc.placeholder(i=[4], o=[5])
    return oc.einsum("i->i => i", w)


@wrong("""
batch axis 1 of `x` is 6, but output axis 1 of `x` is 5
  in   einsum("a|a,b => b", x)  file.py:N
  x    6|...->5,6               placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def a_label_of_two_sizes_in_an_operand():
    x = oc.placeholder(b=[6], o=[5, 6])
    return oc.einsum("a|a,b => b", x)


@wrong("""
output axis 2 of `x` is 3, but it is indexed up to 5
  in   einsum("i5 => i", x)  file.py:N
  x    ...|...->2,3          placeholder, file.py:N
  fix  make the axis 6 or longer, or use indices below 3
""")
def an_index_beyond_the_axis():
    x = oc.placeholder(o=[2, 3])
    return oc.einsum("i5 => i", x)


@wrong("""
output axis 1 of `x` is 0, but it is indexed up to 0
  in   einsum("0 => ", x)  file.py:N
  x    ...|...->0          placeholder, file.py:N
  fix  make the axis 1 or longer
""")
def an_index_into_an_empty_axis():
    x = oc.placeholder(o=[0])
    return oc.einsum("0 => ", x)


@wrong("""
batch axis 1 of `scores` is 4, but batch axis 1 of `values` is 5
  in      einsum("t|d; t|d => d", scores, values)  file.py:N
  scores  4|...->7                                 placeholder, file.py:N
  values  5|...->7                                 placeholder, file.py:N
  fix     make the two sizes equal; a spec does not broadcast
""")
def a_label_that_two_operands_give_two_sizes():
    scores = oc.placeholder(b=[4], o=[7])
    values = oc.placeholder(b=[5], o=[7])
    return oc.einsum("t|d; t|d => d", scores, values)


@wrong("""
the output row of `a` is 2,3, but the output row of `b` is 2,3,4: they must have equally many axes, since both are `..r..` in `..r..; ..r.. => ..r..`
  in   einsum("..r..; ..r.. => ..r..", a, b)  file.py:N
  a    ...|...->2,3                           placeholder, file.py:N
  b    ...|...->2,3,4                         placeholder, file.py:N
  fix  give both rows the same number of axes, or different names in the spec
""")  # noqa: E501
def a_row_variable_that_two_operands_give_two_lengths():
    a = oc.placeholder(o=[2, 3])
    b = oc.placeholder(o=[2, 3, 4])
    return oc.einsum("..r..; ..r.. => ..r..", a, b)


@wrong("""
output axis 2 of `a` is 3, but output axis 2 of `b` is 4
  in   einsum("..r..; ..r.. => ..r..", a, b)  file.py:N
  a    ...|...->2,3                           placeholder, file.py:N
  b    ...|...->2,4                           placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def a_row_variable_that_two_operands_give_two_sizes():
    a = oc.placeholder(o=[2, 3])
    b = oc.placeholder(o=[2, 4])
    return oc.einsum("..r..; ..r.. => ..r..", a, b)


@wrong("""
output axis 1 of `a` is 2, but output axis 2 of `a` is 3
  in       product + b                               file.py:N
  via      einsum("...|ij; ...|jk => ...|ik", a, b)  file.py:N
  a        4|2,3                                     placeholder, file.py:N
  product  4|2,5                                     result, file.py:N
  b        4|3,5                                     placeholder, file.py:N
  fix      make the two sizes equal, or one of them 1
""")
def a_product_that_is_added_to_an_operand():
    a = oc.placeholder(b=[4], o=[2, 3])
    b = oc.placeholder(b=[4], o=[3, 5])
    product = oc.einsum("...|ij; ...|jk => ...|ik", a, b)
    return product + b


@wrong("""
output axis 1 of `k` is 6, but output axis 1 of `v` is 7
  in   einsum("td; sd; se => te", q, k, v)  file.py:N
  k    ...|...->6,8                         placeholder, file.py:N
  v    ...|...->7,8                         placeholder, file.py:N
  q    ...|...->4,8                         placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def three_operands_with_a_contraction_mismatch():
    q = oc.placeholder(o=[4, 8])
    k = oc.placeholder(o=[6, 8])
    v = oc.placeholder(o=[7, 8])
    return oc.einsum("td; sd; se => te", q, k, v)


@wrong("""
`i` in `i => ` has 1 axis, but the output row of `loss` is empty
  in    sum("i => ", loss)  file.py:N
  loss  ...|...->           placeholder, file.py:N
  fix   write no axes there, or `...` for any number
""")
def a_sum_over_an_absent_axis():
    loss = oc.placeholder("loss", o=[])
    return loss.sum("i => ")


# --- sizes by name --------------------------------------------------------------------------------------------------


@wrong("""
output axis 1 of `x` is 10, but `i`, given as i=3, is 3
  in   einsum("i => i", x)  file.py:N
  x    ...|...->10          placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def a_size_by_name_that_is_not_so():
    x = oc.placeholder(o=[10])
    return oc.einsum("i => i", x, i=3)


@wrong("""
`..r..` is 2,3, which makes 6 cells, but `r`, given as r=7, is 7
  in   einsum("..r.. => ..r..", x)  file.py:N
  x    ...|...->2,3                 placeholder, file.py:N
  fix  give axes whose product is 7
""")
def a_number_of_cells_by_name_that_is_not_so():
    x = oc.placeholder(o=[2, 3])
    return oc.einsum("..r.. => ..r..", x, r=7)


@wrong("""
`i`, given as i=3, is 3, but `j`, given as j=4, is 4
  in   einsum("j => j", w)  file.py:N
  via  einsum("i => i", w)  file.py:N
  w    3                    param, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def sizes_by_name_that_disagree_between_two_expressions():
    w = oc.param()
    three = oc.einsum("i => i", w, i=3)
    return three, oc.einsum("j => j", w, j=4)


@wrong("""
the sizes in `(h d)` make 8 * ? (`h`, given as h=8), but output axis 1 of `x` is 100
  in   einsum("...|(h d) => ...|h,d", x)  file.py:N
  x    32|...->100                        placeholder, file.py:N
  fix  make that size a multiple of 8, or change the parts
""")
def heads_that_do_not_divide():
    x = oc.placeholder(b=[32], o=[100])
    return oc.einsum("...|(h d) => ...|h,d", x, h=8)


@wrong("""
nothing says how `(a b)` divides output axis 1 of `x`, which is 10
  in   einsum("(a b) => a,b", x)  file.py:N
  x    ...|...->10                placeholder, file.py:N
  fix  give the size of a part by its name
""")
def a_split_without_sizes():
    x = oc.placeholder(o=[10])
    return oc.einsum("(a b) => a,b", x).dims


@wrong("""
the whole of `(a b)` is 6, but output axis 1 of `y` is 7
  in      einsum("a,b => (a b)", x) + y  file.py:N
  since   6 = 2 * 3                      the whole of `(a b)`
  y       ...|...->7                     placeholder, file.py:N
  x       2,3                            placeholder, file.py:N
  einsum  6                              result, file.py:N
  fix     make the two sizes equal, or one of them 1
""")
def merged_axes_of_another_product():
    x = oc.placeholder(o=[2, 3])
    y = oc.placeholder(o=[7])
    return oc.einsum("a,b => (a b)", x) + y


@wrong("""
the coefficient `stride` is 0
  in   einsum("stride*i => i", x)  file.py:N
  x    ...|...->10                 placeholder, file.py:N
  fix  pass stride=..., a number from 1
""")
def a_coefficient_of_zero():
    x = oc.placeholder(o=[10])
    return oc.einsum("stride*i => i", x, stride=0)


@wrong("""
the coefficient `stride` has no value
  in   einsum("stride*i => i", x)  file.py:N
  x    ...|...->10                 placeholder, file.py:N
  fix  pass stride=..., a number from 1
""")
def a_coefficient_without_a_value():
    x = oc.placeholder(o=[10])
    return oc.einsum("stride*i => i", x)


# --- windows --------------------------------------------------------------------------------------------------------


@wrong("""
`2*o<+k` does not fit axis 10 (output axis 1 of `x`), window 3 (output axis 1 of `k`): 7 is no multiple of the stride 2
  in   einsum("2*o<+k; k => o", x, k)  file.py:N
  x    ...|...->10                     placeholder, file.py:N
  k    ...->3                          param, file.py:N
  fix  change the axis, the window or the stride; pad (`=`, padding="same"), or drop the rest (`[0,0]`, padding=0)
""")
def a_stride_with_a_remainder():
    x = oc.placeholder(o=[10])
    k = oc.param(o=[3])
    return oc.einsum("2*o<+k; k => o", x, k)


@wrong("""
`o<+k` does not fit axis 3 (output axis 1 of `x`), window 5 (output axis 1 of `k`): the window is longer than the axis
  in   einsum("o<+k; k => o", x, k)  file.py:N
  x    ...|...->3                    placeholder, file.py:N
  k    ...->5                        param, file.py:N
  fix  change the axis, the window or the stride; pad (`=`, padding="same"), or drop the rest (`[0,0]`, padding=0)
""")
def a_kernel_that_is_longer_than_the_axis():
    x = oc.placeholder(o=[3])
    k = oc.param(o=[5])
    return oc.einsum("o<+k; k => o", x, k)


@wrong("""
`o<+3*k` does not fit axis 6 (output axis 1 of `x`), window 3 (output axis 1 of `k`): the window is longer than the axis
  in   einsum("o<+3*k; k => o", x, k)  file.py:N
  x    ...|...->6                      placeholder, file.py:N
  k    ...->3                          param, file.py:N
  fix  change the axis, the window or the stride; pad (`=`, padding="same"), or drop the rest (`[0,0]`, padding=0)
""")
def a_dilated_kernel_that_is_longer_than_the_axis():
    x = oc.placeholder(o=[6])
    k = oc.param(o=[3])
    return oc.einsum("o<+3*k; k => o", x, k)


@wrong("""
`2*o=+k` does not fit axis 9 (output axis 1 of `x`), window 3 (output axis 1 of `k`): 9 is no multiple of the stride 2
  in   einsum("2*o=+k; k => o", x, k)  file.py:N
  x    ...|...->9                      placeholder, file.py:N
  k    ...->3                          param, file.py:N
  fix  change the axis, the window or the stride
""")
def a_padded_window_over_an_odd_axis():
    x = oc.placeholder(o=[9])
    k = oc.param(o=[3])
    return oc.einsum("2*o=+k; k => o", x, k)


@wrong("""
the size that `2*o=+k` leaves is 4, but output axis 1 of `x` is 8
  in      einsum("2*o=+k; k => o", x, k) + x  file.py:N
  since   8 = 2 * 4                           the size that `2*o=+k` leaves
  x       8                                   placeholder, file.py:N
  k       3                                   param, file.py:N
  einsum  4                                   result, file.py:N
  fix     make the two sizes equal, or one of them 1
""")
def a_strided_padded_convolution_that_is_added_to_the_input():
    x = oc.placeholder(o=[8])
    k = oc.param(o=[3])
    return oc.einsum("2*o=+k; k => o", x, k) + x


@wrong("""
`2*i` does not fit axis 9 (output axis 1 of `x`): 9 is no multiple of the stride 2
  in   einsum("2*i => i", x)  file.py:N
  x    ...|...->9             placeholder, file.py:N
  fix  change the axis or the stride
""")
def every_second_of_an_odd_number():
    x = oc.placeholder(o=[9])
    return oc.einsum("2*i => i", x)


@wrong("""
`2*h<+wh` does not fit axis 7 (output axis 1 of `image`), window 2 (`wh`, given as wh=2): 5 is no multiple of the stride 2
  in     max("...|2*h<+wh,2*w<+ww,c => ...|h,w,c", image)  file.py:N
  image  2|...->7,6,3                                      placeholder, file.py:N
  fix    change the axis, the window or the stride; pad (`=`, padding="same"), or drop the rest (`[0,0]`, padding=0)
""")  # noqa: E501
def a_pooling_that_does_not_divide():
    image = oc.placeholder(b=[2], o=[7, 6, 3])
    return image.max("...|2*h<+wh,2*w<+ww,c => ...|h,w,c", wh=2, ww=2)


@wrong("""
output axis 3 of `image` is 3, but input axis 3 of `kernel` is 1
  in      einsum("...|h<+kh,w<+kw,c; kh,kw,c->d => ...|h,w,d", image, kernel)  file.py:N
  image   2|...->8,8,3                                                         placeholder, file.py:N
  kernel  ...|3,3,1->16                                                        placeholder, file.py:N
  fix     make the two sizes equal; a spec does not broadcast
""")
def a_convolution_of_different_channels():
    image = oc.placeholder(b=[2], o=[8, 8, 3])
    kernel = oc.placeholder(i=[3, 3, 1], o=[16])
    return oc.einsum("...|h<+kh,w<+kw,c; kh,kw,c->d => ...|h,w,d", image, kernel)


@wrong("""
output axis 1 of `x` is 8, but the size that `o<+k` leaves is 6
  in      x + einsum("o<+k; k => o", x, k)  file.py:N
  since   8 = (6 - 1) + (3 - 1) + 1         the size that `o<+k` leaves
  x       8                                 placeholder, file.py:N
  k       3                                 param, file.py:N
  einsum  6                                 result, file.py:N
  fix     make the two sizes equal, or one of them 1
""")
def a_residual_around_a_convolution_that_shrinks():
    x = oc.placeholder(o=[8])
    k = oc.param(o=[3])
    return x + oc.einsum("o<+k; k => o", x, k)


@wrong("""
the size that `2*o<+k` leaves is 9, but output axis 1 of `x` is 10
  in     wide - x                        file.py:N
  via    einsum("o; k => 2*o<+k", y, k)  file.py:N
  since  9 = 2 * (4 - 1) + (3 - 1) + 1   the size that `2*o<+k` leaves
  x      ...|...->10                     placeholder, file.py:N
  y      4                               placeholder, file.py:N
  k      3                               param, file.py:N
  wide   9                               result, file.py:N
  fix    make the two sizes equal, or one of them 1
""")
def a_transposed_convolution_into_another_size():
    y = oc.placeholder(o=[4])
    k = oc.param(o=[3])
    wide = oc.einsum("o; k => 2*o<+k", y, k)
    x = oc.placeholder(o=[10])
    return wide - x


# --- concatenation --------------------------------------------------------------------------------------------------


@wrong("""
the whole of `a^b` is 5, but output axis 1 of `x` is 6
  in      concat("a; b => a^b", a, b) * x  file.py:N
  since   5 = 2 + 3                        the whole of `a^b`
  x       ...|...->6                       placeholder, file.py:N
  a       2                                placeholder, file.py:N
  b       3                                placeholder, file.py:N
  concat  5                                result, file.py:N
  fix     make the two sizes equal, or one of them 1
""")
def parts_that_do_not_add_up():
    a = oc.placeholder(o=[2])
    b = oc.placeholder(o=[3])
    x = oc.placeholder(o=[6])
    return oc.concat("a; b => a^b", a, b) * x


@wrong("""
the sizes in `7^a` make 7 + ?, but output axis 1 of `x` is 5
  in   concat("7^a => a", x)  file.py:N
  x    ...|...->5             placeholder, file.py:N
  fix  make that size 7 or more
""")
def a_part_larger_than_the_total():
    x = oc.placeholder(o=[5])
    return oc.concat("7^a => a", x)


@wrong("""
output axis 2 of `a` is 4, but output axis 2 of `b` is 5
  in   concat("a,c; b,c => a^b,c", a, b)  file.py:N
  a    ...|...->2,4                       placeholder, file.py:N
  b    ...|...->3,5                       placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def parts_of_different_widths():
    a = oc.placeholder(o=[2, 4])
    b = oc.placeholder(o=[3, 5])
    return oc.concat("a,c; b,c => a^b,c", a, b)


@wrong("""
the sizes in `a^a` make ? + ?, but output axis 1 of `x` is 7
  in   concat("a^a => a", x)  file.py:N
  x    ...|...->7             placeholder, file.py:N
  fix  make that size a multiple of 2
""")
def halves_of_an_odd_axis():
    x = oc.placeholder(o=[7])
    return oc.concat("a^a => a", x)


@wrong("""
the sizes in `a^b` make 6 + ? (`a`, given as a=6), but output axis 1 of `x` is 4
  in   concat("a^b => b", x)  file.py:N
  x    ...|...->4             placeholder, file.py:N
  fix  make that size 6 or more, or change the parts
""")
def a_part_by_name_that_leaves_nothing():
    x = oc.placeholder(o=[4])
    return oc.concat("a^b => b", x, a=6)


@wrong("""
output axis 2 of `b` is 4, but output axis 2 of `d` is 6
  in   concat("r,u; r,v; s,u; s,v => r^s,u^v", a, b, c, d)  file.py:N
  b    ...|...->2,4                                         placeholder, file.py:N
  d    ...|...->5,6                                         placeholder, file.py:N
  a    ...|...->2,3                                         placeholder, file.py:N
  c    ...|...->5,3                                         placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def four_blocks_of_different_widths():
    a, b = oc.placeholder("a", o=[2, 3]), oc.placeholder("b", o=[2, 4])
    c, d = oc.placeholder("c", o=[5, 3]), oc.placeholder("d", o=[5, 6])
    return oc.concat("r,u; r,v; s,u; s,v => r^s,u^v", a, b, c, d)


@wrong("""
the whole of `2^a` is 7, but output axis 1 of `x` is 5
  in      padded + x             file.py:N
  via     concat("a => 2^a", x)  file.py:N
  since   7 = 2 + 5              the whole of `2^a`
  x       5                      placeholder, file.py:N
  padded  7                      result, file.py:N
  fix     make the two sizes equal, or one of them 1
""")
def padded_tensor_that_is_added_to_the_unpadded_input():
    x = oc.placeholder(o=[5])
    padded = oc.concat("a => 2^a", x)
    return padded + x


@wrong("""
output axis 1 of `a` is 2, but output axis 1 of `b` is 3
  in   stack([a, b])  file.py:N
  a    ...|...->2     placeholder, file.py:N
  b    ...|...->3     placeholder, file.py:N
  fix  make the two sizes equal
""")
def a_stack_of_different_sizes():
    a = oc.placeholder(o=[2])
    b = oc.placeholder(o=[3])
    return oc.stack([a, b])


@wrong("""
output axis 1 of `c` is 2, but output axis 1 of `d` is 5
  in   block([[a, b], [c, d]])  file.py:N
  c    ...|...->2               placeholder, file.py:N
  d    ...|...->5               placeholder, file.py:N
  fix  make the two sizes equal
""")
def a_block_whose_cells_differ():
    a = oc.placeholder(o=[2])
    b = oc.placeholder(o=[2])
    c = oc.placeholder(o=[2])
    d = oc.placeholder(o=[5])
    return oc.block([[a, b], [c, d]])


# --- captured sizes -------------------------------------------------------------------------------------------------


@wrong("""
output axis 1 of `x` is 5, but `n`, set at file.py:N, is 6
  in   n.set(6)             file.py:N
  in   einsum("i => i", x)  file.py:N
  x    5                    placeholder, file.py:N
  fix  make the two sizes equal
""")
def a_captured_size_that_is_set_otherwise():
    x = oc.placeholder(o=[5])
    n = oc.Dim("n")
    oc.einsum("i => i", x, i=n)
    n.set(6)


@wrong("""
`n`, set at file.py:N, is 3, but `n`, set at file.py:N, is 4
  in   n.set(4)  file.py:N
  fix  make the two sizes equal
""")
def a_captured_size_that_is_set_twice():
    n = oc.Dim("n")
    n.set(3)
    n.set(4)


@wrong("""
output axis 1 of `x` is 5, but output axis 1 of `y` is 6
  in   n.equal(m)                  file.py:N
  in   einsum("i; j => ij", x, y)  file.py:N
  x    5                           placeholder, file.py:N
  y    6                           placeholder, file.py:N
  fix  make the two sizes equal
""")
def captured_sizes_that_are_not_equal():
    x = oc.placeholder(o=[5])
    y = oc.placeholder(o=[6])
    n, m = oc.Dim("n"), oc.Dim("m")
    oc.einsum("i; j => ij", x, y, i=n, j=m)
    n.equal(m)


@wrong("""
the sizes in `large = 2*small` make 2 * 4 (output axis 1 of `y`), but output axis 1 of `x` is 6
  in   large.scale(small, 2)       file.py:N
  in   einsum("i; j => ij", x, y)  file.py:N
  x    6                           placeholder, file.py:N
  y    4                           placeholder, file.py:N
  fix  change a part, or the whole
""")
def a_captured_size_that_is_not_twice_another():
    x = oc.placeholder(o=[6])
    y = oc.placeholder(o=[4])
    large, small = oc.Dim("large"), oc.Dim("small")
    oc.einsum("i; j => ij", x, y, i=large, j=small)
    large.scale(small, 2)


@wrong("""
the sizes in `large = 2*small` make 2 * ?, but output axis 1 of `x` is 5
  in   einsum("i => i", x)    file.py:N
  in   large.scale(small, 2)  file.py:N
  x    ...|...->5             placeholder, file.py:N
  fix  make that size a multiple of 2
""")
def half_of_an_odd_size():
    x = oc.placeholder(o=[5])
    large, small = oc.Dim("large"), oc.Dim("small")
    large.scale(small, 2)
    return oc.einsum("i => i", x, i=large)


@wrong("""
nothing says what `n` is
  in   n = oc.Dim()  file.py:N
  fix  capture it from a spec, or set it
""")
def a_captured_size_that_nothing_tells():
    n = oc.Dim("n")
    return int(n)


@wrong("""
output axis 1 of `x` is 5, but `n`, set at file.py:N, is 4
  in   einsum("i => i", x)  file.py:N
  x    ...|...->5           placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def a_captured_size_that_a_later_spec_contradicts():
    n = oc.Dim("n")
    n.set(4)
    x = oc.placeholder(o=[5])
    return oc.einsum("i => i", x, i=n)


@wrong("""
the number of cells of `..r..` is 6, but `cells`, set at file.py:N, is 7
  in     cells.set(7)                 file.py:N
  in     einsum("..r.. => ..r..", x)  file.py:N
  since  6 = 2 * 3                    the number of cells of `..r..`
  x      2,3                          placeholder, file.py:N
  fix    make the two sizes equal
""")
def a_captured_row_that_is_set_otherwise():
    x = oc.placeholder(o=[2, 3])
    cells = oc.Dim("cells")
    oc.einsum("..r.. => ..r..", x, r=cells)
    cells.set(7)


# --- slices ---------------------------------------------------------------------------------------------------------


@wrong("""
batch axis 1 of `data` is 3, but it is indexed up to 5
  in    data[5]  file.py:N
  data  3|4      data, file.py:N
  fix   make the axis 6 or longer, or use indices below 3
""")
def a_slice_beyond_the_batch():
    data = oc.tensor(np.zeros((3, 4)), batch_axes=1)
    return data[5]


@wrong("""
`x[0]` is a slice along the first batch axis, but the batch row of `x` is empty
  in   x[0]  file.py:N
  x    3     data, file.py:N
  fix  give `x` a batch axis, or take a part by a spec
""")
def a_slice_of_a_tensor_without_batch_axes():
    x = oc.tensor([1.0, 2.0, 3.0])
    return x[0]


@wrong("""
batch axis 1 of `data` is 3, but it is indexed up to 9
  in    data[n]  file.py:N
  data  3|4      data, file.py:N
  fix   make the axis 10 or longer, or use indices below 3
""")
def a_symbol_that_runs_beyond_the_batch():
    data = oc.tensor(np.zeros((3, 4)), batch_axes=1)
    n = oc.symbol("n", 0, 10)
    return data[n]


@wrong("""
`w[1]` is a slice along the first batch axis, but the batch row of `w` is empty
  in   w[1]    file.py:N
  w    ...->8  param, file.py:N
  fix  give `w` a batch axis, or take a part by a spec
""")
def a_slice_of_a_parameter_that_has_no_batch():
    w = oc.param(o=[8])
    return w[1]


# --- leaves ---------------------------------------------------------------------------------------------------------


@wrong("""
`w` is square, but its input row is 3, and its output row 4
  w    3->4  param, file.py:N
  fix  give both rows the same sizes, or only one of them
""")
def a_square_that_is_none():
    w = oc.param(i=[3], o=[4], square=True)
    return w


@wrong("""
output axis 1 of `w` is 4, but output axis 1 of `x` is 3
  in   w @ x       file.py:N
  w    4->4        param, file.py:N
  x    ...|...->3  placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def a_square_between_rows_that_differ():
    w = oc.param(square=True, o=[4])
    x = oc.placeholder(o=[3])
    return w @ x


@wrong("""
`x` is ?,5, which makes a multiple of 5 cells, but the number of cells of `x` is 12
  in   einsum("ab; bc => ac", x, y)  file.py:N
  y    ...|...->5,3                  placeholder, file.py:N
  x    ...|...->...                  data, file.py:N
  fix  give axes whose product is 12
""")
def data_whose_number_of_cells_does_not_fit():
    x = oc.tensor(np.zeros(12), shape="infer")
    y = oc.placeholder(o=[5, 3])
    return oc.einsum("ab; bc => ac", x, y)


@wrong("""
`x` is 4,5, which makes 20 cells, but the number of cells of `x` is 12
  in   einsum("ab => ba", x)  file.py:N
  x    ...|...->...           data, file.py:N
  fix  give axes whose product is 12
""")
def data_whose_number_of_cells_is_another():
    x = oc.tensor(np.zeros(12), shape="infer")
    return oc.einsum("ab => ba", x, a=4, b=5)


@wrong("""
the initial value of `w` has the output sizes [2, 2], but output=[2, 3] is given
  in   w  file.py:N
  fix  give a value of these sizes, or leave the sizes to the value
""")
def cells_that_contradict_a_named_row():
    w = oc.param([[1.0, 2.0], [3.0, 4.0]], o=[2, 3])
    return w


@wrong("""
output axis 1 of `x` is -3: a size cannot be negative
  in   x  file.py:N
  fix  give a size from 0
""")
def a_negative_size():
    return oc.placeholder("x", o=[-3])


@wrong("""
output axis 1 of `x` is 'three': an axis is a size
  in   x  file.py:N
  fix  give a size, such as 3, or a unit and a size, such as ('rgb', 3)
""")
def a_size_that_is_no_number():
    return oc.placeholder("x", o=["three"])


@wrong("""
`huge` would have 2147483648*2147483648*2147483648 cells, more than any memory can hold
  huge  ...|...->2147483648,2147483648,2147483648  placeholder, file.py:N
  fix   make an axis smaller
""")
def more_cells_than_memory_has():
    huge = oc.placeholder(o=[1 << 31, 1 << 31, 1 << 31])
    return huge.dims


@wrong("""
output axis 1 of `w` is 4, but output axis 1 of `start` is 3
  in     w = start * 2  file.py:N
  w      ...->4         param, file.py:N
  start  3              data, file.py:N
  mul    3              result, file.py:N
  fix    make the two sizes equal, or one of them 1
""")
def a_parameter_initialized_by_another_shape():
    start = oc.tensor([1.0, 2.0, 3.0])
    return oc.param("w", start * 2.0, o=[4])


@wrong("""
the output row of `w` is 3, but the output row of `add` is 1,3: an operand cannot have more axes than the shape it broadcasts to
  in     w = start + 1  file.py:N
  w      ...->3         param, file.py:N
  add    1,3            result, file.py:N
  start  1,3            data, file.py:N
  fix    give both rows the same number of axes; `(a b)` in a spec merges axes
""")  # noqa: E501
def a_parameter_initialized_by_more_axes():
    start = oc.tensor([[1.0, 2.0, 3.0]])
    return oc.param("w", start + 1.0, o=[3])


# --- rows that would grow without end -------------------------------------------------------------------------------


@wrong("""
no number of axes satisfies all these operations: the output row of `x` would have to be 1 axis longer than itself
  in   einsum("..r..; ..r.. => ..r..", x, y)  file.py:N
  in   einsum("... => ...,0", x)              file.py:N
  x    ...                                    placeholder, file.py:N
  y    ...,1                                  result, file.py:N
  fix  give one of the tensors all its axes
""")
def a_row_that_would_have_to_be_longer_than_itself():
    x = oc.placeholder()
    y = oc.einsum("... => ...,0", x)
    return oc.einsum("..r..; ..r.. => ..r..", x, y)


@wrong("""
no number of axes satisfies all these operations: the output row of `b` would have to be 2 axes longer than itself
  in   einsum("..r..,0; ..r.. => ..r..", a, b)  file.py:N
  in   einsum("..r..; ..r..,0 => ..r..", a, b)  file.py:N
  b    ...,?                                    placeholder, file.py:N
  a    ...                                      placeholder, file.py:N
  fix  give one of the tensors all its axes
""")
def two_rows_mutually_longer():
    a = oc.placeholder()
    b = oc.placeholder()
    oc.einsum("..r..; ..r..,0 => ..r..", a, b)
    return oc.einsum("..r..,0; ..r.. => ..r..", a, b)


# --- what travels ---------------------------------------------------------------------------------------------------


@wrong("""
output axis 1 of `x` is 3, but output axis 1 of `z` is 4
  in   c + z       file.py:N
  via  b * 2       file.py:N
  via  relu(a)     file.py:N
  via  exp(x)      file.py:N
  x    ...|...->3  placeholder, file.py:N
  z    ...|...->4  placeholder, file.py:N
  c    ...|...->3  result, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def a_size_that_travels_through_three_operations():
    x = oc.placeholder(o=[3])
    a = oc.exp(x)
    b = oc.relu(a)
    c = b * 2.0
    z = oc.placeholder(o=[4])
    return c + z


@wrong("""
output axis 1 of `x` is 3, but output axis 1 of `y` is 4
  in   w @ y       file.py:N
  via  w @ x       file.py:N
  x    ...|...->3  placeholder, file.py:N
  y    ...|...->4  placeholder, file.py:N
  w    ...,3->8    param, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def a_parameter_that_two_uses_tell_two_sizes():
    w = oc.param(o=[8])
    x = oc.placeholder(o=[3])
    y = oc.placeholder(o=[4])
    return w @ x + w @ y


@wrong("""
input axis 1 of `w` is 3, but output axis 1 of `w` is 4
  in    w @ relu(matmul)  file.py:N
  via   relu(w @ x)       file.py:N
  via   w @ x             file.py:N
  w     3->4              param, file.py:N
  relu  ...|...->4        result, file.py:N
  x     ...|...->3        placeholder, file.py:N
  fix   make the two sizes equal, or one of them 1
""")
def a_recurrent_weight_that_cannot_be_applied_twice():
    w = oc.param(i=[3], o=[4])
    x = oc.placeholder(o=[3])
    return w @ oc.relu(w @ x)


@wrong("""
the size that `o<+k` leaves is 8, but output axis 1 of `y` is 10
  in     h - y                         file.py:N
  via    relu(edges)                   file.py:N
  via    einsum("o<+k; k => o", x, k)  file.py:N
  since  10 = (8 - 1) + (3 - 1) + 1    the size that `o<+k` leaves
  y      ...|...->10                   placeholder, file.py:N
  x      10                            placeholder, file.py:N
  k      3                             param, file.py:N
  h      8                             result, file.py:N
  fix    make the two sizes equal, or one of them 1
""")
def a_size_computed_by_an_intermediate_window():
    x = oc.placeholder(o=[10])
    k = oc.param(o=[3])
    edges = oc.einsum("o<+k; k => o", x, k)
    h = oc.relu(edges)
    y = oc.placeholder(o=[10])
    return h - y


@wrong("""
output axis 1 of `y` is 9, but output axis 1 of `x` is 8
  in   y + b       file.py:N
  via  x + b       file.py:N
  y    ...|...->9  placeholder, file.py:N
  x    ...|...->8  placeholder, file.py:N
  b    ...->8      param, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def a_bias_that_two_uses_tell_two_sizes():
    b = oc.param(o=[8])
    x = oc.placeholder(o=[8])
    y = oc.placeholder(o=[9])
    return (x + b).sum() + (y + b).sum()


@wrong("""
output axis 1 of `w` is 12, but output axis 1 of `target` is 10
  in      logits - target  file.py:N
  via     w @ x            file.py:N
  w       ...,784->12      param, file.py:N
  target  32|...->10       placeholder, file.py:N
  logits  32|...->12       result, file.py:N
  x       32|...->784      placeholder, file.py:N
  fix     make the two sizes equal, or one of them 1
""")
def a_loss_against_targets_of_different_classes():
    x = oc.placeholder(b=[32], o=[784])
    target = oc.placeholder(b=[32], o=[10])
    w = oc.param(o=[12])
    logits = w @ x
    return ((logits - target) ** 2).sum()


# --- what came a long way -------------------------------------------------------------------------------------------


@wrong("""
output axis 1 of `w1` is 100, but output axis 1 of `target` is 10
  in      p - target                    file.py:N
  via     e / sum("...|d => ...|0", e)  file.py:N
  via     exp(h + bias)                 file.py:N
  via     ... 4 more ...
  via     w1 @ x                        file.py:N
  w1      ...,64->100                   param, file.py:N
  target  8|...->10                     placeholder, file.py:N
  p       8|100                         result, file.py:N
  x       8|64                          placeholder, file.py:N
  fix     make the two sizes equal, or one of them 1
""")
def a_size_from_the_first_layer_that_clashes_at_the_loss():
    x = oc.placeholder(b=[8], o=[64])
    w1, bias = oc.param("w1", o=[100]), oc.param("bias")
    target = oc.placeholder(b=[8], o=[10])
    h = oc.tanh(oc.relu(w1 @ x) * 2.0)
    e = oc.exp(h + bias)
    p = e / e.sum("...|d => ...|0")
    return p - target


@wrong("""
output axis 1 of `x` is 64, but output axis 1 of `y` is 63
  in   t * y          file.py:N
  via  relu(t + p)    file.py:N
  via  t + p          file.py:N
  via  relu(x + p)    file.py:N
  via  x + p          file.py:N
  x    8|64           placeholder, file.py:N
  y    8|63           placeholder, file.py:N
  t    8|...->...,64  result, file.py:N
  p    ...->...       param, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def sizes_that_meet_after_twenty_operations():
    x = oc.placeholder(b=[8], i=[], o=[64])
    y = oc.placeholder(b=[8], i=[], o=[63])
    t = x
    for _ in range(10):
        t = oc.relu(t + oc.param("p"))
    return t * y


@wrong("""
the whole of `a^b` is 7, but output axis 1 of `y` is 8
  in     exp(twice) + y                        file.py:N
  via    concat("a; b => a^b", relu(once), a)  file.py:N
  via    relu(once)                            file.py:N
  via    concat("a; b => a^b", a, b)           file.py:N
  since  7 = 5 + 2                             the whole of `a^b`
  since  5 = 2 + 3                             the whole of `a^b`
  y      ...|...->8                            placeholder, file.py:N
  a      2                                     placeholder, file.py:N
  b      3                                     placeholder, file.py:N
  exp    7                                     result, file.py:N
  fix    make the two sizes equal, or one of them 1
""")
def concatenations_of_concatenations():
    a = oc.placeholder(o=[2])
    b = oc.placeholder(o=[3])
    once = oc.concat("a; b => a^b", a, b)
    twice = oc.concat("a; b => a^b", oc.relu(once), a)
    y = oc.placeholder(o=[8])
    return oc.exp(twice) + y


@wrong("""
`2*h<+wh` does not fit axis 11 (the size that `h<+kh` leaves), window 2 (`wh`, given as wh=2): 9 is no multiple of the stride 2
  in     max("...|2*h<+wh,2*w<+ww,c => ...|h,w,c", c2)                       file.py:N
  via    relu(einsum("...|h<+kh,w<+kw,c; kh,kw,c->d => ...|h,w,d", p1, k2))  file.py:N
  via    einsum("...|h<+kh,w<+kw,c; kh,kw,c->d => ...|h,w,d", p1, k2)        file.py:N
  via    max("...|2*h<+wh,2*w<+ww,c => ...|h,w,c", c1)                       file.py:N
  via    relu(einsum("...|h<+kh,w<+kw,c; kh,kw,c->d => ...|h,w,d", x, k1))   file.py:N
  via    einsum("...|h<+kh,w<+kw,c; kh,kw,c->d => ...|h,w,d", x, k1)         file.py:N
  since  13 = (11 - 1) + (3 - 1) + 1                                         the size that `h<+kh` leaves
  since  26 = 2 * (13 - 1) + (2 - 1) + 1                                     the size that `2*h<+wh` leaves
  since  28 = (26 - 1) + (3 - 1) + 1                                         the size that `h<+kh` leaves
  x      2|28,28,1                                                           placeholder, file.py:N
  k1     3,3,1->8                                                            param, file.py:N
  k2     3,3,8->16                                                           param, file.py:N
  c2     2|11,11,16                                                          result, file.py:N
  fix    change the axis, the window or the stride; pad (`=`, padding="same"), or drop the rest (`[0,0]`, padding=0)
""")  # noqa: E501
def a_second_pooling_that_does_not_divide():
    x = oc.placeholder(b=[2], o=[28, 28, 1])
    k1, k2 = oc.param("k1", i=[3, 3, 1], o=[8]), oc.param("k2", i=[3, 3, 8], o=[16])
    convolve, pool = "...|h<+kh,w<+kw,c; kh,kw,c->d => ...|h,w,d", "...|2*h<+wh,2*w<+ww,c => ...|h,w,c"
    c1 = oc.relu(oc.einsum(convolve, x, k1))
    p1 = c1.max(pool, wh=2, ww=2)
    c2 = oc.relu(oc.einsum(convolve, p1, k2))
    return c2.max(pool, wh=2, ww=2)


@wrong("""
input axis 1 of `w` is 1352, but the whole of `(h w c)` is 5408
  in     w @ flat                                                          file.py:N
  via    einsum("...|h,w,c => ...|(h w c)", seen)                          file.py:N
  via    relu(einsum("...|h<+kh,w<+kw,c; kh,kw,c->d => ...|h,w,d", x, k))  file.py:N
  via    einsum("...|h<+kh,w<+kw,c; kh,kw,c->d => ...|h,w,d", x, k)        file.py:N
  since  5408 = 26 * 26 * 8                                                the whole of `(h w c)`
  since  28 = (26 - 1) + (3 - 1) + 1                                       the size that `h<+kh` leaves
  since  28 = (26 - 1) + (3 - 1) + 1                                       the size that `w<+kw` leaves
  w      1352->10                                                          param, file.py:N
  x      2|28,28,1                                                         placeholder, file.py:N
  k      3,3,1->8                                                          param, file.py:N
  flat   2|5408                                                            result, file.py:N
  fix    make the two sizes equal, or one of them 1
""")
def a_dense_layer_behind_a_convolution():
    x = oc.placeholder(b=[2], o=[28, 28, 1])
    k = oc.param(i=[3, 3, 1], o=[8])
    seen = oc.relu(oc.einsum("...|h<+kh,w<+kw,c; kh,kw,c->d => ...|h,w,d", x, k))
    flat = oc.einsum("...|h,w,c => ...|(h w c)", seen)
    w = oc.param(i=[1352], o=[10])
    return w @ flat


@wrong("""
the whole of `(h d)` is 32, but output axis 1 of `y` is 33
  in      einsum("...|h,d => ...|(h d)", h) + y       file.py:N
  via     einsum("...s|m; m->h,d => ...s|h,d", x, q)  file.py:N
  since   32 = 4 * 8                                  the whole of `(h d)`
  y       4,16|33                                     placeholder, file.py:N
  q       32->4,8                                     param, file.py:N
  einsum  4,16|32                                     result, file.py:N
  x       4,16|32                                     placeholder, file.py:N
  fix     make the two sizes equal, or one of them 1
""")
def heads_that_were_merged_and_added():
    x = oc.placeholder(b=[4, 16], i=[], o=[32])
    y = oc.placeholder(b=[4, 16], i=[], o=[33])
    q = oc.param(o=[4, 8])
    h = oc.einsum("...s|m; m->h,d => ...s|h,d", x, q)
    return oc.einsum("...|h,d => ...|(h d)", h) + y


@wrong("""
what is left in `(h d)` is 8, but output axis 2 of `y` is 7
  in     relu(h) * relu(y)                  file.py:N
  via    einsum("...|(h d) => ...|h,d", x)  file.py:N
  since  32 = 4 * 8                         what is left in `(h d)`
  y      4|4,7                              placeholder, file.py:N
  x      4|32                               placeholder, file.py:N
  relu   4|4,8                              result, file.py:N
  relu   4|4,7                              result, file.py:N
  fix    make the two sizes equal, or one of them 1
""")
def parts_of_an_axis_that_meet_different_sizes():
    x = oc.placeholder(b=[4], i=[], o=[32])
    y = oc.placeholder(b=[4], i=[], o=[4, 7])
    h = oc.einsum("...|(h d) => ...|h,d", x, h=4)
    return oc.relu(h) * oc.relu(y)


@wrong("""
output axis 1 of `x` is 16, but output axis 1 of `w2` is 32
  in      x + (w2 @ relu)    file.py:N
  via     w2 @ relu(matmul)  file.py:N
  x       4|16               placeholder, file.py:N
  w2      ...,64->32         param, file.py:N
  matmul  4|32               result, file.py:N
  relu    4|64               result, file.py:N
  fix     make the two sizes equal, or one of them 1
""")
def a_residual_around_two_layers():
    x = oc.placeholder(b=[4], i=[], o=[16])
    w1, w2 = oc.param("w1", o=[64]), oc.param("w2", o=[32])
    return x + w2 @ oc.relu(w1 @ x)


@wrong("""
batch axis 2 of `y` is 20, but batch axis 2 of `x` is 16
  in      einsum("...st|h; ...t|hd => ...s|hd", exp(scores), values)  file.py:N
  via     einsum("...s|hd; ...t|hd => ...st|h", q @ x, k @ y)         file.py:N
  via     k @ y                                                       file.py:N
  via     v @ x                                                       file.py:N
  y       4,20|32                                                     placeholder, file.py:N
  x       4,16|32                                                     placeholder, file.py:N
  exp     4,16,20|4                                                   result, file.py:N
  values  4,16|4,8                                                    result, file.py:N
  v       ...,32->4,8                                                 param, file.py:N
  fix     make the two sizes equal; a spec does not broadcast
""")
def values_of_another_sequence_than_the_keys():
    x = oc.placeholder(b=[4, 16], i=[], o=[32])
    y = oc.placeholder(b=[4, 20], i=[], o=[32])
    q, k, v = (oc.param(name, o=[4, 8]) for name in "qkv")
    scores = oc.einsum("...s|hd; ...t|hd => ...st|h", q @ x, k @ y)
    values = v @ x
    return oc.einsum("...st|h; ...t|hd => ...s|hd", oc.exp(scores), values)


@wrong("""
output axis 1 of `embedding` is 16, but output axis 1 of `w` is 24
  in         embedding.T @ relu(matmul)  file.py:N
  via        relu(w @ matmul)            file.py:N
  via        w @ (embedding @ tokens)    file.py:N
  embedding  100->16                     param, file.py:N
  w          ...,16->24                  param, file.py:N
  transpose  16->100                     result, file.py:N
  relu       2,5|24                      result, file.py:N
  matmul     2,5|16                      result, file.py:N
  fix        make the two sizes equal, or one of them 1
""")
def an_embedding_that_is_tied_to_another_width():
    embedding = oc.param(i=[100], o=[16])
    tokens = oc.placeholder(b=[2, 5], i=[], o=[100])
    w = oc.param(o=[24])
    return embedding.T @ oc.relu(w @ (embedding @ tokens))


@wrong("""
output axis 1 of `y` is 20, but the whole of `c = 2*b` is 24
  in     einsum("i => i", y)  file.py:N
  via    c.scale(b, 2)        file.py:N
  via    b.scale(a, 2)        file.py:N
  since  24 = 2 * 12          the whole of `c = 2*b`
  since  12 = 2 * 6           the whole of `b = 2*a`
  y      20                   placeholder, file.py:N
  x      6                    placeholder, file.py:N
  fix    make the two sizes equal; a spec does not broadcast
""")
def a_size_that_is_captured_and_scaled_twice():
    x = oc.placeholder(b=[], i=[], o=[6])
    y = oc.placeholder(b=[], i=[], o=[20])
    a, b, c = oc.Dim("a"), oc.Dim("b"), oc.Dim("c")
    b.scale(a, 2)
    c.scale(b, 2)
    oc.einsum("i => i", x, i=a)
    return oc.einsum("i => i", y, i=c)


@wrong("""
what is left in `(a d)` is 4, but output axis 2 of `q` is 5
  in     d.equal(e)                 file.py:N
  in     einsum("(a d) => a,d", x)  file.py:N
  in     einsum("a,e => a", q)      file.py:N
  since  12 = 3 * 4                 what is left in `(a d)`
  q      3,5                        placeholder, file.py:N
  x      12                         placeholder, file.py:N
  fix    make the two sizes equal
""")
def captured_sizes_of_two_specs_that_are_equated():
    x = oc.placeholder(b=[], i=[], o=[12])
    q = oc.placeholder(b=[], i=[], o=[3, 5])
    d, e = oc.Dim("d"), oc.Dim("e")
    oc.einsum("(a d) => a,d", x, a=3, d=d)
    oc.einsum("a,e => a", q, e=e)
    d.equal(e)


@wrong("""
the output row of `a` is 2,3, but the output row of `c` is 2,3,4: they must have equally many axes, since both are `..r..` in `..r..; ..r..; ..r.. => ..r..`
  in   einsum("..r..; ..r..; ..r.. => ..r..", a, b, c)  file.py:N
  a    ...|...->2,3                                     placeholder, file.py:N
  c    ...|...->2,3,4                                   placeholder, file.py:N
  b    ...|...->2,3                                     placeholder, file.py:N
  fix  give both rows the same number of axes, or different names in the spec
""")  # noqa: E501
def a_row_variable_that_three_operands_share():
    a = oc.placeholder(o=[2, 3])
    b = oc.placeholder(o=[2, 3])
    c = oc.placeholder(o=[2, 3, 4])
    return oc.einsum("..r..; ..r..; ..r.. => ..r..", a, b, c, combine="fma")


@wrong("""
output axis 1 of `u` is rgb 4, but output axis 1 of `v` is xyz 4: their units differ
  in   w + v           file.py:N
  via  w + u           file.py:N
  u    ...|...->rgb=4  placeholder, file.py:N
  v    ...|...->xyz=4  placeholder, file.py:N
  w    ...|...->rgb=4  placeholder, file.py:N
  fix  give both the same unit, or leave one out
""")
def units_propagated_to_an_axis_without_a_unit():
    w = oc.placeholder(o=[4])
    u = oc.placeholder(o=[("rgb", 4)])
    v = oc.placeholder(o=[("xyz", 4)])
    colours = w + u
    return colours, w + v


@wrong("""
`x` is 5,3, which makes 15 cells, but the number of cells of `x` is 24
  in    einsum("i,j; i,j => i", x, relu(a))  file.py:N
  a     5,3                                  placeholder, file.py:N
  x     ...|...->...                         data, file.py:N
  relu  5,3                                  result, file.py:N
  fix   give axes whose product is 24
""")
def a_number_of_cells_that_the_sizes_do_not_divide():
    x = oc.tensor(np.zeros(24), shape="infer")
    a = oc.placeholder(b=[], i=[], o=[5, 3])
    return oc.einsum("i,j; i,j => i", x, oc.relu(a))


@wrong("""
output axis 1 of `x` is 4, but output axis 1 of `y` is 5
  in    gelu + clip    file.py:N
  via   gelu(x)        file.py:N
  via   clip(y, 0, 1)  file.py:N
  x     3|4            placeholder, file.py:N
  y     3|5            placeholder, file.py:N
  gelu  3|4            result, file.py:N
  clip  3|5            result, file.py:N
  fix   make the two sizes equal, or one of them 1
""")
def composed_functions_of_tensors_that_differ():
    x = oc.placeholder(b=[3], i=[], o=[4])
    y = oc.placeholder(b=[3], i=[], o=[5])
    return oc.gelu(x) + oc.clip(y, 0, 1)


@wrong("""
the output row of `a` is 2,3, but the output row of `b` is 2: they must have equally many axes, since both are `...` in a stack
  in   stack([a, b])  file.py:N
  a    ...|...->2,3   placeholder, file.py:N
  b    ...|...->2     placeholder, file.py:N
  fix  give both rows the same number of axes
""")  # noqa: E501
def a_stack_of_tensors_of_different_ranks():
    a = oc.placeholder(o=[2, 3])
    b = oc.placeholder(o=[2])
    return oc.stack([a, b])


@wrong("""
the whole of `stack([a, b])` is 2, but output axis 1 of `y` is 3
  in     einsum("ij; ij => i", both, y)  file.py:N
  via    stack([a, b])                   file.py:N
  since  2 = 1 + 1                       the whole of `stack([a, b])`
  y      3,2                             placeholder, file.py:N
  both   2,2                             result, file.py:N
  a      2                               placeholder, file.py:N
  b      2                               placeholder, file.py:N
  fix    make the two sizes equal; a spec does not broadcast
""")
def a_stack_that_meets_a_longer_stack():
    a = oc.placeholder(b=[], i=[], o=[2])
    b = oc.placeholder(b=[], i=[], o=[2])
    y = oc.placeholder(b=[], i=[], o=[3, 2])
    both = oc.stack([a, b])
    return oc.einsum("ij; ij => i", both, y)


@wrong("""
`c, d` in `b|c,d => b|c` has 2 axes, but the output row of `x` is 4
  in   mean(x, "b|c,d => b|c")  file.py:N
  x    3|4                      placeholder, file.py:N
  fix  write 1 axis there, or `...` for any number
""")
def a_mean_over_absent_axes():
    x = oc.placeholder(b=[3], i=[], o=[4])
    return x - x.mean("b|c,d => b|c")


@wrong("""
the size that `o<+k` leaves is h 8, but output axis 1 of `y` is w 8: their units differ
  in     relu(edges) + y               file.py:N
  via    einsum("o<+k; k => o", x, k)  file.py:N
  since  10 = (8 - 1) + (3 - 1) + 1    the size that `o<+k` leaves
  since  h                             the unit of output axis 1 of `x`
  y      ...|...->w=8                  placeholder, file.py:N
  x      h=10                          placeholder, file.py:N
  k      3                             param, file.py:N
  relu   h=8                           result, file.py:N
  fix    give both the same unit, or leave one out
""")
def units_that_came_through_a_window():
    x = oc.placeholder(o=[("h", 10)])
    y = oc.placeholder(o=[("w", 8)])
    k = oc.param(o=[3])
    edges = oc.einsum("o<+k; k => o", x, k)
    return oc.relu(edges) + y


@wrong("""
output axis 1 of `b` is h 3, but output axis 1 of `z` is w 3: their units differ
  in     relu(b) + z                  file.py:N
  via    concat("a; b => a^b", a, b)  file.py:N
  since  h                            the unit of output axis 1 of `a`
  b      h=3                          placeholder, file.py:N
  z      w=3                          placeholder, file.py:N
  a      h=2                          placeholder, file.py:N
  relu   h=3                          result, file.py:N
  fix    give both the same unit, or leave one out
""")
def units_propagated_from_another_part():
    a = oc.placeholder(b=[], i=[], o=[("h", 2)])
    b = oc.placeholder(b=[], i=[], o=[3])
    oc.concat("a; b => a^b", a, b)
    z = oc.placeholder(b=[], i=[], o=[("w", 3)])
    return oc.relu(b) + z


@wrong("""
output axis 1 of `m` is 4, but output axis 1 of `x` is 3
  in   m =: n, 1  (pointwise)     file.py:N
  via  n =: relu, 2  (pointwise)  file.py:N
  via  relu(x)                    file.py:N
  m    4                          node, file.py:N
  x    3                          placeholder, file.py:N
  n    ...|...->...,3             node, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def sizes_that_meet_in_the_second_assignment():
    x = oc.placeholder(b=[], i=[], o=[3])
    n = oc.node("n")
    m = oc.node("m", output=[4])
    with oc.cd("twice"):
        n[...] = oc.relu(x) * 2.0
        m[...] = n + 1.0


@wrong("""
output axis 1 of `t` is 9, but output axis 1 of `logits` is 10
  in      t * log(p)                              file.py:N
  via     e / sum("...|v => ...|0", e)            file.py:N
  via     exp(logits - max)                       file.py:N
  via     logits - max("...|v => ...|0", logits)  file.py:N
  t       4|9                                     placeholder, file.py:N
  logits  4|10                                    placeholder, file.py:N
  log     4|10                                    result, file.py:N
  max     4|1                                     result, file.py:N
  fix     make the two sizes equal, or one of them 1
""")
def a_cross_entropy_of_different_classes():
    logits = oc.placeholder(b=[4], i=[], o=[10])
    t = oc.placeholder(b=[4], i=[], o=[9])
    e = oc.exp(logits - logits.max("...|v => ...|0"))
    p = e / e.sum("...|v => ...|0")
    return -(t * oc.log(p)).sum("...|v => ...|").mean()


@wrong("""
output axis 1 of `q` is 4, but output axis 1 of `k` is 5
  in      einsum("...s|hd; ...t|hd => ...st|h", q @ x, k @ x)  file.py:N
  q       ...,16->4,8                                          param, file.py:N
  k       ...,16->5,8                                          param, file.py:N
  matmul  2,5|4,8                                              result, file.py:N
  matmul  2,5|5,8                                              result, file.py:N
  x       2,5|16                                               placeholder, file.py:N
  fix     make the two sizes equal; a spec does not broadcast
""")
def heads_that_a_block_gives_two_numbers():
    @oc.op
    def attention(x, *, heads):
        q = oc.param(o=[heads, 8])
        k = oc.param(o=[heads + 1, 8])
        return oc.einsum("...s|hd; ...t|hd => ...st|h", q @ x, k @ x)

    x = oc.placeholder(b=[2, 5], i=[], o=[16])
    return attention(heads=4)(x)


@wrong("""
the size that `2*i` leaves is 7, but output axis 1 of `t` is 8
  in     (u * x) + t                                      file.py:N
  via    einsum("2*i => i", concat("a; b => a^b", x, y))  file.py:N
  via    concat("a; b => a^b", x, y)                      file.py:N
  since  14 = 2 * 7                                       the size that `2*i` leaves
  since  14 = 7 + 7                                       the whole of `a^b`
  t      8                                                placeholder, file.py:N
  y      7                                                placeholder, file.py:N
  mul    7                                                result, file.py:N
  x      7                                                placeholder, file.py:N
  fix    make the two sizes equal, or one of them 1
""")
def every_second_cell_of_two_tensors_in_a_row():
    x = oc.placeholder(b=[], i=[], o=[7])
    y = oc.placeholder(b=[], i=[], o=[7])
    t = oc.placeholder(b=[], i=[], o=[8])
    u = oc.einsum("2*i => i", oc.concat("a; b => a^b", x, y))
    return u * x + t


@wrong("""
output axis 1 of `x0` is 2, but output axis 1 of `odd` is 3
  in   stack([x0, x1, x2, x3, x4, ...], axis="batch")  file.py:N
  x0   ...|...->2                                      placeholder, file.py:N
  odd  ...|...->3                                      placeholder, file.py:N
  x1   ...|...->2                                      placeholder, file.py:N
  x2   ...|...->2                                      placeholder, file.py:N
  x3   ...|...->2                                      placeholder, file.py:N
  x4   ...|...->2                                      placeholder, file.py:N
  fix  make the two sizes equal
""")
def a_long_stack_with_a_different_size():
    rows = [oc.placeholder(f"x{n}", o=[2]) for n in range(9)]
    odd = oc.placeholder(o=[3])
    return oc.stack([*rows, odd], axis="batch")


@wrong("""
the sizes in `(a b)` make 0 * ? (`a`, given as a=0), but output axis 1 of `x` is 6
  in   einsum("(a b) => a|b", x)  file.py:N
  x    6                          placeholder, file.py:N
  fix  make that size 0, or change the parts
""")
def a_split_into_no_parts():
    x = oc.placeholder(b=[], i=[], o=[6])
    return oc.einsum("(a b) => a|b", x, a=0)


# --- assignments ----------------------------------------------------------------------------------------------------


@wrong("""
output axis 1 of `c` is 3, but output axis 1 of `a` is 4
  in   c =: a, 2  (pointwise)  file.py:N
  c    3                       node, file.py:N
  a    ...|...->4              placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def an_assignment_of_another_size():
    c = oc.node("c", output=[3])
    a = oc.placeholder(o=[4])
    with oc.cd("store"):
        c[...] = a * 2.0


@wrong("""
the output row of `w` is 3, but the output row of `g` is 3,2: an operand cannot have more axes than the shape it broadcasts to
  in   w =- 0.1, g  (pointwise)  file.py:N
  w    ...->3                    param, file.py:N
  g    ...|...->3,2              placeholder, file.py:N
  fix  give both rows the same number of axes; `(a b)` in a spec merges axes
""")  # noqa: E501
def an_update_by_another_shape():
    w = oc.param(o=[3])
    g = oc.placeholder(o=[3, 2])
    with oc.cd("step"):
        w -= 0.1 * g


@wrong("""
output axis 2 of `b` is 4, but output axis 2 of `c` is 5
  in   c =:+ a, b  (ij; jk => ik)  file.py:N
  b    ...|...->3,4                placeholder, file.py:N
  c    2,5                         node, file.py:N
  a    ...|...->2,3                placeholder, file.py:N
  fix  make the two sizes equal; a spec does not broadcast
""")
def an_assignment_by_a_spec_that_does_not_fit():
    c = oc.node("c", output=[2, 5])
    a = oc.placeholder(o=[2, 3])
    b = oc.placeholder(o=[3, 4])
    with oc.cd("product"):
        c["=:+", "ij; jk => ik"] = a * b


@wrong("""
`j, i` in `ij => ji` has 2 axes, but the output row of `c` is 2
  in   c =: a  (ij => ji)  file.py:N
  c    2                   node, file.py:N
  a    ...|...->2,3        placeholder, file.py:N
  fix  write 1 axis there, or `...` for any number
""")
def an_assignment_by_a_spec_with_different_axes():
    c = oc.node("c", output=[2])
    a = oc.placeholder(o=[2, 3])
    with oc.cd("transpose"):
        c["=:", "ij => ji"] = oc.id(a)


@wrong("""
input axis 1 of `w` is 3, but output axis 1 of `x` is 4
  in   c =:+ w, x  (compose)  file.py:N
  w    3->2                   param, file.py:N
  x    ...|...->4             placeholder, file.py:N
  fix  make the two sizes equal, or one of them 1
""")
def an_assignment_of_a_product_that_does_not_contract():
    c = oc.node("c", output=[2])
    w = oc.param(i=[3], o=[2])
    x = oc.placeholder(o=[4])
    with oc.cd("forward"):
        c["=:+", "@"] = w * x


# --- the table ------------------------------------------------------------------------------------------------------


def report(program: Program) -> str:
    with pytest.raises(oc.ShapeError) as caught:
        program()
    assert caught.value.__cause__ is None
    return re.sub(r"\btest_wrong_programs\.py:\d+", "file.py:N", str(caught.value))


@pytest.mark.parametrize("name", WRONG)
def test_error_message(name):
    program, message = WRONG[name]
    assert report(program) == message


@pytest.mark.parametrize("name", WRONG)
def test_every_message_names_a_tensor_a_line_and_a_fix(name):
    problem, *lines = report(WRONG[name][0]).splitlines()
    assert re.search(r"`\w+", problem)
    assert any(line.endswith("file.py:N") for line in lines)
    assert lines[-1].startswith("  fix ")


def test_messages_differ_between_programs():
    messages = [message for _, message in WRONG.values()]
    assert len(set(messages)) == len(messages) >= 60
