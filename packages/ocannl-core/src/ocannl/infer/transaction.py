"""Transactions over shapes, and finishing the inference of connected tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import TypeVar
from weakref import ref

from ocannl.base.gc_pause import gc_paused
from ocannl.base.traceback_filtering import user_line
from ocannl.infer.defaults import Undecided
from ocannl.infer.explain import explain
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.occurs_check import divergence
from ocannl.infer.operation_node import Relation
from ocannl.infer.solve import decide
from ocannl.infer.terms import EMPTY, Cause, Owner, Row, Trail, find, is_solved, resolve

MAX_CELLS = 1 << 62
MAX_AXES = 64  # of NumPy's arrays

T = TypeVar("T")


def transaction(cause: Cause | None, action: Callable[[Trail], T]) -> T:
    """Runs an action; a contradiction is rolled back and raised as a ShapeError."""
    trail = Trail(cause)
    try:
        return action(trail)
    except Mismatch as mismatch:
        error = explain(divergence(cause) or mismatch, cause, trail)
    except BaseException:
        trail.undo()
        raise
    raise error from None


def finish_all(start: Iterable[Owner]) -> None:
    """Decides all unknowns of the shapes, their ancestors, and the tensors connected to these."""
    ancestors = unfinished(start)
    if not ancestors:
        return
    undecided = [shape for shape in ancestors if not shape.is_solved]
    if undecided:
        decide_connected(undecided)
    for shape in ancestors:
        if not shape.is_finished:
            if isinstance(shape.origin, Relation):
                decide_names(shape.origin)
            mark_finished(shape)


def decide_names(relation: Relation) -> None:
    """Decides the names of an operation on solved tensors."""
    rows = named_rows(relation)
    if not all(map(is_solved, rows)):
        transaction(relation, lambda trail: decide(trail, Undecided((), rows)))


def unfinished(start: Iterable[Owner]) -> list[Owner]:
    """Unfinished shapes among `start` and their direct and indirect operands, operands first."""
    shapes: dict[Owner, None] = {}
    todo = list(start)
    while todo:
        shape = todo.pop()
        if not shape.is_finished and shape not in shapes:
            shapes[shape] = None
            if isinstance(shape.origin, Relation):
                todo.extend(reversed(shape.origin.operands))
    return list(shapes)[::-1]


def mark_finished(shape: Owner) -> None:
    """Marks a solved shape as finished, and releases its variables and union-find links."""
    shape.is_finished = True
    batch, input, output = map(compact, shape.rows)
    shape.rows = batch, input, output


def decide_connected(start: Iterable[Owner]) -> None:
    """Decides all unknowns of the shapes and of the tensors connected to them by unknowns."""
    shapes, relations = connected(start)
    rows = [row for relation in relations for row in named_rows(relation)]
    leaves = [shape for shape in shapes if shape.origin is None]

    def action(trail: Trail) -> None:
        decide(trail, Undecided(shapes, rows))
        for shape in shapes:
            check_cells(shape)

    gc_paused(transaction)(None, action)
    where = user_line() if leaves else ""
    for shape in leaves:
        shape.decided_at = where
    for shape in shapes:
        shape.uses = (*shape.uses, *[ref(relation) for relation in shape.relations])
        shape.relations.clear()
        mark_finished(shape)
    for relation in relations:
        relation.labels = {name: find(cell) for name, cell in relation.labels.items()}
        relation.row_vars = {name: compact(row) for name, row in relation.row_vars.items()}


def named_rows(relation: Relation) -> list[Row]:
    """Rows and axes bound to the names of an operation, as rows to decide."""
    if not relation.logic.equal:  # only rows of the result have names
        return []
    cells = (*relation.labels.values(), *(capture.cell for capture in relation.captures))
    return [*relation.row_vars.values(), Row((), None, cells)]


def connected(start: Iterable[Owner]) -> tuple[list[Owner], list[Relation]]:
    """Shapes and operations reachable from `start` without passing through solved shapes, in breadth-first order."""
    shapes = [shape for shape in dict.fromkeys(start) if not shape.is_solved]
    seen = set(shapes)
    relations: dict[Relation, None] = {}
    for shape in shapes:
        for relation in shape.relations:
            if isinstance(relation, Relation) and relation not in relations:
                relations[relation] = None
                captured = (owner for capture in relation.captures for owner in capture.owners())
                for owner in (*relation.owners, *captured):
                    if owner not in seen and not owner.is_solved:
                        seen.add(owner)
                        shapes.append(owner)
    return shapes, list(relations)


def compact(row: Row) -> Row:
    """Copies a solved row without row variables and union-find links."""
    resolved = resolve(row)
    if not resolved.lead and not resolved.trail:
        return EMPTY
    if row.var is not None and row.var.value is resolved and not any(axis.link for axis in resolved.axes):
        return resolved  # shared by all rows of this variable
    settled = Row(tuple(map(find, resolved.lead)), None, tuple(map(find, resolved.trail)))
    if row.var is not None and not row.lead and not row.trail:
        row.var.value = settled
    return settled


def check_cells(shape: Owner) -> None:
    """Rejects tensors larger than any memory, or with more axes than arrays of the host can have."""
    axes = tuple(find(axis) for row in shape.rows for axis in resolve(row).axes)
    if len(axes) > MAX_AXES:
        raise Mismatch(
            f"`{shape.provenance.label}` would have {len(axes)} axes, and an array has at most {MAX_AXES}",
            owners=(shape,), fix="merge axes, as `(ab)` in a spec does",
        )  # fmt: skip
    sizes = [axis.size or 0 for axis in axes]
    if 0 not in sizes and prod(sizes) > MAX_CELLS:
        product = "*".join(map(str, sizes))
        raise Mismatch(
            f"`{shape.provenance.label}` would have {product} cells, more than any memory can hold",
            dims=axes, owners=(shape,), fix="make an axis smaller",
        )  # fmt: skip
