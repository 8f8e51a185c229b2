"""The slots of one call of a declared operation, by the names that parameters of its rules may have.

    v t g            value (twice) and gradient of the (first) result
    w g_w            value and gradient of an output called `w`
    v1 t1 g1         value (twice) and gradient of the first operand, and so on
    vs ts gs         values (twice) and gradients of all operands, if their number varies
    v_x t_x g_x      value (twice) and gradient of the input `x`: a tuple for a list of tensors

Operands are numbered as the inputs are declared. An optional input that the call omits keeps its number; its value is
None, and its gradient discards what is added.
"""

from __future__ import annotations

from collections.abc import Iterator

from ocannl.lang.declare.conditions import Arguments
from ocannl.lang.declare.declaration import Declaration

SlotRef = tuple[str, int | tuple[int, ...]]
"""The kind of a slot, and the number of its operand or output, or the numbers of several operands."""

ABSENT_VALUE: SlotRef = ("absent", 0)
ABSENT_GRADIENT: SlotRef = ("absent gradient", 0)


def slots_by_name(declared: Declaration, arguments: Arguments) -> tuple[dict[str, SlotRef], list[str]]:
    """All slots of a call, by name, and the names to list in messages."""
    slots: dict[str, SlotRef] = {"v": ("output", 0), "t": ("output", 0), "g": ("output gradient", 0)}
    for number, name in enumerate(declared.outputs):
        if name != "v":
            slots |= {name: ("output", number), f"g_{name}": ("output gradient", number)}
    position = operands = 0
    named: dict[str, SlotRef] = {}
    listed: list[str] = []
    for name in declared.inputs:
        present = declared.operands_of(name, arguments)
        numbers = tuple(range(operands + 1, operands + 1 + len(present)))
        operands += len(present)
        if arguments[name] is None:
            position += 1
            slots |= _values(str(position), ABSENT_VALUE, ABSENT_GRADIENT)
            named |= _values(f"_{name}", ABSENT_VALUE, ABSENT_GRADIENT)
        for number in numbers:
            position += 1
            slots |= _values(str(position), ("operand", number), ("operand gradient", number))
        if declared.is_list(name):
            named |= _values(f"_{name}", ("operand", numbers), ("operand gradient", numbers))
        elif numbers:
            named |= _values(f"_{name}", ("operand", numbers[0]), ("operand gradient", numbers[0]))
        if name in declared.optional or (declared.is_list(name) and name != declared.variadic):
            listed += [f"v_{name}", f"g_{name}"]
    if any(declared.is_list(name) for name in declared.inputs) or declared.optional:
        numbers = tuple(range(1, operands + 1))
        slots |= _values("s", ("operand", numbers), ("operand gradient", numbers))
    return {**named, **slots}, [*slots, *listed]


def _values(suffix: str, value: SlotRef, gradient: SlotRef) -> dict[str, SlotRef]:
    return {f"v{suffix}": value, f"t{suffix}": value, f"g{suffix}": gradient}


def gradient_numbers(references: Iterator[SlotRef]) -> set[int]:
    """The operands whose gradients the slots are."""
    numbers: set[int] = set()
    for kind, number in references:
        if kind == "operand gradient":
            numbers |= set(number) if isinstance(number, tuple) else {number}
    return numbers
