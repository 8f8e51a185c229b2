"""Race detector: runs parallel loops in random order; reports accesses of one iteration to cells written by another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from ocannl.ir.accesses import alias_class
from ocannl.ir.interpret import Write
from ocannl.ir.loops import Buf, MemorySpace

Cell = tuple[object, int]


class Claims(Random):
    """Random order of the iterations of parallel loops for `interpret`; `watch` must be called for every write.

    The interpreter goes through one iteration after the other, so that what two threads would do to one cell need not
    show in the values: it is in `races`.
    """

    def __init__(self, seed: int | str) -> None:
        super().__init__(seed)
        self.races: list[str] = []
        self.iteration: int | None = None  # of the loop at hand, if it is shared
        self._readers: dict[Cell, set[int]] = {}
        self._writer: dict[Cell, int] = {}

    def sample(self, population: Sequence[int], k: int) -> Iterator[int]:  # type: ignore[override]
        self._readers, self._writer = {}, {}
        for self.iteration in super().sample(population, k):
            yield self.iteration
        self.iteration = None

    def watch(self, write: Write) -> None:
        if self.iteration is None:
            return
        for cell in write.read:
            if cell.buf.space is not MemorySpace.LOCAL:
                self._readers.setdefault(_cell(cell.buf, cell.at), set()).add(self.iteration)
                self._meet(_cell(cell.buf, cell.at), f"reads {cell.buf.name}{list(cell.at)}")
        buf = write.stmt.ref.buf
        if buf.space is not MemorySpace.LOCAL:  # which every iteration has for itself
            self._meet(_cell(buf, write.at), f"writes {buf.name}{list(write.at)}")
            self._writer[_cell(buf, write.at)] = self.iteration
            if self._readers.get(_cell(buf, write.at), set()) - {self.iteration}:
                self.races.append(f"iteration {self.iteration} writes {buf.name}{list(write.at)}, which others read")

    def _meet(self, cell: Cell, access: str) -> None:
        writer = self._writer.get(cell, self.iteration)
        if writer != self.iteration:
            self.races.append(f"iteration {self.iteration} {access}, which iteration {writer} writes")


def _cell(buf: Buf, at: tuple[Any, ...]) -> Cell:
    return alias_class(buf), sum(n * stride for n, stride in zip(at, buf.strides, strict=True))
