"""The page of short and plain spellings: both cells of every row are equivalent."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc

PAGE = (Path(__file__).parents[3] / "docs" / "spellings.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(.+?)` \| `(.+)` \|$", re.MULTILINE)
HEAD = ("| short | plain |", "|---|---|")
SECTIONS = {title: ROW.findall(text) for title, text in SECTION.findall(PAGE)}
ROWS = [(title, *(cell.replace(r"\|", "|") for cell in row)) for title, rows in SECTIONS.items() for row in rows]


def names() -> dict[str, Any]:
    """The names that the code block of the page defines."""
    block = re.search(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert block is not None
    scope: dict[str, Any] = {}
    exec(block[1], scope)
    return scope


def last_value(program: str) -> tuple[oc.Tensor, ...]:
    """The value of the last statement of a cell."""
    scope, statements = names(), ast.parse(program).body
    last = statements[-1]
    if isinstance(last, ast.Expr):
        exec(compile(ast.Module(statements[:-1], []), "<cell>", "exec"), scope)
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), scope)
    else:
        exec(compile(program, "<cell>", "exec"), scope)
        value = eval(ast.unparse(last.targets[0] if isinstance(last, ast.Assign) else last.target), scope)
    return value if isinstance(value, tuple) else (value,)


def recorded(program: str) -> str:
    scope = names()
    with oc.cd() as code:
        exec(program, scope)
    return str(code)


@pytest.mark.parametrize(("section", "short", "plain"), ROWS, ids=[f"{short} == {plain}" for _, short, plain in ROWS])
def test_short_and_plain_spelling_are_equivalent(section: str, short: str, plain: str, oracle: Any) -> None:
    if section == "Code":
        assert recorded(short) == recorded(plain) != ""
        return
    for left, right in zip(last_value(short), last_value(plain), strict=True):
        names = [[path.rpartition(".")[2].split("_")[0] for path in t.params] for t in (left, right)]
        assert names[0] == names[1]
        if section == "Blocks":  # whose labels differ, and hence paths and initial values
            for p, q in zip(left.params.values(), right.params.values(), strict=True):
                q.value.contents = p.value.contents
        else:
            assert list(left.params) == list(right.params) or section == "Names"
        if section == "Names":
            assert left.label == right.label
        else:
            assert str(left.shape) == str(right.shape)
            np.testing.assert_array_equal(oracle(left), oracle(right))


def test_every_table_row_is_tested() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("|") and line not in HEAD]
    assert len(ROWS) == len(lines)
    assert set(SECTIONS) == {"Names", "Numbers, data, parameters", "Expressions", "Blocks", "Code"}
