"""An operation with the tensors it is applied to: shape, walk and code of the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ocannl.infer.project import project
from ocannl.infer.shape import Shape, finish, relate
from ocannl.ir.assign import Assign, Index
from ocannl.ir.index import Affine
from ocannl.ir.loops import row_major
from ocannl.ir.precision import Precision
from ocannl.ir.projections import Projections
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.operation import Operation, Rule
from ocannl.lang.core.slots import NoSlot, Picked, Slot, SlotAssign, elaborate
from ocannl.lang.core.terms import Hole, Term, convert

if TYPE_CHECKING:
    from ocannl.lang.core.tensor import Tensor


class Application:
    """`captures` are what waits for sizes of axes."""

    __slots__ = ("captures", "operands", "operation")

    def __init__(self, operation: Operation, operands: tuple[Tensor, ...], captures: Mapping[str, Any]) -> None:
        self.operation = operation
        self.operands = operands
        self.captures = captures

    def state(self, result: Tensor) -> Shape:
        """States the shape constraints of the result."""
        shapes = [t.emit() for t in self.operands]
        logic, sizes = self.operation.logic, self.operation.sizes
        return relate(logic, shapes, None, result.provenance, sizes=sizes, captures=self.captures)

    def projections(self, result: Tensor) -> Projections:
        """How the operation walks its operands. Finishes inference of everything connected."""
        finish(result.handle)
        handles = [t.handle for t in self.operands]
        return project(self.operation.logic, handles, result.handle, sizes=self.operation.sizes)

    def code(self, result: Tensor, rule: Rule) -> Iterable[Assign]:
        """The assignments that one of the rules of the operation writes."""
        slots = _Slots(result, self.operands)
        rule(slots)
        picked: tuple[Picked, ...] = ()
        if self.operation.picks:
            table, places = self.operands
            picked = (Picked(1, len(table.shape.batch), operand_term(places, 2).tree),)
        return elaborate(slots.out, result.projections, self.operation.outside, result.origin, picked)


class _Slots:
    """The tensors of an application."""

    __slots__ = ("of", "operands", "out", "tensor", "value")

    def __init__(self, tensor: Tensor, of: tuple[Tensor, ...]) -> None:
        self.tensor, self.of = tensor, of
        self.out: list[SlotAssign] = []
        self.value = Term(Hole(tensor.node, 0))
        self.operands = tuple(operand_term(t, n) for n, t in enumerate(of, 1))

    def result(self) -> Slot:
        return Slot(Hole(self.tensor.node, 0), self.out)

    def gradient(self) -> Term:
        assert self.tensor.grad is not None
        return Slot(Hole(self.tensor.grad.node, 0), self.out)

    def operand_gradient(self, number: int) -> Slot | NoSlot:
        operand = self.of[number - 1]
        if not operand.has_gradient:
            return NoSlot()
        assert operand.grad is not None
        return Slot(Hole(operand.grad.node, number), self.out)

    def local(self, name: str, slot: int, kind: Precision | None = None) -> Slot:
        tensor, like = self.tensor, (self.tensor, *self.of)[slot]
        about = Role.RESULT, lambda: like.dims, lambda: kind or like.dtype
        return Slot(Hole(TNode(f"{tensor.label}.{name}", *about, where=tensor.node.where), slot), self.out)

    def offset(self, slot: int) -> Term:
        (piece,) = self.tensor.projections.pieces
        at, dims = piece.at(slot), self.tensor.projections.dims(slot)
        assert at is not None
        return Term(Index(sum((i * step for i, step in zip(at, row_major(dims), strict=True)), Affine())))

    def stored(self, formula: Term) -> Term:
        return convert(formula, self.tensor.dtype)


def operand_term(t: Tensor, number: int) -> Term:
    """Operand `number` of an operation as a term: a number stands for itself."""
    return Term(t.literal() if t.literal is not None else Hole(t.node, number, t.is_merged))


def describe(t: Tensor, depth: int = 2) -> str:
    """The expression as the user might have written it, operands by name."""
    if t.application is None:
        return t.label
    operation = t.application.operation
    operands = [t.label if t.application is None or t.named or depth <= 1 else describe(t, depth - 1)
                for t in t.application.operands]  # fmt: skip
    if not operation.text:
        return f"{operation.name}({', '.join(operands)})"
    if not operation.text[0].isalpha():  # an operator or a method: its operands are set apart
        operands = [f"({text})" if " " in text and not text.endswith(")") else text for text in operands]
    return operation.text.format(*operands)
