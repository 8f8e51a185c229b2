"""Number of cells of rows: known before the axes, or computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ocannl.infer.mismatch import Mismatch
from ocannl.infer.terms import Cause, DimVar, Evidence, Row, RowVar, Trail, find, print_row, print_rows, resolve
from ocannl.infer.unify import set_size


class CellCount:
    """`whole` is the product of all sizes in `rows`."""

    __slots__ = ("cause", "rows", "text", "total", "watched")

    def __init__(self, total: DimVar, rows: tuple[Row, ...], *, text: str = "", cause: Cause | None = None) -> None:
        self.total = total
        self.rows = rows
        self.text = text
        self.cause = cause
        self.watched: frozenset[DimVar | RowVar] = frozenset()

    def fire(self, trail: Trail) -> None:
        total, axes, row_vars = find(self.total), self.axes, self.row_vars
        self.watch(trail, (total, *axes, *row_vars))
        product = prod(axis.size for axis in axes if axis.size is not None)
        unknown = [axis for axis in axes if axis.size is None]
        if not row_vars and (not unknown or product == 0):
            if total.size is None:
                set_size(trail, total, product, Evidence(text=f"the number of cells of {self.text}"))
            elif total.size != product:
                raise self.mismatch()
        elif total.size is not None:
            if total.size % product if product else total.size:
                raise self.mismatch()
            is_determined = len(unknown) == 1 or (total.size == product and len(set(unknown)) == len(unknown))
            if product and not row_vars and is_determined:
                for axis in unknown:
                    set_size(trail, axis, total.size // product, Evidence(text=f"what is left of {self.text}"))

    @property
    def axes(self) -> list[DimVar]:
        return [find(axis) for row in self.rows for axis in resolve(row).axes]

    @property
    def row_vars(self) -> list[RowVar]:
        return [var for row in self.rows if (var := resolve(row).var) is not None]

    def missing_axis(self, rows: Sequence[Row]) -> tuple[RowVar, DimVar] | None:
        """The axis that completes `rows`, and the open row that receives it: the batch row if open, else the output
        row. None if no row is open, a size is unknown, or no axis is missing."""
        row_vars = [row.var for row in rows if row.var is not None]
        sizes = [find(axis).size for row in rows for axis in row.axes]
        cells = prod(size for size in sizes if size is not None)
        total = find(self.total).size
        if not row_vars or None in sizes or total is None or cells == 0 or total % cells or total == cells:
            return None
        remainder = row_vars[0] if rows[0].var is not None else row_vars[-1]
        return remainder, DimVar(total // cells, None, Evidence(text=self.text))

    def watch(self, trail: Trail, cells: tuple[DimVar | RowVar, ...]) -> None:
        """Watches axes and row variables that have appeared."""
        fresh = [cell for cell in cells if cell not in self.watched]
        for cell in fresh:
            trail.add(cell, "size_equations" if isinstance(cell, DimVar) else "watchers", self)
        if fresh:
            trail.set(self, "watched", self.watched.union(fresh))

    def mismatch(self) -> Mismatch:
        total = find(self.total)
        rows = self.rows
        shown = print_rows((rows[0], rows[1], rows[2])) if len(rows) == 3 else print_row(rows[0])
        sizes = [axis.size for axis in self.axes]
        cells = prod(size for size in sizes if size is not None)
        makes = "a multiple of " if cells and (None in sizes or self.row_vars) else ""
        expected = f"{total.evidence or 'its number of cells'} is {total.size}"
        return Mismatch(
            f"{self.text} is {shown or 'of no axes'}, which makes {makes}{cells} cells, but {expected}",
            dims=(total, *self.axes), causes=(self.cause,), fix=f"give axes whose product is {total.size}",
        )  # fmt: skip
