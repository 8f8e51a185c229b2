"""Functions of users, named as `MODULE:FUNCTION` or `FILE.py:FUNCTION`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ocannl.base.errors import ArgumentError
from ocannl.base.user_functions import call_problem

if TYPE_CHECKING:
    from ocannl.runtime.routine import Routine


def imported_function(path: str) -> Any:
    """Imports the module, from the current folder too, or the file, and returns the function.

    Raises: ArgumentError for a module or a function that does not exist.
    """
    module, separator, name = path.rpartition(":")
    if not (module and separator and name):
        raise ArgumentError(f"a function is named as MODULE:FUNCTION, such as networks.resnet:build, not {path!r}")
    is_file = Path(module).suffix == ".py"
    if is_file and not os.path.isfile(module):
        raise ArgumentError(f"there is no file {module}")
    sys.path.insert(0, str(Path(module).absolute().parent) if is_file else os.getcwd())
    try:
        attribute: Any = _imported_file(Path(module).absolute()) if is_file else importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise ArgumentError(f"the module {module!r} cannot be imported: {missing}") from None
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    if not callable(attribute):
        raise ArgumentError(f"{module!r} has no function {name!r}")
    return attribute


def imported_routine(path: str) -> Routine:
    """Imports a function without arguments that returns a routine, as `imported_function` does, and calls it.

    Raises: ArgumentError for a function with arguments, or that returns anything else.
    """
    from ocannl.runtime.routine import Routine

    make = imported_function(path)
    if problem := call_problem(make, ()):
        raise ArgumentError(f"{path} is called without arguments: {problem}")
    routine = make()
    if not isinstance(routine, Routine):
        raise ArgumentError(f"{path} must return a routine, the result of `ctx.compile(code)`")
    return routine


def _imported_file(file: Path) -> ModuleType:
    """The module of a file, under the name of the file, unless a module of that name is loaded: `json.py` may be
    imported beside the module `json`."""
    loaded = sys.modules.get(file.stem)
    if loaded is not None and _is_module_of(loaded, file):
        return loaded
    name = file.stem if loaded is None else f"script_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # of the suffix `.py`
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as imports do: data classes and pickle look up their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_module_of(module: ModuleType, file: Path) -> bool:
    source = getattr(module, "__file__", None)
    return isinstance(source, str) and os.path.realpath(source) == os.path.realpath(file)
