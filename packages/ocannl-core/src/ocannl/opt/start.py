"""What the cells of a buffer hold when an update comes to meet them."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Buf, Expr, Store, Update
from ocannl.opt.nest import Nest, Table, grid, loads, walked
from ocannl.opt.substitute import substitute


@dataclass(frozen=True, slots=True)
class Start:
    """The nest at position `fill` does no more than give the cells of a later update this first value."""

    fill: int
    value: Expr


class Starts:
    """Goes through a body with its reader, who shows it each nest in order."""

    __slots__ = ("newest", "table")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.newest: dict[Buf, tuple[int, Nest]] = {}  # the last write, where it stores every cell once

    def note(self, at: int, nest: Nest) -> None:
        """This nest stands at this position."""
        buf = nest.leaf.ref.buf
        self.newest.pop(buf, None)
        once = grid(nest.leaf.ref, nest.loops) == {loop.sym for loop in nest.loops}
        if once and nest.cond.is_true and isinstance(nest.leaf, Store):
            self.newest[buf] = (at, nest)

    def of(self, at: int, nest: Nest) -> Start | None:
        """The fill whose value may as well be computed by this update, where the update reaches every cell at a fixed
        point of its loops: nothing in between reads the cells or changes what the fill reads."""
        if not isinstance(nest.leaf, Update) or walked(nest.leaf.ref, nest.loops) is None:
            return None
        found = self.fill(at, nest)
        if found is None:
            return None
        fill_at, fill = found
        values: dict[Sym, Affine] = {}
        for mine, its in zip(fill.leaf.ref.at, nest.leaf.ref.at, strict=True):
            if mine.only_sym is not None:
                values[mine.only_sym] = its
        return Start(fill_at, substitute(fill.leaf.value, values))

    def fill(self, at: int, nest: Nest) -> tuple[int, Nest] | None:
        """Where every cell of what the nest writes was stored before, and how, if it makes no difference to do that
        just before the nest."""
        buf, table = nest.leaf.ref.buf, self.table
        if buf not in self.newest:
            return None
        fill_at, fill = self.newest[buf]
        if table.written_between(buf, fill_at, at) or table.read_between(buf, fill_at, at + 1):
            return None
        for ref in loads(fill.leaf.value):
            if ref.buf is buf or table.written_between(ref.buf, fill_at, at):
                return None
        return fill_at, fill
