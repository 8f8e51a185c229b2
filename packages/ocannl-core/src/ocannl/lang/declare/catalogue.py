"""The table of operations: what pages, stubs, lists and checks are made from, whoever declared them.

A row is a function of the language, a method that has no function of its name, or an operation of an installed package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from ocannl.base.errors import PluginError
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.declare import packages
from ocannl.lang.declare.builtin import SAMPLES
from ocannl.lang.declare.declaration import POSITIONAL, Declaration
from ocannl.lang.declare.samples import Draw, Sample
from ocannl.lang.ops import functions
from ocannl.lang.ops.methods import METHODS, Methods
from ocannl.lang.ops.primitives import LABEL


@dataclass(frozen=True)
class Row:
    """One operation; `call` is how it is written: `oc.relu`, `x.sum`, `oc.ops.powers.cube`."""

    call: str
    function: Callable[..., Any]
    signature: inspect.Signature
    samples: tuple[Sample, ...]

    @property
    def name(self) -> str:
        return self.call.rpartition(".")[2]

    @property
    def is_method(self) -> bool:
        return self.call.startswith("x.")

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def summary(self) -> str:
        """The first paragraph, in one line."""
        return " ".join(self.doc.partition("\n\n")[0].split())


def catalogue() -> tuple[Row, ...]:
    """The operations of the language."""
    own = {f"oc.{name}": REGISTRY[name] for name in functions.__all__}
    own |= {f"x.{name}": getattr(Methods, name) for name in sorted(METHODS) if name not in functions.__all__}
    return tuple(Row(call, f, inspect.signature(f, eval_str=True), _tried(call, f)) for call, f in own.items())


def _tried(call: str, function: Callable[..., Any]) -> tuple[Sample, ...]:
    """What is written in the table of samples; else as many operands as there must be, of any numbers."""
    name = call.rpartition(".")[2]
    if name in SAMPLES:
        return SAMPLES[name]
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    return (Sample(tuple(Draw() for p in needed if p.kind in POSITIONAL), {}),)


def declared(call: str, operation: Callable[..., Any]) -> Row:
    """The row of an operation that `oc.defop` has made."""
    told: Declaration = operation.declaration  # type: ignore[attr-defined]
    parameters = [
        p.replace(annotation=object) if p.name in told.inputs and p.annotation is p.empty else p
        for p in told.signature.parameters.values()
    ]
    gives = Tensor if len(told.outputs) == 1 else tuple[(Tensor,) * len(told.outputs)]  # type: ignore[misc]
    return Row(call, operation, inspect.Signature([*parameters, LABEL], return_annotation=gives), told.samples)


def installed() -> Iterator[Row | PluginError]:
    """The operations of installed packages, and what is wrong with those that cannot be had."""
    for name, entries in packages.names().items():
        try:
            found = packages.load(entries)
        except PluginError as wrong:
            yield wrong
            continue
        if hasattr(found, "declaration"):
            yield declared(f"oc.ops.{name}", found)
        else:
            yield from (declared(f"oc.ops.{name}.{n}", f) for n, f in vars(found).items())


def operands(row: Row) -> list[Parameter]:
    """The parameters, without the object of a method."""
    return list(row.signature.parameters.values())[row.is_method :]
