"""The catalogue of operations: gradients on samples, docstrings and signatures."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ocannl as oc
from ocannl import declare as d
from ocannl.infer.parse import parse
from ocannl.lang.declare.catalogue import OperationRow, catalogue
from ocannl.testing.operations import NO_GRADIENT

ROWS = catalogue()
all_rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.call)


def test_every_public_tensor_function_is_in_the_catalogue() -> None:
    assert {row.name for row in ROWS if not row.is_method} < set(oc.__all__)
    for row in ROWS:
        assert callable(getattr(oc.Tensor if row.is_method else oc, row.name))


@all_rows
def test_gradients_equal_finite_differences_or_are_documented_as_none(row: OperationRow) -> None:
    assert bool(oc.testing.check_operation(row)) is not bool(NO_GRADIENT.search(row.doc))


@all_rows
def test_every_docstring_documents_shapes_gradient_and_errors(row: OperationRow) -> None:
    _, *parts = re.split(r"^(Shapes|Grad|NaN|Raises|Source): +", row.doc, flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert row.summary.endswith((".", ":"))
    order = ["Shapes", "Grad", "NaN", "Raises", "Source"]
    assert list(sections) == [word for word in order if word in sections], "in this order"
    assert {"Shapes", "Grad"} <= sections.keys()
    assert all(text.strip().endswith(".") for text in sections.values())
    assert re.match(r"(those of|from the arguments|`[^`]*=>)", sections["Shapes"])
    tensors = sum(1 for operand in row.samples[0].operands if isinstance(operand, d.Draw | np.ndarray))
    for spec in re.findall(r"`([^`]*=>[^`]*)`", sections["Shapes"]):
        assert len(parse(spec).operands) >= tensors
    assert tensors < 2 or "ShapeError" in sections["Raises"]
    for name in re.findall(r"\b([A-Z]\w+Error)\b", sections.get("Raises", "")):
        assert issubclass(getattr(oc, name), oc.OcannlError)


@all_rows
def test_every_operation_has_an_annotated_signature(row: OperationRow) -> None:
    assert row.signature.return_annotation in (oc.Tensor, tuple[oc.Tensor, oc.Tensor], list[oc.Tensor])
    operands = list(row.signature.parameters.values())[row.is_method :]
    assert operands
    for parameter in operands:
        assert not isinstance(parameter.annotation, str)
        assert parameter.annotation is not parameter.empty
