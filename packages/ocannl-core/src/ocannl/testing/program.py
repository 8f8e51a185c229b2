"""A program in the user's language, as text and as what it means in NumPy, line by line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from ocannl.ir.index import Sym
from ocannl.ir.tnode import TNode
from ocannl.lang import api
from ocannl.lang.tensor import Tensor
from ocannl.testing.einsums import Array

Env = dict[str, Array]
Compute = Callable[[Env], Array]

LANGUAGE = SimpleNamespace(**{name: getattr(api, name) for name in api.__all__}, **{
    name: function for name, function in api.PRIMITIVES.items() if name not in ("max", "min")
})  # fmt: skip


@dataclass(frozen=True)
class Built:
    """A program as tensors: those that have names, what its leaves hold, and the values of its symbols."""

    tensors: dict[str, Tensor]
    arrays: dict[TNode, Array]
    symbols: dict[Sym, int]

    @property
    def loss(self) -> Tensor:
        return self.tensors["loss"]


@dataclass(frozen=True)
class Program:
    """`data` and `params` say what the leaves hold, `lines` what the other names mean. In the text, `data` holds the
    arrays of the leaves and `kind` is the type of floats. A program that is not `smooth` has ties at a maximum."""

    text: str
    data: dict[str, Array]
    params: tuple[str, ...]
    symbols: dict[str, int]
    lines: tuple[tuple[str, Compute], ...]
    smooth: bool

    def build(self, kind: str = "float32") -> Built:
        """Its tensors. Raises whatever the language refuses, and `AssertionError` where a shape is not as it should."""
        held = {name: array.astype(kind) if array.dtype == np.float64 else array for name, array in self.data.items()}
        scope: dict[str, Any] = {"__name__": "program", "oc": LANGUAGE, "np": np, "data": held, "kind": kind}
        exec(compile(self.text, "<program>", "exec"), scope)
        tensors = {name: scope[name] for name in (*self.data, *(name for name, _ in self.lines))}
        for name, array in (self.data | self.meaning()).items():
            dims = tensors[name].dims
            assert dims == array.shape, f"`{name}` is inferred to be {dims}, and should be {array.shape}\n\n{self}"
        arrays = {tensors[name].node: array for name, array in held.items()}
        return Built(tensors, arrays, {scope[name]: value for name, value in self.symbols.items()})

    def meaning(self, changed: Mapping[str, Array] | None = None) -> Env:
        """The value of every line, by name."""
        env: Env = {**self.data, **(changed or {})}
        for name, compute in self.lines:
            env[name] = compute(env)
        return {name: env[name] for name, _ in self.lines}

    def slope(self, directions: Mapping[str, Array], step: float = 1e-5) -> float:
        """The derivative of the loss where leaves move in these directions, by central differences of fourth order."""

        def loss(t: float) -> float:
            return float(self.meaning({name: self.data[name] + t * d for name, d in directions.items()})["loss"])

        return (8 * (loss(step) - loss(-step)) - (loss(2 * step) - loss(-2 * step))) / (12 * step)

    def __str__(self) -> str:
        return self.text
