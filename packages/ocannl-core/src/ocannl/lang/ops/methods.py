"""The operations that are methods of whatever stands in expressions: `x.relu()` is `oc.relu(x)`.

Their types are in the stub beside this file, which is made from the table of operations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any


class Methods:
    """Has a method for each row of the table below, once the registry is filled."""

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
"""What each method is called in the registry."""


def attach(registry: Mapping[str, Callable[..., Any]]) -> None:
    for name, of in METHODS.items():
        setattr(Methods, name, _method(name, registry[of]))


def _method(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: object, *args: Any, **settings: Any) -> Any:
        return operation(self, *args, **settings)

    signature = inspect.signature(operation, eval_str=True)
    _, *others = signature.parameters.values()
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = operation.__doc__
    method.__signature__ = signature.replace(parameters=[own, *others])  # type: ignore[attr-defined]
    return method
