"""Defaults for row variables: the number of axes."""

from __future__ import annotations

from itertools import product

from ocannl.infer.cell_count import CellCount
from ocannl.infer.defaults import Default, OwnerRow, RowDefault, Undecided, refuse_unconstrained, refuse_unsized
from ocannl.infer.leaf_growth import Growth, above, below, undecided_equals
from ocannl.infer.row_overlaps import forms
from ocannl.infer.spec import KINDS
from ocannl.infer.terms import EMPTY, MAX_AXES, Row, RowVar, fresh, resolve


def grow_leaves(undecided: Undecided) -> list[Default]:
    """Extends rows of leaves to the rank of their direct and indirect uses.

    A leaf whose growth would lengthen its own uses grows only as far as it lengthens none; leaves that share a use with
    it grow to this use. Leaves that would lengthen the uses of each other in turn all grow so.
    """
    leaves = [var for var in undecided.row_vars if var.leaf is not None]
    if not leaves:
        return []
    growth = Growth(undecided.row_vars)
    if unbounded := growth.unbounded(leaves):
        stuck = {var for var in unbounded if Growth(undecided.row_vars, unbounded - {var}).of(var) > MAX_AXES}
        growth = Growth(undecided.row_vars, stuck)
        if mutual := growth.unbounded(leaves):
            growth = Growth(undecided.row_vars, stuck | mutual)
    defaults: list[Default] = []
    for var in leaves:
        count = growth.of(var)
        if 0 < count <= MAX_AXES:
            defaults.append(RowDefault(var, Row((), RowVar(depth=var.depth + count), fresh(count))))
    return defaults


def fill_counted(undecided: Undecided) -> list[Default]:
    """Adds the axis missing for a known number of cells, to the batch row if open, else to the output row."""
    defaults: dict[RowVar, Default] = {}
    for count in cell_counts(undecided):
        for rows in product(*map(forms, count.rows)):
            if (missing := count.missing_axis(rows)) is not None:
                remainder, axis = missing
                defaults[remainder] = RowDefault(remainder, Row((), None, (axis,)))
    return list(defaults.values())


def cell_counts(undecided: Undecided) -> list[CellCount]:
    """Cell counts of open rows."""
    watchers = dict.fromkeys(constraint for var in undecided.row_vars for constraint in var.watchers or ())
    return [constraint for constraint in watchers if isinstance(constraint, CellCount)]


def end_rows(undecided: Undecided) -> list[Default]:
    """Binds row variables to the empty row in dependence order: variables not stretched from open rows first, and among
    them those in undecided equalities."""
    refuse_unconstrained(unconstrained(undecided))
    for var in undecided.row_vars:
        if var in undecided.unsized:
            refuse_unsized(*undecided.unsized[var])
    dependent = dependent_vars(undecided.row_vars)
    ready = [var for var in undecided.row_vars if var not in dependent or len(dependent) == len(undecided.row_vars)]
    ended = [var for var in ready if any(True for _ in undecided_equals(var))] or ready
    for var in ended:
        if var in undecided.unsized_leaves and not any(True for _ in (*above(var), *below(var))):
            refuse_unsized(*undecided.unsized_leaves[var])
    return [RowDefault(var, EMPTY) for var in ended]


def dependent_vars(row_vars: list[RowVar]) -> set[RowVar]:
    """Variables stretched from an open row with axes whose alignment is undecided, transitively."""
    todo = [var for var in row_vars if any(opnd.var is not None and opnd.count for _, opnd in above(var))]
    dependent = set(todo)
    while todo:
        var = todo.pop()
        for row, _ in (*below(var), *((equal, var) for _, equal in undecided_equals(var))):
            if row.var is not None and row.var not in dependent:
                dependent.add(row.var)
                todo.append(row.var)
    return dependent


def unconstrained(undecided: Undecided) -> list[OwnerRow]:
    """Rows of parameters whose axes an operation requires but nothing constrains."""
    reached = [var for var in undecided.row_vars if var.is_required and not is_constrained(var)]
    required = set(reached)
    while reached:
        for _, opnd in above(reached.pop()):
            if opnd.var is not None and opnd.var not in required:
                required.add(opnd.var)
                reached.append(opnd.var)
    owner_rows: dict[OwnerRow, None] = {}
    for owner in undecided.owners:
        if owner.is_param:
            for kind, row in zip(KINDS, owner.rows, strict=True):
                var = resolve(row).var
                if var is not None and (owner.is_required or var in required) and not is_constrained(var):
                    owner_rows[owner, kind] = None
    return list(owner_rows)


def is_constrained(var: RowVar) -> bool:
    """True if a known row constrains the variable, directly or through computed rows, and no open leaf bounds it."""
    if var.constrained:
        return True
    seen = {var}
    todo = [var]
    is_bounded = False
    while todo:
        for _, opnd in above(todo.pop()):
            if opnd.var is None or opnd.var.constrained:
                is_bounded = True
            elif opnd.var not in seen:
                if opnd.var.leaf is not None:
                    return False
                seen.add(opnd.var)
                todo.append(opnd.var)
    return is_bounded
