"""Number of axes each leaf row gains to match its uses: a fixpoint over row inequalities."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Set

from ocannl.infer.broadcast import Order
from ocannl.infer.terms import MAX_AXES, Row, RowVar
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


def equal_lengths(row_vars: Iterable[RowVar]) -> dict[RowVar, RowVar]:
    """Representatives of variables that undecided equalities give one length (both sides have equally many axes)."""
    representatives: dict[RowVar, RowVar] = {}
    for start in row_vars:
        todo = [] if start in representatives else [start]
        while todo:
            var = todo.pop()
            if representatives.setdefault(var, start) is start:
                todo += [b.var for _, b in undecided_equals(var) if b.var is not None and b.var not in representatives]
    return representatives


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
        self.length = equal_lengths(row_vars)
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
            for res, opnd in (*self.above(var), *undecided_equals(var)):
                self.raise_wanted(res, opnd, gained)
            grown = self.of(var) if var.leaf is not None else self.forced.get(var, 0)
            if grown:
                for pair in (*self.below(var), *((equal, row) for row, equal in undecided_equals(var))):
                    self.raise_forced(*pair, grown)

    def limit(self, row_vars: Iterable[RowVar]) -> None:
        todo: list[RowVar] = []
        for var in row_vars:
            for res, opnd in self.below(var):
                if res.var is None and res.count - opnd.count < self.cap.get(var, NO_LIMIT):
                    self.cap[var] = res.count - opnd.count
                    todo.append(var)
        while todo:
            var = todo.pop()
            for res, opnd in self.above(var):
                room = self.cap[var] + res.count - opnd.count
                if opnd.var is not None and room < self.cap.get(opnd.var, NO_LIMIT):
                    self.cap[opnd.var] = room
                    todo.append(opnd.var)

    def below(self, var: RowVar) -> Iterator[tuple[Row, Row]]:
        return filter(self.is_variable, below(var))

    def above(self, var: RowVar) -> Iterator[tuple[Row, Row]]:
        return filter(self.is_variable, above(var))

    def is_variable(self, pair: tuple[Row, Row]) -> bool:
        """False if the difference of the ranks of two rows is constant."""
        res, opnd = (self.length.get(row.var, row.var) if row.var is not None else None for row in pair)
        return res is not opnd

    def of(self, var: RowVar) -> int:
        """Growth of a leaf row."""
        if var in self.stuck:
            return max(0, min((res.count - opnd.count for res, opnd in self.below(var)), default=0))
        return min(max(self.wanted.get(var, 0), self.forced.get(var, 0)), self.cap.get(var, NO_LIMIT))

    def raise_wanted(self, res: Row, opnd: Row, gained: int) -> None:
        """Raises `wanted` of the operand (or equal row) to the rank of the result."""
        if opnd.var is not None:
            self.raise_to(self.wanted, opnd.var, gained + res.count - opnd.count)

    def raise_forced(self, res: Row, opnd: Row, grown: int) -> None:
        """Raises `forced` of the result (or equal row) to the rank of the operand."""
        if res.var is not None:
            self.raise_to(self.forced, res.var, grown + opnd.count - res.count)

    def raise_to(self, bounds: dict[RowVar, int], var: RowVar, axes: int) -> None:
        old = bounds.get(var, 0)
        if old < axes and old <= 2 * MAX_AXES:  # a divergent bound stops above MAX_AXES
            bounds[var] = axes
            self.todo.append(var)
