"""The page of short and plain spellings: every row of its tables says the same twice."""

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
    """What the page's own block makes."""
    found = re.search(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    made: dict[str, Any] = {}
    exec(found[1], made)
    return made


def made(program: str) -> tuple[oc.Tensor, ...]:
    """What the last statement of a cell gives, or binds."""
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
def test_a_row_says_the_same_twice(section: str, short: str, plain: str, oracle: Any) -> None:
    if section == "Code":
        assert recorded(short) == recorded(plain) != ""
        return
    for one, other in zip(made(short), made(plain), strict=True):
        assert list(one.params) == list(other.params)
        if section == "Names":
            assert one.label == other.label
        else:
            assert str(one.shape) == str(other.shape)
            np.testing.assert_array_equal(oracle(one), oracle(other))


def test_every_line_of_a_table_is_read() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("|") and line not in HEAD]
    assert len(ROWS) == len(lines)
    assert set(SECTIONS) == {"Names", "Numbers, data, parameters", "Expressions", "Blocks", "Code"}
