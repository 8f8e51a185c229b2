"""The call that computed a tensor, as readable data: the operation, its operands and its settings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from ocannl.lang.core.applied_operation import Application
from ocannl.lang.core.context_vars import UserCall
from ocannl.lang.core.tensor_protocol import TensorLike

T = TypeVar("T", bound=TensorLike)


@dataclass(frozen=True, slots=True, eq=False)
class OperationCall(Generic[T]):
    """The operation of a tensor, in the words of the call that the user wrote.

    `operands` are the tensors among the arguments. `settings` are the others, with defaults filled in: sizes, specs,
    options, and numbers in place of tensors.
    """

    name: str
    operands: tuple[T, ...]
    settings: Mapping[str, Any]

    def __repr__(self) -> str:
        arguments = [t.label for t in self.operands] + [f"{name}={value!r}" for name, value in self.settings.items()]
        return f"<operation {self.name}({', '.join(arguments)})>"


def operation_call(application: Application[T], call: object) -> OperationCall[T]:
    """The call of a tensor: of a composite function if it is part of one, otherwise of its operation."""
    if not isinstance(call, UserCall):
        source = application.source
        operation = source.operation
        spec = {"spec": operation.logic.spec.text} if operation.logic.name in ("einsum", "concat") else {}
        settings = {**spec, **operation.sizes, **operation.settings}
        name = operation.name.partition(".")[0]  # without that of one of several results
        return OperationCall(name, source.operands[: operation.inputs], MappingProxyType(settings))
    arguments = _bound_arguments(call)
    operands = tuple(t for value in arguments.values() for t in _tensors(value))
    settings = {name: value for name, value in arguments.items() if next(_tensors(value), None) is None}
    return OperationCall(call.name, operands, MappingProxyType(settings))


def _bound_arguments(call: UserCall) -> dict[str, Any]:
    """The arguments by name, with defaults, without the label; those of `**names` like others."""
    signature = inspect.signature(call.function)
    bound = signature.bind(*call.args, **call.settings)
    bound.apply_defaults()
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        arguments |= value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    arguments.pop("label", None)
    return arguments


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in an argument, which may be a list."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "provenance"):
        yield value
