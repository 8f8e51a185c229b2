"""Evaluation of tensors: compile, initialize and run in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core import nested
from ocannl.lang.core.context_vars import no_grad
from ocannl.lang.core.graph import forward, parameters
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import EMPTY_MAPPING, Tensor
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.record.code import recorder
from ocannl.lang.rewriting.graph import Graph, GraphNode
from ocannl.runtime.context import Context, default_context

Array = np.ndarray[Any, Any]
Feeds = Mapping[Any, Any]
"""Arrays for inputs, integers for static symbols."""


def value_of(tensor: Tensor, ctx: Context | None = None) -> Array:
    """Initializes missing parameters, computes the tensor and returns a NumPy copy of its value.

    Leaves are read without computation. `ctx` defaults to the default context.
    """
    return evaluate(tensor, ctx=ctx)


value_of.__qualname__ = "Tensor.eval"  # for errors
Key = Tensor | GraphNode | str


@overload
def evaluate(outputs: Tensor, feeds: Feeds = ..., ctx: Context | None = ..., *, of: None = ...) -> Array: ...
@overload
def evaluate(
    outputs: Sequence[Tensor], feeds: Feeds = ..., ctx: Context | None = ..., *, of: None = ...
) -> list[Array]: ...
@overload
def evaluate(
    outputs: Mapping[str, Tensor], feeds: Feeds = ..., ctx: Context | None = ..., *, of: None = ...
) -> dict[str, Array]: ...
@overload
def evaluate(outputs: Key, feeds: Feeds = ..., ctx: Context | None = ..., *, of: Graph) -> Array: ...
@overload
def evaluate(outputs: list[Key], feeds: Feeds = ..., ctx: Context | None = ..., *, of: Graph) -> list[Array]: ...
@overload
def evaluate(
    outputs: Mapping[str, Key], feeds: Feeds = ..., ctx: Context | None = ..., *, of: Graph
) -> dict[str, Array]: ...
def evaluate(outputs: Any, feeds: Feeds = EMPTY_MAPPING, ctx: Context | None = None, *, of: Graph | None = None) -> Any:
    """Computes tensors together: returns an array for a tensor, a list for a list, a dictionary for a mapping.

    `feeds` maps inputs, or their labels, to arrays, and names of static symbols to integers. Parameters without a value
    are initialized. `ctx` defaults to the default context. With `of`, a graph, `outputs` and the keys of `feeds` may be
    the names of any of its nodes; what only a fed node needs is not computed.
    Raises: CodeError if a key of `feeds` matches no input or symbol, or more than one input.
    """
    if of is not None:
        outputs, feeds = _of_graph(outputs, feeds, of)
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
        matches = [key] if isinstance(key, Tensor) else [t for t in inputs if t.label == name]
        if len(matches) > 1:
            raise CodeError(f"{len(matches)} inputs are called `{name}`; pass the tensor itself instead")
        if matches:
            context[matches[0]] = value
        elif isinstance(name, str) and isinstance(value, int | np.integer):
            symbols[name] = value
        else:
            labels = ", ".join(t.label for t in inputs) or "none"
            raise CodeError(f"there is no input {name!r}; the inputs are {labels}")
    context.init(parameters(*roots))
    with no_grad():
        # copies, because evaluating a tensor must not change its placement
        results = [t if _is_leaf(t) else PRIMITIVES["id"](t).with_label(t.label) for t in roots]
    computed = [t for t in results if not _is_leaf(t)]
    if computed:
        context.run(forward(*computed), **symbols)
    values = [context[t] for t in results]
    return values[0] if isinstance(outputs, Tensor) else values


def _of_graph(outputs: Any, feeds: Any, graph: Graph) -> tuple[Any, Any]:
    """The outputs as tensors, and the feeds of inputs that stand in place of the fed nodes."""
    if not isinstance(graph, Graph):
        raise CodeError(f"`of` of oc.evaluate is a graph, oc.graph(...), not {graph!r}"[:200])
    part = graph.part(*nested.leaves(outputs))
    fed = {key: graph[key] for key, value in feeds.items() if not _is_symbol(key, value, graph)}
    cut = part.feed({node: None for node in fed.values() if node.operation != "input"})
    named = {fed[key].name if key in fed else key: value for key, value in feeds.items()}
    return nested.rebuilt(outputs, cut.outputs), named


def _is_symbol(key: object, value: object, graph: Graph) -> bool:
    is_name = isinstance(key, str) and key not in graph and isinstance(value, int | np.integer)
    return is_name or isinstance(key, Symbol)


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
