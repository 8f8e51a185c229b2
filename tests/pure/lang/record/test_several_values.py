"""Stores of several values in one cell, and masked arrays, are refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import ocannl as oc

E = np.arange(6.0).reshape(2, 3)
FIX = "accumulate them, as in `=:+` or `=:@^`, or select one by a number in place of its axis"


def stored(value: object, spec: str, sizes: list[int], oracle: Any) -> Any:
    n = oc.node("n", output=sizes)
    with oc.cd() as code:
        n["=:", spec] = value
    return oracle.after(code, n)[0]


@pytest.mark.parametrize(
    ("spec", "sizes", "problem"),
    [
        ("ij => i", [2], "3 values are stored in each cell of `n`"),
        ("ij => ", [], "6 values are stored in each cell of `n`"),
        ("i,j => i,0,", [2, 1], "3 values are stored in each cell of `n`"),
        ("i,j => i+j,", [4], "several values are stored in one cell of `n`"),
    ],
)
def test_several_values_for_a_cell_are_refused(spec: str, sizes: list[int], problem: str, oracle: Any) -> None:
    with pytest.raises(oc.CodeError) as caught:
        stored(oc.tensor(E, label="e"), spec, sizes, oracle)
    message = re.sub(r"py:\d+", "py:N", str(caught.value))
    assert message == f"{problem}: the last would win\n  in   n  test_several_values.py:N\n  fix  {FIX}"


@pytest.mark.parametrize(
    ("spec", "sizes", "want"),
    [("ij => ji", [3, 2], E.T), ("ij => (ij)", [6], E.ravel()), ("i,j => 3*i+j,", [6], E.ravel())],
)
def test_one_value_for_each_cell_is_stored(spec: str, sizes: list[int], want: Any, oracle: Any) -> None:
    spec = spec.replace("(ij)", "(i j)").replace("ij", "i,j") if "(" in spec else spec
    np.testing.assert_array_equal(stored(oc.tensor(E, label="e"), spec, sizes, oracle), want)


def test_axes_of_size_1_store_one_value(oracle: Any) -> None:
    np.testing.assert_array_equal(stored(oc.tensor(E[:, :1]), "ij => i", [2], oracle), E[:, 0])


MASKED = np.ma.masked_array([1.0, 2.0], mask=[False, True])


@pytest.mark.parametrize(
    "use",
    [
        oc.tensor,
        oc.param,
        lambda m: oc.tensor([1.0, 2.0]) + m,
        lambda m: oc.tensor(m, dtype="float64"),
        lambda m: oc.Context("numpy").set(oc.placeholder("x", output=[2]).value, m),
    ],
    ids=["data", "a parameter", "an operand", "converted data", "a placeholder"],
)
def test_masked_arrays_are_refused(use: Any) -> None:
    with pytest.raises(oc.DataError) as caught:
        use(MASKED)
    assert str(caught.value) == "a masked array is no tensor: give array.filled(0), and the mask as a tensor of its own"
