"""Number of axes each leaf row gains to match its uses: a fixpoint over row inequalities."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Set

from ocannl.infer.broadcast import Order
from ocannl.infer.broadcast_results import BroadcastRow, distinct_rows
from ocannl.infer.terms import EMPTY, MAX_AXES, Constraint, Row, RowVar, resolve
from ocannl.infer.unify import Equal

NO_LIMIT = 1 << 30


def open_inequalities(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Undecided inequalities of a variable with rows that do not contain it."""
    for constraint in var.watchers or ():
        if isinstance(constraint, Order) and (res := constraint.res) is not None and res.var is not constraint.opnd.var:
            yield res, constraint.opnd


def below(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Undecided inequalities `res <= opnd` with the variable in `opnd`."""
    return (pair for pair in open_inequalities(var) if pair[1].var is var)


def above(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Undecided inequalities `res <= opnd` with the variable in `res`."""
    return (pair for pair in open_inequalities(var) if pair[0].var is var)


def undecided_equals(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Undecided equalities of a variable, with the variable in the first row."""
    for equal in var.watchers or ():
        if isinstance(equal, Equal) and equal.a is not None and equal.a.var is not equal.b.var:
            yield (equal.a, equal.b) if equal.a.var is var else (equal.b, equal.a)


def constraints(row_vars: Iterable[RowVar]) -> list[Constraint]:
    """Distinct constraints of variables."""
    return list(dict.fromkeys(constraint for var in row_vars for constraint in var.watchers or ()))


class Growth:
    """Growth of leaf rows, in axes.

    cap       upper bound from uses with closed rows
    wanted    axes that the uses of a variable have and the variable lacks
    forced    axes a row gains because a leaf grows that it equals or fits under

    If the growth of a leaf lengthens its own uses, `wanted` diverges; such leaves are `stuck`, and grow only as far as
    they lengthen no use. Inequalities between variables of equal length do not depend on the growth.
    """

    def __init__(self, row_vars: Sequence[RowVar], stuck: Set[RowVar] = frozenset()) -> None:
        self.stuck = stuck
        self.equal: dict[RowVar, list[RowVar]] = {}
        self.classes: dict[RowVar, list[RowVar]] = {}
        self.find_classes(constraints(row_vars))
        self.cap: dict[RowVar, int] = {}
        self.wanted: dict[RowVar, int] = {}
        self.forced: dict[RowVar, int] = {}
        self.limit(row_vars)
        self.todo: deque[RowVar] = deque()
        for var in row_vars:
            for res, opnd in self.below(var):
                if res.lead or res.trail:
                    self.raise_wanted(res, opnd, 0)
        while self.todo:
            var = self.todo.popleft()
            gained = 0 if var in stuck else max(self.wanted.get(var, 0), self.forced.get(var, 0))
            for res, opnd in self.above(var):
                self.raise_wanted(res, opnd, gained)
            grown = self.of(var) if var.leaf is not None else self.forced.get(var, 0)
            if grown:
                for res, opnd in self.below(var):
                    self.raise_forced(res, opnd, grown)
            for equal in self.equal.get(var, ()):
                self.raise_to(self.wanted, equal, gained)
                self.raise_to(self.forced, equal, grown)

    def limit(self, row_vars: Iterable[RowVar]) -> None:
        todo: list[RowVar] = []
        for var in row_vars:
            for res, opnd in self.below(var):
                if res.var is None and res.count - opnd.count < self.cap.get(var, NO_LIMIT):
                    self.cap[var] = res.count - opnd.count
                    todo.append(var)
        while todo:
            var = todo.pop()
            bounds = [(opnd.var, self.cap[var] + res.count - opnd.count) for res, opnd in self.above(var)]
            for upper, room in (*bounds, *((equal, self.cap[var]) for equal in self.equal.get(var, ()))):
                if upper is not None and room < self.cap.get(upper, NO_LIMIT):
                    self.cap[upper] = room
                    todo.append(upper)

    def find_classes(self, constraints: Sequence[Constraint]) -> None:
        """Finds variables of equal length: both sides of an undecided equality have equally many axes, and a broadcast
        is as long as its longest operand, which is known if all open operands belong to one class."""
        equalities = [(c.a, c.b) for c in constraints if isinstance(c, Equal) and c.a is not None]
        broadcasts = [c for c in constraints if isinstance(c, BroadcastRow)]
        while True:
            rows = [*equalities, *filter(None, map(self.longest_operand, broadcasts))]
            pairs = [(a.var, b.var) for a, b in rows if a.var is not None and b.var is not None]
            pairs = [pair for pair in pairs if not self.equally_long(*pair)]
            if not pairs:
                return
            for left, right in pairs:
                self.equal.setdefault(left, []).append(right)
                self.equal.setdefault(right, []).append(left)
            self.classes = self.length_classes()

    def longest_operand(self, broadcast: BroadcastRow) -> tuple[Row, Row] | None:
        """The longest operand and the result, if both have as many axes around their variables."""
        result, rows = resolve(broadcast.result or EMPTY), distinct_rows(broadcast.operands)
        longest = max(rows, key=lambda row: row.count)
        if longest.count != result.count or longest.var is None:
            return None
        is_longest = all(row.var is None or self.equally_long(row.var, longest.var) for row in rows)
        return (longest, result) if is_longest else None

    def equally_long(self, a: RowVar, b: RowVar) -> bool:
        return self.classes.get(a, a) is self.classes.get(b, b)

    def length_classes(self) -> dict[RowVar, list[RowVar]]:
        """All variables of the length of a variable."""
        classes: dict[RowVar, list[RowVar]] = {}
        for start in self.equal:
            if start not in classes:
                members = classes[start] = [start]
                for var in members:
                    for equal in self.equal[var]:
                        if equal not in classes:
                            classes[equal] = members
                            members.append(equal)
        return classes

    def below(self, var: RowVar) -> Iterator[tuple[Row, Row]]:
        return filter(self.is_variable, below(var))

    def above(self, var: RowVar) -> Iterator[tuple[Row, Row]]:
        return filter(self.is_variable, above(var))

    def is_variable(self, pair: tuple[Row, Row]) -> bool:
        """False if the difference of the ranks of two rows is constant."""
        res, opnd = (row.var for row in pair)
        return res is None or opnd is None or not self.equally_long(res, opnd)

    def of(self, var: RowVar) -> int:
        """Growth of a leaf row."""
        if var in self.stuck:
            uses = (use for member in self.classes.get(var, [var]) for use in self.below(member))
            return max(0, min((res.count - opnd.count for res, opnd in uses), default=0))
        return min(max(self.wanted.get(var, 0), self.forced.get(var, 0)), self.cap.get(var, NO_LIMIT))

    def unbounded(self, leaves: Iterable[RowVar]) -> set[RowVar]:
        """Leaves that would grow without end."""
        return {var for var in leaves if self.of(var) > MAX_AXES}

    def raise_wanted(self, res: Row, opnd: Row, gained: int) -> None:
        """Raises `wanted` of the operand to the rank of the result."""
        if opnd.var is not None:
            self.raise_to(self.wanted, opnd.var, gained + res.count - opnd.count)

    def raise_forced(self, res: Row, opnd: Row, grown: int) -> None:
        """Raises `forced` of the result to the rank of the operand."""
        if res.var is not None:
            self.raise_to(self.forced, res.var, grown + opnd.count - res.count)

    def raise_to(self, bounds: dict[RowVar, int], var: RowVar, axes: int) -> None:
        old = bounds.get(var, 0)
        if old < axes and old <= 2 * MAX_AXES:  # a divergent bound stops above MAX_AXES
            bounds[var] = axes
            self.todo.append(var)
