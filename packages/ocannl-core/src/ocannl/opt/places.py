"""Which statements of a program touch which arrays, while statements move."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from ocannl.ir.loops import Buf, Stmt, Update
from ocannl.ir.touch import storage, touches
from ocannl.opt.group import Group


class Places:
    """Statements are known by their places in the body; one that moved has the place of the one that took it over. An
    update reads as well as writes."""

    __slots__ = ("_read", "_readers", "_writers", "_written")

    def __init__(self, stmts: list[Stmt | None]) -> None:
        self._read: dict[int, set[object]] = {}
        self._written: dict[int, set[object]] = {}
        self._readers: dict[object, list[int]] = {}
        self._writers: dict[object, list[int]] = {}
        for at, stmt in enumerate(stmts):
            here = touches((stmt,)) if stmt is not None else []
            self._read[at] = {storage(t.ref.buf) for t in here if not t.writes or t.op is not None}
            self._written[at] = {storage(t.ref.buf) for t in here if t.writes}
            for keys, table in ((self._read[at], self._readers), (self._written[at], self._writers)):
                for key in keys:
                    table.setdefault(key, []).append(at)

    def copy(self) -> Places:
        made = Places([])
        made._read, made._written = ({at: set(keys) for at, keys in t.items()} for t in (self._read, self._written))
        made._readers, made._writers = ({k: list(v) for k, v in t.items()} for t in (self._readers, self._writers))
        return made

    def newest(self, buf: Buf, before: int) -> int:
        """Who wrote it last; -1 if nobody did."""
        places = self._writers.get(storage(buf), [])
        at = bisect_left(places, before)
        return places[at - 1] if at else -1

    def touching(self, bufs: Iterable[Buf], but: int) -> list[int]:
        """Who reads or writes one of them, but for one statement."""
        keys = {storage(buf) for buf in bufs}
        places = {at for table in (self._readers, self._writers) for key in keys for at in table.get(key, ())}
        return sorted(places - {but})

    def is_read(self, buf: Buf) -> bool:
        return bool(self._readers.get(storage(buf)))

    def only(self, buf: Buf, place: int) -> bool:
        """Whether nobody else touches the array."""
        key = storage(buf)
        return all(at == place for table in (self._readers, self._writers) for at in table.get(key, ()))

    def may_move(self, at: int, to: int) -> bool:
        """Whether the statement may stand right beside the other one, as far as those between them mind."""
        first, last = min(at, to), max(at, to)
        if any(_between(self._writers.get(key), first, last) for key in self._read[at] | self._written[at]):
            return False
        return not any(_between(self._readers.get(key), first, last) for key in self._written[at])

    def meet(self, one: int, other: int) -> tuple[int, int] | None:
        """Where the two may stand as one, rather the second place, and which is empty then."""
        for gone, place in ((one, other), (other, one)):
            if self.may_move(gone, place):
                return place, gone
        return None

    def merge(self, gone: int, place: int) -> None:
        for mine, table in ((self._read, self._readers), (self._written, self._writers)):
            for key in mine[gone]:
                table[key].remove(gone)
                if key not in mine[place]:
                    insort(table[key], place)
            mine[place] |= mine.pop(gone)
            mine[gone] = set()

    def forget(self, place: int, group: Group) -> None:
        """What the group no longer reads, now that it has it in registers."""
        updated = [stmt.ref for stmt in group.tail if isinstance(stmt, Update)]
        now = {storage(ref.buf) for ref in (*group.reads, *updated)}
        for key in self._read[place] - now:
            self._readers[key].remove(place)
        self._read[place] &= now


def _between(places: list[int] | None, first: int, last: int) -> bool:
    return places is not None and bisect_left(places, last) > bisect_right(places, first)
