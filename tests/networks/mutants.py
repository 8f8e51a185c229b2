"""Seeded defects of the compiler: text replacements in the source of one function, such as of a condition."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any


@dataclass(frozen=True)
class Defect:
    """The function `ocannl.opt.<module>.<function>` with `text` in its source replaced by `replacement`."""

    module: str
    function: str
    text: str
    replacement: str
    hint: int  # seed of a network that detects it

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Replaces the code object of the function, so that modules that have imported it are affected as well."""
        module = import_module(f"ocannl.opt.{self.module}")
        function = unwrapped(reduce(getattr, self.function.split("."), module))
        source = textwrap.dedent(inspect.getsource(function))
        count = source.count(self.text)
        assert count == 1, f"`{self.text}` occurs {count} times in {self.function}"
        original = function.__code__
        function.__code__ = compiled(source.replace(self.text, self.replacement), module)
        try:
            yield
        finally:
            function.__code__ = original


def unwrapped(function: Any) -> FunctionType:
    """Returns the function under a property or a decorator."""
    function = getattr(function, "fget", function)
    return inspect.unwrap(function)


def compiled(source: str, module: ModuleType) -> Any:
    """Returns the code object of the function that the source defines, without its decorators."""
    start = source.index("def ")
    namespace: dict[str, Any] = {}
    exec(compile(source[start:], "<defect>", "exec", __future__.annotations.compiler_flag), {**vars(module)}, namespace)
    (function,) = namespace.values()
    return function.__code__
