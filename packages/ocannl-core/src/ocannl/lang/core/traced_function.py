"""Traces of functions of tensors: the expressions that one call builds, which become the body of a loop or branch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.ir.assign import Comp
from ocannl.ir.tnode import next_id
from ocannl.lang.core import graph, nested
from ocannl.lang.core.context_vars import may_update_states
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
        return tuple(t for t in graph.in_execution_order(self.results, inside.__contains__) if t in inside)

    def code_of(self, t: Tensor) -> list[Comp]:
        """The code that computes one tensor of the body."""
        return list(t.value_step(frozenset(self.body))())

    def code(self) -> list[Comp]:
        return [code for t in self.live for code in self.code_of(t)]

    def repeated_code(self) -> list[Comp]:
        """The code that computes the results once more, with the values of states that were read the first time."""
        reached = frozenset(self.body)
        return [code for t in self.live for code in t.repeated_step(reached)()]

    def gradient_code(self, live: Sequence[Tensor]) -> list[Comp]:
        """The code that accumulates gradients of the inputs, and of tensors of the body, from those of the results."""
        reached = frozenset(live)
        steps = [t.gradient_step(reached) for t in reversed(live) if t.has_gradient]
        return [code for step in steps for code in step()]

    def zero_gradients(self) -> list[Comp]:
        return [code for t in self.live if t.has_gradient for code in t.zero_gradient()]


def with_reads_before(function: TracedFunction) -> TracedFunction:
    """The function with reads of states that it does not update as inputs: they are ordered with the other accesses of
    the state, and read it once."""
    updated = {access.state for t in function.body for access in t.accesses if access.is_update}
    return with_body(function, lambda t: any(a.state in updated for a in t.accesses) or not t.accesses)


def with_body(function: TracedFunction, include: Callable[[Tensor], bool]) -> TracedFunction:
    """The function with those tensors of the body that satisfy `include`; it reads the others as inputs."""
    body = tuple(filter(include, function.body))
    return replace(function, body=body, inputs=_inputs(body, set(body)))


def trace(
    function: Callable[..., Any], arguments: Sequence[Any], variables: Iterable[Tensor] | None,
    updates: Sequence[Tensor] | None = None,
) -> TracedFunction:  # fmt: skip
    """Calls the function. The body consists of the expressions that depend on `variables`, or, if None, of all that
    the call builds. `updates` receives the updates of states that the call makes, which run with its results; None
    where states cannot be updated."""
    _check_signature(function, arguments)
    first, token = next_id(), may_update_states.set(updates is not None and may_update_states.get())
    try:
        structure = function(*arguments)
    finally:
        may_update_states.reset(token)
    returned = [embed(value) for value in nested.leaves(structure)]
    results = [REGISTRY["id"](t, label=t.label) for t in returned]
    for t in results:
        t.effects = tuple(updates or ())
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
    return TracedFunction(structure, tuple(results), body, _inputs(body, inside))


def _inputs(body: Iterable[Tensor], inside: Set[Tensor]) -> tuple[Tensor, ...]:
    operands = dict.fromkeys(o for t in body if t.application is not None for o in t.application.operands)
    return tuple(o for o in operands if o not in inside)


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
