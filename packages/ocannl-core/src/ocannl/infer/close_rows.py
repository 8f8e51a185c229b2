"""Decisions about how many axes there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ocannl.infer.broadcast import Order
from ocannl.infer.close import Closing, Open, Place, RowClosing, refuse_untold
from ocannl.infer.spec import KINDS
from ocannl.infer.terms import EMPTY, MAX_AXES, Dim, Fact, Row, RowVar, resolve
from ocannl.infer.totals import Total
from ocannl.infer.unify import Equal

NO_LIMIT = 1 << 30


def below(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Rows that fit under rows of this variable, as far as that is undecided."""
    for constraint in var.watchers or ():
        if isinstance(constraint, Order) and (res := constraint.res) is not None:
            if constraint.opnd.var is var and res.var is not var:
                yield res, constraint.opnd


def above(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Rows that rows of this variable fit under."""
    for constraint in var.watchers or ():
        if isinstance(constraint, Order) and (res := constraint.res) is not None:
            if res.var is var and constraint.opnd.var is not var:
                yield res, constraint.opnd


# --- leaves ---------------------------------------------------------------------------------------------------------


def grow_leaves(it: Open) -> list[Closing]:
    """Rows of leaves get as many axes as their uses have, directly or through what is computed from them."""
    leaves = [var for var in it.row_vars if var.leaf is not None]
    if not leaves:
        return []
    want = wants(it.row_vars)
    cap = caps(it.row_vars)
    closings: list[Closing] = []
    for var in leaves:
        lead, trail = want.get(var, (0, 0))
        if 0 < lead + trail <= MAX_AXES:
            room = cap.get(var, NO_LIMIT)
            trail = min(trail, room)
            lead = min(lead, room - trail)
            if lead + trail:
                closings.append(RowClosing(var, fresh_row(lead, RowVar(depth=var.depth + lead + trail), trail)))
    return closings


def fresh_row(lead: int, var: RowVar | None, trail: int) -> Row:
    return Row(tuple([Dim() for _ in range(lead)]), var, tuple([Dim() for _ in range(trail)]))


def caps(row_vars: Iterable[RowVar]) -> dict[RowVar, int]:
    """The largest number of axes that uses whose rows are closed leave to a variable."""
    cap: dict[RowVar, int] = {}
    todo: list[RowVar] = []
    for var in row_vars:
        for res, opnd in below(var):
            if res.var is None and res.count - opnd.count < cap.get(var, NO_LIMIT):
                cap[var] = res.count - opnd.count
                todo.append(var)
    while todo:
        var = todo.pop()
        for res, opnd in above(var):
            room = cap[var] + res.count - opnd.count
            if opnd.var is not None and room < cap.get(opnd.var, NO_LIMIT):
                cap[opnd.var] = room
                todo.append(opnd.var)
    return cap


def wants(row_vars: Iterable[RowVar]) -> dict[RowVar, tuple[int, int]]:
    """How many axes, in front and behind, the uses of a variable have that it does not have yet."""
    want: dict[RowVar, tuple[int, int]] = {}
    todo: list[RowVar] = []

    def learn(res: Row, opnd: Row, lead: int, trail: int) -> None:
        if opnd.var is None:
            return
        old = want.get(opnd.var, (0, 0))
        new = max(old[0], lead + len(res.lead) - len(opnd.lead)), max(old[1], trail + len(res.trail) - len(opnd.trail))
        if new != old and sum(old) <= MAX_AXES:  # around a cycle of gains it grows without end
            want[opnd.var] = new
            todo.append(opnd.var)

    for var in row_vars:
        for res, opnd in below(var):
            if res.lead or res.trail:
                learn(res, opnd, 0, 0)
    while todo:
        var = todo.pop()
        for res, opnd in above(var):
            learn(res, opnd, *want[var])
    return want


# --- equal rows, counted rows ---------------------------------------------------------------------------------------


def part_rows(it: Open) -> list[Closing]:
    """Of two equal rows that start differently and end differently, neither end reaches into the other's."""
    closings: list[Closing] = []
    taken: set[RowVar] = set()
    for var in it.row_vars:
        for constraint in var.watchers or ():
            if isinstance(constraint, Equal) and constraint.a is not None:
                a, b = constraint.a, constraint.b
                if a.var is not None and b.var is not None and a.var is not b.var and taken.isdisjoint((a.var, b.var)):
                    taken |= {a.var, b.var}
                    middle = RowVar(depth=max(a.var.depth + b.count, b.var.depth + a.count))
                    closings.append(RowClosing(a.var, Row(b.lead, middle, b.trail)))
                    closings.append(RowClosing(b.var, Row(a.lead, middle, a.trail)))
    return closings


def fill_counted(it: Open) -> list[Closing]:
    """Where the number of cells is known and not reached yet, one more axis reaches it: in the output row, if open."""
    closings: dict[RowVar, Closing] = {}
    for var in it.row_vars:
        for constraint in var.watchers or ():
            if isinstance(constraint, Total) and (missing := constraint.missing) not in (None, 1):
                last = constraint.row_vars[-1]
                closings[last] = RowClosing(last, Row((), None, (Dim(missing, None, Fact(text=constraint.text)),)))
    return list(closings.values())


# --- the end --------------------------------------------------------------------------------------------------------


def end_rows(it: Open) -> list[Closing]:
    """Rows get no further axes."""
    refuse_untold(untold(it))
    return [RowClosing(var, EMPTY) for var in it.row_vars]


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
    for var in it.row_vars:
        if var in matters and var.leaf is not None and var.leaf.is_param and not is_told(var):
            for kind, row in zip(KINDS, var.leaf.rows, strict=True):
                if resolve(row).var is var:
                    places[var.leaf, kind] = None
    return list(places)


def is_told(var: RowVar) -> bool:
    """Something known has met it, or everything that it fits under is known or computed from what is known."""
    if var.told:
        return True
    seen = {var}
    todo = [var]
    some = False
    while todo:
        for _, opnd in above(todo.pop()):
            some = True
            if opnd.var is None or opnd.var.told or opnd.var in seen:
                continue
            if opnd.var.leaf is not None:
                return False
            seen.add(opnd.var)
            todo.append(opnd.var)
    return some


