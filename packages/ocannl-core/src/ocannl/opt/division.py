"""Which statements of a program can share a loop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ocannl.ir.index import Sym
from ocannl.ir.loops import Buf, row_major
from ocannl.ir.touch import Touch, storage
from ocannl.opt.plan.model import Strides


@dataclass(frozen=True, slots=True)
class Division:
    """Places of the statements that can share a loop, of those that can stand before it, and of those after it."""

    before: tuple[int, ...]
    inside: tuple[int, ...]
    after: tuple[int, ...]


def divided(touched: Sequence[Touched], heads: Sequence[Sym | None]) -> Division:
    """Of statements, as many as possible of those that have a symbol to share: which touch nothing of what another one
    writes in another iteration, and do not come after what must come after the loop."""
    shared, late = Touched(), Touched()
    before: list[int] = []
    inside: list[int] = []
    after: list[int] = []
    for at, (each, sym) in enumerate(zip(touched, heads, strict=True)):
        here = each if sym is None else each.along(sym)
        if late.meets(here):
            after.append(at)
            late.join(here)
        elif sym is not None and shared.admits(here):
            inside.append(at)
            shared.add(here)
        elif shared.meets(here):
            after.append(at)
            late.join(here)
        else:
            before.append(at)
    return Division(tuple(before), tuple(inside), tuple(after))


class Touched:
    """What statements read and write, and along which axes of it a shared symbol counts."""

    __slots__ = ("_along", "axes", "found", "read", "written")

    def __init__(self, found: Collection[Touch] = (), sym: Sym | None = None) -> None:
        self.found = found
        self.read: set[object] = set()
        self.written: set[object] = set()
        self.axes: dict[object, tuple[Buf, frozenset[int]]] = {}
        self._along: dict[Sym, Touched] = {}
        for touch in found:
            key, buf = storage(touch.ref.buf), touch.ref.buf
            if touch.writes:
                self.written.add(key)
            if not touch.writes or touch.op is not None:
                self.read.add(key)
            axes = () if sym is None else [n for n, place in enumerate(touch.ref.at) if place.only_sym is sym]
            along = frozenset(axes)
            self.axes[key] = self.common(key, buf, along)

    def along(self, sym: Sym) -> Touched:
        """The same where this symbol is shared."""
        if sym not in self._along:
            self._along[sym] = Touched(self.found, sym)
        return self._along[sym]

    def common(self, key: object, buf: Buf, along: frozenset[int]) -> tuple[Buf, frozenset[int]]:
        known, axes = self.axes.get(key, (buf, along))
        return known, axes & along if known is buf else frozenset()

    def meets(self, other: Touched) -> bool:
        """Whether one writes what the other one touches."""
        return not (
            self.written.isdisjoint(other.read | other.written) and other.written.isdisjoint(self.read)
        )

    def admits(self, other: Touched) -> bool:
        """Whether all that one of them writes is touched by each iteration at places of its own."""
        written = self.written | other.written
        return all(self.common(key, *place)[1] for key, place in other.axes.items() if key in written)

    def join(self, other: Touched) -> None:
        """Whatever the other one reads and writes, along no axes."""
        self.read |= other.read
        self.written |= other.written

    def add(self, other: Touched) -> None:
        self.join(other)
        for key, place in other.axes.items():
            self.axes[key] = self.common(key, *place)


def without_axis(buf: Buf, axis: int) -> Strides:
    """Of the array without the axis, with the zero for it: the others in the same order in memory."""
    rest = [n for n in range(len(buf.shape)) if n != axis]
    order = sorted(rest, key=lambda n: (-buf.strides[n], n))
    steps = dict(zip(order, row_major(tuple([buf.shape[n] for n in order])), strict=True))
    return tuple([steps.get(n, 0) for n in range(len(buf.shape))])
