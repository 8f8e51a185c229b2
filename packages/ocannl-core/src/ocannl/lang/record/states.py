"""States of blocks: nodes that are kept between calls, written by the code of their block, and not trained.

    @oc.op
    def centered(x, *, rate=0.1):
        mean = oc.state("mean", 0.0)
        batch_mean = x.mean("...| => ")
        mean[...] = (1 - rate) * mean + rate * batch_mean
        return x - (batch_mean if oc.is_training() else mean)

An assignment is an update: a tensor that runs with the results of the application in which it is written. Reads are
copies, so that code of gradients sees the value that the forward code has read. Within one piece of code, reads and
updates of a state are ordered as they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from ocannl.base.errors import CodeError
from ocannl.infer.logic import pointwise
from ocannl.infer.shape import Shape
from ocannl.ir.assign import Comp
from ocannl.ir.precision import Precision, precision
from ocannl.ir.tnode import Contents, Role, TNode
from ocannl.lang import block_application
from ocannl.lang.core import dtype_inference
from ocannl.lang.core.applied_operation import Application
from ocannl.lang.core.assignment_operators import slice_base
from ocannl.lang.core.context_vars import may_update_states, site
from ocannl.lang.core.leaf import LeafName, Row, RowSizes, leaf_name, rows_of
from ocannl.lang.core.literals import Constant
from ocannl.lang.core.operation import Operation, contraction
from ocannl.lang.core.parameter import check_recalled, initial_contents
from ocannl.lang.core.region_tensor import no_code
from ocannl.lang.core.slots import parse_assignment
from ocannl.lang.core.tensor import StateAccess, Tensor, apply, use_site
from ocannl.lang.record.assignments import store_value, write_assignment
from ocannl.lang.record.code import recorder, state_recorder
from ocannl.lang.record.statement import Statement

TRAINING, ALWAYS = "training", "always"

_access_numbers = count()
_READ = contraction("read", pointwise(1), lambda v: v, None, text="{0}")
_UPDATE = Operation("update", pointwise(1), no_code, None)


class State(Tensor):
    """A node of a block, kept between calls. `when` tells in which code it is updated: "training" or "always"."""

    __slots__ = ("when",)

    when: str

    @property
    def state_access(self) -> StateAccess:
        return StateAccess(self, -1)

    def as_operand(self, operation: Operation | None = None) -> Tensor:
        if recorder.get() is not None or operation is _READ:
            return self
        active = block_application.current_application.get()
        if active is None:
            return _read(self)
        latest: Tensor = active.latest.get(self, self)
        if not isinstance(latest, StateRead):
            latest = active.latest[self] = _read(latest)
        return latest


class StateRead(Tensor):
    """A copy of a state, or of the value that an update gives it."""

    __slots__ = ("state_access",)

    state_access: StateAccess


class StateUpdate(Tensor):
    """An assignment to a state, as a tensor that holds the new value: it has the node of the state."""

    __slots__ = ("state_access", "statement")

    state_access: StateAccess
    statement: Statement

    def value_code(self) -> Iterable[Comp]:
        return self.statement()

    def with_operands(self, operands: tuple[Tensor, ...]) -> StateUpdate:
        """The same assignment of other operands, at the same place in the order of accesses."""
        statement = self.statement.with_operands(operands)
        update = _state_update(self.state_access.state, statement)
        update.state_access = self.state_access
        return update


def _read(source: Tensor) -> Tensor:
    assert source.state_access is not None
    result = apply(_READ, [source], label=f"{source.label}_read", kind=StateRead)
    assert isinstance(result, StateRead)
    result.is_named = False
    result.state_access = StateAccess(source.state_access.state, next(_access_numbers))
    return result


def state(
    label: object = None,
    init: object = None,
    *,
    batch: Row = None,
    input: Row = None,
    output: Row = None,
    b: Row = None,
    i: Row = None,
    o: Row = None,
    shape: str | None = None,
    dtype: object = None,
    when: str = TRAINING,
) -> Tensor:
    """A node of the block that is applied, kept between calls: running statistics, averages, counters, caches.

    All applications of the block share it, and its code writes it, by `s[...] = e`, `s += e`, or for a slice
    `s[n][...] = e`. An assignment runs once with the code of the application's results, in training only; with
    `when="always"` in inference as well. What is read after the assignment is the new value. States are saved with
    parameters; no optimizer changes them.

    A positional text is the label; any other positional argument is the initial value in every context: a number (for
    every cell, 0 by default), a nested literal or an array (values and shape), or an initializer.
    Shapes: omitted rows are inferred from use; an omitted batch row is empty.
    Raises: CodeError outside of a block.
    """
    if label is not None and not isinstance(label, str):
        if init is not None:
            raise CodeError(f"oc.state takes a label and an initial value; the label must be a string, not {label!r}")
        label, init = None, label
    if when not in (TRAINING, ALWAYS):
        raise CodeError(f'`when` of oc.state is "training" or "always", not {when!r}')
    active = block_application.current_application.get()
    name = leaf_name(label, "state", site())
    if active is None:
        raise CodeError(
            f"the state `{name.label}` belongs to a block: call oc.state in a function decorated with @oc.op; state "
            "that only code reads and writes is oc.node"
        )
    state_recorder.set(_RECORDER)
    kind = None if dtype is None else precision(dtype)
    rows = rows_of(batch, input, output, b, i, o, shape)
    contents, rows, kind = initial_contents(0.0 if init is None else init, name, rows, kind)
    rows = rows if rows["batch"] is not None else {**rows, "batch": []}
    recalled: State | None = active.recall(name.label, "state")
    if recalled is not None:
        check_recalled(recalled, rows, None if dtype is None else kind)
        return recalled
    result = _state_leaf(name, kind, rows, contents)
    result.when = when
    active.register_leaf(name.label, result)
    if not isinstance(contents, Constant) and hasattr(contents, "set_stream"):
        contents.set_stream(result.stream, 0)
    return result


def _state_leaf(name: LeafName, kind: Precision | None, rows: RowSizes, contents: Contents) -> State:
    result: State
    typing = dtype_inference.leaf_dtype(kind)
    attributes = Role.STATE, lambda: result.dims, lambda: typing.settle(use_site)
    node = TNode(name.label, *attributes, contents=contents, where=name.where)

    def emit(t: Tensor) -> Shape:
        return Shape.leaf(
            t.provenance, role=Role.STATE.value, batch=rows["batch"], input=rows["input"], output=rows["output"]
        )

    result = State(node, emit, typing.bind(node), is_named=name.is_named)
    return result


# --- updates ----------------------------------------------------------------------------------------------------------


class _StateRecorder:
    """Records assignments to states in the block that is applied."""

    def assign_augmented(self, lhs: Tensor, spelling: str, value: object) -> None:
        accum, clear = parse_assignment(spelling)
        _update(lhs, lambda target: write_assignment(target, lhs, accum, clear, value, None))
        _active().updated = lhs

    def assign_item(self, lhs: Tensor, key: object, value: object) -> None:
        if key is Ellipsis:
            _update(lhs, lambda target: store_value(target, lhs, value))
        elif isinstance(key, str | tuple):
            sign, logic = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
            accum, clear = parse_assignment(sign)
            _update(lhs, lambda target: write_assignment(target, lhs, accum, clear, value, logic))
        elif value is not _active().updated or value is None:  # else this ends `lhs[n] += e`
            raise CodeError(f"`{lhs.label}[n]` is updated in place, by `+=`; to replace it: `{lhs.label}[n][...] = e`")

    def note(self, expression: Tensor) -> None:
        raise AssertionError("expressions in blocks are not recorded")

    def splice(self, code: object) -> None:
        raise AssertionError("code in blocks is not recorded")


_RECORDER = _StateRecorder()


class _StatementList:
    """Receives the statement of an assignment. Its right side is an expression of the graph, computed before."""

    def __init__(self) -> None:
        self.consumed: set[Tensor] = set()
        self.statements: list[Statement] = []

    def is_current(self, expression: Tensor) -> bool:
        return False

    def record(self, statement: Statement) -> None:
        self.statements.append(statement)


def _active() -> block_application.BlockApplication:
    active = block_application.current_application.get()
    assert active is not None
    return active


def _update(lhs: Tensor, write: Callable[[_StatementList], None]) -> None:
    owner = slice_base(lhs)[0]
    assert isinstance(owner, State)
    if owner.when == TRAINING and not block_application.is_training():
        return
    if not may_update_states.get():
        raise CodeError(
            f"the state `{owner.label}` cannot be updated in the body of a loop or of a branch: return the new value, "
            "in a loop as its carry, and update the state outside"
        )
    target, active = _StatementList(), _active()
    write(target)
    (statement,) = target.statements
    update = _state_update(owner, statement)
    update.state_access = StateAccess(owner, next(_access_numbers), is_update=True)
    active.latest[owner] = update
    active.effects.append(update)


def _state_update(owner: Tensor, statement: Statement) -> StateUpdate:
    application: Application[Tensor] = Application(_UPDATE, statement.operands, {})
    update = StateUpdate(owner.node, lambda _: owner.emit(), owner.typing, application=application)
    update.statement = statement
    return update
