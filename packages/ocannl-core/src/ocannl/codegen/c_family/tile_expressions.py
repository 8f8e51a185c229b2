"""Expressions of register tiles: scalar or vector expressions of each row, and transposed accesses."""

from __future__ import annotations

from copy import copy

from ocannl.codegen.c_family import transpose
from ocannl.codegen.c_family.expressions import ScalarExpressions
from ocannl.codegen.c_family.infix import ExprText, unary
from ocannl.codegen.c_family.vector_expressions import VectorExpressions
from ocannl.codegen.register_transpose import TransposedAccess
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Expr, Ref
from ocannl.ir.precision import Precision


class RegisterTile:
    """`rows` of `width` lanes each; `scalar` holds the names visible in all rows."""

    def __init__(self, scalar: ScalarExpressions, sym: Sym, rows: range, lane: Sym, first: int, width: int) -> None:
        self.access, self.width = TransposedAccess(sym, lane), width
        self.rows: list[ScalarExpressions] = []
        for row in rows:
            row_scalar = copy(scalar)
            row_scalar.syms, row_scalar.variables = {**scalar.syms, sym: row, lane: first}, dict(scalar.variables)
            self.rows.append(TileRow(row_scalar, lane, first, width) if width > 1 else row_scalar)

    def type(self, precision: Precision) -> str:
        row = self.rows[0]
        assert isinstance(row, TileRow)
        return row.type(precision)

    def is_transposed(self, ref: Ref) -> bool:
        return self.width > 1 and self.access.is_transposed(ref)

    def transposed_reads(self, value: Expr) -> list[Ref]:
        """The transposed reads of `value` that are safe to hoist out of guards."""
        return self.access.hoistable_reads(value) if self.width > 1 else []

    def load_statement(self, ref: Ref, columns: str) -> str:
        """A statement that loads the cells, transposed, into the array `columns`; later reads use the array."""
        for n, row in enumerate(self.rows):
            assert isinstance(row, TileRow)
            row.columns[ref] = ExprText(f"{columns}[{n}]")
        row = self.rows[0]
        assert isinstance(row, TileRow)
        function = transpose.transposed_load(row.dialect, ref.buf.precision, len(self.rows), self.width)
        step = ExprText(str(ref.stride(self.access.lane)))
        return f"{row.call(function, ExprText(columns), unary('&', row.scalar.cell(ref)), step).text};"

    def store_statement(self, ref: Ref, rows: str) -> str:
        """A statement that stores the array `rows`, transposed, to the cells."""
        row = self.rows[0]
        assert isinstance(row, TileRow)
        function = transpose.transposed_store(row.dialect, ref.buf.precision, len(self.rows), self.width)
        step = ExprText(str(ref.stride(self.access.lane)))
        return f"{row.call(function, unary('&', row.scalar.cell(ref)), step, ExprText(rows)).text};"

    def invalidate(self) -> None:
        """Discards the loaded arrays, so that later reads load the cells again."""
        for row in self.rows:
            if isinstance(row, TileRow):
                row.columns.clear()


class TileRow(VectorExpressions):
    """The lanes of one row; `columns` holds the vectors of cells that were loaded transposed."""

    __slots__ = ("columns",)

    def __init__(self, scalar: ScalarExpressions, sym: Sym, first: int, width: int) -> None:
        super().__init__(scalar, sym, first, width)
        self.columns: dict[Ref, ExprText] = {}

    def cell(self, ref: Ref) -> ExprText:
        return self.columns[ref] if ref in self.columns else super().cell(ref)
