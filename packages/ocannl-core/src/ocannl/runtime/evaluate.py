"""The value of a tensor in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.ambient import no_grad
from ocannl.lang.code import recorder
from ocannl.lang.primitives import PRIMITIVES
from ocannl.lang.tensor import Tensor
from ocannl.runtime.context import Context, default_context


def evaluate(tensor: Tensor, ctx: Context | None = None) -> np.ndarray[Any, Any]:
    """Initializes what parameters are missing, computes the tensor, and gives a NumPy copy.

    Leaves are read as they are. In the default context when none is given.
    """
    if recorder.get() is not None:
        raise CodeError(f"`{tensor.label}` has no value while code is being recorded")
    if ctx is not None and not isinstance(ctx, Context):
        raise CodeError(f"`{tensor.label}` is evaluated in a context, not in {ctx!r}")
    context = default_context() if ctx is None else ctx
    context.init(tensor)
    if tensor.application is None and tensor.literal is None:
        return context[tensor]
    with no_grad():
        # a result of its own: asking for a value here does not change what routines keep
        copy = PRIMITIVES["id"](tensor).with_label(tensor.label)
    context.run(copy.forward)
    return context[copy]


def as_array(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """`np.asarray(tensor)`."""
    if copy is False:
        raise ValueError("the value of a tensor is computed: an array of it is always a copy")
    return np.asarray(evaluate(tensor), dtype)
