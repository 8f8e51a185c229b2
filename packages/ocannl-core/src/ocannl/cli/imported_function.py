"""Functions of users, named as `MODULE:FUNCTION` or `FILE.py:FUNCTION`."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from ocannl.base.errors import ArgumentError


def imported_function(path: str) -> Any:
    """Imports the module, from the current folder too, or the file, and returns the function.

    Raises: ArgumentError for a module or a function that does not exist.
    """
    module, separator, name = path.rpartition(":")
    if not (module and separator and name):
        raise ArgumentError(f"a function is named as MODULE:FUNCTION, such as networks.resnet:build, not {path!r}")
    file = Path(module)
    if file.suffix == ".py":
        if not file.is_file():
            raise ArgumentError(f"there is no file {module}")
        module, folder = file.stem, str(file.absolute().parent)
    else:
        folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        attribute: Any = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise ArgumentError(f"the module {module!r} cannot be imported: {missing}") from None
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    if not callable(attribute):
        raise ArgumentError(f"{module!r} has no function {name!r}")
    return attribute
