"""Dependences between the statements of a program, kept up to date while passes move and merge statements."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from ocannl.ir.accesses import alias_class, memory_accesses
from ocannl.ir.loops import Buf, Stmt, Update
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import any_between


class AccessIndex:
    """Reads and writes of each statement and of each storage, by position in the body. An update counts as a read and a
    write; merged statements share the position of the merge target."""

    __slots__ = ("_read", "_readers", "_writers", "_written")

    def __init__(self, stmts: list[Stmt | None]) -> None:
        self._read: dict[int, set[object]] = {}
        self._written: dict[int, set[object]] = {}
        self._readers: dict[object, list[int]] = {}
        self._writers: dict[object, list[int]] = {}
        for position, stmt in enumerate(stmts):
            accesses = memory_accesses((stmt,)) if stmt is not None else []
            self._read[position] = {alias_class(t.ref.buf) for t in accesses if not t.writes or t.op is not None}
            self._written[position] = {alias_class(t.ref.buf) for t in accesses if t.writes}
            for keys, table in ((self._read[position], self._readers), (self._written[position], self._writers)):
                for key in keys:
                    table.setdefault(key, []).append(position)

    def copy(self) -> AccessIndex:
        result = AccessIndex([])
        result._read, result._written = ({at: set(keys) for at, keys in t.items()} for t in (self._read, self._written))
        result._readers, result._writers = ({k: list(v) for k, v in t.items()} for t in (self._readers, self._writers))
        return result

    def reaching_write(self, buf: Buf, before: int) -> int:
        """Returns the position of the last write before a position; -1 if there is none."""
        positions = self._writers.get(alias_class(buf), [])
        count = bisect_left(positions, before)
        return positions[count - 1] if count else -1

    def depths(self) -> list[int]:
        """Returns, for each statement, the length of the longest chain of statements that each read what the one before
        has written, and that ends with it. Other dependences do not count."""
        depth_of: dict[object, int] = {}  # of the longest chain that ends with a write of a storage
        depths: list[int] = []
        for position, written in self._written.items():
            depth = 1 + max((depth_of.get(key, 0) for key in self._read[position]), default=0)
            depth_of |= {key: max(depth, depth_of.get(key, 0)) for key in written}
            depths.append(depth)
        return depths

    def accessors(self, bufs: Iterable[Buf], excluded: int) -> list[int]:
        """Returns the positions of all statements but one that read or write any of the buffers."""
        keys = {alias_class(buf) for buf in bufs}
        positions = {at for table in (self._readers, self._writers) for key in keys for at in table.get(key, ())}
        return sorted(positions - {excluded})

    def is_read(self, buf: Buf) -> bool:
        return bool(self._readers.get(alias_class(buf)))

    def is_sole_accessor(self, buf: Buf, position: int) -> bool:
        """Whether no statement at another position accesses the buffer."""
        key = alias_class(buf)
        return all(at == position for table in (self._readers, self._writers) for at in table.get(key, ()))

    def can_move_next_to(self, source: int, target: int) -> bool:
        """Whether no dependence on a statement between the two positions prevents the move."""
        first, last = min(source, target), max(source, target)
        accessed = self._read[source] | self._written[source]
        if any(any_between(self._writers.get(key, ()), first, last) for key in accessed):
            return False
        return not any(any_between(self._readers.get(key, ()), first, last) for key in self._written[source])

    def common_position(self, first: int, second: int) -> tuple[int, int] | None:
        """Returns where the two statements can be merged, preferably at `second`, and the position vacated by this."""
        for source, target in ((first, second), (second, first)):
            if self.can_move_next_to(source, target):
                return target, source
        return None

    def merge(self, source: int, target: int) -> None:
        """Records that the statement at `source` became a part of the statement at `target`."""
        for keys, table in ((self._read, self._readers), (self._written, self._writers)):
            for key in keys[source]:
                table[key].remove(source)
                if key not in keys[target]:
                    insort(table[key], target)
            keys[target] |= keys.pop(source)
            keys[source] = set()

    def narrow_reads(self, position: int, group: FusionGroup) -> None:
        """Removes reads that the group no longer performs because it forwards the values in registers."""
        updated = [stmt.ref for stmt in group.epilogue if isinstance(stmt, Update)]
        remaining = {alias_class(ref.buf) for ref in (*group.reads, *updated)}
        for key in self._read[position] - remaining:
            self._readers[key].remove(position)
        self._read[position] &= remaining
