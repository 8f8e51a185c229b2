"""Assignments recorded as statements; the root operation of the right side merges into the assignment if possible."""

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
from ocannl.lang.core.applied_operation import Application, describe
from ocannl.lang.core.assignment_operators import slice_base
from ocannl.lang.core.context_vars import site
from ocannl.lang.core.dtype_inference import DtypeInference, is_constant
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import Operation, ResultType, contraction
from ocannl.lang.core.symbolic_terms import Term, apply
from ocannl.lang.core.tensor import COMPARISONS, Tensor, with_cells_in_windows
from ocannl.lang.declare.axes import logic_of
from ocannl.lang.ops.casts import refuse_loss, type_stored
from ocannl.lang.record.code import recorder
from ocannl.lang.record.statement import Statement


class StatementRecorder(Protocol):
    """The part of a recorder that assignments use."""

    consumed: set[Tensor]

    def is_current(self, expression: Tensor) -> bool: ...

    def record(self, statement: Statement) -> None: ...


def _root(active: StatementRecorder, value: object) -> tuple[Tensor, Application[Tensor] | None]:
    """The right side as a tensor, and its application if that can merge: a single formula with unmodified operands."""
    t = embed(value)
    app = t.application
    if app is None or app.operation.combine is None or app.operation.name == "slice" or not active.is_current(t):
        return t, None
    return t, app


def store_value(active: StatementRecorder, lhs: Tensor, value: object) -> None:
    """Records `lhs[...] = value`, reduced as the root operation of the value reduces."""
    t, app = _root(active, value)
    refuse_loss(lhs, None, type_stored(t), f"`{t.label}`")
    _settle_types(lhs, t)
    if t.literal is None:
        _adopt_type(lhs, t.typing)
    if app is None:
        _record_statement(active, lhs, None, True, _identity, (t,), pointwise(1), {})
        return
    op = app.operation
    active.consumed.add(t)
    _record_statement(active, lhs, op.reduce, True, _combine(op), app.operands, op.logic, dict(op.sizes))


def write_assignment(
    active: StatementRecorder, lhs: Tensor, accum: Op | None, clear: bool, value: object, logic: object
) -> None:
    """Records `lhs <- lhs accum value`, by an explicit logic unless `logic` is None."""
    t, app = _root(active, value)
    refuse_loss(lhs, accum, type_stored(t), f"`{t.label}`")
    _settle_types(lhs, t)
    if t.literal is None:
        _adopt_type(lhs, t.typing)
    if logic is not None:
        _refuse_composed(logic, app)
        if active.is_current(t):
            _refuse_second_logic(logic, accum, t)
        if app is not None and _matches_arity(logic, len(app.operands)):
            active.consumed.add(t)
            op, axes = app.operation, logic_of(logic, len(app.operands))
            _record_statement(active, lhs, accum, clear, _combine(op), app.operands, axes, dict(op.sizes))
        else:
            _record_statement(active, lhs, accum, clear, _identity, (t,), logic_of(logic, 1), {})
        return
    if app is not None and app.operation.reduce in (None, accum) and (app.operation.reduce or _is_pointwise(app)):
        op = app.operation
        active.consumed.add(t)
        _record_statement(active, lhs, accum, clear, _combine(op), app.operands, op.logic, dict(op.sizes))
    else:
        _record_statement(active, lhs, accum, clear, _identity, (t,), pointwise(1), {})


def _refuse_composed(logic: object, app: Application[Tensor] | None) -> None:
    """Raises CodeError for a composition (`@`) by an operation that does not distribute over sums."""
    if logic in ("@", "compose") and app is not None and app.operation.name in ("div", "pow"):
        raise CodeError(f'`{app.operation.name}` has no meaning with "@"; multiply, add, or write the loops as a spec')


def _refuse_second_logic(logic: object, accum: Op | None, value: Tensor) -> None:
    """Raises CodeError if the root operation has its own loops or reduction, which differ; a slice has none."""
    app = value.application
    if app is None or app.operation.logic.name == "slice" or _is_pointwise(app):
        return
    op, loops = app.operation, app.operation.logic
    text = str(loops.spec.text or loops.spec)
    remedy = "omit one of them, or compute the value into a tensor first"
    is_mergeable = op.combine is not None and _matches_arity(logic, len(app.operands))
    if not is_mergeable or logic_of(logic, len(app.operands)) != loops:
        raise CodeError(f"`{describe(value)}` has its own loops ({text}), and {logic!r} specifies others: {remedy}")
    if op.reduce not in (None, accum):
        stated = "stores without accumulating" if accum is None else f"accumulates by {accum.name}"
        raise CodeError(f"`{describe(value)}` reduces by {op.reduce.name}, and the assignment {stated}: {remedy}")


def _is_pointwise(app: Application[Tensor]) -> bool:
    return app.operation.logic == pointwise(len(app.operands))


def _matches_arity(logic: object, operands: int) -> bool:
    """Whether an explicit logic applies to the operands of the root, not to the root as one operand."""
    return not isinstance(logic, str) or "=>" not in logic or logic.split("=>")[0].count(";") + 1 == operands


def _settle_types(lhs: Tensor, *operands: Tensor) -> None:
    """Settles the types of nodes that code reads, constants excepted."""
    for t in operands:
        if not is_constant(t):
            t.typing.settle(lambda: f"the code that writes `{lhs.label}`")


def _adopt_type(lhs: Tensor, stored: DtypeInference) -> None:
    """Adds the stored value to the types that determine the open type of a state node or placeholder."""
    if lhs.node.role in (Role.STATE, Role.PLACEHOLDER) and lhs.typing.is_open and stored.is_float:
        lhs.typing.add_consumer(stored)


def _identity(x: Term) -> Term:
    return x


def _combine(operation: Operation) -> Callable[..., Term]:
    assert operation.combine is not None
    return operation.combine


def _record_statement(
    active: StatementRecorder,
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
    if slice_base(lhs)[0].node.role is Role.DATA:
        raise CodeError(f"`{lhs.label}` is constant data and cannot be assigned; use a placeholder or oc.node")
    if projections is None:
        operands = with_cells_in_windows(operands, logic)
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
    """Records an assignment in explicit form: `lhs <- lhs accum op(rhs...)`.

    `accum` names a primitive (None stores), `clear` first sets `lhs` to its neutral element, `logic` is "." pointwise
    (the default), "@" compose, "T" transpose, or an einsum spec. Alternatively `projections=t.projections` iterates as
    the operation of `t` does.
    """
    active = cast("StatementRecorder | None", recorder.get())
    if active is None:
        raise CodeError("oc.assign records an assignment: use it inside a function decorated with @oc.cd")
    if not isinstance(lhs, Tensor):
        raise CodeError(f"oc.assign writes to a tensor or a node, not to {lhs!r}")
    root = BY_NAME.get(op.rstrip("_")) if isinstance(op, str) else None
    if root is None or root.arity != len(rhs):
        primitives = ", ".join(o for o, row in BY_NAME.items() if row.arity == len(rhs))
        raise CodeError(f"{op!r} is not a primitive of {len(rhs)} operands; these are {primitives}")
    into = None if accum is None else BY_NAME.get(accum)
    if accum is not None and (into is None or into.neutral is None):
        primitives = ", ".join(o for o, row in BY_NAME.items() if row.neutral is not None)
        raise CodeError(f"accum={accum!r} does not accumulate; the accumulations are {primitives}")
    if projections is not None and (logic is not None or not isinstance(projections, Projections)):
        raise CodeError(f"`projections=` takes t.projections, and no `logic=` beside it; not {projections!r}"[:200])
    operands = tuple(embed(x) for x in rhs)
    axes = logic_of("." if logic is None else logic, len(rhs))
    _settle_types(lhs, *operands)
    kinds = [type_stored(t) for t in operands]
    operation = contraction(op, axes, _identity, None, result_type=ResultType(domain=root.domain))
    kind = operation.precision(kinds, [False] * len(kinds))
    refuse_loss(lhs, into, int32 if op in COMPARISONS else kind, f"`{op}`")
    _adopt_type(lhs, DtypeInference(kind))
    combine = _identity if root.name == "id" else functools.partial(apply, root.name)
    _record_statement(active, lhs, into, clear or into is None, combine, operands, axes, {}, projections)
