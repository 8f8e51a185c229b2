"""Expressions in a plane of lanes: the values of each row, and cells that are turned (see `codegen.turned`)."""

from __future__ import annotations

from copy import copy

from ocannl.codegen.c_family import transpose
from ocannl.codegen.c_family.expressions import Values
from ocannl.codegen.c_family.infix import Term, unary
from ocannl.codegen.c_family.vector_expressions import Lanes
from ocannl.codegen.transpose import Turning
from ocannl.ir.index import Sym
from ocannl.ir.loops import Expr, Ref
from ocannl.ir.precision import Precision


class Plane:
    """`rows` of `width` lanes each; `one` has what all share."""

    def __init__(self, one: Values, sym: Sym, rows: range, lane: Sym, first: int, width: int) -> None:
        self.turning, self.width = Turning(sym, lane), width
        self.rows: list[Values] = []
        for row in rows:
            mine = copy(one)
            mine.syms, mine.variables = {**one.syms, sym: row, lane: first}, dict(one.variables)
            self.rows.append(Row(mine, lane, first, width) if width > 1 else mine)

    def type(self, precision: Precision) -> str:
        row = self.rows[0]
        assert isinstance(row, Row)
        return row.type(precision)

    def turns(self, ref: Ref) -> bool:
        return self.width > 1 and self.turning.turns(ref)

    def read(self, value: Expr) -> list[Ref]:
        """What is read, whatever holds, of cells to be turned."""
        return self.turning.read(value) if self.width > 1 else []

    def taken(self, ref: Ref, columns: str) -> str:
        """A statement that puts the rows of the cells into an array, where they are from now on."""
        for n, row in enumerate(self.rows):
            assert isinstance(row, Row)
            row.turned[ref] = Term(f"{columns}[{n}]")
        row = self.rows[0]
        assert isinstance(row, Row)
        function = transpose.take(row.dialect, ref.buf.precision, len(self.rows), self.width)
        step = Term(str(ref.stride(self.turning.lane)))
        return f"{row.call(function, Term(columns), unary('&', row.one.place(ref)), step).text};"

    def put(self, ref: Ref, rows: str) -> str:
        """A statement that writes the cells from an array of rows."""
        row = self.rows[0]
        assert isinstance(row, Row)
        function = transpose.put(row.dialect, ref.buf.precision, len(self.rows), self.width)
        step = Term(str(ref.stride(self.turning.lane)))
        return f"{row.call(function, unary('&', row.one.place(ref)), step, Term(rows)).text};"

    def forget(self) -> None:
        """Cells are to be read again."""
        for row in self.rows:
            if isinstance(row, Row):
                row.turned.clear()


class Row(Lanes):
    """The lanes of a row; some cells have been turned already."""

    __slots__ = ("turned",)

    def __init__(self, one: Values, sym: Sym, first: int, width: int) -> None:
        super().__init__(one, sym, first, width)
        self.turned: dict[Ref, Term] = {}

    def place(self, ref: Ref) -> Term:
        return self.turned[ref] if ref in self.turned else super().place(ref)
