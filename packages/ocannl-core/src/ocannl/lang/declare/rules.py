"""The rules of a declared operation, bound to the slots that their parameters name.

An operation with several outputs becomes one operation for each output, which keeps the assignments to that output.
A gradient rule is linear in the gradients of the outputs, so the operation of an output runs it with all remaining
gradients absent, and the contributions add up. An output may read earlier outputs, which are additional operands behind
the inputs and receive no gradient.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.ir.assign import Call, Number
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.block_scans import SlotScan
from ocannl.lang.core.group_extremes import GroupExtremes
from ocannl.lang.core.host_calls import NodeUpdate, SlotHostCall
from ocannl.lang.core.operation import Slots, current_slots
from ocannl.lang.core.selection_rounds import SelectionRounds
from ocannl.lang.core.slots import NullSlot, Slot, SlotAssign, SlotRecurrence, SlotStatement
from ocannl.lang.core.symbolic_terms import Hole, Term, Tree, tree_of
from ocannl.lang.declare.conditions import Arguments
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.slot_names import SlotRef, gradient_numbers, slots_by_name


@dataclass(frozen=True)
class Rules:
    """The rules `forward` and `gradient` of one call, and the slots that their parameters name."""

    title: str
    outputs: tuple[str, ...]
    operands: int
    forward: Callable[..., None]
    gradient: Callable[..., None] | None
    reads: dict[str, dict[str, SlotRef]]  # by rule and parameter

    def compute(self, s: Slots, output: int) -> None:
        """Assigns one output."""
        start = len(s.out)
        self._run(self.forward, s, output, "forward")
        target = s.result()
        if isinstance(target, Slot) and not any(_writes(a, target.hole) for a in s.out[start:]):
            raise CodeError(f"`forward` of `{self.title}` assigns nothing to `{self.outputs[output]}`")

    def differentiate(self, s: Slots, output: int) -> None:
        """Adds the contribution of one output's gradient to the gradients of the operands."""
        assert self.gradient is not None
        start = len(s.out)
        self._run(self.gradient, s, output, "gradient")
        if len(self.outputs) > 1:
            s.out[start:] = _without_absent_gradients(s.out[start:])

    def _run(self, rule: Callable[..., None], s: Slots, output: int, role: str) -> None:
        token = current_slots.set(s)
        try:
            rule(**{name: self._slot(s, ref, output, role) for name, ref in self.reads[role].items()})
        finally:
            current_slots.reset(token)

    def _slot(self, s: Slots, ref: SlotRef, output: int, role: str) -> object:
        match ref:
            case "absent", _:
                return None
            case "absent gradient", _:
                return NullSlot()
            case "operand", tuple(numbers):
                return tuple(s.operands[n - 1] for n in numbers)
            case "operand", int(number):
                return s.operands[number - 1]
            case "operand gradient", tuple(numbers):
                return list(map(s.operand_gradient, numbers))  # a list: `gs[0] += e` stores the slot again
            case "operand gradient", int(number):
                return s.operand_gradient(number)
            case "output gradient", number:
                return s.gradient() if number == output else Term(ABSENT)
            case _, number if number == output:
                return s.result()
            case _, int(number) if number < output:
                return ReadOnlyOutput(s.operands[self.operands + number].tree)
            case _, int(number):
                return LaterOutput(lambda: self._later(s, output, number, role))
        raise AssertionError(ref)

    def _later(self, s: Slots, output: int, number: int, role: str) -> Tree:
        """The formula of an output that is declared after `output`, which reads it."""
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
        formulas: list[Term] = []
        for output in range(len(self.outputs)):
            slots = InlineSlots((*operands, *formulas))
            self.compute(slots, output)  # type: ignore[arg-type]
            if slots.assigned is None:
                raise CodeError(f"`forward` of `{self.title}` assigns nothing to `{self.outputs[output]}`")
            formulas.append(slots.assigned)
        return formulas


def bind_rules(declared: Declaration, arguments: Arguments, operands: int) -> Rules:
    """Calls the declaring function. Raises: CodeError when its rules do not match the declaration."""
    assert declared.rules is not None
    inputs: list[Any] = []
    for name in declared.inputs:
        inputs += arguments[name] if name == declared.variadic else [arguments[name]]
    parameters = inspect.signature(declared.rules).parameters.values()
    settings = {name: arguments[name] for name in declared.settings}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        settings = {p.name: settings[p.name] for p in parameters if p.name in settings}
    rules = declared.rules(*inputs, **settings)
    if not isinstance(rules, tuple) or len(rules) != 2 or not callable(rules[0]):
        raise CodeError(f"the declaration of `{declared.title}` must return `forward, gradient`, not {rules!r}")
    forward, gradient = rules
    slots, listed = slots_by_name(declared, arguments)
    values = {name: ref for name, ref in slots.items() if not ref[0].endswith("gradient")}
    reads = {"forward": _slots_read(declared.title, "forward", forward, values, listed, operands)}
    if gradient is not None:
        reads["gradient"] = _slots_read(declared.title, "gradient", gradient, slots, listed, operands)
        _require_all_gradients(declared, arguments, reads["gradient"])
    return Rules(declared.title, declared.outputs, operands, forward, gradient, reads)


def _slots_read(
    title: str, role: str, function: Callable[..., None], slots: dict[str, SlotRef], listed: list[str], operands: int
) -> dict[str, SlotRef]:
    names = list(inspect.signature(function).parameters)
    for name in names:
        if name not in slots:
            arity = f"{operands} operand{'s' * (operands != 1)}"
            slot_names = " ".join(slot for slot in listed if slot in slots)
            raise CodeError(f"`{name}` is not a slot of `{role}` in `{title}`; with {arity} the slots are {slot_names}")
    return {name: slots[name] for name in names}


def _require_all_gradients(declared: Declaration, arguments: Arguments, reads: dict[str, SlotRef]) -> None:
    """Checks that the gradient rule takes the gradient slot of every differentiable operand. Raises: CodeError."""
    updated = gradient_numbers(iter(reads.values()))
    for number, (name, _) in enumerate(declared.named_operands(arguments), 1):
        if declared.inputs[name].has_gradient and number not in updated:
            raise CodeError(
                f"the gradient of `{declared.title}` adds nothing to that of `{name}`: take the slot `g{number}`, or"
                f" declare inputs={{{name!r}: declare.Input(differentiable=False)}}"
            )


def _writes(statement: SlotStatement, target: Hole) -> bool:
    match statement:
        case SlotAssign() | SlotScan():
            return statement.target == target
        case SlotRecurrence():
            return statement.recurrence.target is target.node
        case SlotHostCall():
            return target.node in statement.outputs
        case NodeUpdate() | GroupExtremes() | SelectionRounds():
            return statement.target is target.node


class ReadOnlyOutput(Term):
    """An earlier output: it can be read, and assignments to it are ignored."""

    __slots__ = ()

    def __setitem__(self, spelling: object, value: object) -> None:
        pass

    def __iadd__(self, value: object) -> ReadOnlyOutput:
        return self

    __isub__ = __iadd__


class LaterOutput(ReadOnlyOutput):
    """A later output, which has no node yet: reads are replaced by its formula."""

    __slots__ = ("_formula",)

    def __init__(self, formula: Callable[[], Tree]) -> None:
        self._formula = formula

    @property
    def tree(self) -> Tree:  # type: ignore[override]
        return self._formula()


class InlineSlots:
    """The slots of an operation that is inlined into the formula of a rule."""

    def __init__(self, operands: tuple[Term, ...]) -> None:
        self.operands = operands
        self.out: list[SlotStatement] = []
        self.assigned: Term | None = None

    def result(self) -> Any:
        return self

    def write(self, accum: object, clear: bool, value: object) -> None:
        if self.assigned is not None or accum is not None:
            raise CodeError("only an operation of one plain assignment can be inlined into a formula")
        self.assigned = Term(tree_of(value))

    def local(self, name: str, slot: int) -> Slot:
        raise CodeError(f"an operation with a local node, `{name}`, cannot be inlined into a formula")

    def __setitem__(self, spelling: object, value: object) -> None:
        self.write(None if spelling in ("=:", Ellipsis) else spelling, True, value)


# --- absent gradients ------------------------------------------------------------------------------------------------

ABSENT = Number(0.0)
"""The absent gradient of an output, compared by identity: multiplying by a zero would turn infinities into NaN."""


def _without_absent_gradients(assigns: list[SlotStatement]) -> list[SlotStatement]:
    """Removes the contributions of absent gradients, directly or through local nodes, and assignments left empty."""
    out: list[SlotStatement] = []
    absent: set[TNode] = set()
    for a in assigns:
        if not isinstance(a, SlotAssign):
            out.append(a)
            continue
        (tree,) = a.trees
        node, pruned = a.target.node, _prune(tree, absent)
        if pruned is not ABSENT:
            out.append(SlotAssign(a.target, a.accum, a.clear or node in absent, (pruned,)))
            absent.discard(node)
        elif a.clear and node.role is Role.RESULT:
            absent.add(node)
    return out


def _prune(tree: Tree, absent: set[TNode]) -> Tree:
    if isinstance(tree, Hole) and tree.node in absent:
        return ABSENT
    if not isinstance(tree, Call):
        return tree
    args = tuple(_prune(a, absent) for a in tree.args)  # type: ignore[arg-type]
    is_absent = [a is ABSENT for a in args]
    match tree.op.name, args:
        case ("add" | "sub", (left, _)) if is_absent[1]:
            return left
        case ("add", (_, right)) if is_absent[0]:
            return right
        case ("mul" | "neg" | "div" | "id" | "relu_gate" | "sat01_gate", _) if any(is_absent):
            return ABSENT
        case ("where", (_, yes, no)) if yes is ABSENT and (no is ABSENT or no == Number(0)):
            return ABSENT
        case ("where", (_, yes, no)) if no is ABSENT and yes == Number(0):
            return ABSENT
    return Call(tree.op, args)  # type: ignore[arg-type]
