"""The operations that are methods of tensors and terms: `x.relu()` is `oc.relu(x)`.

Their types are in the stub file of this module, which is generated from the table of operations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ocannl.base.traceback_filtering import public


class Methods:
    """Base class whose methods, those of the table below, are attached when the registry is complete."""

    __slots__ = ()


METHODS = {
    name: name
    for name in (
        "abs", "all", "any", "argmax", "argmin", "ceil", "clip", "cos", "count_nonzero", "cumprod", "cumsum", "exp",
        "exp2", "floor", "gelu", "log", "log2", "log_softmax", "logsumexp", "mean", "norm", "prod", "recip",
        "recip_sqrt", "relu", "round", "sat01", "sigmoid", "sign", "silu", "sin", "softmax", "sqrt", "std",
        "stop_gradient", "sum", "take", "tanh", "trunc", "var",
    )
} | {"astype": "cast", "max": "largest", "min": "smallest"}  # fmt: skip
"""Methods, with their names in the registry."""


def attach(registry: Mapping[str, Callable[..., Any]]) -> None:
    for name, operation in METHODS.items():
        setattr(Methods, name, public(_method(name, registry[operation])))


def _method(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: object, *args: Any, **settings: Any) -> Any:
        return operation(self, *args, **settings)

    signature = inspect.signature(operation, eval_str=True)
    _, *parameters = signature.parameters.values()
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = operation.__doc__
    method.__signature__ = signature.replace(parameters=[receiver, *parameters])  # type: ignore[attr-defined]
    return method
