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
from collections.abc import Callable
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.infer.logic import COMPOSE, COMPOSE_ACCUMULATE, TRANSPOSE, Logic, einsum, pointwise
from ocannl.infer.parse import parse
from ocannl.lang.leaves import embed
from ocannl.lang.operation import Operation, Rule, Slots
from ocannl.lang.operators import REGISTRY
from ocannl.lang.slots import slot_of
from ocannl.lang.tensor import apply
from ocannl.lang.terms import Term, tree_of


def logic_of(shape: object, operands: int) -> Logic:
    """`pointwise` or `.`, `compose` or `@`, `transpose` or `T`, or an einsum spec, for so many operands."""
    if isinstance(shape, Logic):
        return shape
    if not isinstance(shape, str):
        raise CodeError(f"the axes of an operation are a text such as 'pointwise' or 'ij;jk => ik', not {shape!r}")
    if shape in ("pointwise", "."):
        return pointwise(operands)
    named = {("compose", 2): COMPOSE, ("compose", 3): COMPOSE_ACCUMULATE, ("transpose", 1): TRANSPOSE}
    word = {"@": "compose", "T": "transpose"}.get(shape, shape)
    if (word, operands) in named:
        return named[word, operands]
    if word in ("compose", "transpose"):
        raise CodeError(f"`{shape}` does not fit an operation of {operands} operands")
    spec = parse(shape)
    if len(spec.operands) != operands:
        raise CodeError(f"the spec {shape!r} has {len(spec.operands)} operands, and the operation {operands}")
    return einsum(spec)


def _rule(name: str, role: str, function: Callable[..., None] | None, operands: int) -> Rule | None:
    """A rule that hands each argument of `function` the slot it is named after."""
    if function is None:
        return None
    slots = list(inspect.signature(function).parameters)
    for given in slots:
        if slot_of(given, operands) is None:
            known = "v t g" + "".join(f" v{n} t{n} g{n}" for n in range(1, operands + 1))
            raise CodeError(f"`{given}` is no slot of `{role}` in `{name}`; with {operands} operands there are {known}")

    def rule(s: Slots) -> None:
        function(**{given: _slot(s, given, operands) for given in slots})

    return rule


def _slot(s: Slots, given: str, operands: int) -> object:
    letter, number = slot_of(given, operands)  # type: ignore[misc]
    if letter == "g":
        return s.gradient() if number == 0 else s.operand_gradient(number)
    if number == 0:
        return s.result()
    return s.operands[number - 1]


class _Sample:
    """Stands for a tensor when a declaration is tried without one."""


def defop(*, shape: object = "pointwise", doc: str = "", name: str | None = None) -> Callable[..., Any]:
    """Declares an operation.

    The decorated function takes the operands positionally and its configuration by keyword, and gives a pair:
    `forward`, which assigns the result from slots, and `gradient`, which adds to the gradients of the operands,
    or None.
    Raises: CodeError when a rule names a slot that the operation does not have: at the declaration, or, if the
    configuration has required arguments, at the first call.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        title = name or function.__name__
        signature = inspect.signature(function)
        kinds = inspect.Parameter
        positional = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        operands = [p for p in signature.parameters.values() if p.kind in positional]
        config = [p for p in signature.parameters.values() if p.kind is kinds.KEYWORD_ONLY]
        if not operands:
            raise CodeError(f"operation `{title}` has no operands")
        logic = logic_of(shape, len(operands))

        def build(inputs: tuple[object, ...], settings: dict[str, Any]) -> Operation:
            rules = function(*inputs, **settings)
            if not isinstance(rules, tuple) or len(rules) != 2 or not callable(rules[0]):
                raise CodeError(f"the declaration of `{title}` gives `forward, gradient`, not {rules!r}")
            forward = _rule(title, "forward", rules[0], len(operands))
            gradient = _rule(title, "gradient", rules[1], len(operands))
            assert forward is not None
            return Operation(title, logic, forward, gradient)

        @functools.wraps(function)
        def call(*inputs: object, label: str | None = None, **settings: Any) -> Any:
            try:
                bound = signature.bind(*inputs, **settings)
            except TypeError as e:
                raise CodeError(f"`{title}{signature}`: {e}") from None
            given = tuple(bound.arguments[p.name] for p in operands)
            if any(isinstance(i, Term) for i in given):
                return _inline(build(given, settings), given)
            tensors = tuple(embed(i) for i in given)
            return apply(build(tensors, settings), tensors, label=label)

        if all(p.default is not p.empty for p in config):
            build(tuple(_Sample() for _ in operands), {})
        call.__doc__ = doc or function.__doc__
        call.__signature__ = signature  # type: ignore[attr-defined]
        REGISTRY.setdefault(title, call)
        return call

    return declare


class _Inlined:
    """The slots of an operation that stands in the formula of another."""

    def __init__(self, operands: tuple[Term, ...]) -> None:
        self.operands = operands
        self.written: Term | None = None

    def result(self) -> Any:
        return self

    def write(self, accum: object, clear: bool, value: object) -> None:
        if self.written is not None or accum is not None:
            raise CodeError("only an operation of one plain assignment can stand in the formula of another")
        self.written = value if isinstance(value, Term) else Term(value)  # type: ignore[arg-type]

    def __setitem__(self, spelling: object, value: object) -> None:
        self.write(None if spelling in ("=:", Ellipsis) else spelling, True, value)


def _inline(operation: Operation, inputs: tuple[object, ...]) -> Term:
    terms = tuple(i if isinstance(i, Term) else Term(tree_of(i)) for i in inputs)
    slots = _Inlined(terms)
    operation.forward(slots)  # type: ignore[arg-type]
    assert slots.written is not None
    return slots.written

