"""The decorator of layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast, overload

from ocannl.base.traceback_filtering import checked
from ocannl.lang.api import Block, Tensor, op

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Layer(Protocol[T_co]):
    """A function declared with `oc.op`: applied to tensors, or configured without them."""

    @overload
    def __call__(self, x: Tensor, /, *operands: Any, **configuration: Any) -> T_co: ...
    @overload
    def __call__(self, **configuration: Any) -> Block: ...


def layer(function: Callable[..., T]) -> Layer[T]:
    """`oc.op`, for a function whose arguments are compared with its annotations. Raises: ArgumentError."""
    return cast("Layer[T]", op(checked(function)))
