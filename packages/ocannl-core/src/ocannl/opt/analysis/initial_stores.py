"""Reaching initializations: the stores that set the cells of a buffer before an update accumulates into them."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import Buf, Expr, Store, Update
from ocannl.opt.analysis.nests import AccessTable, PerfectNest, covering_loops, loads, unit_covering_loops
from ocannl.opt.analysis.substitution import substitute


@dataclass(frozen=True, slots=True)
class InitialStore:
    """The nest at `position` only initializes the cells of a later update to `value`, given in the update's loops."""

    position: int
    value: Expr


class InitialStores:
    """Tracks the initializing store of each buffer while a caller visits the nests of a body in order."""

    __slots__ = ("last_stores", "table")

    def __init__(self, table: AccessTable) -> None:
        self.table = table
        self.last_stores: dict[Buf, tuple[int, PerfectNest]] = {}  # of buffers whose last write stores every cell once

    def record(self, position: int, nest: PerfectNest) -> None:
        """Records the nest at this position as the last write of its buffer."""
        buf = nest.leaf.ref.buf
        self.last_stores.pop(buf, None)
        stores_once = unit_covering_loops(nest.leaf.ref, nest.loops) == {loop.sym for loop in nest.loops}
        if stores_once and nest.cond.is_true and isinstance(nest.leaf, Store):
            self.last_stores[buf] = (position, nest)

    def initial_store(self, position: int, nest: PerfectNest) -> InitialStore | None:
        """Returns the store that the update in `nest` can absorb: it reaches the update, which visits every cell of the
        buffer at a fixed point of its loops."""
        if not isinstance(nest.leaf, Update) or covering_loops(nest.leaf.ref, nest.loops) is None:
            return None
        initialization = self.reaching_initialization(position, nest)
        if initialization is None:
            return None
        store_position, store = initialization
        values: dict[Sym, Affine] = {}
        for stored_index, updated_index in zip(store.leaf.ref.indices, nest.leaf.ref.indices, strict=True):
            if stored_index.only_sym is not None:
                values[stored_index.only_sym] = updated_index
        return InitialStore(store_position, substitute(store.leaf.value, values))

    def reaching_initialization(self, position: int, nest: PerfectNest) -> tuple[int, PerfectNest] | None:
        """Returns the position and nest of the store that initializes every cell written by `nest`, if no statement in
        between reads these cells or writes an operand of the store."""
        buf, table = nest.leaf.ref.buf, self.table
        if buf not in self.last_stores:
            return None
        store_position, store = self.last_stores[buf]
        if table.written_between(buf, store_position, position):
            return None
        if table.read_between(buf, store_position, position + 1):
            return None
        for ref in loads(store.leaf.value):
            if ref.buf is buf or table.written_between(ref.buf, store_position, position):
                return None
        return store_position, store
