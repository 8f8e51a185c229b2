"""Loop nests with indices that are loaded: gathers and scatters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ocannl.ir.affine import Sym, SymKind
from ocannl.ir.loops import BindIndex, For, Ref, Stmt, Store, Update, is_full
from ocannl.opt.analysis.nests import loads


@dataclass(frozen=True, slots=True)
class IndirectNest:
    """Full loops and at least one bound index around a single store or update."""

    loops: tuple[For, ...]
    indices: tuple[BindIndex, ...]
    leaf: Store | Update

    @property
    def syms(self) -> set[Sym]:
        """The symbols of the loops and of the loaded indices."""
        return {loop.sym for loop in self.loops} | {index.sym for index in self.indices}

    @property
    def reads(self) -> Iterator[Ref]:
        yield from loads(self.leaf.value)
        yield from self.index_reads

    @property
    def index_reads(self) -> Iterator[Ref]:
        for index in self.indices:
            yield from loads(index.value)

    @property
    def is_gather(self) -> bool:
        """Whether no index of the cell that is written is loaded."""
        return {index.sym for index in self.indices}.isdisjoint(self.leaf.ref.syms)


def indirect_nest_of(stmt: Stmt) -> IndirectNest | None:
    """Returns the statement as an indirect nest, or None if it is none."""
    loops: list[For] = []
    indices: list[BindIndex] = []
    while True:
        match stmt:
            case For(body=(inner,)) if is_full(stmt) and stmt.sym.extent and not stmt.parallel_chunk:
                loops.append(stmt)
            case BindIndex(sym, _, (inner,)) if sym.kind is SymKind.INDIRECT:
                indices.append(stmt)
            case Update() | Store() if indices:
                return IndirectNest(tuple(loops), tuple(indices), stmt)
            case _:
                return None
        stmt = inner
