"""The page on ONNX: its examples run, and the table of operators is generated from the rows."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("onnx")
from ocannl_onnx import registry

DOCS = Path(__file__).parents[2] / "docs"


def script(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_examples_of_the_page():
    try:
        assert script("run_examples").run(DOCS / "onnx.md") == 0
    finally:
        registry._ROWS.pop(("example", "Whirl"), None)


def test_the_table_of_operators_is_current():
    text = script("generate_onnx_operators").page()
    assert (DOCS / "onnx-operators.md").read_text(encoding="utf-8") == text, "run docs/generate_onnx_operators.py"
