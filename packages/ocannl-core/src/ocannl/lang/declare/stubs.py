"""Types for checkers and editors: `.pyi` files of modules whose functions and methods are made from tables."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from inspect import Parameter

from ocannl.lang.declare.catalogue import Row, operands
from ocannl.lang.declare.text import annotation, parameters, unqualified
from ocannl.lang.ops.methods import METHODS

WIDTH = 120
MADE = "Made from the table of operations; not to be edited."
SELF = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)

METHODS_END = """
METHODS: dict[str, str]

def attach(registry: Mapping[str, Callable[..., Any]]) -> None: ...
"""
METHODS_NEED = {"collections.abc": {"Callable", "Mapping"}, "typing": {"Any"}}


def functions(rows: Sequence[Row]) -> str:
    """The stub of a module that has the operations as functions."""
    made = {row.name: row for row in rows if not row.is_method}
    names = textwrap.indent(textwrap.fill(", ".join(f'"{name}"' for name in sorted(made)), WIDTH - 5), "    ")
    heads = [_Head(name, operands(row), row) for name, row in sorted(made.items())]
    return _file("The operations, as functions.", f"__all__ = [\n{names},\n]  # fmt: skip\n", heads)


def methods(rows: Sequence[Row]) -> str:
    """The stub of the methods of tensors."""
    made = {row.name: row for row in rows if row.name in METHODS}
    heads = [_Head(n, [SELF, *operands(row)[not row.is_method :]], row, "    ") for n, row in sorted(made.items())]
    begin = 'class Methods:\n    """The operations, as methods."""\n\n    __slots__ = ()\n'
    return _file("The operations, as methods.", begin, heads, METHODS_END, METHODS_NEED)


class _Head:
    """A function without its body; `needs` are the names that it takes from modules."""

    def __init__(self, name: str, given: Sequence[Parameter], row: Row, indent: str = "") -> None:
        result = annotation(row.signature.return_annotation)
        whole = f"{', '.join(_unbroken(p) for p in parameters(given))}) -> {result}:"
        short, self.needs = unqualified(whole)
        width = WIDTH - len(indent)
        head = f"def {name}({short}"
        if len(head) > width:
            inside, _, result = short.rpartition(") -> ")
            head = f"def {name}(\n{textwrap.indent(textwrap.fill(inside, width - 4), '    ')}\n) -> {result}"
        head = head.replace(_NO_BREAK, " ")
        words = textwrap.wrap(row.summary.replace("\\", "\\\\"), width - 10)
        about = "\n".join([*words, ""] if len(words) > 1 else words)
        body = textwrap.indent(f'"""{about}"""', "    ")
        self.text = textwrap.indent(f"{head}\n{body}\n", indent)


_NO_BREAK = "\0"


def _unbroken(text: str) -> str:
    """No line ends inside a parameter."""
    return text.replace(" ", _NO_BREAK)


def _file(
    title: str, begin: str, heads: Sequence[_Head], end: str = "", needed: Mapping[str, set[str]] | None = None
) -> str:
    found: dict[str, set[str]] = {}
    for needs in (needed or {}, *(head.needs for head in heads)):
        for module, names in needs.items():
            found.setdefault(module, set()).update(names)
    imports = {module: f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(found.items())}
    python = [line for module, line in imports.items() if module.partition(".")[0] in sys.stdlib_module_names]
    others = [line for line in imports.values() if line not in python]
    begun = [f'"""{title} {MADE}"""', "", *python, *[""] * bool(python), *others, "", begin]
    return "\n".join([*begun, *(head.text for head in heads)]) + end
