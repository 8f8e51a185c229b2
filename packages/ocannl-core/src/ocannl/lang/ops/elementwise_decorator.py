"""A decorator that declares an elementwise operation by a formula over terms.

    @formula()
    def leaky_relu(x, *, slope=0.01):
        return where(x > 0, x, slope * x)

The gradient is derived from the formula by automatic differentiation, unless derivatives are passed: for each operand
its gradient as a function of `g`, the value `v` and the operands.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from ocannl.base.annotations import fits, readable
from ocannl.base.errors import CodeError, DataError
from ocannl.base.keyword_answers import unknown_keyword
from ocannl.infer.logic import Logic, pointwise
from ocannl.ir.ops import ADD, Domain
from ocannl.lang.core.context_vars import UserCall, enclosing_call
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool, is_number, python_number
from ocannl.lang.core.operation import Operation, ResultType, Slots, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term, tree_of
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.primitives import LABEL, elementwise_shapes

Derivative = Callable[..., Term]


def formula(
    *derivative: Derivative,
    domain: Domain = Domain.FLOAT,
    differentiable: bool = True,
    logic_of: Callable[[Sequence[object]], Logic] | None = None,
    shapes: str = "",
    positive: Sequence[str] = (),
) -> Callable[[Callable[..., Term]], Callable[..., Any]]:
    """Turns a formula of terms into an operation on tensors; keyword-only parameters are settings.

    `logic_of` computes the axis logic from the operands of a call, by default `pointwise`; `shapes` documents it. The
    settings that `positive` names must be positive numbers.
    """

    def declare(body: Callable[..., Term]) -> Callable[..., Any]:
        signature = inspect.signature(body, eval_str=True)
        bare = signature.replace(
            parameters=[p.replace(annotation=p.empty) for p in signature.parameters.values()],
            return_annotation=signature.empty,
        )
        arity = sum(p.kind is not p.KEYWORD_ONLY for p in signature.parameters.values())

        def built(inputs: Sequence[object], settings: dict[str, Any]) -> Operation:
            def combine(*xs: Term) -> Term:
                return body(*xs, **settings)

            result_type = ResultType(domain=domain)
            logic = pointwise(arity) if logic_of is None else logic_of(inputs)
            operation = contraction(body.__name__, logic, combine, None, result_type=result_type)
            if not differentiable:
                return replace(operation, gradient=None, is_constant=True)
            return replace(operation, gradient=_gradient_rule(derivative, settings)) if derivative else operation

        @wraps(body)
        def call(*inputs: object, label: str | None = None, **settings: Any) -> Any:
            try:
                bound = signature.bind(*inputs, **settings)
            except TypeError as error:
                title = f"oc.{body.__name__}"
                unknown = unknown_keyword(title, settings, signature.parameters)
                raise CodeError(unknown or f"{title}{bare}: {error}") from None
            inputs, settings = bound.args, bound.kwargs  # inputs may be given by name
            for name in positive:
                require_positive(settings.get(name, 1.0), name, body.__name__)
            if any(isinstance(i, Term) for i in inputs):
                return body(*(i if isinstance(i, Term) else Term(tree_of(i)) for i in inputs), **settings)
            for name, value in settings.items():
                _require_fit(value, name, signature.parameters[name].annotation, body.__name__)
            operation = replace(built(inputs, settings), settings=_with_defaults(signature, settings))
            return apply(operation, [embed(i) for i in inputs], label=label)

        call.__signature__ = _signature(signature)  # type: ignore[attr-defined]
        call.__doc__ = (inspect.getdoc(body) or "").replace(
            "Grad:", f"{shapes or elementwise_shapes(arity)}\nGrad:", 1
        )
        REGISTRY[body.__name__] = call
        return call

    return declare


def _with_defaults(signature: inspect.Signature, settings: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {p.name: p.default for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}
    return defaults | {**settings}


def require_positive(value: object, name: str, title: str) -> None:
    """Raises: DataError unless a setting is a finite positive number."""
    if not (is_number(value) and 0 < python_number(value) < math.inf):
        raise DataError(f"`{name}` of oc.{title} must be a positive number, not {value!r}"[:200])


def _require_fit(value: object, name: str, kind: Any, title: str) -> None:
    """Raises: CodeError for a setting that the formula, which is evaluated later, could not compute with."""
    if kind is not inspect.Parameter.empty and not (is_number(value) or is_bool(value) or fits(value, kind)):
        call = enclosing_call.get()
        written = call.name if isinstance(call, UserCall) else title
        raise CodeError(f"`{name}` of oc.{written} is {readable(kind)}, not {value!r}"[:200])


def cellwise(name: str, body: Callable[..., Term], *operands: Tensor) -> Tensor:
    """Applies a formula elementwise as a single operation without a gradient."""
    return apply(contraction(name, pointwise(len(operands)), body, None, differentiable=False), operands)


def _signature(body: inspect.Signature) -> inspect.Signature:
    """The signature of the operation on tensors, from that of the formula."""
    operands = [p.replace(annotation=object) for p in body.parameters.values() if p.kind is not p.KEYWORD_ONLY]
    settings = [p for p in body.parameters.values() if p.kind is p.KEYWORD_ONLY]
    return inspect.Signature([*operands, *settings, LABEL], return_annotation=Tensor)


def _gradient_rule(derivative: tuple[Derivative, ...], settings: dict[str, Any]) -> Callable[[Slots], None]:
    def gradient(s: Slots) -> None:
        for number, rule in enumerate(derivative, 1):
            s.operand_gradient(number).write(ADD, False, rule(s.gradient(), s.value, *s.operands, **settings))

    return gradient
