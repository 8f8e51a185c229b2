"""What `t.shape.explain()` prints: sizes, their evidence, and the operations that propagated them."""

from __future__ import annotations

import gc
import re
import weakref

import numpy as np
import pytest

import ocannl as oc


def reasons(t):
    return re.sub(r"\btest_size_provenance\.py:\d+", "file.py:N", str(t.shape.explain()))


def perceptron():
    x = oc.tensor(np.zeros((5, 2)), batch_axes=1)
    w1, b1, w2, b2 = oc.param("w1"), oc.param("b1", o=[16]), oc.param("w2"), oc.param("b2")
    h = oc.relu(w1 @ x + b1)
    y = w2 @ h + b2
    loss = ((y - oc.tensor(np.zeros((5, 1)), batch_axes=1, label="target")) ** 2).sum()
    assert str(loss.shape) == ""
    return w1, b1, w2, y, loss  # the loss keeps the operations alive


EXPECTED = {
    0: """
w1   2->16
  input axis 1 is 2
    output axis 1 of x is given: data, file.py:N
    w1 @ x, file.py:N
  output axis 1 is 16
    output axis 1 of b1 is given: param, file.py:N
    (w1 @ x) + b1, file.py:N
    fits its use: w1 @ x, file.py:N
""",
    1: """
b1   16
  input row is empty
    input row of x is given: data, file.py:N
    w1 @ x, file.py:N
    fits its use: (w1 @ x) + b1, file.py:N
  output axis 1 is 16
    given: param, file.py:N
""",
    2: """
w2   16->1
  input axis 1 is 16
    output axis 1 of b1 is given: param, file.py:N
    (w1 @ x) + b1, file.py:N
    relu(matmul + b1), file.py:N
    w2 @ h, file.py:N
  output row has 1 axis
    output row of target is given: data, file.py:N
    y - target, file.py:N
    (w2 @ h) + b2, file.py:N
    fits its use: w2 @ h, file.py:N
  output axis 1 is 1
    its size is not determined
""",
    3: """
y   5|1
  batch axis 1 is 5
    batch axis 1 of x is given: data, file.py:N
    w1 @ x, file.py:N
    (w1 @ x) + b1, file.py:N
    relu(matmul + b1), file.py:N
    w2 @ h, file.py:N
    (w2 @ h) + b2, file.py:N
  output row has 1 axis
    output row of target is given: data, file.py:N
    y - target, file.py:N
  output axis 1 is 1
    w2: its size is not determined
    w2 @ h, file.py:N
    (w2 @ h) + b2, file.py:N
""",
}


@pytest.mark.parametrize("n", EXPECTED)
def test_sizes_are_explained_by_chains_of_evidence(n):
    net = perceptron()
    assert reasons(net[n]) == EXPECTED[n].strip("\n")


def test_a_parameter_solved_by_the_first_use():
    w = oc.param()
    x = oc.placeholder(b=[], i=[], o=[4])
    y = oc.einsum("i; i => i", w, x)
    assert w.shape.is_solved
    assert str(y.shape) == "4"
    assert 'output axis 1 of x is given: placeholder, file.py:N\n    einsum("i; i => i", w, x), file.py:N' in reasons(w)


def test_sizes_computed_by_equations():
    x = oc.placeholder(o=[("h", 10)])
    k = oc.param(o=[3])
    y = oc.einsum("2*o=+k; k => o", x, k)
    z = oc.einsum("o<+k; k => o", x, k)
    parts = oc.einsum("(a b) => a,b", z, a=4)
    assert reasons(y) == """
y   h=5
  output axis 1 is h 5
    the size that `2*o=+k` leaves: 10 = 2 * 5
      output axis 1 of x is h 10: placeholder, file.py:N
      output axis 1 of k is 3: param, file.py:N
    einsum("2*o=+k; k => o", x, k), file.py:N""".strip("\n")
    assert reasons(parts) == """
parts   4,2
  output axis 1 is 4
    `a` is given as a=4
    einsum("(a b) => a,b", z), file.py:N
  output axis 2 is 2
    what is left in `(a b)`: 8 = 4 * 2
      the size that `o<+k` leaves: 10 = (8 - 1) + (3 - 1) + 1
        output axis 1 of x is h 10: placeholder, file.py:N
        output axis 1 of k is 3: param, file.py:N
      `a` is given as a=4
    einsum("(a b) => a,b", z), file.py:N""".strip("\n")


def test_a_concatenation_and_a_stride():
    a = oc.placeholder(o=[2])
    b = oc.placeholder(o=[3])
    joined = oc.concat("a; b => a^b", a, b)
    every = oc.einsum("2*i => i", oc.placeholder("p", o=[8]))
    assert "the whole of `a^b`: 5 = 2 + 3" in reasons(joined)
    assert "the size that `2*i` leaves: 8 = 2 * 4" in reasons(every)


def test_sizes_that_follow_from_a_number_of_cells():
    z = oc.tensor(np.zeros(12), shape="infer")
    g = oc.placeholder(b=[], i=[], o=[3, 1])
    f = z + g
    assert str(f.shape) == "3,4"
    assert reasons(z) == """
z   3,4
  batch row is empty
    batch row of g is given: placeholder, file.py:N
    fits its use: z + g, file.py:N
  input row is empty
    input row of g is given: placeholder, file.py:N
    fits its use: z + g, file.py:N
  output axis 1 is 3
    output axis 1 of g is given: placeholder, file.py:N
    fits its use: z + g, file.py:N
  output axis 2 is 4
    what is left of `z`: 12 = 3 * 4
      the number of cells of `z` is 12
      output axis 1 of g is 3: placeholder, file.py:N""".strip("\n")


def test_a_row_that_a_spec_writes_out():
    a = oc.placeholder(b=[], i=[], o=[2])
    b = oc.placeholder(b=[], i=[], o=[3])
    outer = oc.einsum("i; j => ij", a, b)
    doubled = outer * 2.0
    assert str(doubled.shape) == "2,3"
    assert reasons(doubled) == """
doubled   2,3
  output row has 2 axes
    einsum("i; j => ij", a, b), file.py:N
    outer * 2, file.py:N
  output axis 1 is 2
    output axis 1 of a is given: placeholder, file.py:N
    einsum("i; j => ij", a, b), file.py:N
    outer * 2, file.py:N
  output axis 2 is 3
    output axis 1 of b is given: placeholder, file.py:N
    einsum("i; j => ij", a, b), file.py:N
    outer * 2, file.py:N""".strip("\n")


def test_a_row_with_a_long_path():
    x = oc.placeholder("x", b=[], i=[], o=[2, 3])
    p, q = oc.param("p"), oc.param("q")
    h = oc.relu(p @ x) + q
    y = h * oc.placeholder("y", b=[], i=[], o=[1, 1, 5])
    assert str(y.shape) == "1,1,5"
    assert reasons(q).splitlines()[:6] == [
        "q   1,1,5",
        "  input row is empty",
        "    input row of y is given: placeholder, file.py:N",
        "    h * y, file.py:N",
        "    fits its use: relu(matmul) + q, file.py:N",
        "  output row has 3 axes",
    ]


def test_rows_that_nothing_asks_for():
    x = oc.placeholder()
    assert reasons(x).splitlines() == [
        "x   (no axes)",
        *(f"  {kind} row is empty: nothing asks for axes" for kind in ("batch", "input", "output")),
    ]


def test_captures_and_indices():
    n = oc.Dim("n")
    v, p = oc.param("v"), oc.placeholder("p")
    e = oc.einsum("i => i", v, i=n)
    n.set(4)
    r = oc.einsum("i3 => i", p)
    assert "`n`, set at file.py:N, is 4\n    einsum" in reasons(e)
    assert "output axis 2 is 4\n    reaches its index" in reasons(p)
    assert "p: its size is not determined\n    einsum" in reasons(r)


def test_a_long_path_is_elided():
    t = oc.placeholder("x", b=[], i=[], o=[3])
    for n in range(20):
        t = (t + oc.param("p")).with_label(f"t{n}")
    assert reasons(t) == """
t19   3
  output axis 1 is 3
    output axis 1 of x is given: placeholder, file.py:N
    x + p, file.py:N
    t0 + p, file.py:N
    t1 + p, file.py:N
    t2 + p, file.py:N
    ... 12 more operations ...
    t15 + p, file.py:N
    t16 + p, file.py:N
    t17 + p, file.py:N
    t18 + p, file.py:N""".strip("\n")


def test_assignments_and_initial_values():
    c = oc.node("c")
    a = oc.placeholder(b=[], i=[], o=[4])
    with oc.cd("store"):
        c[...] = a * 2.0
    w = oc.param("w", oc.tensor([1.0, 2.0, 3.0], label="start") * 2.0)
    assert "output axis 1 of a is given: placeholder, file.py:N\n    c =: a, 2  (pointwise), file.py:N" in reasons(c)
    assert "output axis 1 of start is given: data, file.py:N\n    start * 2, file.py:N\n    w = start" in reasons(w)


def test_explicit_sizes_stay_explicit():
    x = oc.placeholder(b=[], i=[], o=[("rgb", 3)])
    y = oc.placeholder(b=[], i=[], o=[3])
    assert str((x + y).shape) == "rgb=3"
    assert reasons(y).splitlines()[1:] == ["  output axis 1 is rgb 3", "    given: placeholder, file.py:N"]


def test_a_leaf_that_two_uses_force_to_stretch():
    a = oc.placeholder(b=[], i=[], o=[3])
    b = oc.placeholder(b=[], i=[], o=[4])
    p = oc.param("p")
    loss = (a * p).sum() + (b * p).sum()
    assert str(loss.shape) == ""
    assert reasons(p) == """
p   1
  input row is empty
    input row of a is given: placeholder, file.py:N
    fits its use: a * p, file.py:N
  output axis 1 is 1
    an axis that meets both 3 and 4, so that it must stretch, is 1
      output axis 1 of a is 3: placeholder, file.py:N
      output axis 1 of b is 4: placeholder, file.py:N""".strip("\n")


def test_a_tensor_without_axes():
    assert reasons(oc.tensor(3.0, label="c")) == "c   (no axes)"


def test_str_and_repr():
    b = oc.param("b", o=[2])
    assert repr(b.shape.explain()) == "<reasons of b>"


def test_refused_operations_leave_no_reason():
    w = oc.param("w")
    x = oc.placeholder("x", b=[], i=[], o=[4])
    y = oc.placeholder("y", b=[], i=[], o=[5])
    h = w @ x
    with pytest.raises(oc.ShapeError):
        w @ y
    z = h + oc.placeholder("k", b=[], i=[], o=[3])
    assert str(z.shape) == "3"
    assert "w @ y" not in reasons(w)


def test_a_parameter_keeps_no_result_alive():
    w = oc.param("w", o=[3])
    x = oc.placeholder("x", b=[], i=[], o=[4])
    y = w @ x
    y.shape.explain()
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None
    assert "output axis 1 of x is given" in reasons(w)
