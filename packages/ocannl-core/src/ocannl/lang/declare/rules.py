"""The rules of a declared operation, bound to the slots that their arguments are named after.

    v t g            value, value again and gradient of the (first) result
    w g_w            value and gradient of another output called `w`
    v1 t1 g1         those of the first operand, and so on
    vs ts gs         of all operands, where their number is not fixed

Each output is an operation of its own: of what the rules write it keeps its part. A gradient is linear in those of the
outputs, so each output hands on its share, with the gradients of the others absent. An output may read those before it,
which are operands behind the inputs and receive nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.ir.assign import Apply, Number
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.operation import Slots, ruling
from ocannl.lang.core.slots import Slot, SlotAssign
from ocannl.lang.core.terms import Hole, Term, Tree, tree_of
from ocannl.lang.declare.conditions import Arguments
from ocannl.lang.declare.declaration import Declaration

Place = tuple[str, int]  # of what kind a slot is, and of which operand or output


@dataclass(frozen=True)
class Rules:
    """`forward, gradient` of one call, and which slots their arguments are."""

    title: str
    outputs: tuple[str, ...]
    operands: int
    forward: Callable[..., None]
    gradient: Callable[..., None] | None
    reads: dict[str, dict[str, Place]]  # by rule and argument

    def compute(self, s: Slots, output: int) -> None:
        """Write one output."""
        start = len(s.out)
        self._run(self.forward, s, output, "forward")
        target = s.result()
        if isinstance(target, Slot) and not any(a.target == target.hole for a in s.out[start:]):
            raise CodeError(f"`forward` of `{self.title}` assigns nothing to `{self.outputs[output]}`")

    def differentiate(self, s: Slots, output: int) -> None:
        """Add what the operands receive from the gradient of one output."""
        assert self.gradient is not None
        start = len(s.out)
        self._run(self.gradient, s, output, "gradient")
        if len(self.outputs) > 1:
            s.out[start:] = _present(s.out[start:])

    def _run(self, rule: Callable[..., None], s: Slots, output: int, role: str) -> None:
        token = ruling.set(s)
        try:
            rule(**{name: self._slot(s, place, output, role) for name, place in self.reads[role].items()})
        finally:
            ruling.reset(token)

    def _slot(self, s: Slots, place: Place, output: int, role: str) -> object:
        match place:
            case "operand", 0:
                return s.operands[: self.operands]
            case "operand", number:
                return s.operands[number - 1]
            case "operand gradient", 0:
                return tuple(s.operand_gradient(n) for n in range(1, self.operands + 1))
            case "operand gradient", number:
                return s.operand_gradient(number)
            case "output gradient", number:
                return s.gradient() if number == output else Term(ABSENT)
            case _, number if number == output:
                return s.result()
            case _, number if number < output:
                return Other(s.operands[self.operands + number].tree)
            case _, number:
                return Later(lambda: self._later(s, output, number, role))
        raise AssertionError(place)

    def _later(self, s: Slots, output: int, number: int, role: str) -> Tree:
        """The formula of an output that is computed after the one that needs it."""
        try:
            if role == "gradient":
                return self.inline(s.operands[: self.operands])[number].tree
        except CodeError:
            pass
        raise CodeError(
            f"`{role}` of `{self.title}` needs `{self.outputs[number]}` for `{self.outputs[output]}`, which is computed"
            f" before it; declare the outputs in another order"
        )

    def inline(self, operands: tuple[Term, ...]) -> list[Term]:
        """The outputs as formulas of the operands."""
        made: list[Term] = []
        for output in range(len(self.outputs)):
            slots = Inlined((*operands, *made))
            self.compute(slots, output)  # type: ignore[arg-type]
            if slots.written is None:
                raise CodeError(f"`forward` of `{self.title}` assigns nothing to `{self.outputs[output]}`")
            made.append(slots.written)
        return made


def rules_of(declared: Declaration, facts: Arguments, operands: int) -> Rules:
    """What the declaring function gives for one call. Raises: CodeError where that does not fit the declaration."""
    given = [operand for name in declared.inputs for operand in declared._all(name, facts)]
    own = inspect.signature(declared.rules).parameters.values()
    settings = {name: facts[name] for name in declared.settings}
    if not any(p.kind is p.VAR_KEYWORD for p in own):
        settings = {p.name: settings[p.name] for p in own if p.name in settings}
    found = declared.rules(*given, **settings)
    if not isinstance(found, tuple) or len(found) != 2 or not callable(found[0]):
        raise CodeError(f"the declaration of `{declared.title}` gives `forward, gradient`, not {found!r}")
    forward, gradient = found
    slots = _slots(declared, operands)
    values = {name: place for name, place in slots.items() if not place[0].endswith("gradient")}
    reads = {"forward": _reads(declared.title, "forward", forward, values, operands)}
    if gradient is not None:
        reads["gradient"] = _reads(declared.title, "gradient", gradient, slots, operands)
        _refuse_missing(declared, facts, reads["gradient"])
    return Rules(declared.title, declared.outputs, operands, forward, gradient, reads)


def _slots(declared: Declaration, operands: int) -> dict[str, Place]:
    """Every slot of an operation, by name."""
    slots: dict[str, Place] = {"v": ("output", 0), "t": ("output", 0), "g": ("output gradient", 0)}
    for at, name in enumerate(declared.outputs):
        if name != "v":
            slots |= {name: ("output", at), f"g_{name}": ("output gradient", at)}
    for n in range(1, operands + 1):
        slots |= {f"v{n}": ("operand", n), f"t{n}": ("operand", n), f"g{n}": ("operand gradient", n)}
    if declared.variadic is not None:
        slots |= {"vs": ("operand", 0), "ts": ("operand", 0), "gs": ("operand gradient", 0)}
    return slots


def _reads(
    title: str, role: str, function: Callable[..., None], slots: dict[str, Place], operands: int
) -> dict[str, Place]:
    names = list(inspect.signature(function).parameters)
    for name in names:
        if name not in slots:
            many = f"{operands} operand{'s' * (operands != 1)}"
            raise CodeError(f"`{name}` is no slot of `{role}` in `{title}`; with {many} there are {' '.join(slots)}")
    return {name: slots[name] for name in names}


def _refuse_missing(declared: Declaration, facts: Arguments, reads: dict[str, Place]) -> None:
    """A gradient is added to every operand that can have one."""
    if ("operand gradient", 0) in reads.values():
        return
    for number, (name, _) in enumerate(declared.each(facts), 1):
        if declared.inputs[name].has_gradient and ("operand gradient", number) not in reads.values():
            raise CodeError(
                f"the gradient of `{declared.title}` adds nothing to that of `{name}`: take the slot `g{number}`, or"
                f" declare inputs={{{name!r}: declare.Input(differentiable=False)}}"
            )


class Other(Term):
    """Another output: it is read here, and what is written to it is another's."""

    __slots__ = ()

    def __setitem__(self, spelling: object, value: object) -> None:
        pass

    def __iadd__(self, value: object) -> Other:
        return self

    __isub__ = __iadd__


class Later(Other):
    """An output that does not exist yet: only its formula can be read."""

    __slots__ = ("_formula",)

    def __init__(self, formula: Callable[[], Tree]) -> None:
        self._formula = formula

    @property
    def tree(self) -> Tree:  # type: ignore[override]
        return self._formula()


class Inlined:
    """The slots of an operation that stands in the formula of another."""

    def __init__(self, operands: tuple[Term, ...]) -> None:
        self.operands = operands
        self.out: list[SlotAssign] = []
        self.written: Term | None = None

    def result(self) -> Any:
        return self

    def write(self, accum: object, clear: bool, value: object) -> None:
        if self.written is not None or accum is not None:
            raise CodeError("only an operation of one plain assignment can stand in the formula of another")
        self.written = Term(tree_of(value))

    def local(self, name: str, slot: int) -> Slot:
        raise CodeError(f"an operation with a node of its own, `{name}`, cannot stand in the formula of another")

    def __setitem__(self, spelling: object, value: object) -> None:
        self.write(None if spelling in ("=:", Ellipsis) else spelling, True, value)


# --- gradients that are absent ---------------------------------------------------------------------------------------

ABSENT = Number(0.0)
"""The gradient of another output, known by being this very object: a zero would make NaN of what is not finite."""


def _present(assigns: list[SlotAssign]) -> list[SlotAssign]:
    """The assignments without what absent gradients contribute, be it through nodes of the rule; those of which
    something is left."""
    out: list[SlotAssign] = []
    absent: set[TNode] = set()
    for a in assigns:
        (tree,) = a.trees
        node, left = a.target.node, _pruned(tree, absent)
        if left is not ABSENT:
            out.append(SlotAssign(a.target, a.accum, a.clear or node in absent, (left,)))
            absent.discard(node)
        elif a.clear and node.role is Role.RESULT:
            absent.add(node)
    return out


def _pruned(tree: Tree, absent: set[TNode]) -> Tree:
    if isinstance(tree, Hole) and tree.node in absent:
        return ABSENT
    if not isinstance(tree, Apply):
        return tree
    args = tuple(_pruned(a, absent) for a in tree.args)  # type: ignore[arg-type]
    gone = [a is ABSENT for a in args]
    match tree.op.name, args:
        case ("add" | "sub", (left, _)) if gone[1]:
            return left
        case ("add", (_, right)) if gone[0]:
            return right
        case ("mul" | "neg" | "div" | "id" | "relu_gate" | "sat01_gate", _) if any(gone):
            return ABSENT
        case ("where", (_, yes, no)) if yes is ABSENT and (no is ABSENT or no == Number(0)):
            return ABSENT
        case ("where", (_, yes, no)) if no is ABSENT and yes == Number(0):
            return ABSENT
    return Apply(tree.op, args)  # type: ignore[arg-type]
