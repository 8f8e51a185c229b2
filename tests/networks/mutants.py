"""Defects of the compiler: one condition or index computation of one function is replaced by another text."""

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
    """`function` of the module `ocannl.opt.<module>` with one text of its source replaced."""

    module: str
    function: str
    text: str
    replacement: str
    hint: int  # a network that finds it

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Replaces the code of the function, whoever has imported it."""
        module = import_module(f"ocannl.opt.{self.module}")
        function = plain(reduce(getattr, self.function.split("."), module))
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.text) == 1, f"`{self.text}` is {source.count(self.text)} times in {self.function}"
        before, function.__code__ = function.__code__, compiled(source.replace(self.text, self.replacement), module)
        try:
            yield
        finally:
            function.__code__ = before


def plain(function: Any) -> FunctionType:
    """The function itself, of a property or one with a cache."""
    function = getattr(function, "fget", function)
    return inspect.unwrap(function)


def compiled(source: str, module: ModuleType) -> Any:
    """The code of the first function that the source defines, without decorators."""
    start = source.index("def ")
    namespace: dict[str, Any] = {}
    exec(compile(source[start:], "<defect>", "exec", __future__.annotations.compiler_flag), {**vars(module)}, namespace)
    (function,) = namespace.values()
    return function.__code__
