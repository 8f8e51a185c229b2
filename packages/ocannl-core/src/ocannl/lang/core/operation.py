"""Operations: their shape logic, forward rule and gradient rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from ocannl.base.config import PRECISION
from ocannl.base.errors import CodeError, DtypeError
from ocannl.infer.logic import Logic
from ocannl.ir.ops import ADD, MUL, Domain, Op
from ocannl.ir.precision import Precision, bool_, int32, precision, promote, uint32
from ocannl.lang.core.derivatives import pullback
from ocannl.lang.core.slots import NullSlot, Slot, SlotStatement
from ocannl.lang.core.symbolic_terms import Hole, Term, apply, tree_of


class Slots(Protocol):
    """The tensors of one application, as slots; `out` collects the assignments."""

    out: list[SlotStatement]
    value: Term  # of the result
    operands: tuple[Term, ...]

    def result(self) -> Slot: ...

    def gradient(self) -> Term: ...

    def operand_gradient(self, number: int) -> Slot | NullSlot: ...

    def local(self, name: str, slot: int, kind: Precision | None = None) -> Slot:
        """A temporary node with the shape and type of the tensor at a slot; `kind` overrides the type."""
        ...

    def scan(self, target: Slot | NullSlot, accum: Op | None, value: Term, op: Op, along: int, reverse: bool) -> None:
        """Writes a prefix scan of a value along the axis of operand `along` to `target`, which is cleared without
        `accum`."""
        ...

    def recurrence(
        self, target: Slot, carried: Term, added: Term, carry: Callable[[Term, Term], Term],
        finish: Callable[[Term], Term], direction: int, along: int, write_steps: Callable[[], None],
    ) -> None:  # fmt: skip
        """Writes `finish(y[i])` for the first-order recurrence `y[i] = added[i] + carry(carried[i], y[i + direction])`
        along the axis of operand `along` to a local node with the shape of the result; `write_steps` writes it in
        parallel form."""
        ...

    def offset(self, slot: int) -> Term:
        """The linear offset of the current cell of a tensor in memory order: slot 0 is the result, n operand n."""
        ...

    def stored(self, formula: Term) -> Term:
        """The formula, converted to the type of the result."""
        ...


current_slots: ContextVar[Slots | None] = ContextVar("ocannl_ruling", default=None)
"""The application whose rule is running; creates the nodes that the rule declares."""


def node_like_slot(name: str, slot: object) -> Slot:
    """A temporary node of a rule, like one of its arguments."""
    active = current_slots.get()
    if active is not None and isinstance(slot, Term):
        numbers = [n for n, operand in enumerate(active.operands, 1) if operand is slot]
        for number in [slot.tree.slot] if isinstance(slot.tree, Hole) else numbers:
            return active.local(name, number)
    raise CodeError(f"`slot=` takes an argument of the oc.defop rule that oc.node stands in, as v1; not {slot!r}")


Rule = Callable[[Slots], None]
"""Writes the assignments of one direction."""


@dataclass(frozen=True, slots=True)
class ResultType:
    """How the data type of a result follows from the types of the operands: by promotion, by default."""

    kind: Precision | None = None  # if independent of the operands
    min_precision: Precision | None = None  # lower bound
    domain: Domain = Domain.ANY
    weak_operands: frozenset[int] = frozenset()  # ignored by promotion, such as conditions
    follows_consumers: bool = False  # determined by the consumers, as for an open leaf

    @property
    def is_promoted(self) -> bool:
        return self.kind is None and self.min_precision is None and not self.follows_consumers


PROMOTED = ResultType()


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation with its configuration bound.

    `combine` is the formula of an operation that consists of one: `result <- reduce(combine(operands))`, or a store if
    `reduce` is None. Only such an operation merges into an assignment at the root of its right side. Others are defined
    by two rules.
    """

    name: str
    logic: Logic
    forward: Rule
    gradient: Rule | None
    combine: Callable[..., Term] | None = None
    reduce: Op | None = None
    result_type: ResultType = PROMOTED
    text: str = ""  # format of the expression: "{0} @ {1}"
    sizes: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict, kw_only=True)  # of the call, for inspection
    inputs: int | None = field(default=None, kw_only=True)  # of the call; operands behind them are earlier results
    is_constant: bool = field(default=False, kw_only=True)  # in forward-mode differentiation
    is_gather: bool = False  # reads operand 1 at computed indices; the sum adds nothing up

    @property
    def outside(self) -> float | None:
        """The padding value that a window reads outside its array."""
        return self.reduce.neutral if self.reduce is not None else 0.0

    def precision(self, operands: list[Precision], weak: list[bool], default: Precision | None = None) -> Precision:
        """The type of the result, by promotion of the operand types.

        A weak operand, such as a number, only turns integers into floats. Sums of truth values are int32. `default` is
        the type of floats if no operand determines one. Raises: DtypeError for floats in an integer operation.
        """
        rule = self.result_type
        if rule.kind is not None:
            return rule.kind
        promoted: Precision | None = None
        floats = rule.domain is Domain.FLOAT
        for number, (operand, is_weak) in enumerate(zip(operands, weak, strict=True)):
            if number in rule.weak_operands:
                continue
            if is_weak:
                floats |= operand.is_float
            else:
                promoted = operand if promoted is None else promote(promoted, operand)
        if rule.domain in (Domain.INTEGER, Domain.WORD):
            if any(operand.is_float for operand in operands):
                raise DtypeError(f"oc.{self.name} is an operation on integers; convert with x.astype(oc.int32)")
            return uint32 if rule.domain is Domain.WORD else promoted or int32
        if promoted is None or (floats and not promoted.is_float):
            promoted = default or precision(PRECISION.get())
        if rule.min_precision is not None:
            return promote(promoted, rule.min_precision)
        counts = self.reduce is not None and self.reduce.name in ("add", "mul") and not self.is_gather
        return int32 if promoted is bool_ and counts else promoted


def contraction(
    name: str,
    logic: Logic,
    combine: Callable[..., Term],
    reduce: Op | None,
    *,
    differentiable: bool = True,
    result_type: ResultType = PROMOTED,
    text: str = "",
    sizes: Mapping[str, int] | None = None,
    is_gather: bool = False,
    at: Callable[..., Mapping[str, Term]] | None = None,
) -> Operation:
    """`result =:reduce combine(operands)`, with the gradient that follows from the formula. `at(operands)` are the
    indices of indirect axes, by label.

    Grad: the derivative of the formula; for a product, times the other factors; for a maximum or minimum, split equally
    between the points that attain it.
    """

    def indices(s: Slots) -> Mapping[str, Term] | None:
        return at and at(*s.operands)

    def forward(s: Slots) -> None:
        s.result().write(reduce, True, combine(*s.operands), indices(s))

    def gradient(s: Slots) -> None:
        formula = combine(*s.operands)
        if reduce is None or reduce.name == "add":
            value = s.value if reduce is None else None
            _propagate(s, formula, s.gradient(), value, indices(s))
            return
        if reduce.name == "mul":
            _propagate(s, formula, s.gradient() * _cofactor(s, formula, indices(s)), None, indices(s))
            return
        attains = apply("eq", s.stored(formula), s.value)
        ties = s.local("ties", 0)
        ties.write(ADD, True, attains, indices(s))
        _propagate(s, formula, apply("where", attains, s.gradient() / ties, 0.0), None, indices(s))

    smooth = reduce is None or reduce.name in ("add", "mul", "max", "min")
    return Operation(
        name,
        logic,
        forward,
        gradient if differentiable and smooth else None,
        combine,
        reduce,
        result_type,
        text,
        sizes or {},
        is_gather,
    )


def _cofactor(s: Slots, factor: Term, at: Mapping[str, Term] | None) -> Term:
    """The product of all factors except `factor`, the derivative of a product.

    Computed as a quotient for a finite nonzero factor. For a single factor 0, infinity or NaN it is the product of the
    invertible factors; if there are several of these, each receives the full product.
    """
    is_invertible = apply("eq", factor / factor, 1.0)
    singular_count, invertible_product = s.local("others", 0), s.local("rest", 0)
    singular_count.write(ADD, True, apply("where", is_invertible, 0.0, 1.0), at)
    invertible_product.write(MUL, True, apply("where", is_invertible, factor, 1.0), at)
    of_singular = apply("where", apply("eq", singular_count, 1.0), invertible_product, s.value)
    return apply("where", is_invertible, s.value / factor, of_singular)


def _propagate(
    s: Slots, formula: Term, g: Term, result_value: Term | None, at: Mapping[str, Term] | None = None
) -> None:
    cotangents = pullback(tree_of(formula), g, result_value)
    for number in range(1, len(s.operands) + 1):
        target = s.operand_gradient(number)
        for hole, cotangent in cotangents.items():
            if hole.slot == number:
                target.write(ADD, False, cotangent, at)
