"""All or nothing: an attempt to learn something, and the attempt to learn everything that connected tensors lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import TypeVar
from weakref import ref

from ocannl.base.collector import resting
from ocannl.infer.close import Open
from ocannl.infer.endless import endless
from ocannl.infer.explain import explain
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.relation import Relation
from ocannl.infer.solve import decide
from ocannl.infer.terms import EMPTY, Cause, Owner, Row, find, resolve
from ocannl.infer.trail import Trail

MAX_CELLS = 1 << 62

T = TypeVar("T")


def attempt(cause: Cause | None, act: Callable[[Trail], T]) -> T:
    """Do something that may find a contradiction; then nothing has changed, and the user is told in their own words."""
    trail = Trail(cause)
    try:
        return act(trail)
    except Mismatch as mismatch:
        error = explain(endless(cause) or mismatch, cause, trail)
    except BaseException:
        trail.undo()
        raise
    raise error from None


def finish_all(start: Iterable[Owner]) -> None:
    """Decide everything that is open about some shapes and those connected to them."""
    start = [shape for shape in start if not shape.is_solved]
    if not start:
        return
    shapes, relations = connected(start)
    rows: list[Row] = []
    for relation in relations:
        if relation.logic.equal:  # else nothing has a name but rows of the result
            rows.extend(relation.row_vars.values())
            rows.append(Row((), None, (*relation.labels.values(), *(capture.cell for capture in relation.captures))))

    def act(trail: Trail) -> None:
        decide(trail, Open(shapes, rows))
        for shape in shapes:
            check_cells(shape)

    with resting():
        attempt(None, act)
    for shape in shapes:
        shape.uses = (*shape.uses, *[ref(relation) for relation in shape.relations])
        shape.relations.clear()
        batch, input, output = map(compact, shape.rows)
        shape.rows = batch, input, output
    for relation in relations:
        relation.labels = {name: find(cell) for name, cell in relation.labels.items()}
        relation.row_vars = {name: compact(row) for name, row in relation.row_vars.items()}


def connected(start: Iterable[Owner]) -> tuple[list[Owner], list[Relation]]:
    """Shapes and operations that are reached without passing through a shape that is solved."""
    shapes: dict[Owner, None] = {}
    relations: dict[Relation, None] = {}
    todo = list(start)
    while todo:
        shape = todo.pop()
        if shape in shapes or shape.is_solved:
            continue
        shapes[shape] = None
        for relation in shape.relations:
            if isinstance(relation, Relation) and relation not in relations:
                relations[relation] = None
                todo.extend(relation.owners)
                for capture in relation.captures:
                    todo.extend(capture.owners())
    return list(shapes), list(relations)


def compact(row: Row) -> Row:
    """A solved row without the variables and cells that led to it."""
    found = resolve(row)
    if not found.lead and not found.trail:
        return EMPTY
    if row.var is not None and row.var.value is found and not any(axis.link for axis in found.axes):
        return found  # shared with the other rows that are this variable
    settled = Row(tuple(map(find, found.lead)), None, tuple(map(find, found.trail)))
    if row.var is not None and not row.lead and not row.trail:
        row.var.value = settled
    return settled


def check_cells(shape: Owner) -> None:
    """Refuse what no memory holds."""
    axes = tuple(find(axis) for row in shape.rows for axis in resolve(row).axes)
    sizes = [axis.size or 0 for axis in axes]
    if 0 not in sizes and prod(sizes) > MAX_CELLS:
        words = "*".join(map(str, sizes))
        raise Mismatch(
            f"`{shape.provenance.label}` would have {words} cells, which no memory holds",
            dims=axes, owners=(shape,), fix="make an axis smaller",
        )  # fmt: skip
