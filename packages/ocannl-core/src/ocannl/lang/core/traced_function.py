"""Traces of functions of tensors: the expressions that one call builds, which become the body of a loop or branch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.ir.assign import Comp
from ocannl.ir.tnode import next_id
from ocannl.lang.core import graph, nested
from ocannl.lang.core.context_vars import is_tracing
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """One call of a function.

    `structure` is what the function returned, `results` are the tensors in it; each result is computed by `body`, is
    computed once, and is no tensor of other code. `body` holds tensors in topological order, `inputs` the tensors
    outside of it that it reads.
    """

    structure: Any
    results: tuple[Tensor, ...]
    body: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]

    @property
    def live(self) -> tuple[Tensor, ...]:
        """The tensors of the body that code of the current training mode computes."""
        inside = set(self.body)
        return tuple(t for t in graph.ancestors(self.results, inside.__contains__) if t in inside)

    def code_of(self, t: Tensor) -> list[Comp]:
        """The code that computes one tensor of the body."""
        return list(t.value_step(frozenset(self.body))())

    def code(self) -> list[Comp]:
        return [code for t in self.live for code in self.code_of(t)]

    def gradient_code(self, live: Sequence[Tensor]) -> list[Comp]:
        """The code that accumulates gradients of the inputs, and of tensors of the body, from those of the results."""
        reached = frozenset(live)
        steps = [t.gradient_step(reached) for t in reversed(live) if t.has_gradient]
        return [code for step in steps for code in step()]

    def zero_gradients(self) -> list[Comp]:
        return [code for t in self.live if t.has_gradient for code in t.zero_gradient()]


def trace(function: Callable[..., Any], arguments: Sequence[Any], variables: Iterable[Tensor] | None) -> TracedFunction:
    """Calls the function. The body consists of the expressions that depend on `variables`, or, if None, of all that
    the call builds."""
    _check_signature(function, arguments)
    first, token = next_id(), is_tracing.set(True)
    try:
        structure = function(*arguments)
    finally:
        is_tracing.reset(token)
    returned = [embed(value) for value in nested.leaves(structure)]
    results = [REGISTRY["id"](t, label=t.label) for t in returned]
    tensors = graph.everything(results)
    if variables is None:
        inside = {t for t in tensors if t.application is not None and t.node.id > first}
    else:
        inside = set(variables)
        for t in tensors:
            if t.application is not None and any(operand in inside for operand in t.application.operands):
                inside.add(t)
    inside.update(results)
    body = tuple(t for t in tensors if t in inside and t.application is not None)
    operands = dict.fromkeys(o for t in body if t.application is not None for o in t.application.operands)
    inputs = tuple(o for o in operands if o not in inside)
    return TracedFunction(structure, tuple(results), body, inputs)


def _check_signature(function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a built-in function
    try:
        signature.bind(*arguments)
    except TypeError as error:
        name = getattr(function, "__name__", "the function")
        raise CodeError(f"`{name}{signature}` is called with {len(arguments)} arguments: {error}") from None
