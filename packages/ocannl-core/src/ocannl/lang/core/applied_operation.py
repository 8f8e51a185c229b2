"""An operation applied to tensors: shape constraints, projections and code of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar, cast

from ocannl.infer.project import project
from ocannl.infer.shape import Shape, finish, relate
from ocannl.ir.affine import Affine
from ocannl.ir.assign import Assign, Comp, Index
from ocannl.ir.loops import row_major
from ocannl.ir.ops import Op
from ocannl.ir.precision import Precision
from ocannl.ir.projections import Projections
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.block_scans import SlotScan
from ocannl.lang.core.context_vars import note_constant
from ocannl.lang.core.indirect_axes import slot_axes_by_label
from ocannl.lang.core.operation import Operation, Rule
from ocannl.lang.core.product_sums import contract_pairwise
from ocannl.lang.core.recurrences import Recurrence
from ocannl.lang.core.slots import NullSlot, Slot, SlotAssign, SlotRecurrence, SlotStatement, elaborate
from ocannl.lang.core.symbolic_terms import Hole, Term, convert
from ocannl.lang.core.tensor_protocol import TensorLike

T = TypeVar("T", bound=TensorLike)

class Application(Generic[T]):
    """`captures` maps names of the spec to captured sizes (`oc.Dim`)."""

    __slots__ = ("captures", "operands", "operation")

    def __init__(self, operation: Operation, operands: tuple[T, ...], captures: Mapping[str, Any]) -> None:
        self.operation = operation
        self.operands = operands
        self.captures = captures

    @property
    def source(self) -> Application[T]:
        """The application that the user's call made: this one, or that of the region whose result it is."""
        return self

    def emit_constraints(self, result: TensorLike) -> Shape:
        """Emits the shape constraints of the result."""
        shapes = [t.handle for t in self.operands]
        logic, sizes = self.operation.logic, self.operation.sizes
        return relate(logic, shapes, None, result.provenance, sizes=sizes, captures=self.captures)

    def projections(self, result: TensorLike) -> Projections:
        """The loops of the operation and the indices of its tensors. Finishes inference of everything connected."""
        finish(result.handle)
        handles = [t.handle for t in self.operands]
        return project(self.operation.logic, handles, result.handle, sizes=self.operation.sizes)

    def code(self, result: TensorLike, rule: Rule) -> Iterable[Comp]:
        """The assignments and host calls that one rule of the operation writes."""
        if self.operation.is_constant:
            note_constant(result.node)
        slots = _ApplicationSlots(result, self.operands)
        rule(slots)
        if all(isinstance(statement, SlotAssign) for statement in slots.out):
            return self._assigns(result, cast("list[SlotAssign]", slots.out))
        code: list[Comp] = []
        for statement in slots.out:
            if isinstance(statement, SlotAssign):
                code += self._assigns(result, [statement])
            elif isinstance(statement, SlotRecurrence):
                steps = tuple(self._assigns(result, list(statement.steps)))
                code.append(statement.recurrence.elaborate(steps, result.origin))
            else:
                code.append(statement.elaborate(result.origin))
        return code

    def _assigns(self, result: TensorLike, written: list[SlotAssign]) -> Iterable[Assign]:
        projections, slot_axes = result.projections, None
        if any(assign.at for assign in written):
            slot_axes = slot_axes_by_label(self.operation.logic.spec, [result.shape, *(t.shape for t in self.operands)])
        assigns = elaborate(written, projections, self.operation.outside, result.origin, slot_axes)
        return contract_pairwise(written, assigns, result.origin)


class _ApplicationSlots:
    """The tensors of an application, as the slots that rules read and write."""

    __slots__ = ("operand_tensors", "operands", "out", "tensor", "value")

    def __init__(self, tensor: TensorLike, operand_tensors: tuple[TensorLike, ...]) -> None:
        self.tensor, self.operand_tensors = tensor, operand_tensors
        self.out: list[SlotStatement] = []
        self.value = Term(Hole(tensor.node, 0))
        self.operands = tuple(operand_term(t, n) for n, t in enumerate(operand_tensors, 1))

    def result(self) -> Slot:
        return Slot(Hole(self.tensor.node, 0), self.out)

    def gradient(self) -> Term:
        assert self.tensor.grad is not None
        return Slot(Hole(self.tensor.grad.node, 0), self.out)

    def operand_gradient(self, number: int) -> Slot | NullSlot:
        operand = self.operand_tensors[number - 1]
        if not operand.has_gradient:
            return NullSlot()
        assert operand.grad is not None
        return Slot(Hole(operand.grad.node, number), self.out)

    def local(self, name: str, slot: int, kind: Precision | None = None) -> Slot:
        tensor, like = self.tensor, (self.tensor, *self.operand_tensors)[slot]
        attributes = Role.RESULT, lambda: like.dims, lambda: kind or like.dtype
        return Slot(Hole(TNode(f"{tensor.label}.{name}", *attributes, where=tensor.node.where), slot), self.out)

    def scan(self, target: Slot | NullSlot, accum: Op | None, value: Term, op: Op, along: int, reverse: bool) -> None:
        if self.operand_tensors[along - 1].dims[0] < 2:
            target.write(accum, accum is None, value)
        elif isinstance(target, Slot):
            precision = target.hole.node.precision.arithmetic
            scan = SlotScan(target.hole, accum, value.tree, op, along, reverse, precision, self.tensor.projections)
            self.out.append(scan)

    def recurrence(
        self, target: Slot, carried: Term, added: Term, carry: Callable[[Term, Term], Term],
        finish: Callable[[Term], Term], direction: int, along: int, write_steps: Callable[[], None],
    ) -> None:  # fmt: skip
        first = len(self.out)
        write_steps()
        steps = cast("list[SlotAssign]", self.out[first:])
        recurrence = Recurrence(
            target.hole.node, carried.tree, added.tree, carry, finish, direction, along, self.tensor.projections
        )
        self.out[first:] = [SlotRecurrence(tuple(steps), recurrence)]

    def offset(self, slot: int) -> Term:
        (piece,) = self.tensor.projections.pieces
        indices, dims = piece.at(slot), self.tensor.projections.dims(slot)
        assert indices is not None
        return Term(Index(sum((i * step for i, step in zip(indices, row_major(dims), strict=True)), Affine())))

    def stored(self, formula: Term) -> Term:
        return convert(formula, self.tensor.dtype)


def operand_term(t: TensorLike, number: int) -> Term:
    """Operand `number` of an operation as a term; a literal is a constant."""
    return Term(t.literal() if t.literal is not None else Hole(t.node, number, t.is_merged))


def describe(t: TensorLike, depth: int = 2) -> str:
    """The expression in source form, with operands by name."""
    if t.application is None:
        return t.label
    operation = t.application.operation
    operands = [t.label if t.application is None or t.is_named or depth <= 1 else describe(t, depth - 1)
                for t in t.application.operands]  # fmt: skip
    if not operation.text:
        return f"{operation.name}({', '.join(operands)})"
    if not operation.text[0].isalpha():  # operators and methods take compound operands in parentheses
        operands = [f"({text})" if " " in text and not text.endswith(")") else text for text in operands]
    return operation.text.format(*operands)
