"""Every operation of the language: its gradient on samples, its text, and what is made of the table."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ocannl as oc
from ocannl import declare as d
from ocannl.infer.parse import parse
from ocannl.lang.declare.catalogue import Row, catalogue
from ocannl.testing.operations import SAYS_NONE

ROWS = catalogue()
each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.call)


def test_every_public_function_of_tensors_is_in_the_table() -> None:
    assert {row.name for row in ROWS if not row.is_method} < set(oc.__all__)
    for row in ROWS:
        assert callable(getattr(oc.Tensor if row.is_method else oc, row.name))


@each
def test_gradients_are_those_of_differences_or_said_to_be_none(row: Row) -> None:
    assert bool(oc.testing.check_operation(row)) is not bool(SAYS_NONE.search(row.doc))


@each
def test_every_text_says_shapes_gradient_and_errors(row: Row) -> None:
    _, *rest = re.split(r"^(Shapes|Grad|NaN|Raises|Source): +", row.doc, flags=re.MULTILINE)
    said = dict(zip(rest[::2], rest[1::2], strict=True))
    assert row.summary.endswith((".", ":"))
    order = ["Shapes", "Grad", "NaN", "Raises", "Source"]
    assert list(said) == [word for word in order if word in said], "in this order"
    assert {"Shapes", "Grad"} <= said.keys()
    assert all(text.strip().endswith(".") for text in said.values())
    assert re.match(r"(those of|from the arguments|`[^`]*=>)", said["Shapes"])
    tensors = sum(1 for given in row.samples[0].operands if isinstance(given, d.Draw | np.ndarray))
    for spec in re.findall(r"`([^`]*=>[^`]*)`", said["Shapes"]):
        assert len(parse(spec).operands) >= tensors
    assert tensors < 2 or "ShapeError" in said["Raises"]
    for name in re.findall(r"\b([A-Z]\w+Error)\b", said.get("Raises", "")):
        assert issubclass(getattr(oc, name), oc.OcannlError)


@each
def test_every_operation_has_a_signature_with_types(row: Row) -> None:
    assert row.signature.return_annotation is oc.Tensor
    operands = list(row.signature.parameters.values())[row.is_method :]
    assert operands
    for parameter in operands:
        assert not isinstance(parameter.annotation, str)
        assert parameter.annotation is not parameter.empty
