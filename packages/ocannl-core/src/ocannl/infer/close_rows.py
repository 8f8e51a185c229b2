"""Decisions about how many axes there are."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.infer.broadcast import Order
from ocannl.infer.close import Closing, Open, Place, RowClosing, refuse_unsized, refuse_untold
from ocannl.infer.growth import Growth, above, below, beside
from ocannl.infer.results import BroadcastRow, distinct_rows
from ocannl.infer.spec import KINDS
from ocannl.infer.terms import EMPTY, MAX_AXES, Dim, Fact, Row, RowVar, find, fresh, resolve
from ocannl.infer.totals import Total
from ocannl.infer.unify import Equal


def grow_leaves(it: Open) -> list[Closing]:
    """Rows of leaves get as many axes as their uses have, directly or through what is computed from them.

    A leaf whose own growth makes these longer does not grow; others do that have a use with it in common.
    """
    leaves = [var for var in it.row_vars if var.leaf is not None]
    if not leaves:
        return []
    growth = Growth(it.row_vars)
    if more := {var for var in leaves if growth.of(var) > MAX_AXES}:
        alone = {var for var in more if Growth(it.row_vars, more - {var}).of(var) > MAX_AXES}
        growth = Growth(it.row_vars, alone)
    closings: list[Closing] = []
    for var in leaves:
        count = growth.of(var)
        if 0 < count <= MAX_AXES:
            closings.append(RowClosing(var, Row((), RowVar(depth=var.depth + count), fresh(count))))
    return closings


def fit_operands(it: Open) -> list[Closing]:
    """Where a result has axes that none of its operands has, those operands get them that may grow."""
    watching = dict.fromkeys(c for var in it.row_vars for c in var.watchers or () if isinstance(c, BroadcastRow))
    broadcasts = [(resolve(c.result), distinct_rows(c.operands)) for c in watching if c.result is not None]
    may_grow = growing(it.row_vars, broadcasts)
    closings: dict[RowVar, Closing] = {}
    for result, rows in broadcasts:
        if result.count > max((row.count for row in rows), default=0):
            for row in rows:
                if row.var is not None and row.var in may_grow and row.var is not result.var:
                    more = fresh(result.count - row.count)
                    closings[row.var] = RowClosing(row.var, Row((), RowVar(depth=row.var.depth + len(more)), more))
    return list(closings.values())


def growing(row_vars: Sequence[RowVar], broadcasts: Sequence[tuple[Row, Sequence[Row]]]) -> set[RowVar]:
    """Rows of leaves, and of results of which an operand may grow."""
    found = {var for var in row_vars if var.leaf is not None}
    while True:
        results = {result.var for result, rows in broadcasts if any(row.var in found for row in rows)}
        more = {var for var in results if var is not None} - found
        if not more:
            return found
        found |= more


def fill_counted(it: Open) -> list[Closing]:
    """Where the number of cells is known and not reached yet, one more axis reaches it: in the batch row, if open."""
    closings: dict[RowVar, Closing] = {}
    for var in it.row_vars:
        for constraint in var.watchers or ():
            if isinstance(constraint, Total) and (missing := constraint.missing) not in (None, 1):
                rest = constraint.remainder
                closings[rest] = RowClosing(rest, Row((), None, (Dim(missing, None, Fact(text=constraint.text)),)))
    return list(closings.values())


def end_rows(it: Open) -> list[Closing]:
    """Rows get no further axes, those first on whose length that of others depends: rows that equal others, of those
    that are not stretched to open rows."""
    refuse_untold(untold(it))
    for var in it.row_vars:
        if var in it.unsized:
            refuse_unsized(*it.unsized[var])
    later = waiting(it.row_vars)
    ready = [var for var in it.row_vars if var not in later or len(later) == len(it.row_vars)]
    equal = [var for var in ready if any(True for _ in beside(var))]
    return [RowClosing(var, EMPTY) for var in equal or ready]


def waiting(row_vars: list[RowVar]) -> set[RowVar]:
    """What is stretched from an open row with axes that meet others when it ends; and what is stretched from that."""
    todo = [var for var in row_vars if any(opnd.var is not None and opnd.count for _, opnd in above(var))]
    found = set(todo)
    while todo:
        for res, _ in below(todo.pop()):
            if res.var is not None and res.var not in found:
                found.add(res.var)
                todo.append(res.var)
    return found


def overlap_rows(it: Open) -> list[Closing]:
    """Rows that an equal row, or an operand, tells to be longer, since their ends cannot meet, get what they lack."""
    closings: list[Closing] = []
    for constraint in dict.fromkeys(c for var in it.row_vars for c in var.watchers or ()):
        if isinstance(constraint, Equal) and constraint.a is not None:
            closings += overlap(constraint.a, constraint.b)
        elif isinstance(constraint, Order) and constraint.res is not None and constraint.opnd.var is None:
            closings += stretch(constraint.res, constraint.opnd)
    return closings


def stretch(res: Row, opnd: Row) -> list[Closing]:
    """As few axes as possible are inserted into a row, so that the axes of an operand may be stretched to it."""
    assert res.var is not None
    for count in range(opnd.count + 1):
        more = fresh(count)
        if may_fit((*res.lead, *more, *res.trail), opnd.axes):
            return [RowClosing(res.var, Row((), RowVar(depth=res.var.depth + count), more))] if more else []
    return []


def may_fit(res: tuple[Dim, ...], opnd: tuple[Dim, ...]) -> bool:
    """Nothing known tells that the axes cannot be stretched to those that they meet."""
    met = res[len(res) - len(opnd) :]
    rigid = [(x, find(y)) for x, y in zip(met, opnd, strict=True) if find(y).is_rigid]
    return may_equal([x for x, _ in rigid], [y for _, y in rigid])


def overlap(a: Row, b: Row) -> list[Closing]:
    """Of two equal rows, one has axes only in front, the other only behind: as many as possible may be the same."""
    a, b = resolve(a), resolve(b)
    if b.lead:
        a, b = b, a
    front, back = a.lead, b.trail
    common = len(front)
    if a.var is None or b.var is None or a.var is b.var or common != len(back):
        return []
    while not may_equal(front[len(front) - common :], back):
        common -= 1
    if common == len(front):
        return []
    before, after = Row(front[: len(front) - common], RowVar(), ()), Row((), RowVar(), back[common:])
    return [RowClosing(b.var, before), RowClosing(a.var, after)]


def may_equal(some: Sequence[Dim], others: Sequence[Dim]) -> bool:
    """Axes that nothing known tells apart, pair by pair, each having one size."""
    sizes: dict[Dim, int] = {}
    for a, b in zip(map(find, some), map(find, others), strict=False):
        if None not in (a.unit, b.unit) and a.unit != b.unit:
            return False
        known = {size for axis in (a, b) if (size := sizes.get(axis, axis.size)) is not None}
        if len(known) > 1:
            return False
        for size in known:
            sizes[a] = sizes[b] = size
    return True


def untold(it: Open) -> list[Place]:
    """Rows of parameters whose axes matter to an operation, where nothing tells them."""
    reached = [var for var in it.row_vars if var.asked and not is_told(var)]
    matters = set(reached)
    while reached:
        for _, opnd in above(reached.pop()):
            if opnd.var is not None and opnd.var not in matters:
                matters.add(opnd.var)
                reached.append(opnd.var)
    places: dict[Place, None] = {}
    for owner in it.owners:
        if owner.is_param:
            for kind, row in zip(KINDS, owner.rows, strict=True):
                var = resolve(row).var
                if var is not None and (owner.asked or var in matters) and not is_told(var):
                    places[owner, kind] = None
    return list(places)


def is_told(var: RowVar) -> bool:
    """Something known has met it, or what it fits under is known or computed from what is known."""
    if var.told:
        return True
    seen = {var}
    todo = [var]
    some = False
    while todo:
        for _, opnd in above(todo.pop()):
            if opnd.var is None or opnd.var.told:
                some = True
            elif opnd.var not in seen:
                if opnd.var.leaf is not None:
                    return False
                seen.add(opnd.var)
                todo.append(opnd.var)
    return some
