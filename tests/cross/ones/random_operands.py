"""Random sizes, rows and operands; half of all axes have size 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from ones.operations import Operation
from ones.program import Leaf, Line, Statement
from ones.rows import SCALAR, Axis, Refused, Row, Rows, Unspecified, broadcast_shapes, cells

SIZES, WEIGHTS = (1, 2, 3, 4, 5, 6), (45, 20, 16, 7, 7, 5)
UNIT = "u"  # axes that have none may take this one from what they meet
LENGTHS = ((0, 0, 1, 1, 1, 2, 2, 3), (0, 0, 0, 1, 1, 2), (0, 1, 1, 2, 2, 3))  # batch, input, output
MAX_CELLS = 240
MAX_AXES = 5  # of a row


@dataclass
class OperandPool:
    """Statements written so far, and the tensors that they name.

    open      the leaves whose rows are partly left out, and whatever is computed from them
    units     axes of new leaves may have units
    empty     sizes of new leaves may be 0
    """

    random: Random
    statements: list[Statement] = field(default_factory=list)
    rows: dict[str, Rows] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    prefix: str = ""
    share_open: float = 0.0
    units: bool = False
    empty: bool = False

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def name(self, letter: str) -> str:
        return f"{self.prefix}{letter}{len(self.statements) + 1}"

    # --- rows ---

    def size(self) -> int:
        if self.empty and self.chance(0.08):
            return 0
        return self.random.choices(SIZES, WEIGHTS)[0]

    def axis(self) -> Axis:
        size = self.size()
        return Axis(size, UNIT if self.units and size > 1 and self.chance(0.4) else None)

    def row(self, kind: int) -> Row:
        return tuple(self.axis() for _ in range(self.random.choice(LENGTHS[kind])))

    def some_rows(self) -> Rows:
        rows = self.row(0), self.row(1), self.row(2)
        return rows if cells(rows) <= MAX_CELLS else (rows[0][:1], (), rows[2][:1])

    def beside(self, row: Row) -> Row:
        """A row that broadcasts with this one: shorter or longer, with some sizes 1, and some 1 replaced."""
        if self.chance(0.25):
            row = row[self.random.randint(0, len(row)) :]
        elif self.chance(0.2) and len(row) < 3:
            row = (self.axis(), *row)
        return tuple(self.axis_beside(axis) for axis in row)

    def axis_beside(self, axis: Axis) -> Axis:
        if axis == Axis(1):
            return self.axis() if self.chance(0.5) else axis
        return Axis(1) if self.chance(0.35) and axis.unit is None else Axis(axis.size)

    def spoiled(self, rows: Rows) -> Rows:
        """Rows that may not fit where these do."""
        changed = list(rows)
        kind = self.random.choice([k for k in range(3) if rows[k]] or [2])
        row = list(rows[kind])
        if row and self.chance(0.75):
            n = self.random.randrange(len(row))
            row[n] = Axis(self.size() if row[n].size != 1 or self.chance(0.5) else self.random.choice((2, 3)))
        elif row and self.chance(0.5):
            del row[self.random.randrange(len(row))]
        else:
            row.insert(self.random.randint(0, len(row)), self.axis())
        changed[kind] = tuple(row)
        return changed[0], changed[1], changed[2]

    # --- tensors ---

    def leaf(self, rows: Rows, decided: Sequence[int] = ()) -> str:
        """A new leaf. Rows of the kinds `decided` follow from its use, and may be left out."""
        if cells(rows) > MAX_CELLS:
            rows = SCALAR
        role = self.random.choice(("data", "data", "data", "param", "param", "placeholder", "node"))
        hidden: frozenset[int] = frozenset()
        if self.chance(self.share_open):
            role = self.random.choice(("param", "param", "placeholder"))
            kinds = [k for k in range(3) if (self.chance(0.8) if k in decided else self.chance(0.05))]
            hidden = frozenset(k for k in kinds if role != "param" or k)
        leaf = Leaf(self.name("x"), rows, role, self.random.randrange(1000), hidden)
        self.statements.append(leaf)
        self.rows[leaf.name] = rows
        if hidden:
            self.open.add(leaf.name)
        return leaf.name

    def pick(self, fits: Callable[[Rows], bool] = lambda rows: True, new: float = 0.2) -> str:
        """A tensor of the last ones, if one fits, or a new leaf."""
        if not self.chance(new):
            fine = [name for name in list(self.rows)[-9:] if fits(self.rows[name])]
            if fine:
                return self.random.choice(fine)
        for _ in range(5):
            rows = self.some_rows()
            if fits(rows):
                return self.leaf(rows)
        return self.leaf(rows)

    def partner(self, *names: str) -> str:
        """A tensor that broadcasts with these."""
        shapes = [self.rows[name] for name in names]
        if self.chance(0.5):
            fine = [name for name in list(self.rows)[-9:] if broadcasts([*shapes, self.rows[name]])]
            if fine:
                return self.random.choice(fine)
        rows = shapes[-1]
        if self.chance(self.share_open):
            return self.leaf(rows, range(3))
        beside = self.beside(rows[0]), self.beside(rows[1]), self.beside(rows[2])
        return self.leaf(self.spoiled(beside) if self.chance(0.12) else beside)

    def apply(self, operation: Operation, names: Sequence[str], ill: float = 0.5) -> Line | None:
        """Write an operation, if its shape is specified and small; what is refused is written with the rule."""
        shapes = [self.rows[name] for name in names]
        is_open = not self.open.isdisjoint(names)
        line = Line(self.name("t"), operation, tuple(names))
        try:
            rows = operation.shape(shapes)
        except Refused as refused:
            if is_open or not self.chance(ill):
                return None
            line = Line(line.name, operation, line.operands, SCALAR, refused.rule)
        except Unspecified:
            return None
        else:
            if cells(rows) > MAX_CELLS or max(map(len, rows)) > MAX_AXES:
                return None
            line = Line(line.name, operation, line.operands, rows)
            self.rows[line.name] = rows
            if is_open:
                self.open.add(line.name)
        self.statements.append(line)
        return line


def broadcasts(shapes: Sequence[Rows]) -> bool:
    try:
        return cells(broadcast_shapes(shapes)) <= MAX_CELLS
    except Refused:
        return False
