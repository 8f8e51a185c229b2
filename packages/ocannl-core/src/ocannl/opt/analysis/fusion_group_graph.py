"""The fusion groups of a program, with the dependences between them."""

from __future__ import annotations

from collections.abc import Iterator

from ocannl.ir.loops import Buf, Proc, Store
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.dependences import AccessIndex
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of
from ocannl.opt.analysis.nests import bound_names


class ProgramGroups:
    """The statements of a program that are fusion groups, by position in the body."""

    def __init__(self, proc: Proc) -> None:
        self.names = Namer(bound_names(proc))
        groups = ((position, group_of(stmt, self.names)) for position, stmt in enumerate(proc.body))
        self.groups = {position: group for position, group in groups if group is not None}
        self.accesses = AccessIndex(list(proc.body))

    def readers(self, position: int, buf: Buf) -> Iterator[tuple[int, FusionGroup]]:
        """Yields the groups that read the value that the statement at `position` writes to the array."""
        for reader in self.accesses.accessors([buf], position):
            if reader in self.groups and self.accesses.reaching_write(buf, reader) == position:
                yield reader, self.groups[reader]

    def store_to(self, position: int, buf: Buf) -> Store:
        """The store to the array in the epilogue of a group."""
        epilogue = self.groups[position].epilogue
        return next(stmt for stmt in epilogue if isinstance(stmt, Store) and stmt.ref.buf is buf)
