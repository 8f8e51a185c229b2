"""The table of operations, from which pages, stubs, lists and checks are generated.

A row is a function of the language, a method without a function of its name, or an operation of an installed package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from ocannl.base.errors import PluginError
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.declare import installed_operations
from ocannl.lang.declare.builtin_declarations import builtin_functions
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.samples import Sample
from ocannl.lang.ops.primitives import LABEL


@dataclass(frozen=True)
class OperationRow:
    """One operation; `call` is its spelling: `oc.relu`, `x.sum`, `oc.ops.powers.cube`."""

    call: str
    function: Callable[..., Any]
    signature: inspect.Signature
    samples: tuple[Sample, ...]
    declaration: Declaration

    @property
    def name(self) -> str:
        return self.call.rpartition(".")[2]

    @property
    def title(self) -> str:
        """The name, with the module of the language that the operation belongs to: `linalg.solve`."""
        namespace = self.declaration.namespace
        return self.call.removeprefix("oc.") if self.call == f"oc.{namespace}.{self.name}" else self.name

    @property
    def is_method(self) -> bool:
        return self.call.startswith("x.")

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, on one line."""
        return " ".join(self.doc.partition("\n\n")[0].split())


def catalogue() -> tuple[OperationRow, ...]:
    """The operations of the language."""
    return tuple(
        OperationRow(call, function, inspect.signature(function, eval_str=True), declared.samples, declared)
        for call, function in builtin_functions().items()
        for declared in [declaration_of(function)]
    )


def declaration_of(function: Callable[..., Any]) -> Declaration:
    declaration: Declaration = function.declaration  # type: ignore[attr-defined]
    return declaration


def row_of_declaration(call: str, operation: Callable[..., Any]) -> OperationRow:
    """The row of an operation declared by `oc.defop`."""
    declaration = declaration_of(operation)
    parameters = [
        p.replace(annotation=object) if p.name in declaration.inputs and p.annotation is p.empty else p
        for p in declaration.signature.parameters.values()
    ]
    outputs = len(declaration.outputs)
    result = Tensor if outputs == 1 else tuple[(Tensor,) * outputs]  # type: ignore[misc]
    signature = inspect.Signature([*parameters, LABEL], return_annotation=result)
    return OperationRow(call, operation, signature, declaration.samples, declaration)


def installed_rows() -> Iterator[OperationRow | PluginError]:
    """The operations of installed packages, and an error for each package that cannot be loaded."""
    for name, entries in installed_operations.entry_points_by_name().items():
        try:
            loaded = installed_operations.load(entries)
        except PluginError as error:
            yield error
            continue
        if hasattr(loaded, "declaration"):
            yield row_of_declaration(f"oc.ops.{name}", loaded)
        else:
            yield from (row_of_declaration(f"oc.ops.{name}.{n}", f) for n, f in vars(loaded).items())


def operands(row: OperationRow) -> list[Parameter]:
    """The parameters of an operation, without `self` of a method."""
    return list(row.signature.parameters.values())[row.is_method :]
