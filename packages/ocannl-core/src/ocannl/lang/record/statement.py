"""Statements: recorded assignments, and their elaboration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.logic import Logic
from ocannl.infer.project import project_inferred
from ocannl.infer.shape import add_relation, finish
from ocannl.infer.tensor_description import Provenance
from ocannl.ir.affine import Affine
from ocannl.ir.assign import Assign, Number, Origin, Piece
from ocannl.ir.ops import Op
from ocannl.ir.projections import Projections
from ocannl.ir.tnode import Role
from ocannl.lang.core.applied_operation import describe, operand_term
from ocannl.lang.core.assignment_operators import slice_base
from ocannl.lang.core.fill import fill
from ocannl.lang.core.product_sums import contract_pairwise
from ocannl.lang.core.slots import SlotAssign, elaborate
from ocannl.lang.core.symbolic_terms import Hole, Term, tree_of
from ocannl.lang.core.tensor import Tensor


class Statement:
    """A recorded assignment `lhs <- lhs accum combine(operands)`, by a logic or explicit projections.

    The left side may be a slice.
    """

    __slots__ = (
        "accum", "clear", "combine", "explicit_projections", "lhs", "logic", "operands", "relation", "sizes", "where",
    )  # fmt: skip

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
        explicit_projections: Projections | None = None,
    ) -> None:
        self.lhs = lhs
        self.accum = accum
        self.clear = clear
        self.combine = combine
        self.operands = operands
        self.logic = logic
        self.sizes = sizes
        self.where = where
        self.explicit_projections = explicit_projections
        provenance = Provenance(lambda: lhs.label, "assigned", self.text, where)
        if explicit_projections is None:
            self.relation = add_relation(logic, [t.emit() for t in operands], lhs.emit(), provenance, sizes=sizes)
        _name_state(lhs, operands)

    def with_operands(self, operands: tuple[Tensor, ...]) -> Statement:
        """The same assignment of other operands."""
        form, place = (self.lhs, self.accum, self.clear, self.combine), (self.logic, self.sizes, self.where)
        return Statement(*form, operands, *place, self.explicit_projections)

    def text(self) -> str:
        """The assignment in source form, such as `c =:+ a, b  (ij; jk => ik)`."""
        right = ", ".join(t.label for t in self.operands)
        logic = self.logic.spec.text if self.logic.name == "einsum" else self.logic.name
        return f"{self.lhs.label} {_spelling(self.accum, self.clear)} {right}  ({logic})"

    def __call__(self) -> Iterable[Assign]:
        finish(self.lhs.handle)
        projections = self._projections()
        terms = [operand_term(t, n) for n, t in enumerate(self.operands, 1)]
        target, tree = self.lhs.node, tree_of(self.combine(*terms))
        outside = None if self.accum is None else self.accum.neutral
        written = [SlotAssign(Hole(target, 0), self.accum, self.clear, (tree,))]
        origin = Origin(self.lhs.label, self.where)
        assigns = elaborate(written, projections, 0.0 if outside is None else outside, origin)
        dims = projections.result_dims
        return [
            b
            for a in contract_pairwise(written, assigns, origin)
            for b in (_through_slices(self.lhs, a, dims) if a.lhs is target else [a])
        ]

    def _projections(self) -> Projections:
        if self.explicit_projections is None:
            return project_inferred(self.relation)
        all_dims = (self.explicit_projections.result_dims, *self.explicit_projections.operand_dims)
        tensors = (self.lhs, *self.operands)
        if len(all_dims) != len(tensors):
            raise CodeError(f"`{self.text()}`: the projections have {len(all_dims) - 1} operands")
        for t, dims in zip(tensors, all_dims, strict=True):
            if t.dims != dims:
                sizes = f"has the sizes {t.dims}, but the projections have {dims}"
                raise ShapeError(f"`{self.text()}`: `{t.label}` {sizes}")
        return self.explicit_projections


def _name_state(lhs: Tensor, operands: tuple[Tensor, ...]) -> None:
    """Names a state node after the first parameter stored into it, so that checkpoints have stable names."""
    if lhs.node.role is not Role.STATE or "." in lhs.label or lhs.state_access is not None:
        return
    stack = list(reversed(operands))
    while stack:
        t = stack.pop()
        owner = t.node.gradient_of or t.node
        if owner.role is Role.PARAMETER:
            lhs.with_label(f"{lhs.label}.{t.path or owner.label}")
            return
        if t.application is not None:
            stack.extend(reversed(t.application.operands))


def _spelling(accum: Op | None, clear: bool) -> str:
    return f"={':' * clear}{'' if accum is None else accum.symbol or accum.name}"


def _through_slices(lhs: Tensor, assign: Assign, dims: tuple[int, ...]) -> list[Assign]:
    """Redirects an assignment to a slice `x[n]` to the node of `x`; clearing affects the cells of the slice only."""
    parent, leading = slice_base(lhs)
    if not leading:
        return [assign]
    out: list[Assign] = []
    if assign.clear and assign.accum is not None:
        if any(read.node is parent.node for piece in assign.pieces for read in piece.reads):
            raise CodeError(f"`{describe(lhs)}` is cleared before `{parent.label}` is read: compute the value first")
        cleared = fill(parent.node, dims, Number(assign.accum.neutral or 0), assign.origin)
        out = [Assign(parent.node, None, False, _with_leading_indices(cleared, leading), assign.origin)]
    return [*out, Assign(parent.node, assign.accum, False, _with_leading_indices(assign, leading), assign.origin)]


def _with_leading_indices(assign: Assign, leading: tuple[Affine, ...]) -> tuple[Piece, ...]:
    return tuple(replace(p, indices=(*leading, *p.indices)) for p in assign.pieces)

