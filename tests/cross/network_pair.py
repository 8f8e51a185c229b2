"""A network in `ocannl.nn` and in PyTorch, and the number of lines of both."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch_layer import ChannelsLast, Layer, Sizes, torch

import ocannl as oc

LINE_LENGTH = 120


@dataclass(frozen=True)
class Pair:
    """One network in both languages.

    functions  in ocannl, all that the network consists of, and `modules` in PyTorch
    ours       returns the block
    theirs     returns the module for operands of these sizes
    sizes      of the operand, batch first and channels last
    """

    name: str
    functions: tuple[Any, ...]
    modules: tuple[type, ...]
    ours: Callable[[], oc.Block]
    theirs: Callable[[Sizes], Any]
    sizes: Sizes
    ids: int = 0
    batch: int = 1
    more: int = 0
    rate: float = 0.02

    def row(self) -> Layer:
        return Layer(
            self.name, self.ours, self.theirs, (self.sizes,), ids=self.ids, batch=self.batch, more=self.more,
            rate=self.rate,
        )  # fmt: skip

    def lines(self) -> tuple[int, int]:
        """The number of lines in ocannl and in PyTorch."""
        ours = sum(lines_of(f.function) for f in self.functions)
        return ours, sum(lines_of(module) for module in self.modules)


def images(make: Callable[[int], Any]) -> Callable[[Sizes], Any]:
    """A module of images with channels first, by the number of channels, for operands with channels last."""
    return lambda sizes: ChannelsLast(make(sizes[-1]))


def lines_of(definition: Any) -> int:
    """The number of lines of a definition whose statements have a line each, or as many as they fill, whatever the
    layout of the source: without comments and blank lines."""
    text = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(definition))))
    return sum(-(-len(line) // LINE_LENGTH) for line in text.splitlines() if line)


__all__ = ["Layer", "Pair", "images", "lines_of", "torch"]
