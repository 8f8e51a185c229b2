"""Declared operations: a forward rule and a gradient rule over slots, and the function that applies them.

    @oc.defop(shape="pointwise", doc="Leaky rectifier.")
    def leaky_relu(x, *, slope: float = 0.01):
        def forward(v, v1):             v["=:"] = oc.where(v1 > 0, v1, slope * v1)
        def gradient(g, v1, g1):        g1 += oc.where(v1 > 0, g, slope * g)
        return forward, gradient
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.leaves import embed
from ocannl.lang.core.operation import Operation, Slots
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.terms import Term, tree_of
from ocannl.lang.declare.axes import reading
from ocannl.lang.declare.conditions import Condition, Arguments
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.part import Part
from ocannl.lang.declare.rules import rules_of
from ocannl.lang.declare.samples import Sample
from ocannl.lang.declare.settings import Default, resolve
from ocannl.lang.declare.written import declaration
from ocannl.lang.ops.einsum import stop_gradient


def defop(
    function: Callable[..., Any] | None = None,
    /,
    *,
    shape: object = "pointwise",
    doc: str = "",
    name: str | None = None,
    namespace: str = "",
    inputs: Mapping[str, object] | None = None,
    outputs: Iterable[str] = ("v",),
    kind: object = None,
    where: Iterable[Condition] = (),
    parts: Iterable[Part] = (),
    samples: Iterable[Sample] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares an operation.

    The decorated function takes the operands positionally and its configuration by keyword, and gives a pair:
    `forward`, which assigns the results from slots, and `gradient`, which adds to the gradients of the operands,
    or None.

    shape       `pointwise`, `compose`, `transpose` or an einsum spec, in which settings are sizes and coefficients
    inputs      of each input the class of its types, such as "float" or "int | bool", or a `declare.Input`
    outputs     names of the results, of which the call gives a tuple where there are several
    kind        the data type of the results, where it does not follow from the inputs
    where       conditions (see `declare`) that every call must meet
    parts       settings, inputs and conditions shared with other operations
    samples     calls that its slots and gradients are checked by

    Raises: CodeError when a rule names a slot that the operation does not have: at the declaration, or, if the
    configuration has required arguments and there are no samples, at the first call.
    """

    def declare(made: Callable[..., Any]) -> Callable[..., Any]:
        declared = declaration(
            made, name=name, namespace=namespace, shape=shape, inputs={} if inputs is None else inputs, outputs=outputs,
            kind=kind, where=where, parts=parts, samples=samples, doc=doc,
        )  # fmt: skip
        _try(declared)
        return _function(declared)

    return declare if function is None else declare(function)


def _function(declared: Declaration) -> Callable[..., Any]:
    """The function that users call."""

    @functools.wraps(declared.rules)
    def call(*args: Any, label: str | None = None, **settings: Any) -> Any:
        if any(isinstance(a, Term) for a in (*args, *settings.values())):
            facts = declared.bind(args, settings, _term)
            operands = tuple(t for _, t in declared.each(facts))
            made = rules_of(declared, facts, len(operands)).inline(operands)
            return made[0] if len(made) == 1 else tuple(made)
        return _apply(declared, declared.bind(args, settings, embed), label)

    call.__doc__ = declared.doc
    call.__name__ = call.__qualname__ = declared.name
    call.__signature__ = declared.signature  # type: ignore[attr-defined]
    call.declaration = declared  # type: ignore[attr-defined]
    return call


def _term(given: Any) -> Term:
    return given if isinstance(given, Term) else Term(tree_of(given))


def _apply(declared: Declaration, facts: Arguments, label: str | None) -> Any:
    declared.check_types(facts)
    pending = declared.check(declared.where, facts)
    operands = tuple(t for _, t in declared.each(facts))
    rules = rules_of(declared, facts, len(operands))
    logics, kinds = declared.logics(facts, len(operands)), declared.precisions(facts)

    def forward(output: int, s: Slots) -> None:
        declared.check(pending, facts)
        rules.compute(s, output)

    def gradient(output: int, s: Slots) -> None:
        rules.differentiate(s, output)

    made: list[Tensor] = []
    for output, title in enumerate(declared.outputs):
        logic = reading(logics[output], logics[:output])
        sizes = {n: _size(declared, n, facts[n]) for n in logic.spec.names() if n in declared.settings}
        operation = Operation(
            declared.name if output == 0 else f"{declared.name}.{title}",
            logic,
            partial(forward, output),
            None if rules.gradient is None else partial(gradient, output),
            sizes=sizes,
            kind=kinds[output],
            weak_operands=frozenset(range(len(operands), len(operands) + output)),
        )
        made.append(apply(operation, (*operands, *map(stop_gradient, made)), label=label))
    return made[0] if len(made) == 1 else tuple(made)


def _size(declared: Declaration, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise CodeError(f"`{declared.title}`: `{name}` is a number of cells in its spec, and not {value!r}")
    return int(value)


class _Stand:
    """Stands for a tensor when a declaration is tried without one."""


def _try(declared: Declaration) -> None:
    """Bind the rules once: with the settings of a sample, or with the defaults where all have one."""
    sample = declared.samples[0] if declared.samples else Sample((), {})
    settings = {n: sample.settings.get(n, s.default) for n, s in declared.settings.items()}
    follow = [n for d in settings.values() if isinstance(d, Default) for n in d.names]
    if inspect.Parameter.empty in settings.values() or any(n in declared.inputs for n in follow):
        return
    least = declared.inputs[declared.variadic].count.least if declared.variadic else 0
    stands = {n: (_Stand(),) * least if n == declared.variadic else _Stand() for n in declared.inputs}
    facts = {**stands, **resolve(settings, declared.title)}
    operands = len(list(declared.each(facts)))
    declared.check((c for c in declared.where if declared.settings.keys() >= set(c.names)), facts)
    rules_of(declared, facts, operands)
    if not callable(declared.shape):
        declared.logics(facts, operands)
