"""What is made from the table of operations.

A generator is a function from rows to text. An entry point of the group `ocannl.generators` that names such a function
adds one, under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ocannl.base import plugins
from ocannl.base.errors import PluginError
from ocannl.lang.declare import stubs
from ocannl.lang.declare.catalogue import Row
from ocannl.lang.declare.packages import owner
from ocannl.lang.declare.reference import reference

GROUP = "ocannl.generators"
Generator = Callable[[Sequence[Row]], str]

GENERATORS: dict[str, Generator] = {
    "functions": stubs.functions,  # lang/ops/functions.pyi
    "methods": stubs.methods,  # lang/ops/methods.pyi
    "reference": reference,  # docs/reference.md
}


def generator(name: str) -> Generator:
    """The generator of a name, imported if it is a package's. Raises: PluginError."""
    if name in GENERATORS:
        return GENERATORS[name]
    found = {entry.name: entry for entry in plugins.entries(GROUP)}
    if name not in found:
        raise PluginError(f"there is no generator `{name}`; there are {', '.join([*GENERATORS, *sorted(found)])}")
    try:
        made: Any = found[name].load()
    except Exception as cause:
        words = plugins.words(cause)
        raise PluginError(f"generator `{name}` of {owner(found[name])} cannot be imported: {words}") from cause
    if not callable(made):
        raise PluginError(f"generator `{name}` of {owner(found[name])} is {made!r}, and no function from rows to text")
    text: Generator = made
    return text
