"""Defaulting: undecided terms of connected tensors, and the defaults that decide them.

Leaves (parameters, data, placeholders) become as large as their uses; computed tensors become as small as possible. All
defaults of one stage are computed in the same state before any is committed, so that the result does not depend on the
order of constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ocannl.infer.mismatch import Mismatch
from ocannl.infer.operation_node import Relation
from ocannl.infer.spec import KINDS, Kind
from ocannl.infer.terms import DimVar, Evidence, Owner, Row, RowVar, Trail, find, resolve
from ocannl.infer.unify import bind, set_size, set_unit
from ocannl.infer.unsized_names import missing_size


class RowDefault(NamedTuple):
    var: RowVar
    value: Row


class AxisDefault(NamedTuple):
    axis: DimVar
    size: int
    subject: str  # noun phrase for error messages
    decision: str
    unit: str | None = None


Default = RowDefault | AxisDefault


class Undecided:
    """Undecided row variables and axes of connected tensors, in a fixed order.

    `unsized` maps axes and row variables that only an equation can size to their operation and name; `unsized_leaves`
    those of leaves on the left side of an assignment, which their uses may size.
    """

    __slots__ = ("axes", "owners", "row_vars", "rows", "unsized", "unsized_leaves")

    def __init__(self, owners: Iterable[Owner], rows: Iterable[Row] = ()) -> None:
        self.owners = tuple(owners)
        self.rows = [*(row for owner in self.owners for row in owner.rows), *rows]
        self.row_vars: list[RowVar] = []
        self.axes: list[DimVar] = []
        self.unsized: dict[DimVar | RowVar, tuple[Relation, str]] = {}
        self.unsized_leaves: dict[DimVar | RowVar, tuple[Relation, str]] = {}

    def refresh(self) -> None:
        """Recomputes the undecided terms."""
        row_vars: dict[RowVar, None] = {}
        axes: dict[DimVar, None] = {}
        rows: list[Row] = []
        for row in self.rows:
            row = resolve(row)
            undecided = row.var is not None
            if row.var is not None:
                row_vars[row.var] = None
            for axis in row.axes:
                axis = find(axis)
                if axis.size is None:
                    axes[axis] = None
                    undecided = True
            if undecided:
                rows.append(row)
        self.rows = rows
        self.row_vars = list(row_vars)
        self.axes = list(axes)
        by_term = dict(unsized(self.owners))
        self.unsized = {term: source for term, source in by_term.items() if term.leaf is None}
        self.unsized_leaves = {term: source for term, source in by_term.items() if term.leaf is not None}


Stage = Callable[[Undecided], list[Default]]


def commit(trail: Trail, default: Default) -> None:
    """Commits one default, unless another default of the same stage has decided the term."""
    match default:
        case RowDefault(var, value):
            if var.value is None:
                bind(trail, var, value)
        case AxisDefault(axis, size, subject, decision, unit):
            axis = find(axis)
            if axis.size is None:
                set_size(trail, axis, size, default_evidence(axis, subject, decision))
                if unit is not None and axis.unit is None:
                    set_unit(trail, axis, unit)


def default_evidence(axis: DimVar, subject: str, decision: str) -> Evidence:
    """Evidence for a defaulted size; refers to the leaf that has the axis, so that errors can name it."""
    if axis.leaf is not None:
        for kind, row in zip(KINDS, axis.leaf.rows, strict=True):
            for n, cell in enumerate(resolve(row).axes, 1):
                if find(cell) is axis:
                    return Evidence(axis.leaf, kind, n, "", decision)
    return Evidence(text=subject, decision=decision)


def unsized(owners: Iterable[Owner]) -> Iterator[tuple[DimVar | RowVar, tuple[Relation, str]]]:
    """Yields open axes and row variables of names that no operand of their operation sizes."""
    relations = dict.fromkeys(cause for owner in owners for cause in owner.relations if isinstance(cause, Relation))
    for relation in relations:
        for name in relation.logic.unsized:
            if name in relation.labels:
                axis = find(relation.labels[name])
                if axis.size is None:
                    yield axis, (relation, name)
            elif (var := resolve(relation.row_vars[name]).var) is not None:
                yield var, (relation, name)


def refuse_unsized(relation: Relation, name: str) -> None:
    problem, fix = missing_size(relation.logic.spec, name)
    raise Mismatch(problem, causes=(relation,), fix=fix)


OwnerRow = tuple[Owner, Kind]
"""Row of a tensor, by its kind."""

MAX_LISTED = 3


def refuse_unconstrained(owner_rows: list[OwnerRow]) -> None:
    """Rejects parameters with required but unconstrained axes or sizes."""
    if not owner_rows:
        return
    parameters = list(dict.fromkeys(owner for owner, _ in owner_rows))[:MAX_LISTED]
    rows = listed([f"the {kind} row of `{owner.provenance.label}`" for owner, kind in owner_rows], "and")
    fixes = listed([f"`{owner.provenance.label}` {kind}=[...]" for owner, kind in owner_rows], "or")
    raise Mismatch(
        f"you forgot a hidden dimension: nothing says what {rows} {'are' if len(owner_rows) > 1 else 'is'}",
        owners=tuple(parameters),
        causes=tuple(next(iter(owner.relations), None) for owner in parameters),
        fix=f"give {fixes}",
    )


def suggest_leaf_axes(mismatch: Mismatch, undecided: Undecided) -> None:
    """Extends the fix of a mismatch caused by defaults: specify the nearest open leaves, or sizes by name."""
    owners = by_distance(mismatch, undecided)
    leaves = [owner for owner in owners if owner.origin is None and owner.role != "result"][:MAX_LISTED]
    if leaves:
        names = listed([f"`{owner.provenance.label}`" for owner in leaves], "and")
        fixes = [mismatch.fix, f"give {names} all {'their' if len(leaves) > 1 else 'its'} axes"]
        mismatch.fix = ", or ".join(filter(None, fixes))
        mismatch.owners = tuple(dict.fromkeys((*mismatch.owners, *leaves)))
    elif specs := [cause.logic for cause in mismatch.causes if isinstance(cause, Relation) and cause.labels]:
        mismatch.fix = ", or ".join(filter(None, [mismatch.fix, f"give sizes of {specs[0]} by name"]))


def by_distance(mismatch: Mismatch, undecided: Undecided) -> list[Owner]:
    """Undecided tensors in breadth-first order from the operations that disagree."""
    relations = dict.fromkeys(cause for cause in mismatch.causes if isinstance(cause, Relation))
    owners: dict[Owner, None] = {}
    todo = list(relations)
    for relation in todo:
        for owner in relation.owners:
            owners[owner] = None
            added = [cause for cause in owner.relations if isinstance(cause, Relation) and cause not in relations]
            relations.update(dict.fromkeys(added))
            todo += added
    open_owners = set(undecided.owners)
    return [owner for owner in dict.fromkeys((*owners, *undecided.owners)) if owner in open_owners]


def listed(items: list[str], last: str) -> str:
    if len(items) > MAX_LISTED:
        items = [*items[: MAX_LISTED - 1], f"{len(items) - MAX_LISTED + 1} more"]
    return f" {last} ".join([*([", ".join(items[:-1])] if items[:-1] else []), *items[-1:]])
