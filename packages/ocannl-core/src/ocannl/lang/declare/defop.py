"""Declared operations: a forward and a gradient rule over slots, and the function that applies them.

@oc.defop(shape="pointwise", doc="Leaky rectifier.")
def leaky_relu(x, *, slope: float = 0.01):
    def forward(v, v1):             v["=:"] = oc.where(v1 > 0, v1, slope * v1)
    def gradient(g, v1, g1):        g1 += oc.where(v1 > 0, g, slope * g)
    return forward, gradient
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.symbolic_terms import Term, tree_of
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.declare.axes import with_earlier_outputs
from ocannl.lang.declare.conditions import Arguments, Condition
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.declaration_builder import DefopArguments, build_declaration
from ocannl.lang.declare.declaration_sections import documented
from ocannl.lang.declare.rules import bind_rules
from ocannl.lang.declare.samples import Sample
from ocannl.lang.declare.settings import Default, Setting, resolve_defaults
from ocannl.lang.declare.shared_part import Part
from ocannl.lang.ops.einsum import without_gradient


def defop(
    function: Callable[..., Any] | None = None,
    /,
    *,
    shape: object = "pointwise",
    doc: str = "",
    name: str | None = None,
    namespace: str = "",
    inputs: Mapping[str, object] | None = None,
    settings: Mapping[str, Setting] | None = None,
    outputs: Iterable[str] | Mapping[str, object] | None = None,
    kind: object = None,
    where: Iterable[Condition] = (),
    backend_where: Iterable[Condition | str] = (),
    signatures: Iterable[Iterable[str]] = (),
    parts: Iterable[Part] = (),
    samples: Iterable[Sample] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares an operation.

    The decorated function takes the operands positionally and the settings by keyword, and returns a pair of rules:
    `forward`, which assigns the results from slots, and `gradient`, which adds to the gradients of the operands, or
    None.

    shape       `pointwise`, `compose`, `transpose` or an einsum spec, in which settings are sizes and coefficients
    inputs      for each input a class of data types, such as "float" or "int | bool", or a `declare.Input`; a
                parameter with the default None is an optional input
    settings    documentation and lengths of keywords, by `declare.Setting`
    outputs     the names of the results, or a mapping from names to `declare.Output`; a call with several results
                returns a tuple
    kind        the data type of the results, unless it is inferred from the inputs
    where       conditions (see `declare`) that every call must satisfy
    backend_where  conditions that backends check, or texts; documentation only
    signatures  the sets of arguments that a call may give, if some combinations are meaningless
    parts       settings, inputs and conditions shared with other operations
    samples     example calls, which check the slots and gradients
    doc         the documentation, in which `{name}` stands for the name of the operation

    Raises: CodeError when a rule names a slot that the operation does not have: at the declaration, or at the first
    call if the operation has required settings and no samples.
    """

    def declare(rules: Callable[..., Any]) -> Callable[..., Any]:
        arguments = DefopArguments(
            name=name, namespace=namespace, shape=shape, inputs={} if inputs is None else inputs,
            outputs=outputs, kind=kind, where=where, parts=parts, samples=samples, doc=doc,
            settings={} if settings is None else settings, signatures=signatures, backend_where=backend_where,
        )  # fmt: skip
        declared = build_declaration(rules, arguments)
        _check_slots(declared)
        return _public_function(declared)

    return declare if function is None else declare(function)


def _public_function(declared: Declaration) -> Callable[..., Any]:
    """The public function of an operation: applies the rules to tensors, or inlines them into a formula."""

    assert declared.rules is not None

    @functools.wraps(declared.rules)
    def call(*args: Any, label: str | None = None, **settings: Any) -> Any:
        if any(isinstance(a, Term) for a in _flattened((*args, *settings.values()))):
            arguments = declared.bind(args, settings, _term)
            operands = tuple(t for _, t in declared.named_operands(arguments))
            formulas = bind_rules(declared, arguments, len(operands)).inline(operands)
            return formulas[0] if len(formulas) == 1 else tuple(formulas)
        return _apply(declared, declared.bind(args, settings, embed), label)

    call.__doc__ = documented(declared)
    call.__name__ = call.__qualname__ = declared.name
    call.__signature__ = declared.signature  # type: ignore[attr-defined]
    call.declaration = declared  # type: ignore[attr-defined]
    return call


def _flattened(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from _flattened(value) if isinstance(value, list | tuple) else (value,)


def _term(value: Any) -> Term:
    return value if isinstance(value, Term) else Term(tree_of(value))


def _apply(declared: Declaration, arguments: Arguments, label: str | None) -> Any:
    declared.check_types(arguments)
    pending = declared.check_conditions(declared.where, arguments)
    operands = tuple(t for _, t in declared.named_operands(arguments))
    rules = bind_rules(declared, arguments, len(operands))
    logics, kinds = declared.logics(arguments, len(operands)), declared.precisions(arguments)

    def forward(output: int, s: Slots) -> None:
        declared.check_conditions(pending, arguments)
        rules.compute(s, output)

    def gradient(output: int, s: Slots) -> None:
        rules.differentiate(s, output)

    results: list[Tensor] = []
    for output, title in enumerate(declared.outputs):
        logic = with_earlier_outputs(logics[output], logics[:output])
        values = declared.named_values(arguments)
        sizes = {n: _size(declared, n, values[n]) for n in logic.spec.names() if n in values}
        operation = Operation(
            declared.name if output == 0 else f"{declared.name}.{title}",
            logic,
            partial(forward, output),
            None if rules.gradient is None else partial(gradient, output),
            sizes=sizes,
            settings={name: arguments[name] for name in declared.settings},
            inputs=len(operands),
            is_constant=rules.gradient is None,
            result_type=ResultType(
                kinds[output], weak_operands=frozenset(range(len(operands), len(operands) + output))
            ),
        )
        results.append(apply(operation, (*operands, *map(without_gradient, results)), label=label))
    return results[0] if len(results) == 1 else tuple(results)


def _size(declared: Declaration, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise CodeError(f"`{declared.title}`: `{name}` is a size in its spec, so it must be an integer, not {value!r}")
    return int(value)


class _PlaceholderOperand:
    """Stands for a tensor when the rules are bound at the declaration."""


def _check_slots(declared: Declaration) -> None:
    """Binds the rules once, to the settings of the first sample or to defaults, so that wrong slots fail early."""
    sample = declared.samples[0] if declared.samples else Sample((), {})
    settings = {n: sample.settings.get(n, s.default) for n, s in declared.settings.items()}
    referenced = [n for d in settings.values() if isinstance(d, Default) for n in d.names]
    if inspect.Parameter.empty in settings.values() or any(n in declared.inputs for n in referenced):
        return
    converted = {name: declared.settings[name].converted(value) for name, value in settings.items()}
    resolved = resolve_defaults(converted, declared.title)
    for omits_optional in (False, True) if declared.optional else (False,):
        placeholders = {name: _placeholder(declared, name, omits_optional) for name in declared.inputs}
        arguments = {**placeholders, **resolved}
        operands = len(list(declared.named_operands(arguments)))
        declared.check_conditions((c for c in declared.where if declared.settings.keys() >= set(c.names)), arguments)
        bind_rules(declared, arguments, operands)
        if not callable(declared.shape):
            declared.logics(arguments, operands)


def _placeholder(declared: Declaration, name: str, omits_optional: bool) -> Any:
    if omits_optional and name in declared.optional:
        return None
    count = declared.inputs[name].count
    if not declared.is_list(name):
        return _PlaceholderOperand()
    return (_PlaceholderOperand(),) * (count.minimum if count else 0)
