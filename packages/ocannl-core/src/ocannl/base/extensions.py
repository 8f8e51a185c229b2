"""Extensions: distributions whose module is an attribute of `ocannl`, such as `oc.onnx` of ocannl-onnx.

A distribution announces its module in the entry-point group `ocannl.extensions`; it is imported when first used.
"""

from __future__ import annotations

from typing import Any

from ocannl.base.entry_points import entry_points
from ocannl.base.errors import PluginError, UnknownName
from ocannl.base.plugins import exception_summary

GROUP = "ocannl.extensions"
COMMANDS = "ocannl.commands"
"""Group of functions that add a command to the application of the command line."""

READERS = "ocannl.readers"
"""Group of functions from a file to the outputs of the model in it; their names are suffixes of files."""

DISTRIBUTIONS = {"explore": "ocannl-explorer", "export": "ocannl-export", "onnx": "ocannl-onnx"}
"""Distributions of the extensions of this project, so that the error for a missing one can name it."""

PACKAGES = frozenset({"ocannl", *(name.replace("-", "_") for name in DISTRIBUTIONS.values())})
"""Import names of the core and of these distributions, whose frames are not those of a user."""


def load(name: str) -> Any | None:
    """The module of an extension; None when no installed distribution announces this name.

    Raises: UnknownName for an extension of this project that is not installed, PluginError when its import fails.
    """
    entry = next((entry for entry in entry_points(GROUP) if entry.name == name), None)
    if entry is None:
        if name in DISTRIBUTIONS:
            raise UnknownName(f"`oc.{name}` is not installed; run: pip install {DISTRIBUTIONS[name]}")
        return None
    try:
        return entry.load()
    except Exception as error:  # of the code of another distribution
        summary = exception_summary(error)
        raise PluginError(f"the import of `oc.{name}` ({entry.value}) failed: {summary}") from error
