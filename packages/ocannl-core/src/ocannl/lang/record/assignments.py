"""Assignments, as they are written into a recorder: the root of the right side is taken apart where it may be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol, cast

from ocannl.base.errors import CodeError
from ocannl.infer.logic import Logic, pointwise
from ocannl.ir.ops import BY_NAME, Op
from ocannl.ir.precision import int32
from ocannl.ir.projections import Projections
from ocannl.ir.tnode import Role
from ocannl.lang.core.application import Application, describe
from ocannl.lang.core.context_vars import site
from ocannl.lang.core.dtypes import Typing, is_constant
from ocannl.lang.core.leaves import embed
from ocannl.lang.core.operation import Operation, contraction
from ocannl.lang.core.tensor import COMPARISONS, Tensor
from ocannl.lang.core.terms import Term, apply
from ocannl.lang.declare.axes import logic_of
from ocannl.lang.ops.casts import refuse_loss, type_stored
from ocannl.lang.record.code import recorder
from ocannl.lang.record.statement import Statement, sliced


class Writing(Protocol):
    """A recorder, as assignments see it."""

    consumed: set[Tensor]

    def holds(self, expression: Tensor) -> bool: ...

    def record(self, statement: Statement) -> None: ...


def _root(active: Writing, value: object) -> tuple[Tensor, Application | None]:
    """The right side, and its operation when it may be taken apart: written here, and one formula."""
    t = embed(value)
    app = t.application
    if app is None or app.operation.combine is None or app.operation.name == "slice" or not active.holds(t):
        return t, None
    return t, app


def write_naturally(active: Writing, lhs: Tensor, value: object) -> None:
    t, app = _root(active, value)
    refuse_loss(lhs, None, type_stored(t), f"`{t.label}`")
    _rely(lhs, t)
    if t.literal is None:
        _take_type(lhs, t.typing)
    if app is None:
        _add(active, lhs, None, True, _same, (t,), pointwise(1), {})
        return
    op = app.operation
    active.consumed.add(t)
    _add(active, lhs, op.reduce, True, _combine(op), app.operands, op.logic, dict(op.sizes))


def write(active: Writing, lhs: Tensor, accum: Op | None, clear: bool, value: object, shape: object) -> None:
    t, app = _root(active, value)
    refuse_loss(lhs, accum, type_stored(t), f"`{t.label}`")
    _rely(lhs, t)
    if t.literal is None:
        _take_type(lhs, t.typing)
    if shape is not None:
        _refuse_composed(shape, app)
        _refuse_second_logic(shape, t, app)
        if app is not None and _fits(shape, len(app.operands)):
            active.consumed.add(t)
            logic = logic_of(shape, len(app.operands))
            _add(active, lhs, accum, clear, _combine(app.operation), app.operands, logic, {})
        else:
            _add(active, lhs, accum, clear, _same, (t,), logic_of(shape, 1), {})
        return
    if app is not None and app.operation.reduce in (None, accum) and (app.operation.reduce or _is_pointwise(app)):
        op = app.operation
        active.consumed.add(t)
        _add(active, lhs, accum, clear, _combine(op), app.operands, op.logic, dict(op.sizes))
    else:
        _add(active, lhs, accum, clear, _same, (t,), pointwise(1), {})


def _refuse_composed(shape: object, app: Application | None) -> None:
    """What does not distribute over a sum is no tensor multiplication."""
    if shape in ("@", "compose") and app is not None and app.operation.name in ("div", "pow"):
        raise CodeError(f'`{app.operation.name}` has no meaning with "@"; multiply, add, or write the loops as a spec')


def _refuse_second_logic(shape: object, value: Tensor, app: Application | None) -> None:
    """Of two different specs, one would be ignored."""
    if app is not None and not _is_pointwise(app) and app.operation.logic != logic_of(shape, len(app.operands)):
        written = app.operation.logic.spec.text or app.operation.logic.name
        raise CodeError(
            f"`{describe(value)}` has loops of its own ({written}), and {shape!r} gives others: leave one of them out, "
            f"or compute the value into a tensor first"
        )


def _is_pointwise(app: Application) -> bool:
    return app.operation.logic == pointwise(len(app.operands))


def _fits(shape: object, operands: int) -> bool:
    """Whether explicit loops are meant for the operands of the root, rather than for the root as one node."""
    return not isinstance(shape, str) or "=>" not in shape or shape.split("=>")[0].count(";") + 1 == operands


def _rely(lhs: Tensor, *operands: Tensor) -> None:
    """Code reads nodes as they are."""
    for t in operands:
        if not is_constant(t):
            t.typing.settle(lambda: f"the code that writes `{lhs.label}`")


def _take_type(lhs: Tensor, stored: Typing) -> None:
    """What is stored in an open node of code demands its own type."""
    if lhs.node.role in (Role.STATE, Role.PLACEHOLDER) and lhs.typing.is_open and stored.is_float:
        lhs.typing.demand(stored)


def _same(x: Term) -> Term:
    return x


def _combine(operation: Operation) -> Callable[..., Term]:
    assert operation.combine is not None
    return operation.combine


def _add(
    active: Writing,
    lhs: Tensor,
    accum: Op | None,
    clear: bool,
    combine: Callable[..., Term],
    operands: tuple[Tensor, ...],
    logic: Logic,
    sizes: dict[str, int],
    projections: Projections | None = None,
) -> None:
    if lhs.literal is not None:
        raise CodeError(f"`{lhs.label}` is a number and cannot be assigned")
    if lhs.is_merged:
        raise CodeError(f"`{lhs.label}` is written by oc.transfer, and only read in code")
    if sliced(lhs)[0].node.role is Role.DATA:
        raise CodeError(f"`{lhs.label}` is constant data and cannot be assigned; use a placeholder or oc.node")
    active.record(Statement(lhs, accum, clear, combine, operands, logic, sizes, site().where, projections))


def assign(
    lhs: Tensor,
    op: str,
    *rhs: object,
    accum: str | None = None,
    clear: bool = False,
    logic: object = None,
    projections: Projections | None = None,
) -> None:
    """The plain spelling of every assignment: `lhs <- lhs accum op(rhs...)`.

    `accum` names a primitive (None stores), `clear` first sets `lhs` to its neutral element, `logic` is "." pointwise
    (as it is when nothing is said), "@" compose, "T" transpose, or an einsum spec. In its stead, `projections` of a
    tensor, `t.projections`, walk the sizes as the operation of `t` walks its own.
    """
    active = cast("Writing | None", recorder.get())
    if active is None:
        raise CodeError("oc.assign records an assignment: use it inside a function decorated with @oc.cd")
    if not isinstance(lhs, Tensor):
        raise CodeError(f"oc.assign writes to a tensor or a node, not to {lhs!r}")
    root = BY_NAME.get(op.rstrip("_")) if isinstance(op, str) else None
    if root is None or root.arity != len(rhs):
        known = ", ".join(o for o, row in BY_NAME.items() if row.arity == len(rhs))
        raise CodeError(f"{op!r} is no primitive of {len(rhs)} operands; there are {known}")
    into = None if accum is None else BY_NAME.get(accum)
    if accum is not None and (into is None or into.neutral is None):
        known = ", ".join(o for o, row in BY_NAME.items() if row.neutral is not None)
        raise CodeError(f"accum={accum!r} does not accumulate; there are {known}")
    if projections is not None and (logic is not None or not isinstance(projections, Projections)):
        raise CodeError(f"`projections=` takes t.projections, and no `logic=` beside it; not {projections!r}"[:200])
    operands = tuple(embed(x) for x in rhs)
    axes = logic_of("." if logic is None else logic, len(rhs))
    _rely(lhs, *operands)
    kinds = [type_stored(t) for t in operands]
    kind = contraction(op, axes, _same, None, domain=root.domain).precision(kinds, [False] * len(kinds))
    refuse_loss(lhs, into, int32 if op in COMPARISONS else kind, f"`{op}`")
    _take_type(lhs, Typing(kind))
    combine = _same if root.name == "id" else functools.partial(apply, root.name)
    _add(active, lhs, into, clear or into is None, combine, operands, axes, {}, projections)
