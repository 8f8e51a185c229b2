"""What an operation is: how it reads axes, what it computes, and what its operands receive of its gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from ocannl.base.config import PRECISION
from ocannl.base.errors import CodeError, DtypeError
from ocannl.infer.logic import Logic
from ocannl.ir.ops import ADD, MUL, Domain, Op
from ocannl.ir.precision import Precision, bool_, int32, precision, promote, uint32
from ocannl.lang.core.slots import NoSlot, Slot, SlotAssign
from ocannl.lang.core.terms import Hole, Term, apply, pullback, tree_of


class Slots(Protocol):
    """The tensors of one application, as slots; `out` collects what is assigned."""

    out: list[SlotAssign]
    value: Term  # of the result
    operands: tuple[Term, ...]

    def result(self) -> Slot: ...

    def gradient(self) -> Term: ...

    def operand_gradient(self, number: int) -> Slot | NoSlot: ...

    def local(self, name: str, slot: int, kind: Precision | None = None) -> Slot:
        """A node like the tensor at a slot, of another type if one is given."""
        ...

    def offset(self, slot: int) -> Term:
        """Where the cell of a tensor lies among all of them in memory order: 0 is the result, n the n-th operand."""
        ...

    def stored(self, formula: Term) -> Term:
        """What a formula is once it has been stored as the result."""
        ...


ruling: ContextVar[Slots | None] = ContextVar("ocannl_ruling", default=None)
"""The application whose rules are being run: it makes the nodes that they declare."""


def like_slot(name: str, slot: object) -> Slot:
    """A node of a rule, like one of its arguments."""
    active = ruling.get()
    if active is not None and isinstance(slot, Term):
        numbers = [n for n, operand in enumerate(active.operands, 1) if operand is slot]
        for number in [slot.tree.slot] if isinstance(slot.tree, Hole) else numbers:
            return active.local(name, number)
    raise CodeError(f"`slot=` takes an argument of the oc.defop rule that oc.node stands in, as v1; not {slot!r}")


Rule = Callable[[Slots], None]
"""Writes the assignments of one direction."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation with its configuration bound.

    `combine` is its formula, for those that consist of one: `result <- reduce(combine(operands))`, a plain store where
    nothing is reduced. The root of the right side of an assignment is taken apart only if it has one. Other operations
    are given by two rules.
    """

    name: str
    logic: Logic
    forward: Rule
    gradient: Rule | None
    combine: Callable[..., Term] | None = None
    reduce: Op | None = None
    domain: Domain = Domain.ANY
    weak_operands: frozenset[int] = frozenset()  # whose type says nothing about the result's, such as conditions
    text: str = ""  # how the expression reads: "{0} @ {1}"
    sizes: Mapping[str, int] = field(default_factory=dict)
    kind: Precision | None = None  # of the result, where it does not follow from the operands
    least: Precision | None = None  # a type that the result is at least as wide as
    demanded: bool = False  # the type follows from what reads the result, as that of a leaf
    picks: bool = False  # the leading output axis of operand 1 is where operand 2 says, an integer for each cell

    @property
    def outside(self) -> float | None:
        """What a window reads outside its array."""
        return self.reduce.neutral if self.reduce is not None else 0.0

    def precision(self, operands: list[Precision], weak: list[bool], default: Precision | None = None) -> Precision:
        """Of the result. Of weak operands, such as mere numbers, only their being floats counts, beside integers; truth
        values are summed as int32; `default` is the type of floats that follows from no operand."""
        if self.kind is not None:
            return self.kind
        found: Precision | None = None
        floats = self.domain is Domain.FLOAT
        for at, (given, is_weak) in enumerate(zip(operands, weak, strict=True)):
            if at in self.weak_operands:
                continue
            if is_weak:
                floats |= given.is_float
            else:
                found = given if found is None else promote(found, given)
        if self.domain in (Domain.INTEGER, Domain.WORD):
            if any(given.is_float for given in operands):
                raise DtypeError(f"oc.{self.name} is an operation on integers; convert with x.astype(oc.int32)")
            return uint32 if self.domain is Domain.WORD else found or int32
        if found is None or (floats and not found.is_float):
            found = default or precision(PRECISION.get())
        if self.least is not None:
            return promote(found, self.least)
        counts = self.reduce is not None and self.reduce.name in ("add", "mul") and not self.picks
        return int32 if found is bool_ and counts else found


def contraction(
    name: str,
    logic: Logic,
    combine: Callable[..., Term],
    reduce: Op | None,
    *,
    differentiable: bool = True,
    domain: Domain = Domain.ANY,
    weak_operands: frozenset[int] = frozenset(),
    text: str = "",
    sizes: Mapping[str, int] | None = None,
    kind: Precision | None = None,
    least: Precision | None = None,
    picks: bool = False,
) -> Operation:
    """`result =:reduce combine(operands)`, with the gradient that follows from the formula.

    Grad: through a sum, the derivative of the formula; through a maximum or minimum, the same, shared equally among the
    points that attain it.
    """

    def forward(s: Slots) -> None:
        s.result().write(reduce, True, combine(*s.operands))

    def gradient(s: Slots) -> None:
        formula = combine(*s.operands)
        if reduce is None or reduce.name == "add":
            known = s.value if reduce is None else None
            _distribute(s, formula, s.gradient(), known)
            return
        if reduce.name == "mul":
            _distribute(s, formula, s.gradient() * _other_factors(s, formula), None)
            return
        hit = apply("eq", s.stored(formula), s.value)
        ties = s.local("ties", 0)
        ties.write(ADD, True, hit)
        _distribute(s, formula, apply("where", hit, s.gradient() / ties, 0.0), None)

    smooth = reduce is None or reduce.name in ("add", "mul", "max", "min")
    return Operation(
        name,
        logic,
        forward,
        gradient if differentiable and smooth else None,
        combine,
        reduce,
        domain,
        weak_operands,
        text,
        sizes or {},
        kind,
        least,
        picks=picks,
    )


def _other_factors(s: Slots, factor: Term) -> Term:
    """The product of all factors but this one: by division where that can be undone, and not by 0, infinity and NaN;
    of several such factors, each receives the whole product."""
    divides = apply("eq", factor / factor, 1.0)
    others, rest = s.local("others", 0), s.local("rest", 0)
    others.write(ADD, True, apply("where", divides, 0.0, 1.0))
    rest.write(MUL, True, apply("where", divides, factor, 1.0))
    alone = apply("where", apply("eq", others, 1.0), rest, s.value)
    return apply("where", divides, s.value / factor, alone)


def _distribute(s: Slots, formula: Term, g: Term, known: Term | None) -> None:
    received = pullback(tree_of(formula), g, known)
    for number in range(1, len(s.operands) + 1):
        target = s.operand_gradient(number)
        for hole, flow in received.items():
            if hole.slot == number:
                target.write(ADD, False, flow)
