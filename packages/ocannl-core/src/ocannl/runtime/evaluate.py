"""Values of tensors in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.context_vars import no_grad
from ocannl.lang.core.graph import forward, parameters
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import NOTHING, Tensor
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.record.code import recorder
from ocannl.runtime.context import Context, default_context

Array = np.ndarray[Any, Any]
Feeds = Mapping[Any, Any]
"""Arrays for inputs, integers for static symbols."""


def value_of(tensor: Tensor, ctx: Context | None = None) -> Array:
    """Initializes what parameters are missing, computes the tensor, and gives a NumPy copy.

    Leaves are read as they are. In the default context when none is given.
    """
    return evaluate(tensor, ctx=ctx)


@overload
def evaluate(outputs: Tensor, feeds: Feeds = ..., ctx: Context | None = ...) -> Array: ...
@overload
def evaluate(outputs: Sequence[Tensor], feeds: Feeds = ..., ctx: Context | None = ...) -> list[Array]: ...
@overload
def evaluate(outputs: Mapping[str, Tensor], feeds: Feeds = ..., ctx: Context | None = ...) -> dict[str, Array]: ...
def evaluate(outputs: Any, feeds: Feeds = NOTHING, ctx: Context | None = None) -> Any:
    """Values of tensors, computed together: of one tensor an array, of a list a list, of a mapping a dictionary.

    `feeds` are arrays for inputs, given by the tensor or by its label, and integers for static symbols, given by name.
    Parameters without a value are initialized. In the default context when none is given.
    Raises: CodeError when nothing, or more than one input, is called as `feeds` say.
    """
    if isinstance(outputs, Mapping):
        return dict(zip(outputs, evaluate(list(outputs.values()), feeds, ctx), strict=True))
    if not isinstance(outputs, Tensor | list | tuple):
        raise CodeError(f"oc.evaluate computes a tensor, or a list or mapping of tensors, not {outputs!r}"[:200])
    if not isinstance(feeds, Mapping):
        raise CodeError(f"feeds are a mapping from inputs to arrays, {{x: xs}} or {{'x': xs}}, not {feeds!r}"[:200])
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    context, symbols = _context(roots, ctx), {}
    inputs = list(dict.fromkeys(t for root in roots for t in root.inputs()))
    for key, value in feeds.items():
        name = key.name if isinstance(key, Symbol) else key
        called = [key] if isinstance(key, Tensor) else [t for t in inputs if t.label == name]
        if len(called) > 1:
            raise CodeError(f"{len(called)} inputs are called `{name}`; give the tensor itself in its stead")
        if called:
            context[called[0]] = value
        elif isinstance(name, str) and isinstance(value, int | np.integer):
            symbols[name] = value
        else:
            raise CodeError(f"no input is called {name!r}; there are {', '.join(t.label for t in inputs) or 'none'}")
    context.init(parameters(*roots))
    with no_grad():
        # results of their own: asking for values here does not change what routines keep
        held = [t if _is_leaf(t) else PRIMITIVES["id"](t).with_label(t.label) for t in roots]
    computed = [t for t in held if not _is_leaf(t)]
    if computed:
        context.run(forward(*computed), **symbols)
    found = [context[t] for t in held]
    return found[0] if isinstance(outputs, Tensor) else found


def _context(roots: list[Tensor], ctx: object) -> Context:
    for t in roots:
        if not isinstance(t, Tensor):
            raise CodeError(f"oc.evaluate computes tensors, not {t!r}"[:200])
        if recorder.get() is not None:
            raise CodeError(f"`{t.label}` has no value while code is being recorded")
        if ctx is not None and not isinstance(ctx, Context):
            raise CodeError(f"`{t.label}` is evaluated in a context, not in {ctx!r}")
    return default_context() if ctx is None else ctx  # type: ignore[return-value]


def _is_leaf(t: Tensor) -> bool:
    return t.application is None and t.literal is None


def as_array(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    """`np.asarray(tensor)`."""
    if copy is False:
        raise ValueError("the value of a tensor is computed: an array of it is always a copy")
    return np.asarray(value_of(tensor), dtype)
