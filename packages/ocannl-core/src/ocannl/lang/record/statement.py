"""One assignment of recorded code, and how it becomes assignments of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.logic import Logic
from ocannl.infer.project import project_again
from ocannl.infer.shape import finish, related
from ocannl.infer.terms import Provenance
from ocannl.ir.assign import Assign, Number, Origin, Piece
from ocannl.ir.index import Affine
from ocannl.ir.ops import Op
from ocannl.ir.projections import Projections
from ocannl.ir.tnode import Role
from ocannl.lang.core.application import describe, operand_term
from ocannl.lang.core.fill import fill
from ocannl.lang.core.slots import SlotAssign, elaborate
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.terms import Hole, Term, tree_of


class Statement:
    """One assignment: `lhs <- lhs accum combine(operands)`, by a logic or by projections that are given; the left side
    may be a slice."""

    __slots__ = ("accum", "clear", "combine", "given", "lhs", "logic", "operands", "relation", "where")

    def __init__(
        self,
        lhs: Tensor,
        accum: Op | None,
        clear: bool,
        combine: Callable[..., Term],
        operands: tuple[Tensor, ...],
        logic: Logic,
        sizes: dict[str, int],
        where: str,
        given: Projections | None = None,
    ) -> None:
        self.lhs = lhs
        self.accum = accum
        self.clear = clear
        self.combine = combine
        self.operands = operands
        self.logic = logic
        self.where = where
        self.given = given
        provenance = Provenance(lambda: lhs.label, "assigned", self.text, where)
        if given is None:
            self.relation = related(logic, [t.emit() for t in operands], lhs.emit(), provenance, sizes=sizes)
        _name_state(lhs, operands)

    def text(self) -> str:
        """The assignment as it is recorded: `c =:+ a, b by ij; jk => ik`."""
        right = ", ".join(t.label for t in self.operands)
        logic = self.logic.spec.text if self.logic.name == "einsum" else self.logic.name
        return f"{self.lhs.label} {_spelling(self.accum, self.clear)} {right}  ({logic})"

    def __call__(self) -> Iterable[Assign]:
        finish(self.lhs.handle)
        projections = self._projections()
        terms = [operand_term(t, n) for n, t in enumerate(self.operands, 1)]
        target, tree = self.lhs.node, tree_of(self.combine(*terms))
        outside = None if self.accum is None else self.accum.neutral
        made = elaborate(
            [SlotAssign(Hole(target, 0), self.accum, self.clear, (tree,))],
            projections,
            0.0 if outside is None else outside,
            Origin(self.lhs.label, self.where),
        )
        return [b for a in made for b in _through_slices(self.lhs, a, projections.result_dims)]


    def _projections(self) -> Projections:
        if self.given is None:
            return project_again(self.relation)
        walked = (self.given.result_dims, *self.given.operand_dims)
        tensors = (self.lhs, *self.operands)
        if len(walked) != len(tensors):
            raise CodeError(f"`{self.text()}`: the projections have {len(walked) - 1} operands")
        for t, dims in zip(tensors, walked, strict=True):
            if t.dims != dims:
                raise ShapeError(f"`{self.text()}`: `{t.label}` is {t.dims}, and the projections walk {dims}")
        return self.given


def _name_state(lhs: Tensor, operands: tuple[Tensor, ...]) -> None:
    """A node of code is called after the first parameter that is stored into it, so that state has stable names."""
    if lhs.node.role is not Role.STATE or "." in lhs.label:
        return
    stack = list(reversed(operands))
    while stack:
        t = stack.pop()
        owner = t.node.of or t.node
        if owner.role is Role.PARAMETER:
            lhs.with_label(f"{lhs.label}.{owner.label}")
            return
        if t.application is not None:
            stack.extend(reversed(t.application.operands))


def _spelling(accum: Op | None, clear: bool) -> str:
    return f"={':' * clear}{'' if accum is None else accum.symbol or accum.name}"


def _through_slices(lhs: Tensor, assign: Assign, dims: tuple[int, ...]) -> list[Assign]:
    """An assignment to `x[n]` writes to the cells of `x`; clearing first sets these, and no others."""
    parent, at = sliced(lhs)
    if not at:
        return [assign]
    out: list[Assign] = []
    if assign.clear and assign.accum is not None:
        if any(read.node is parent.node for piece in assign.pieces for read in piece.reads):
            raise CodeError(f"`{describe(lhs)}` is cleared before `{parent.label}` is read: compute the value first")
        cleared = fill(parent.node, dims, Number(assign.accum.neutral or 0), assign.origin)
        out = [Assign(parent.node, None, False, _shifted(cleared, at), assign.origin)]
    return [*out, Assign(parent.node, assign.accum, False, _shifted(assign, at), assign.origin)]


def _shifted(assign: Assign, at: tuple[Affine, ...]) -> tuple[Piece, ...]:
    return tuple(replace(p, at=(*at, *p.at)) for p in assign.pieces)


def sliced(lhs: Tensor) -> tuple[Tensor, tuple[Affine, ...]]:
    """The tensor of which `lhs` is a slice (of a slice), and the leading indices."""
    at: tuple[Affine, ...] = ()
    while lhs.application is not None and lhs.application.operation.name == "slice":
        fixed = lhs.application.operation.logic.spec.operands[0].batch.lead[0].index  # type: ignore[union-attr]
        at = (Affine.of(fixed), *at)
        lhs = lhs.application.operands[0]
    return lhs, at
