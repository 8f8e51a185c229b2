"""A program in the user's language: its text, and the NumPy semantics of each line.

A program is called several times, with different values of its symbols. Recorded code at the end of each call updates
its state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from ocannl.ir.affine import Sym
from ocannl.ir.tnode import TNode
from ocannl.lang import api
from ocannl.lang.core.tensor import Tensor
from ocannl.testing.random_einsums import Array, Rows

Env = dict[str, Array]
Compute = Callable[[Env], Array]

LANGUAGE = SimpleNamespace(**{name: getattr(api, name) for name in api.__all__})

FROZEN = "~"  # prefix of the names of values that are held constant while a slope is measured


@dataclass(frozen=True)
class Line:
    """A line of text. `compute` computes the named tensor or the updated state; None for leaves, for lines that name no
    tensor, and for updates by gradients."""

    text: str
    name: str = ""
    compute: Compute | None = None
    rows: Rows = ((), (), ())
    gradient: bool = False

    @property
    def identifiers(self) -> frozenset[str]:
        return frozenset(re.findall(r"[a-z]+\d+", self.text))


@dataclass(frozen=True)
class Built:
    """A program as tensors: the named ones, the initial values of leaves and states, the symbols with their values in
    the first call, and the code of the updates."""

    tensors: dict[str, Tensor]
    arrays: dict[TNode, Array]
    symbols: dict[Sym, int]
    update: api.Code | None

    @property
    def loss(self) -> Tensor:
        return self.tensors["loss"]

    def statics(self, call: Mapping[str, int]) -> dict[Sym, int]:
        """The values of the symbols in a call."""
        return {sym: call[sym.name] for sym in self.symbols}


@dataclass(frozen=True)
class Program:
    """`data` are the initial values of leaves and states, `terms` the terms of the loss, `calls` the values of the
    symbols in each call. The text refers to `data` and to `kind`, the type of floats. A program that is not `smooth`
    has ties at a maximum."""

    lines: tuple[Line, ...]
    terms: tuple[Line, ...]
    updates: tuple[Line, ...]
    data: dict[str, Array]
    calls: tuple[dict[str, int], ...]
    smooth: bool
    operations: int

    @property
    def params(self) -> tuple[str, ...]:
        return tuple(line.name for line in self.lines if line.gradient and line.name in self.data)

    @cached_property
    def text(self) -> str:
        lines = [line.text for line in self.lines]
        lines.append(f"loss = {' + '.join(term.text for term in self.terms)}")
        if self.updates:
            lines += ["with oc.cd() as update:", *(f"    {line.text}" for line in self.updates)]
        return "\n".join(lines) + "\n"

    def build(self, kind: str = "float32") -> Built:
        """Builds the tensors. Raises the error of a refused program, and `AssertionError` for a wrong shape."""
        meaning = self.meaning()
        built = build(self.text, kind, self.data, meaning, self.calls[0])
        for name, array in (self.data | meaning).items():
            dims = built.tensors[name].dims
            assert dims == array.shape, f"`{name}` is inferred to be {dims}, and should be {array.shape}"
        return built

    @property
    def function(self) -> Callable[..., Tensor]:
        """The loss as a function of the parameters; symbols and other leaves are constants."""
        parameters = {name: f"{name} = parameters[{n}]" for n, name in enumerate(self.params)}
        leaves = {line.name: line for line in self.lines if line.name in self.data}
        fixed = {name: constant(line) for name, line in leaves.items()}
        fixed |= {name: f"{name} = {at}" for name, at in self.calls[0].items()}
        lines = [parameters.get(line.name) or fixed.get(line.name) or line.text for line in self.lines]
        text = "\n".join([*lines, f"loss = {' + '.join(term.text for term in self.terms)}"])

        def loss(*tensors: Tensor) -> Tensor:
            scope: dict[str, Any] = {"oc": LANGUAGE, "np": np, "data": self.data, "kind": "float64"}
            scope["parameters"] = tensors
            exec(compile(text, "<program>", "exec"), scope)
            result: Tensor = scope["loss"]
            return result

        return loss

    @property
    def arguments(self) -> list[Tensor]:
        """The arguments of `function`."""
        scope: dict[str, Any] = {"oc": LANGUAGE, "data": self.data}
        for line in self.lines:
            if line.name in self.params:
                exec(constant(line), scope)
        return [scope[name] for name in self.params]

    def meaning(self) -> Env:
        """The value of each line in the first call, by name."""
        env = self._run({**self.data, **_symbols(self.calls[0])})
        return {name: env[name] for name in (*(line.name for line in self.lines if line.compute), "loss")}

    def runs(self, before: bool = False) -> list[Env]:
        """All values after each call, or `before` its updates, except those updated by gradients."""
        env: Env = dict(self.data)
        out = []
        for call in self.calls:
            env = self._run({**{name: env[name] for name in self.data if name in env}, **_symbols(call)})
            if before:
                out.append(dict(env))
            for line in self.updates:
                if line.compute is None:
                    env.pop(line.name, None)
                else:
                    env[line.name] = line.compute(env)
            if not before:
                out.append(dict(env))
        return out

    def _run(self, env: Env) -> Env:
        for line in self.lines:
            if line.compute is not None:
                env[line.name] = line.compute(env)
        env["loss"] = np.asarray(sum(float(term.compute(env)) for term in self.terms if term.compute is not None))
        return env

    def slope(self, directions: Mapping[str, Array], step: float = 1e-5) -> float:
        """The directional derivative of the loss, by central differences of fourth order."""
        start = {**self.data, **_symbols(self.calls[0])}
        frozen = {name: value for name, value in self._run(dict(start)).items() if name.startswith(FROZEN)}

        def loss(t: float) -> float:
            moved = {name: self.data[name].astype(np.float64) + t * d for name, d in directions.items()}
            return float(self._run({**start, **frozen, **moved})["loss"])

        return (8 * (loss(step) - loss(-step)) - (loss(2 * step) - loss(-2 * step))) / (12 * step)

    def __str__(self) -> str:
        return self.text


def constant(line: Line) -> str:
    """The text of a leaf that holds its array in `data`."""
    axes = "".join(f", {kind}_axes={len(row)}" for kind, row in zip(("batch", "input"), line.rows, strict=False) if row)
    return f'{line.name} = oc.tensor(data["{line.name}"]{axes})'


def build(text: str, kind: str, data: Mapping[str, Array], names: Iterable[str], call: Mapping[str, int]) -> Built:
    """Builds the tensors of the text of a program."""
    typed_data = {name: array.astype(kind) if array.dtype == np.float64 else array for name, array in data.items()}
    scope: dict[str, Any] = {"__name__": "program", "oc": LANGUAGE, "np": np, "data": typed_data, "kind": kind}
    exec(compile(text, "<program>", "exec"), scope)
    tensors = {name: scope[name] for name in (*data, *names)}
    arrays = {tensors[name].node: array for name, array in typed_data.items()}
    return Built(tensors, arrays, {scope[name]: at for name, at in call.items()}, scope.get("update"))


def _symbols(call: Mapping[str, int]) -> Env:
    return {name: np.asarray(value) for name, value in call.items()}
