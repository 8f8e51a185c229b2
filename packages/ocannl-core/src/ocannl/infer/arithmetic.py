"""Sizes that are computed from sizes. A law waits until all but one of its cells are known, then tells that one.

    Strided      an axis that a window or a stride walks over
    Sum          axes laid one after another
    Product      axes merged into one
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import isqrt, prod

from ocannl.infer.mismatch import Mismatch
from ocannl.infer.spec import Padding
from ocannl.infer.terms import Cause, Dim, Fact, find
from ocannl.infer.trail import Trail
from ocannl.infer.unify import set_least, set_size, set_unit


class Strided:
    """A window or a stride over an axis; `text` is how the user wrote it.

    axis = offset + stride*(over-1) + dilation*(taps-1) + 1    every tap inside
    axis = stride*over                                        padded
    axis = stride*(over + offset//stride)                     without taps
    axis covers what is read                                  neither mark
    """

    __slots__ = ("axis", "cause", "dilation", "offset", "over", "padding", "stride", "taps", "text")

    def __init__(
        self, axis: Dim, over: Dim, taps: Dim | None, *, stride: int = 1, offset: int = 0, dilation: int = 1,
        padding: Padding = Padding.UNSTATED, text: str = "", cause: Cause | None = None,
    ) -> None:  # fmt: skip
        self.axis = axis
        self.over = over
        self.taps = taps
        self.stride = stride
        self.offset = offset
        self.dilation = dilation
        self.padding = padding
        self.text = text
        self.cause = cause

    @property
    def whole(self) -> Dim:
        return self.axis

    @property
    def parts(self) -> tuple[Dim, ...]:
        return (self.over,) if self.taps is None else (self.over, self.taps)

    def fire(self, trail: Trail) -> None:
        self.share_unit(trail)
        if self.taps is None or self.padding is Padding.SAME:
            self.fire_plain(trail, self.offset // self.stride if self.taps is None else 0)
        else:
            self.fire_window(trail, find(self.taps))

    def fire_plain(self, trail: Trail, skipped: int) -> None:
        axis, over = find(self.axis), find(self.over)
        if over.size is not None:
            self.tell(trail, axis, self.stride * (over.size + skipped))
        elif axis.size is not None:
            self.tell(trail, over, self.divide(axis.size, self.stride, "stride") - skipped)

    def fire_window(self, trail: Trail, taps: Dim) -> None:
        axis, over = find(self.axis), find(self.over)
        if taps.size == 0 or over.size == 0:
            raise self.misfit("a window needs a tap and a place")
        if over.size is not None and taps.size is not None:
            reach = self.offset + self.stride * (over.size - 1) + self.dilation * (taps.size - 1) + 1
            if self.padding is Padding.VALID:
                self.tell(trail, axis, reach)
            else:
                set_least(trail, axis, reach)
        elif axis.size is not None and self.padding is Padding.VALID:
            if taps.size is not None:
                room = axis.size - self.offset - self.dilation * (taps.size - 1) - 1
                self.tell(trail, over, self.divide(room, self.stride, "stride") + 1)
            elif over.size is not None:
                room = axis.size - self.offset - self.stride * (over.size - 1) - 1
                self.tell(trail, taps, self.divide(room, self.dilation, "dilation") + 1)

    def tell(self, trail: Trail, cell: Dim, size: int) -> None:
        if size < 0 or (cell.size is not None and cell.size != size):
            raise self.misfit(f"{size} would fit in place of {cell.size}" if size >= 0 else "nothing is left")
        if cell.size is None:
            set_size(trail, cell, size, Fact(text=f"the size that `{self.text}` leaves"))

    def divide(self, room: int, step: int, word: str) -> int:
        if room < 0:
            raise self.misfit("the window is longer than the axis")
        if room % step:
            raise self.misfit(f"{room} is no multiple of the {word} {step}")
        return room // step

    def misfit(self, reason: str) -> Mismatch:
        names = zip(("axis", "places", "window"), (self.axis, *self.parts), strict=False)
        known = ", ".join(f"{name} {told(cell)}" for name, cell in names if find(cell).size is not None)
        pad = ", or pad: `=` in place of `<`" if self.taps and self.padding is not Padding.SAME else ""
        what = ("the axis, the window" if self.taps else "the axis") + " or the stride"
        return Mismatch(
            f"`{self.text}` does not fit {known}: {reason}",
            dims=(self.axis, *self.parts), causes=(self.cause,), fix=f"change {what}{pad}",
        )  # fmt: skip

    def share_unit(self, trail: Trail) -> None:
        """The axis counts what the places count, and what the window counts."""
        axis, over = find(self.axis), find(self.over)
        taps = find(self.taps) if self.taps is not None else None
        of = axis if axis.unit else over if over.unit else taps
        if of is not None and (unit := of.unit) is not None:
            set_unit(trail, axis, unit, of)
            set_unit(trail, over, unit, of)
            if taps is not None and taps.unit not in (None, unit):
                set_unit(trail, taps, unit, of)


class Sum:
    """Axes laid one after another; `spare` are parts that nothing but this concatenation mentions; it `waits` where an
    equation may still size a part."""

    __slots__ = ("cause", "constant", "parts", "spare", "text", "waits", "whole")

    def __init__(
        self, whole: Dim, parts: tuple[Dim, ...], *, constant: int = 0, spare: tuple[Dim, ...] = (),
        waits: bool = False, text: str = "", cause: Cause | None = None,
    ) -> None:  # fmt: skip
        self.whole = whole
        self.parts = parts
        self.constant = constant
        self.spare = spare
        self.waits = waits
        self.text = text
        self.cause = cause

    def fire(self, trail: Trail) -> None:
        self.share_unit(trail)
        whole, parts = find(self.whole), Counter(map(find, self.parts))
        known = self.constant + sum(part.size * n for part, n in parts.items() if part.size is not None)
        unknown = [part for part in parts if part.size is None]
        if not unknown:
            tell_whole(trail, self, known)
        elif whole.size is not None:
            rest = whole.size - known
            if rest < 0 or (len(unknown) == 1 and rest % parts[unknown[0]]):
                raise misfit(self)
            if rest == 0 or len(unknown) == 1:
                for part in unknown:
                    set_size(trail, part, rest // parts[part], Fact(text=f"what is left in `{self.text}`"))
            elif not self.waits:
                for part in self.superfluous(unknown):
                    set_size(trail, part, 0, Fact(text=f"a part of `{self.text}` that nothing needs"))

    def superfluous(self, unknown: list[Dim]) -> list[Dim]:
        """Of the unknown parts those that nothing else mentions, all but one if there is nothing else."""
        spare = [part for part in dict.fromkeys(map(find, self.spare)) if part.size is None]
        return spare[len(spare) == len(unknown) :]

    def show(self) -> str:
        return " + ".join((*([str(self.constant)] if self.constant else ()), *sizes(self.parts)))

    def share_unit(self, trail: Trail) -> None:
        """Parts count what the whole counts; a plain 1 fits any unit."""
        cells = [find(cell) for cell in (self.whole, *self.parts)]
        of = next((cell for cell in cells if cell.unit is not None), None)
        if of is not None and of.unit is not None:
            for cell in cells:
                if not cell.is_stretchable:
                    set_unit(trail, cell, of.unit, of)


class Product:
    """Axes merged into one, row-major."""

    __slots__ = ("cause", "factor", "parts", "text", "whole")

    def __init__(
        self, whole: Dim, parts: tuple[Dim, ...], *, factor: int = 1, text: str = "", cause: Cause | None = None
    ) -> None:
        self.whole = whole
        self.parts = parts
        self.factor = factor
        self.text = text
        self.cause = cause

    def fire(self, trail: Trail) -> None:
        whole, parts = find(self.whole), Counter(map(find, self.parts))
        known = self.factor * prod(part.size**n for part, n in parts.items() if part.size is not None)
        unknown = [part for part in parts if part.size is None]
        if not unknown or known == 0:
            tell_whole(trail, self, known)
        elif whole.size is not None:
            if whole.size % known:
                raise misfit(self)
            rest = whole.size // known
            if rest == 1 or len(unknown) == 1:
                for part in unknown:
                    set_size(trail, part, self.root(rest, parts[part]), Fact(text=f"what is left in `{self.text}`"))

    def root(self, size: int, power: int) -> int:
        guess = size if power == 1 else isqrt(size) if power == 2 else round(size ** (1 / power))
        if guess**power != size:
            raise misfit(self)
        return guess

    def show(self) -> str:
        return " * ".join((*([str(self.factor)] if self.factor != 1 else ()), *sizes(self.parts)))


Law = Strided | Sum | Product


def attach(trail: Trail, law: Law) -> None:
    """Let a law watch its cells, and look once."""
    for cell in dict.fromkeys(map(find, (law.whole, *law.parts))):
        trail.add(cell, "laws", law)
    trail.queue.append(law)


def tell_whole(trail: Trail, law: Sum | Product, size: int) -> None:
    whole = find(law.whole)
    if whole.size is None:
        set_size(trail, whole, size, Fact(text=f"the whole of `{law.text}`"))
    elif whole.size != size:
        raise misfit(law)


def sizes(cells: Iterable[Dim]) -> list[str]:
    return ["?" if (size := find(cell).size) is None else str(size) for cell in cells]


def told(cell: Dim) -> str:
    """A size, and who told it."""
    cell = find(cell)
    return f"{cell.size} ({str(cell.fact).removesuffix(',')})" if cell.fact is not None else str(cell.size)


def misfit(law: Sum | Product) -> Mismatch:
    whole = find(law.whole)
    facts = dict.fromkeys(str(find(part).fact or "").removesuffix(",") for part in law.parts)
    known = "; ".join(fact for fact in facts if " " in fact)
    known = f" ({known})" if known else ""
    fix = "change a part, or the whole"
    parts = Counter(map(find, law.parts))
    open_ = [times for part, times in parts.items() if part.size is None]
    if open_ and isinstance(law, Product):
        step = law.factor * prod(part.size**times for part, times in parts.items() if part.size is not None)
        fix = f"make that size a multiple of {step}" if step else "make that size 0"
    elif open_ and isinstance(law, Sum) and whole.size is not None:
        least = law.constant + sum(part.size * times for part, times in parts.items() if part.size is not None)
        fix = f"make that size {least} or more"
        if whole.size >= least:
            fix = f"make that size {f'{least} and ' if least else ''}a multiple of {open_[0]}"
    if open_ and known:
        fix += ", or change the parts"
    return Mismatch(
        f"the sizes in `{law.text}` make {law.show()}{known}, but {whole.fact or 'the whole'} is {whole.size}",
        dims=(law.whole, *law.parts), causes=(law.cause,), fix=fix,
    )  # fmt: skip
