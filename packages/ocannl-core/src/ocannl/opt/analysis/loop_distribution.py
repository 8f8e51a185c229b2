"""Loop distribution: which statements of a body can share a common loop (Kennedy and McKinley 1993)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ocannl.ir.accesses import Access, alias_class
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Buf, row_major
from ocannl.opt.schedule.plan.nest_shape import Strides


@dataclass(frozen=True, slots=True)
class LoopPartition:
    """Positions of the statements before, inside, and after a shared loop."""

    before: tuple[int, ...]
    inside: tuple[int, ...]
    after: tuple[int, ...]


def partition_for_shared_loop(summaries: Sequence[AccessSummary], loop_syms: Sequence[Sym | None]) -> LoopPartition:
    """Partitions statements around a shared loop that contains as many of them as dependences allow.

    `loop_syms` holds the symbol that each statement would share, or None. Statements in the shared loop have no
    dependence between different iterations, and depend on no statement after the loop.
    """
    shared, later = AccessSummary(), AccessSummary()
    before: list[int] = []
    inside: list[int] = []
    after: list[int] = []
    for position, (summary, sym) in enumerate(zip(summaries, loop_syms, strict=True)):
        accesses = summary if sym is None else summary.with_shared_symbol(sym)
        if later.conflicts_with(accesses):
            after.append(position)
            later.add_unshared(accesses)
        elif sym is not None and shared.can_share_loop_with(accesses):
            inside.append(position)
            shared.add(accesses)
        elif shared.conflicts_with(accesses):
            after.append(position)
            later.add_unshared(accesses)
        else:
            before.append(position)
    return LoopPartition(tuple(before), tuple(inside), tuple(after))


class AccessSummary:
    """Storage accessed and written by statements, and the axes of each buffer that a shared symbol indexes."""

    __slots__ = ("_by_symbol", "accessed", "accesses", "axes", "written")

    def __init__(self, accesses: Collection[Access] = (), sym: Sym | None = None) -> None:
        self.accesses = accesses
        self.accessed: set[object] = set()
        self.written: set[object] = set()
        self.axes: dict[object, tuple[Buf, frozenset[int]]] = {}
        self._by_symbol: dict[Sym, AccessSummary] = {}
        for touch in accesses:
            key, buf = alias_class(touch.ref.buf), touch.ref.buf
            if touch.writes:
                self.written.add(key)
            self.accessed.add(key)
            axes = () if sym is None else [n for n, index in enumerate(touch.ref.indices) if index.only_sym is sym]
            indexed = frozenset(axes)
            self.axes[key] = self.common_axes(key, buf, indexed)

    def with_shared_symbol(self, sym: Sym) -> AccessSummary:
        """Returns the summary of the same accesses with `sym` as the shared symbol."""
        if sym not in self._by_symbol:
            self._by_symbol[sym] = AccessSummary(self.accesses, sym)
        return self._by_symbol[sym]

    def common_axes(self, key: object, buf: Buf, indexed: frozenset[int]) -> tuple[Buf, frozenset[int]]:
        """Returns the buffer of this storage and the axes that the shared symbol indexes in all accesses."""
        first, axes = self.axes.get(key, (buf, indexed))
        return first, axes & indexed if first is buf else frozenset()

    def conflicts_with(self, summary: AccessSummary) -> bool:
        """Whether either side writes storage that the other side accesses."""
        return not (self.written.isdisjoint(summary.accessed) and summary.written.isdisjoint(self.accessed))

    def can_share_loop_with(self, summary: AccessSummary) -> bool:
        """Whether iterations of a shared loop access disjoint parts of all storage that either side writes."""
        written = self.written | summary.written
        return all(self.common_axes(key, *entry)[1] for key, entry in summary.axes.items() if key in written)

    def add_unshared(self, summary: AccessSummary) -> None:
        """Adds the reads and writes of `summary` without its axes."""
        self.accessed |= summary.accessed
        self.written |= summary.written

    def add(self, summary: AccessSummary) -> None:
        self.add_unshared(summary)
        for key, entry in summary.axes.items():
            self.axes[key] = self.common_axes(key, *entry)


def strides_without_axis(buf: Buf, axis: int) -> Strides:
    """Returns dense strides of the buffer without `axis`, whose stride is zero; the remaining axes keep their order."""
    remaining = [n for n in range(len(buf.shape)) if n != axis]
    order = sorted(remaining, key=lambda n: (-buf.strides[n], n))
    strides = dict(zip(order, row_major(tuple([buf.shape[n] for n in order])), strict=True))
    return tuple([strides.get(n, 0) for n in range(len(buf.shape))])
