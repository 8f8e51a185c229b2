"""Sizes that are computed from sizes. Each law waits until all but one of its cells are known, then tells that one.

    Strided      whole = stride * over, and windows
    Sum          whole = constant + part + ...
    Product      whole = factor * part * ...
"""

from __future__ import annotations

from collections import Counter
from math import prod

from ocannl.infer.mismatch import Mismatch
from ocannl.infer.spec import Padding
from ocannl.infer.terms import Cause, Dim, Fact, find
from ocannl.infer.trail import Trail
from ocannl.infer.unify import set_least, set_size, set_unit


def attach(trail: Trail, law: Strided | Sum | Product) -> None:
    """Let a law watch its cells, and look once."""
    for cell in dict.fromkeys(law.cells):
        trail.add(find(cell), "laws", law)
    trail.queue.append(law)


class Strided:
    """A window or a stride over an axis; `text` is how the user wrote it.

    inner = offset + stride*(over-1) + 1 + dilation*(kernel-1)    every tap inside
    inner = stride*over                                          padded, or without a kernel
    """

    __slots__ = ("cause", "dilation", "inner", "kernel", "offset", "over", "padding", "stride", "text")

    def __init__(
        self, inner: Dim, over: Dim, kernel: Dim | None, *, stride: int = 1, offset: int = 0, dilation: int = 1,
        padding: Padding = Padding.UNSTATED, text: str = "", cause: Cause | None = None,
    ) -> None:  # fmt: skip
        self.inner = inner
        self.over = over
        self.kernel = kernel
        self.stride = stride
        self.offset = offset
        self.dilation = dilation
        self.padding = padding
        self.text = text
        self.cause = cause

    @property
    def cells(self) -> tuple[Dim, ...]:
        return (self.inner, self.over) if self.kernel is None else (self.inner, self.over, self.kernel)

    def fire(self, trail: Trail) -> None:
        self.share_unit(trail)
        inner, over = find(self.inner), find(self.over)
        if self.kernel is None or self.padding is Padding.SAME:
            shift = self.stride * (self.offset // self.stride) if self.kernel is None else 0
            if over.size is not None:
                self.tell(trail, inner, self.stride * over.size + shift)
            elif inner.size is not None:
                self.tell(trail, over, self.divide(inner, inner.size - shift, self.stride))
            return
        kernel = find(self.kernel)
        if kernel.size == 0 or over.size == 0:
            raise self.misfit("a window needs at least one tap and one place")
        if self.padding is Padding.UNSTATED:
            if over.size is not None and kernel.size is not None:
                reach = self.offset + self.stride * (over.size - 1) + self.dilation * (kernel.size - 1) + 1
                set_least(trail, inner, reach)
        elif over.size is not None and kernel.size is not None:
            reach = self.offset + self.stride * (over.size - 1) + self.dilation * (kernel.size - 1) + 1
            self.tell(trail, inner, reach)
        elif inner.size is not None and kernel.size is not None:
            room = inner.size - self.offset - 1 - self.dilation * (kernel.size - 1)
            if room < 0:
                raise self.misfit(f"the window spans {inner.size - room} cells of {inner.size}")
            self.tell(trail, over, self.divide(inner, room, self.stride) + 1)
        elif inner.size is not None and over.size is not None:
            room = inner.size - self.offset - 1 - self.stride * (over.size - 1)
            if room < 0:
                raise self.misfit(f"{over.size} places need {inner.size - room} cells, there are {inner.size}")
            self.tell(trail, kernel, self.divide(inner, room, self.dilation, "dilation") + 1)

    def tell(self, trail: Trail, cell: Dim, size: int) -> None:
        if cell.size is None:
            set_size(trail, cell, size, Fact(text=f"what `{self.text}` gives"))
        elif cell.size != size:
            raise self.misfit(f"it would need {size} where there are {cell.size}")

    def divide(self, inner: Dim, room: int, step: int, word: str = "stride") -> int:
        if room % step or room < 0:
            raise self.misfit(f"{room} of {inner.size} cells are no multiple of the {word} {step}")
        return room // step

    def misfit(self, words: str) -> Mismatch:
        sizes = ", ".join(f"{name} {find(cell).size}" for name, cell in self.named() if find(cell).size is not None)
        return Mismatch(
            f"`{self.text}` with stride {self.stride} does not fit ({sizes}): {words}",
            dims=self.cells, cause=self.cause,
            fix="change the size, the stride or the window, or pad with `=` in place of `<`",
        )  # fmt: skip

    def named(self) -> tuple[tuple[str, Dim], ...]:
        names = "the axis", "places", "window"
        return tuple(zip(names, self.cells, strict=False))

    def share_unit(self, trail: Trail) -> None:
        """The axis counts what the places count, and what the window counts."""
        inner, over = find(self.inner), find(self.over)
        kernel = find(self.kernel) if self.kernel is not None else None
        unit = inner.unit or over.unit or (kernel.unit if kernel else None)
        if unit is not None:
            set_unit(trail, inner, unit)
            set_unit(trail, over, unit)
            if kernel is not None and kernel.unit not in (None, unit):
                set_unit(trail, kernel, unit)


class Sum:
    """Axes laid one after another."""

    __slots__ = ("cause", "constant", "parts", "text", "whole")

    def __init__(
        self, whole: Dim, parts: tuple[Dim, ...], *, constant: int = 0, text: str = "", cause: Cause | None = None
    ) -> None:
        self.whole = whole
        self.parts = parts
        self.constant = constant
        self.text = text
        self.cause = cause

    @property
    def cells(self) -> tuple[Dim, ...]:
        return (self.whole, *self.parts)

    def fire(self, trail: Trail) -> None:
        self.share_unit(trail)
        whole, parts = find(self.whole), Counter(map(find, self.parts))
        known = self.constant + sum(part.size * n for part, n in parts.items() if part.size is not None)
        unknown = [part for part in parts if part.size is None]
        if not unknown:
            if whole.size is None:
                set_size(trail, whole, known, Fact(text=f"the whole of `{self.text}`"))
            elif whole.size != known:
                raise self.misfit(known)
            return
        if whole.size is None:
            return
        rest = whole.size - known
        if rest < 0:
            raise self.misfit(known)
        if rest == 0 or len(unknown) == 1:
            for part in unknown:
                if rest % parts[part]:
                    raise self.misfit(known)
                set_size(trail, part, rest // parts[part], Fact(text=f"what is left in `{self.text}`"))

    def misfit(self, known: int) -> Mismatch:
        whole = find(self.whole)
        sizes = " + ".join([*(str(find(p).size or "?") for p in self.parts), *([str(self.constant)] * bool(self.constant))])
        return Mismatch(
            f"the parts of `{self.text}` make {sizes}, but {whole.fact or 'the whole'} is {whole.size}",
            dims=self.cells, cause=self.cause, fix="change one part, or the whole",
        )  # fmt: skip

    def share_unit(self, trail: Trail) -> None:
        cells = [find(cell) for cell in self.cells]
        units = [cell.unit for cell in cells if cell.unit is not None]
        if units:
            for cell in cells:
                set_unit(trail, cell, units[0])


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

    @property
    def cells(self) -> tuple[Dim, ...]:
        return (self.whole, *self.parts)

    def fire(self, trail: Trail) -> None:
        whole, parts = find(self.whole), tuple(map(find, self.parts))
        known = self.factor * prod(part.size for part in parts if part.size is not None)
        unknown = [part for part in parts if part.size is None]
        if not unknown or known == 0:
            if whole.size is None:
                set_size(trail, whole, known, Fact(text=f"the product of `{self.text}`"))
            elif whole.size != known:
                raise self.misfit()
            return
        if whole.size is None:
            return
        if whole.size % known:
            raise self.misfit()
        if len(unknown) == 1:
            set_size(trail, unknown[0], whole.size // known, Fact(text=f"what is left in `{self.text}`"))
        elif whole.size == known:
            for part in unknown:
                set_size(trail, part, 1, Fact(text=f"what is left in `{self.text}`"))
        elif len(set(unknown)) == 1 and len(unknown) == 2 and (root := _root(whole.size // known)) is not None:
            set_size(trail, unknown[0], root, Fact(text=f"the side of `{self.text}`"))

    def misfit(self) -> Mismatch:
        whole = find(self.whole)
        sizes = "*".join([*(str("?" if find(p).size is None else find(p).size) for p in self.parts)])
        times = f"{self.factor}*" if self.factor != 1 else ""
        return Mismatch(
            f"the sizes in `{self.text}` make {times}{sizes}, but {whole.fact or 'the whole'} is {whole.size}",
            dims=self.cells, cause=self.cause, fix="give sizes whose product is the whole",
        )  # fmt: skip


def _root(size: int) -> int | None:
    root = round(size**0.5)
    return root if root * root == size else None
