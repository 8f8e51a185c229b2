"""The number of cells in some rows, or its relation to a size: known before the axes are."""

from __future__ import annotations

from math import prod

from ocannl.infer.mismatch import Mismatch
from ocannl.infer.terms import Cause, Dim, Fact, Row, RowVar, find, print_row, resolve
from ocannl.infer.trail import Trail
from ocannl.infer.unify import set_size


class Total:
    """`whole` is the product of all sizes in `rows`."""

    __slots__ = ("cause", "rows", "text", "watched", "whole")

    def __init__(self, whole: Dim, rows: tuple[Row, ...], *, text: str = "", cause: Cause | None = None) -> None:
        self.whole = whole
        self.rows = rows
        self.text = text
        self.cause = cause
        self.watched: frozenset[Dim | RowVar] = frozenset()

    def fire(self, trail: Trail) -> None:
        whole = find(self.whole)
        rows = tuple(map(resolve, self.rows))
        axes = [find(axis) for row in rows for axis in row.axes]
        row_vars = [row.var for row in rows if row.var is not None]
        self.watch(trail, axes, row_vars)
        known = prod(axis.size for axis in axes if axis.size is not None)
        unknown = [axis for axis in axes if axis.size is None]
        if not row_vars and (not unknown or known == 0):
            if whole.size is None:
                set_size(trail, whole, known, Fact(text=f"the number of cells of `{self.text}`"))
            elif whole.size != known:
                raise self.misfit(rows)
            return
        if whole.size is None:
            return
        if (known == 0) != (whole.size == 0) if known == 0 else whole.size % known:
            raise self.misfit(rows)
        if known == 0 or row_vars:
            return
        if len(unknown) == 1:
            set_size(trail, unknown[0], whole.size // known, Fact(text=f"what is left of `{self.text}`"))
        elif whole.size == known:
            for axis in unknown:
                set_size(trail, axis, 1, Fact(text=f"what is left of `{self.text}`"))

    def watch(self, trail: Trail, axes: list[Dim], row_vars: list[RowVar]) -> None:
        """Look again when an axis or a variable that has appeared is found."""
        now = frozenset((*axes, *row_vars))
        for cell in (*axes, *row_vars):
            if cell not in self.watched:
                if isinstance(cell, Dim):
                    trail.add(cell, "laws", self)
                else:
                    trail.watch(cell, self)
        if not now <= self.watched:
            trail.set(self, "watched", now | self.watched)

    def misfit(self, rows: tuple[Row, ...]) -> Mismatch:
        whole = find(self.whole)
        shown = " and ".join(print_row(row) or "no axes" for row in rows)
        return Mismatch(
            f"`{self.text}` is {shown}, but {whole.fact or 'its number of cells'} is {whole.size}",
            dims=(whole, *(axis for row in rows for axis in row.axes)), cause=self.cause,
            fix="give axes whose product is that number",
        )  # fmt: skip


def attach_total(trail: Trail, total: Total) -> None:
    trail.add(find(total.whole), "laws", total)
    trail.queue.append(total)
