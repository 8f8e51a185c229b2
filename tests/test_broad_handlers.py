"""Handlers of all exceptions raise them again after cleaning up, or state why they handle all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[1] / "packages"
ALL = {"Exception", "BaseException"}


def broad_handlers(text: str) -> Iterator[int]:
    """The line numbers of handlers of all exceptions that neither end in `raise` nor have a comment in their line."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type) in ALL):
            *_, last = node.body
            reraises = isinstance(last, ast.Raise) and last.exc is None
            if not reraises and "#" not in lines[node.lineno - 1]:
                yield node.lineno


def test_handlers_of_all_exceptions_state_a_reason() -> None:
    handlers = [
        f"{path.relative_to(PACKAGES)}:{number}"
        for path in sorted(PACKAGES.glob("*/src/**/*.py"))
        for number in broad_handlers(path.read_text(encoding="utf-8"))
    ]
    assert not handlers, "name a class of exceptions, or say in a comment why all are handled:\n" + "\n".join(handlers)


def test_the_test_finds_handlers() -> None:
    text = "try:\n    f()\nexcept Exception:\n    pass\ntry:\n    f()\nexcept BaseException:\n    g()\n    raise\n"
    assert list(broad_handlers(text)) == [3]
    assert list(broad_handlers(text.replace("Exception:", "Exception:  # of a plugin", 1))) == []
