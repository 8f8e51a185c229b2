"""Functions of users, named as `MODULE:FUNCTION`."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from ocannl.base.errors import ArgumentError


def imported_function(path: str) -> Any:
    """Imports the module, from the current folder too, and returns the function.

    Raises: ArgumentError for a module or a function that does not exist.
    """
    module, separator, name = path.partition(":")
    if not (module and separator and name):
        raise ArgumentError(f"a function is named as MODULE:FUNCTION, such as networks.resnet:build, not {path!r}")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise ArgumentError(f"the module {module!r} cannot be imported: {missing}") from None
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ArgumentError(f"{module!r} has no function {name!r}")
    return found
