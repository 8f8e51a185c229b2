"""Stub files (`.pyi`) of the modules whose functions and methods are generated from tables."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from inspect import Parameter

from ocannl.lang.declare.catalogue import OperationRow, operands
from ocannl.lang.declare.signature_text import annotation, parameters, unqualified
from ocannl.lang.ops import functions as operation_functions
from ocannl.lang.ops.methods import METHODS

WIDTH = 120
GENERATED_NOTE = "Generated from the table of operations; do not edit."
SELF = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)

METHODS_END = """
METHODS: dict[str, str]

def attach(registry: Mapping[str, Callable[..., Any]]) -> None: ...
"""
METHODS_IMPORTS = {"collections.abc": {"Callable", "Mapping"}, "typing": {"Any"}}


def functions(rows: Sequence[OperationRow]) -> str:
    """The stub of the module with the operations as functions."""
    named = {row.name: row for row in rows if _is_function(row)}
    names = textwrap.indent(textwrap.fill(", ".join(f'"{name}"' for name in sorted(named)), WIDTH - 5), "    ")
    stubs = [_StubFunction(name, operands(row), row) for name, row in sorted(named.items())]
    return _file("The operations, as functions.", f"__all__ = [\n{names},\n]  # fmt: skip\n", stubs)


def _is_function(row: OperationRow) -> bool:
    """Whether an operation is a function of the language, outside its modules, or of a package."""
    return not row.is_method and (row.declaration.rules is not None or row.title in operation_functions.__all__)


def methods(rows: Sequence[OperationRow]) -> str:
    """The stub of the methods of tensors."""
    named = {row.name: row for row in rows if row.title in METHODS}
    stubs = [
        _StubFunction(name, [SELF, *operands(row)[not row.is_method :]], row, "    ")
        for name, row in sorted(named.items())
    ]
    begin = 'class Methods:\n    """The operations, as methods."""\n\n    __slots__ = ()\n'
    return _file("The operations, as methods.", begin, stubs, METHODS_END, METHODS_IMPORTS)


class _StubFunction:
    """The stub of one function; `imports` are the names that its signature needs from each module."""

    def __init__(self, name: str, signature: Sequence[Parameter], row: OperationRow, indent: str = "") -> None:
        result = annotation(row.signature.return_annotation)
        qualified = f"{', '.join(_with_no_break_spaces(p) for p in parameters(signature))}) -> {result}:"
        short, self.imports = unqualified(qualified)
        width = WIDTH - len(indent)
        head = f"def {name}({short}"
        if len(head) > width:
            inside, _, result = short.rpartition(") -> ")
            head = f"def {name}(\n{textwrap.indent(textwrap.fill(inside, width - 4), '    ')}\n) -> {result}"
        head = head.replace(_NO_BREAK, " ")
        lines = textwrap.wrap(row.summary.replace("\\", "\\\\"), width - 10)
        summary = "\n".join([*lines, ""] if len(lines) > 1 else lines)
        body = textwrap.indent(f'"""{summary}"""', "    ")
        self.text = textwrap.indent(f"{head}\n{body}\n", indent)


_NO_BREAK = "\0"


def _with_no_break_spaces(text: str) -> str:
    """Keeps `textwrap` from breaking lines inside a parameter."""
    return text.replace(" ", _NO_BREAK)


def _file(
    title: str, begin: str, stubs: Sequence[_StubFunction], end: str = "", imports: Mapping[str, set[str]] | None = None
) -> str:
    merged: dict[str, set[str]] = {}
    for needed in (imports or {}, *(stub.imports for stub in stubs)):
        for module, names in needed.items():
            merged.setdefault(module, set()).update(names)
    lines = {module: f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(merged.items())}
    stdlib = [line for module, line in lines.items() if module.partition(".")[0] in sys.stdlib_module_names]
    project = [line for line in lines.values() if line not in stdlib]
    head = [f'"""{title} {GENERATED_NOTE}"""', "", *stdlib, *[""] * bool(stdlib), *project, "", begin]
    return "\n".join([*head, *(stub.text for stub in stubs)]) + end
