"""By how many axes the rows of leaves grow to be as long as their uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set

from ocannl.infer.broadcast import Order
from ocannl.infer.terms import MAX_AXES, Row, RowVar
from ocannl.infer.unify import Equal

NO_LIMIT = 1 << 30


def open_inequalities(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """The inequalities that a variable takes part in, with a row of another variable or of none."""
    for constraint in var.watchers or ():
        if isinstance(constraint, Order) and (res := constraint.res) is not None and res.var is not constraint.opnd.var:
            yield res, constraint.opnd


def below(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Rows that fit under rows of this variable, as far as that is undecided."""
    return (pair for pair in open_inequalities(var) if pair[1].var is var)


def above(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Rows that rows of this variable fit under."""
    return (pair for pair in open_inequalities(var) if pair[0].var is var)


def undecided_equals(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Rows of this variable, with what they equal as far as that is undecided."""
    for equal in var.watchers or ():
        if isinstance(equal, Equal) and equal.a is not None and equal.a.var is not equal.b.var:
            yield (equal.a, equal.b) if equal.a.var is var else (equal.b, equal.a)


class Growth:
    """By how many axes the rows of leaves are to grow.

    cap       the largest number of axes that uses whose rows are closed leave to a variable
    want      what the uses of a variable have that it does not have yet
    forced    what a row has to grow by, since a leaf grows that it equals, or under which it fits

    Where the growth of a leaf makes its own uses grow, `want` has no end; such a leaf, if it is `stuck`, does not grow.
    """

    def __init__(self, row_vars: Iterable[RowVar], stuck: Set[RowVar] = frozenset()) -> None:
        self.stuck = stuck
        self.cap: dict[RowVar, int] = {}
        self.wanted: dict[RowVar, int] = {}
        self.forced: dict[RowVar, int] = {}
        self.limit(row_vars)
        self.todo: deque[RowVar] = deque()
        for var in row_vars:
            for res, opnd in below(var):
                if res.lead or res.trail:
                    self.raise_wanted(res, opnd, 0)
        while self.todo:
            var = self.todo.popleft()
            gained = 0 if var in stuck else max(self.wanted.get(var, 0), self.forced.get(var, 0))
            for res, opnd in (*above(var), *undecided_equals(var)):
                self.raise_wanted(res, opnd, gained)
            grown = self.of(var) if var.leaf is not None else self.forced.get(var, 0)
            if grown:
                for pair in (*below(var), *((equal, row) for row, equal in undecided_equals(var))):
                    self.raise_forced(*pair, grown)

    def limit(self, row_vars: Iterable[RowVar]) -> None:
        todo: list[RowVar] = []
        for var in row_vars:
            for res, opnd in below(var):
                if res.var is None and res.count - opnd.count < self.cap.get(var, NO_LIMIT):
                    self.cap[var] = res.count - opnd.count
                    todo.append(var)
        while todo:
            var = todo.pop()
            for res, opnd in above(var):
                room = self.cap[var] + res.count - opnd.count
                if opnd.var is not None and room < self.cap.get(opnd.var, NO_LIMIT):
                    self.cap[opnd.var] = room
                    todo.append(opnd.var)

    def of(self, var: RowVar) -> int:
        """The growth of a leaf."""
        if var in self.stuck:
            return 0
        return min(max(self.wanted.get(var, 0), self.forced.get(var, 0)), self.cap.get(var, NO_LIMIT))

    def raise_wanted(self, res: Row, opnd: Row, gained: int) -> None:
        """The operand, or the equal, would like to have what the result has."""
        if opnd.var is not None:
            self.raise_to(self.wanted, opnd.var, gained + res.count - opnd.count)

    def raise_forced(self, res: Row, opnd: Row, grown: int) -> None:
        """The result, or the equal, must have what the operand has."""
        if res.var is not None:
            self.raise_to(self.forced, res.var, grown + opnd.count - res.count)

    def raise_to(self, bounds: dict[RowVar, int], var: RowVar, axes: int) -> None:
        old = bounds.get(var, 0)
        if old < axes and old <= 2 * MAX_AXES:  # so that all that has no end is longer than a row may be
            bounds[var] = axes
            self.todo.append(var)
