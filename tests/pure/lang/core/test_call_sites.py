"""Call sites: layers of the package take names from their own variables, and lines from the user's code."""

from __future__ import annotations

from pathlib import Path

import pytest

import ocannl as oc
from ocannl import nn


def test_layers_name_the_line_of_the_user() -> None:
    dense = nn.linear(width=3)
    y = dense(oc.placeholder("x", b=[4], o=[6]))
    assert str(y.shape) == "4|3"
    w = dense.params["w"]
    assert w.node.where.startswith(f"{Path(__file__).name}:")
    with pytest.raises(oc.ShapeError) as error:
        dense(oc.placeholder("z", b=[4], o=[7]))
    assert "linear.py" not in str(error.value)
