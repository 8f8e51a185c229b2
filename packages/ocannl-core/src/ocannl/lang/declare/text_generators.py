"""Generators of text from the table of operations.

A generator is a function from rows to text. An entry point of the group `ocannl.generators` registers another generator
under the name of the entry point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ocannl.base.entry_points import entry_points
from ocannl.base.errors import PluginError
from ocannl.base.plugins import exception_summary
from ocannl.lang.declare import stubs
from ocannl.lang.declare.catalogue import OperationRow
from ocannl.lang.declare.operations_json import operations_json
from ocannl.lang.declare.peer_names import peers
from ocannl.lang.declare.reference_page import reference

GROUP = "ocannl.generators"
Generator = Callable[[Sequence[OperationRow]], str]

GENERATORS: dict[str, Generator] = {
    "functions": stubs.functions,  # lang/ops/functions.pyi
    "methods": stubs.methods,  # lang/ops/methods.pyi
    "json": operations_json,  # described by operations.schema.json
    "peers": peers,  # the table of names in docs/operations.md
    "reference": reference,  # docs/reference.md
}

SUFFIXES = {"functions": ".pyi", "methods": ".pyi", "json": ".json", "peers": ".md", "reference": ".md"}
"""The suffixes of files with generated text; `.txt` for the generators of packages."""

LANGUAGE_ONLY = ("functions", "methods", "peers")
"""Generators whose text is about the language, and not about the operations of packages."""


def generator(name: str) -> Generator:
    """The generator of a name, imported from its package if it is not built in. Raises: PluginError."""
    if name in GENERATORS:
        return GENERATORS[name]
    installed = {entry.name: entry for entry in entry_points(GROUP)}
    if name not in installed:
        raise PluginError(f"unknown generator `{name}`; there are {', '.join([*GENERATORS, *sorted(installed)])}")
    entry = installed[name]
    try:
        loaded: Any = entry.load()
    except Exception as cause:  # the code of another distribution is executed
        problem = f"cannot be imported: {exception_summary(cause)}"
        raise PluginError(f"generator `{name}` of {entry.owner} {problem}") from cause
    if not callable(loaded):
        problem = f"is {loaded!r}, not a function from rows to text"
        raise PluginError(f"generator `{name}` of {entry.owner} {problem}")
    function: Generator = loaded
    return function
