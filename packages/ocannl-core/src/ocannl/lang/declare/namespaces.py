"""The operations of the modules of the language: `oc.linalg.solve`, `oc.fft.rfft`."""

from __future__ import annotations

import inspect
from typing import get_args, get_origin

from ocannl.lang.core.tensor import Tensor
from ocannl.lang.declare.builtin_declarations import CONTROL_FLOW, BuiltinDeclaration
from ocannl.lang.declare.catalogue import OperationRow, catalogue, declaration_of
from ocannl.lang.fft import pairs, transforms, windows
from ocannl.lang.linalg import decompositions, norms, systems

NAMESPACES = {"fft": (pairs, transforms, windows), "linalg": (decompositions, norms, systems)}
"""The modules whose public functions that return tensors are operations."""


def namespace_rows() -> tuple[OperationRow, ...]:
    """The operations of the modules of the language, without samples: their tests have operands of their own."""
    return tuple(
        OperationRow(f"oc.{namespace}.{name}", function, signature, (), BuiltinDeclaration(name, function, namespace))
        for namespace, modules in NAMESPACES.items()
        for module in modules
        for name, function in sorted(vars(module).items())
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
        for signature in [inspect.signature(function, eval_str=True)]
        if _gives_tensors(signature.return_annotation)
    )


def _gives_tensors(annotation: object) -> bool:
    return annotation is Tensor or (get_origin(annotation) is tuple and Tensor in get_args(annotation))


def complete_catalogue() -> tuple[OperationRow, ...]:
    """All operations of the language: functions, methods, loops and branches, and functions of its modules."""
    control_flow = (
        OperationRow(call, function, inspect.signature(function, eval_str=True), (), declaration_of(function))
        for call, function in CONTROL_FLOW.items()
    )
    return (*catalogue(), *control_flow, *namespace_rows())
