"""By how many axes the rows of leaves grow to be as long as their uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from ocannl.infer.broadcast import Order
from ocannl.infer.terms import MAX_AXES, Row, RowVar

NO_LIMIT = 1 << 30


def undecided(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """The inequalities that a variable takes part in, with a row of another variable or of none."""
    for constraint in var.watchers or ():
        if isinstance(constraint, Order) and (res := constraint.res) is not None and res.var is not constraint.opnd.var:
            yield res, constraint.opnd


def below(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Rows that fit under rows of this variable, as far as that is undecided."""
    return (pair for pair in undecided(var) if pair[1].var is var)


def above(var: RowVar) -> Iterator[tuple[Row, Row]]:
    """Rows that rows of this variable fit under."""
    return (pair for pair in undecided(var) if pair[0].var is var)


Ends = tuple[int, int]
"""Numbers of axes in front and behind."""


class Growth:
    """By how many axes the rows of leaves are to grow.

    cap       the largest number of axes that uses whose rows are closed leave to a variable
    want      what the uses of a variable have, in front and behind, that it does not have yet
    forced    what a use has to grow by, since a leaf grows under which it fits

    Where the growth of a leaf makes its own uses grow, `want` has no end; such a leaf does not grow.
    """

    def __init__(self, row_vars: Iterable[RowVar]) -> None:
        self.cap: dict[RowVar, int] = {}
        self.want: dict[RowVar, Ends] = {}
        self.forced: dict[RowVar, Ends] = {}
        self.limit(row_vars)
        self.todo: deque[RowVar] = deque()
        for var in row_vars:
            for res, opnd in below(var):
                if res.lead or res.trail:
                    self.down(res, opnd, (0, 0))
        while self.todo:
            var = self.todo.popleft()
            inside = larger(self.want.get(var, (0, 0)), self.forced.get(var, (0, 0)))
            for res, opnd in above(var):
                self.down(res, opnd, inside)
            grown = self.of(var) if var.leaf is not None else self.forced.get(var, (0, 0))
            if any(grown):
                for res, opnd in below(var):
                    self.up(res, opnd, grown)

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

    def of(self, var: RowVar) -> Ends:
        """The growth of a leaf."""
        lead, trail = larger(self.want.get(var, (0, 0)), self.forced.get(var, (0, 0)))
        room = self.cap.get(var, NO_LIMIT)
        return min(lead, room - min(trail, room)), min(trail, room)

    def down(self, res: Row, opnd: Row, inside: Ends) -> None:
        """The operand would like to have what the result has."""
        if opnd.var is not None:
            self.learn(self.want, opnd.var, surplus(res, opnd, inside))

    def up(self, res: Row, opnd: Row, grown: Ends) -> None:
        """The result must have what the operand has."""
        if res.var is not None:
            self.learn(self.forced, res.var, surplus(opnd, res, grown))

    def learn(self, known: dict[RowVar, Ends], var: RowVar, ends: Ends) -> None:
        old = known.get(var, (0, 0))
        new = larger(old, ends)
        if new != old and sum(old) <= 2 * MAX_AXES:  # so that all that has no end is longer than a row may be
            known[var] = new
            self.todo.append(var)


def surplus(long: Row, short: Row, inside: Ends) -> Ends:
    """What the first row, with more axes inside, has that the second lacks; never more than it has in all."""
    lead = max(0, inside[0] + len(long.lead) - len(short.lead))
    trail = max(0, inside[1] + len(long.trail) - len(short.trail))
    trail = min(trail, max(0, sum(inside) + long.count - short.count))
    return min(lead, max(0, sum(inside) + long.count - short.count - trail)), trail


def larger(a: Ends, b: Ends) -> Ends:
    return max(a[0], b[0]), max(a[1], b[1])
