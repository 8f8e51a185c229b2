"""The tree of an expression with its shapes."""

from __future__ import annotations

import pytest

import ocannl as oc


def expression():
    x = oc.placeholder(b=[32], i=[], o=[8])
    w = oc.param(o=[4])
    y = oc.gelu(w @ x) * 2.0 + w @ x
    return y


def test_unsolved_shapes_are_printed_as_far_as_inferred(capsys):
    y = expression()
    oc.show_shapes(y)
    assert capsys.readouterr().out == (
        """
y             32|4      (gelu * 2) + (w @ x)
  mul         32|4      gelu * 2
    gelu      32|4      gelu(w @ x)
      matmul  32|4      w @ x
        w     ...,8->4  param
        x     32|8      placeholder
    2         scalar    result
  matmul      32|4      w @ x
    w         ...,8->4  param
    x         32|8      placeholder
""".lstrip("\n")
    )


def test_solved_shapes_are_printed(capsys):
    y = expression()
    assert y.dims == (32, 4)
    tree = oc.show_shapes(y)
    assert str(tree) == capsys.readouterr().out
    assert "y             32|4    (gelu * 2) + (w @ x)\n" in str(tree)


def test_repeated_subtrees_are_shown_once(capsys):
    x = oc.placeholder(b=[], i=[], o=[3])
    h = oc.relu(x)
    both = oc.exp(h) + h
    assert both.dims == (3,)
    oc.show_shapes(both)
    assert capsys.readouterr().out == (
        """
both     3  exp(h) + h
  exp    3  exp(h)
    h    3  relu(x)
      x  3  placeholder
  h      3  see above
""".lstrip("\n")
    )


def test_a_composite_function_is_one_expression(capsys):
    a = oc.placeholder(b=[], i=[], o=[3])
    b = oc.placeholder(b=[], i=[], o=[3])
    oc.show_shapes(oc.block([[a, b], [b, oc.relu(a)]]).with_label("blocks"))
    assert capsys.readouterr().out == (
        """
blocks  2,2,3  block([[a, b], [b, relu(a)]])
  a     3      placeholder
  b     3      placeholder
  relu  3      relu(a)
    a   3      placeholder
""".lstrip("\n")
    )


def test_a_table_in_notebooks(capsys):
    html = oc.show_shapes(oc.placeholder("<x>", b=[], i=[2], o=[3]) * 2.0)._repr_html_()
    assert "&lt;x&gt;" in html
    assert "<code>2-&gt;3</code>" in html
    assert oc.placeholder("<x>", o=[3]).shape.explain()._repr_html_().startswith("<pre>&lt;x&gt;   3\n")


@pytest.mark.parametrize("value", [3, "x", [1.0]])
def test_non_tensors_are_rejected(value):
    with pytest.raises(oc.CodeError, match="takes a tensor, not"):
        oc.show_shapes(value)
