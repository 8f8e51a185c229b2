"""Decisions about how many axes there are."""

from __future__ import annotations

from ocannl.infer.close import Closing, Open, Place, RowClosing, refuse_untold
from ocannl.infer.growth import Growth, above
from ocannl.infer.spec import KINDS
from ocannl.infer.terms import EMPTY, MAX_AXES, Dim, Fact, Row, RowVar, find, resolve
from ocannl.infer.totals import Total
from ocannl.infer.unify import Equal


def grow_leaves(it: Open) -> list[Closing]:
    """Rows of leaves get as many axes as their uses have, directly or through what is computed from them."""
    leaves = [var for var in it.row_vars if var.leaf is not None]
    if not leaves:
        return []
    growth = Growth(it.row_vars)
    closings: list[Closing] = []
    for var in leaves:
        lead, trail = growth.of(var)
        if 0 < lead + trail <= MAX_AXES:
            rest = RowVar(depth=var.depth + lead + trail)
            closings.append(RowClosing(var, Row(fresh(lead), rest, fresh(trail))))
    return closings


def fresh(count: int) -> tuple[Dim, ...]:
    return tuple([Dim() for _ in range(count)])


def fill_counted(it: Open) -> list[Closing]:
    """Where the number of cells is known and not reached yet, one more axis reaches it: in the output row, if open."""
    closings: dict[RowVar, Closing] = {}
    for var in it.row_vars:
        for constraint in var.watchers or ():
            if isinstance(constraint, Total) and (missing := constraint.missing) not in (None, 1):
                last = constraint.row_vars[-1]
                closings[last] = RowClosing(last, Row((), None, (Dim(missing, None, Fact(text=constraint.text)),)))
    return list(closings.values())


def end_rows(it: Open) -> list[Closing]:
    """Rows get no further axes."""
    refuse_untold(untold(it))
    return [RowClosing(var, EMPTY) for var in it.row_vars]


def overlap_rows(it: Open) -> list[Closing]:
    """Rows get the axes that an equal row has at its other end: what is computed from them may be as long.

    Those wait that are computed from what another such row decides; of several equal rows, the longest decide first.
    """
    equals = dict.fromkeys(c for var in it.row_vars for c in var.watchers or () if isinstance(c, Equal))
    open_vars = {var for equal in equals for var in vars_of(equal)}
    ready = [equal for equal in equals if not (reached(vars_of(equal)) - vars_of(equal)) & open_vars]
    found = [overlap(equal.a, equal.b) for equal in ready or equals if equal.a is not None]
    longest = max((count for count, _ in found), default=0)
    return [closing for count, closings in found if count == longest for closing in closings]


def vars_of(equal: Equal) -> set[RowVar]:
    """The variables of two equal rows."""
    rows = () if equal.a is None else (resolve(equal.a), resolve(equal.b))
    return {row.var for row in rows if row.var is not None}


def reached(start: set[RowVar]) -> set[RowVar]:
    """The variables of the rows that rows of these fit under, directly or not."""
    seen: set[RowVar] = set()
    todo = list(start)
    while todo:
        for _, opnd in above(todo.pop()):
            if opnd.var is not None and opnd.var not in seen:
                seen.add(opnd.var)
                todo.append(opnd.var)
    return seen


def overlap(a: Row, b: Row) -> tuple[int, list[Closing]]:
    """Of two equal rows, one has axes only in front, the other only behind: the shortest row that may be both."""
    if b.lead:
        a, b = b, a
    if a.var is None or b.var is None or a.var is b.var:
        return 0, []
    front, back = a.lead, b.trail
    common = min(len(front), len(back))
    while not all(map(may_equal, front[len(front) - common :], back)):
        common -= 1
    before, after = Row((), None, front[: len(front) - common]), Row((), None, back[common:])
    return len(front) + len(back) - common, [RowClosing(b.var, before), RowClosing(a.var, after)]


def may_equal(a: Dim, b: Dim) -> bool:
    a, b = find(a), find(b)
    return (a.size is None or b.size is None or a.size == b.size) and (None in (a.unit, b.unit) or a.unit == b.unit)


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
