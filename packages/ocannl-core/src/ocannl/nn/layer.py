"""The decorator of layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Protocol, TypeVar, overload

from ocannl.base.errors import ArgumentError
from ocannl.base.traceback_filtering import argument_problem, checked, title_of
from ocannl.lang.api import Block, Tensor
from ocannl.lang.blocks import BlockFunction
from ocannl.nn.configuration import setting_problem

Check = Callable[[Mapping[str, Any]], None]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Layer(Protocol[T_co]):
    """A function declared with `oc.op`: applied to tensors, or configured without them."""

    @overload
    def __call__(self, x: Tensor, /, *operands: Any, **configuration: Any) -> T_co: ...
    @overload
    def __call__(self, **configuration: Any) -> Block: ...


@overload
def layer(function: Callable[..., T]) -> Layer[T]: ...
@overload
def layer(*, check: Check) -> Callable[[Callable[..., T]], Layer[T]]: ...
def layer(function: Callable[..., T] | None = None, *, check: Check | None = None) -> Any:
    """`oc.op`, for a function whose arguments are compared with its annotations, and whose settings with their limits,
    when it is configured; `check` is called with all settings, and raises an error for what else does not fit.

    Raises: ArgumentError.
    """
    if function is None:
        return lambda function: LayerFunction(checked(function), check)
    return LayerFunction(checked(function), check)


def checked_function(function: Callable[..., T]) -> Callable[..., T]:
    """Decorator of public functions that are no layers: compares arguments with annotations, and settings with their
    limits.

    Raises: ArgumentError.
    """
    signature, title = inspect.signature(function), title_of(function)

    @wraps(function)
    def call(*args: Any, **settings: Any) -> T:
        bound = signature.bind(*args, **settings)
        if problem := setting_problem(bound.arguments):
            raise ArgumentError(f"{title}: {problem}")
        return function(*args, **settings)

    return checked(call)


class LayerFunction(BlockFunction):
    """A function decorated with `layer`."""

    def __init__(self, function: Callable[..., Any], check: Check | None) -> None:
        super().__init__(function)
        self.check = check

    def require_arguments(self, inputs: tuple[Any, ...], arguments: Mapping[str, Any]) -> None:
        title = title_of(self.function)
        if any(isinstance(value, int | float | str) for value in inputs):
            keywords = [name for name, p in self.signature.parameters.items() if p.kind is p.KEYWORD_ONLY]
            raise ArgumentError(
                f"{title} takes tensors in positions, whose sizes it infers, and settings by keyword: "
                f"{', '.join(f'`{name}=`' for name in keywords) or 'none'}"
            )
        if problem := argument_problem(self.function, inputs, dict(arguments), complete=bool(inputs)):
            raise ArgumentError(problem)
        settings = self._settings(arguments)
        if problem := setting_problem(settings):
            raise ArgumentError(f"{title}: {problem}")
        if self.check is not None:
            self.check(settings)

    def _settings(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """All settings, with the values of those that are not given."""
        parameters = self.signature.parameters.values()
        defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}
        return {**defaults, **arguments}
