"""Writes `onnx-operators.md`, the table of imported operators of ONNX, from the rows of ocannl-onnx."""

import sys
from pathlib import Path

from ocannl_onnx.registry import operator_table

HEAD = """\
# Operators of ONNX

The operators that [ocannl-onnx](onnx.md) imports, with the versions that ONNX has defined and the expressions that they
become. This page is generated from the table of operators by `python docs/generate_onnx_operators.py`.

| operator | versions | expression | restrictions |
|---|---|---|---|
"""


def page() -> str:
    lines = [
        f"| {row.name} | {', '.join(map(str, row.versions))} | {cell(row.spelling)} | {'; '.join(row.restrictions)} |"
        for row in operator_table()
    ]
    return HEAD + "\n".join(lines) + "\n"


def cell(spelling: str) -> str:
    """An expression as code, unless it is a description."""
    is_code = "oc." in spelling or "x" in spelling.split()[0]
    return f"`{spelling}`".replace("|", "\\|") if is_code else spelling


if __name__ == "__main__":
    Path(__file__).with_name("onnx-operators.md").write_text(page(), encoding="utf-8")
    sys.exit(0)
