"""Result rows: the exact broadcast of the operand rows.

`broadcast.order` bounds a result from one side, by each operand separately. The smallest row within all bounds is
NumPy's broadcast: the rank of the longest row, and at each position the unique size other than 1, or 1. The operands
alone determine a result, so that no use of a result changes its shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ocannl.infer.broadcast import order, order_rows
from ocannl.infer.mismatch import rows_differ
from ocannl.infer.terms import EMPTY, Cause, DimVar, Row, RowVar, Trail, find, fresh, resolve
from ocannl.infer.unify import bind, equate, join, set_size

SURPLUS = "a result cannot have more axes than the broadcast of its operands"


def broadcast_rows(trail: Trail, operands: Sequence[tuple[Row, int]]) -> Row:
    """Row of a new result; operands are rows with their slots, for error messages."""
    rows = distinct_rows(row for row, _ in operands)
    if not rows:
        return EMPTY
    if len(rows) == 1:
        return rows[0]
    if all(row.var is None for row in rows):
        cells = [broadcast_axis(trail, position) for position in positions(rows)]
        return Row((), None, tuple(cells))
    result = RowVar()
    for row, slot in operands:
        order_rows(trail, result, row, slot, False)
    BroadcastRow(result, rows, trail.cause, operands[0][1]).watch(trail, rows)
    return result


def distinct_rows(rows: Iterable[Row]) -> list[Row]:
    """Distinct nonempty rows."""
    kept: dict[tuple[object, ...], Row] = {}
    for row in map(resolve, rows):
        if row.var is not None or row.lead or row.trail:
            kept.setdefault((row.var, len(row.lead), *map(find, row.axes)), row)
    return list(kept.values())


def positions(rows: Sequence[Row]) -> list[list[DimVar]]:
    """Axes that meet at each position of the broadcast of closed rows, first position first."""
    axes = [row.axes for row in rows]
    longest = max(map(len, axes))
    return [[row[-n] for row in axes if len(row) >= n] for n in range(longest, 0, -1)]


def broadcast_axis(trail: Trail, operands: Sequence[DimVar]) -> DimVar:
    """Result axis at a position where the operand axes meet."""
    cells = list(dict.fromkeys(map(find, operands)))
    if len(cells) == 1:
        return cells[0]
    proper = [cell for cell in cells if not cell.is_stretchable]
    result = proper[0] if len(proper) == 1 else next((cell for cell in proper if cell.is_rigid), None)
    if result is None:
        result = DimVar(None if proper else 1, None, None if proper else cells[0].evidence)
    for cell in cells:
        order(trail, result, cell)
    mark_single(trail, cells, proper)
    if find(result).size is None and len(proper) > 1:
        BroadcastAxis(result, tuple(proper), trail.cause).attach(trail)
    return result


def mark_single(trail: Trail, operands: Sequence[DimVar], proper: Sequence[DimVar]) -> None:
    """Marks the only operand of undecided size that is broadcast with axes of size 1."""
    if len(proper) == 1 and any(find(axis).is_stretchable for axis in operands):
        axis = find(proper[0])
        if axis.size is None and not axis.meets_one:
            trail.set(axis, "meets_one", True)


class BroadcastRow:
    """Suspended broadcast of rows of which some are still open."""

    __slots__ = ("cause", "operands", "result", "slot", "watched")

    def __init__(self, result: RowVar, operands: Sequence[Row], cause: Cause | None, slot: int) -> None:
        self.result: Row | None = result
        self.operands = operands
        self.cause = cause
        self.slot = slot
        self.watched: frozenset[RowVar] = frozenset()

    def fire(self, trail: Trail) -> None:
        if self.result is None:
            return
        result, rows = self.result, distinct_rows(self.operands)
        if any(row.var is not None for row in rows) and len(rows) > 1:
            if not self.end_operands(trail, resolve(result), rows):
                self.watch(trail, rows)
                return
            rows = distinct_rows(self.operands)
        trail.set(self, "result", None)
        if len(rows) < 2:
            equate(trail, result, rows[0] if rows else EMPTY, self.slot)
        else:
            self.close(trail, resolve(result), rows)

    def end_operands(self, trail: Trail, result: Row, rows: Sequence[Row]) -> bool:
        """Ends a result that is longer than its open operands, which end with the same variable: a closed operand is as
        long as the result."""
        open_rows = [row for row in rows if row.var is not None]
        if any(row.var is not result.var or row.count >= result.count for row in open_rows):
            return False
        longest = max((row for row in rows if row.var is None), key=lambda row: row.count, default=EMPTY)
        missing = longest.count - result.count
        if missing < 0:
            raise rows_differ(self.cause, self.slot, result, longest, SURPLUS)
        assert result.var is not None
        bind(trail, result.var, Row((), None, fresh(missing)) if missing else EMPTY)
        return True

    def watch(self, trail: Trail, rows: Sequence[Row]) -> None:
        """Watches the row variables of the operands and of the result."""
        assert self.result is not None
        rows = (*rows, resolve(self.result))
        fresh_vars = {row.var: None for row in rows if row.var is not None and row.var not in self.watched}
        for var in fresh_vars:
            trail.add(var, "watchers", self)
        trail.set(self, "watched", self.watched.union(fresh_vars))

    def close(self, trail: Trail, result: Row, rows: Sequence[Row]) -> None:
        met = positions(rows)
        missing = len(met) - result.count
        if missing < 0 or (missing and result.var is None):
            raise rows_differ(self.cause, self.slot, result, max(rows, key=lambda row: row.count), SURPLUS)
        if result.var is not None:
            bind(trail, result.var, Row((), None, fresh(missing)) if missing else EMPTY)
        for axis, cells in zip(resolve(result).axes, met, strict=True):
            BroadcastAxis(axis, tuple(cells), self.cause).attach(trail)


class BroadcastAxis:
    """Suspended broadcast of axes: the unique operand size other than 1, or 1."""

    __slots__ = ("cause", "is_settled", "operands", "result")

    def __init__(self, result: DimVar, operands: tuple[DimVar, ...], cause: Cause | None) -> None:
        self.result = result
        self.operands = operands
        self.cause = cause
        self.is_settled = False

    def attach(self, trail: Trail) -> None:
        """Watches the axes of the operands."""
        for cell in dict.fromkeys(map(find, self.operands)):
            trail.add(cell, "size_equations", self)
        trail.queue.append(self)

    def fire(self, trail: Trail) -> None:
        if self.is_settled:
            return
        result = find(self.result)
        proper = [cell for cell in dict.fromkeys(map(find, self.operands)) if not cell.is_stretchable]
        if len(proper) > 1 and result not in proper and not any(cell.is_rigid for cell in proper):
            return
        trail.set(self, "is_settled", True)
        if not proper:
            set_size(trail, result, 1, find(self.operands[0]).evidence)
        elif len(proper) == 1:
            join(trail, result, proper[0])
            mark_single(trail, self.operands, proper)
