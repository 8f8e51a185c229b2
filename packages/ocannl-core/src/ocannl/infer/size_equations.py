"""Size equations: propagators that compute the last unknown size of an equation from the others.

    Strided      an axis indexed by a window or a stride
    Sum          concatenated axes
    Product      axes merged into one axis
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import isqrt, prod

from ocannl.infer.mismatch import Mismatch
from ocannl.infer.spec import Margins, Padding
from ocannl.infer.terms import Cause, DimVar, Evidence, Trail, find
from ocannl.infer.unify import set_min_size, set_size, set_unit


class Strided:
    """Window or stride over an axis; `text` is the user's notation.

    axis = offset + stride*(over-1) + dilation*(taps-1) + 1    every tap inside the axis (VALID)
    axis = stride*over                                        padded (SAME)
    over = (before + axis + after - offset - dilation*(taps-1) - 1)//stride + 1    as many windows as fit (Margins);
                                                              of these axes the shortest if `is_shortest`
    axis = stride*(over + offset//stride)                     no taps
    axis >= largest index + 1                                 UNSTATED
    """

    __slots__ = ("axis", "cause", "dilation", "is_shortest", "offset", "over", "padding", "stride", "taps", "text")

    def __init__(
        self, axis: DimVar, over: DimVar, taps: DimVar | None, *, stride: int = 1, offset: int = 0, dilation: int = 1,
        padding: Padding | Margins = Padding.UNSTATED, is_shortest: bool = False, text: str = "",
        cause: Cause | None = None,
    ) -> None:  # fmt: skip
        self.axis = axis
        self.over = over
        self.taps = taps
        self.stride = stride
        self.offset = offset
        self.dilation = dilation
        self.padding = padding
        self.is_shortest = is_shortest
        self.text = text
        self.cause = cause

    @property
    def total(self) -> DimVar:
        return self.axis

    @property
    def parts(self) -> tuple[DimVar, ...]:
        return (self.over,) if self.taps is None else (self.over, self.taps)

    @property
    def margins(self) -> int:
        """The cells added to the axis, before and after it."""
        return self.padding.before + self.padding.after if isinstance(self.padding, Margins) else 0

    @property
    def is_exact(self) -> bool:
        """Whether the sizes of windows and positions determine the size of the axis."""
        if isinstance(self.padding, Margins):
            return self.is_shortest or self.stride == 1
        return self.padding is Padding.VALID

    def fire(self, trail: Trail) -> None:
        self.share_unit(trail)
        if self.taps is None or self.padding is Padding.SAME:
            self.fire_plain(trail, self.offset // self.stride if self.taps is None else 0)
        else:
            self.fire_window(trail, find(self.taps))

    def fire_plain(self, trail: Trail, skipped: int) -> None:
        axis, over = find(self.axis), find(self.over)
        if over.size is not None:
            self.set_or_check(trail, axis, self.stride * (over.size + skipped))
        elif axis.size is not None:
            self.set_or_check(trail, over, self.divide(axis.size, self.stride, "stride") - skipped)

    def fire_window(self, trail: Trail, taps: DimVar) -> None:
        axis, over = find(self.axis), find(self.over)
        if taps.size == 0 or over.size == 0:
            raise self.misfit("a window needs at least one tap and one position")
        if over.size is not None and taps.size is not None:
            reach = self.offset + self.stride * (over.size - 1) + self.dilation * (taps.size - 1) + 1 - self.margins
            if self.is_exact:
                self.set_or_check(trail, axis, reach)
            else:
                set_min_size(trail, axis, max(reach, 0))
        if axis.size is None or self.padding is Padding.UNSTATED:
            return
        room = axis.size + self.margins - self.offset - 1
        if taps.size is not None:
            self.set_or_check(trail, over, self.steps(room - self.dilation * (taps.size - 1)) + 1)
        elif over.size is not None and self.is_exact:
            free = room - self.stride * (over.size - 1)
            self.set_or_check(trail, taps, self.divide(free, self.dilation, "dilation") + 1)

    def set_or_check(self, trail: Trail, cell: DimVar, size: int) -> None:
        if size < 0 or (cell.size is not None and cell.size != size):
            raise self.misfit(f"{size} would fit in place of {cell.size}" if size >= 0 else "nothing is left")
        if cell.size is None:
            set_size(trail, cell, size, Evidence(text=f"the size that `{self.text}` leaves"))

    def steps(self, room: int) -> int:
        """The number of strides in the cells that a window leaves free."""
        return self.divide(room if self.is_exact else room - room % self.stride, self.stride, "stride")

    def divide(self, room: int, step: int, name: str) -> int:
        if room < 0:
            raise self.misfit("the window is longer than the axis")
        if room % step:
            raise self.misfit(f"{room} is no multiple of the {name} {step}")
        return room // step

    def misfit(self, reason: str) -> Mismatch:
        names = zip(("axis", "places", "window"), (self.axis, *self.parts), strict=False)
        sizes = ", ".join(f"{name} {size_with_evidence(cell)}" for name, cell in names if find(cell).size is not None)
        can_pad = self.taps and not isinstance(self.padding, Margins) and self.padding is not Padding.SAME
        pad = '; pad (`=`, padding="same"), or drop the rest (`[0,0]`, padding=0)' if can_pad else ""
        changeable = ("the axis, the window" if self.taps else "the axis") + " or the stride"
        return Mismatch(
            f"`{self.text}` does not fit {sizes}: {reason}",
            dims=(self.axis, *self.parts), causes=(self.cause,), fix=f"change {changeable}{pad}",
        )  # fmt: skip

    def share_unit(self, trail: Trail) -> None:
        """Equates the units of the axis, the window positions and the taps."""
        axis, over = find(self.axis), find(self.over)
        taps = find(self.taps) if self.taps is not None else None
        source = axis if axis.unit else over if over.unit else taps
        if source is not None and (unit := source.unit) is not None:
            set_unit(trail, axis, unit, source)
            set_unit(trail, over, unit, source)
            if taps is not None and taps.unit not in (None, unit):
                set_unit(trail, taps, unit, source)


class Sum:
    """Concatenation of axes. `unused` parts occur in no other axis, `computed` parts in no axis of an operand."""

    __slots__ = ("cause", "computed", "constant", "parts", "text", "total", "unused")

    def __init__(
        self, total: DimVar, parts: tuple[DimVar, ...], *, constant: int = 0, unused: tuple[DimVar, ...] = (),
        computed: tuple[DimVar, ...] = (), text: str = "", cause: Cause | None = None,
    ) -> None:  # fmt: skip
        self.total = total
        self.parts = parts
        self.constant = constant
        self.unused = unused
        self.computed = computed
        self.text = text
        self.cause = cause

    def fire(self, trail: Trail) -> None:
        self.share_unit(trail)
        total, parts = find(self.total), Counter(map(find, self.parts))
        sized = self.constant + sum(part.size * n for part, n in parts.items() if part.size is not None)
        unknown = [part for part in parts if part.size is None]
        if not unknown:
            set_total(trail, self, sized)
        elif total.size is not None:
            remaining = total.size - sized
            if remaining < 0 or (len(unknown) == 1 and remaining % parts[unknown[0]]):
                raise misfit(self)
            if remaining == 0 or len(unknown) == 1:
                for part in unknown:
                    set_size(trail, part, remaining // parts[part], Evidence(text=f"what is left in `{self.text}`"))

    def superfluous(self) -> list[DimVar]:
        """Unknown parts that can be dropped: the unused parts, except the first if all unknown parts are unused."""
        unknown = [part for part in dict.fromkeys(map(find, self.parts)) if part.size is None]
        unused = [part for part in dict.fromkeys(map(find, self.unused)) if part.size is None]
        return unused[len(unused) == len(unknown) :]

    def show(self) -> str:
        return " + ".join((*([str(self.constant)] if self.constant else ()), *size_texts(self.parts)))

    def share_unit(self, trail: Trail) -> None:
        """Equates the units of the total and the parts. A part of size 1 without a unit fits any unit, so that a part
        of unknown size waits, unless it is computed."""
        total, computed = find(self.total), {*map(find, self.computed)}
        cells = [total, *map(find, self.parts)]
        source = next((cell for cell in cells if cell.unit is not None), None)
        if source is not None and source.unit is not None:
            for cell in cells:
                if cell is total or cell in computed or cell.size not in (None, 1) or cell.unit is not None:
                    set_unit(trail, cell, source.unit, source)


class Product:
    """Axes merged into one axis in row-major order."""

    __slots__ = ("cause", "factor", "parts", "text", "total")

    def __init__(
        self, total: DimVar, parts: tuple[DimVar, ...], *, factor: int = 1, text: str = "", cause: Cause | None = None
    ) -> None:
        self.total = total
        self.parts = parts
        self.factor = factor
        self.text = text
        self.cause = cause

    def fire(self, trail: Trail) -> None:
        total, parts = find(self.total), Counter(map(find, self.parts))
        sized = self.factor * prod(part.size**n for part, n in parts.items() if part.size is not None)
        unknown = [part for part in parts if part.size is None]
        if not unknown or sized == 0:
            set_total(trail, self, sized)
        elif total.size is not None:
            if total.size % sized:
                raise misfit(self)
            remaining = total.size // sized
            if remaining == 1 or len(unknown) == 1:
                for part in unknown:
                    size = self.root(remaining, parts[part])
                    set_size(trail, part, size, Evidence(text=f"what is left in `{self.text}`"))

    def root(self, size: int, power: int) -> int:
        guess = size if power == 1 else isqrt(size) if power == 2 else round(size ** (1 / power))
        if guess**power != size:
            raise misfit(self)
        return guess

    def show(self) -> str:
        return " * ".join((*([str(self.factor)] if self.factor != 1 else ()), *size_texts(self.parts)))


SizeEquation = Strided | Sum | Product


def attach(trail: Trail, equation: SizeEquation) -> None:
    """Registers an equation as watcher of its cells, and queues it."""
    for cell in dict.fromkeys(map(find, (equation.total, *equation.parts))):
        trail.add(cell, "size_equations", equation)
    trail.queue.append(equation)


def set_total(trail: Trail, equation: Sum | Product, size: int) -> None:
    total = find(equation.total)
    if total.size is None:
        set_size(trail, total, size, Evidence(text=f"the whole of `{equation.text}`"))
    elif total.size != size:
        raise misfit(equation)


def size_texts(cells: Iterable[DimVar]) -> list[str]:
    return ["?" if (size := find(cell).size) is None else str(size) for cell in cells]


def size_with_evidence(cell: DimVar) -> str:
    """A size with its evidence, as text."""
    cell = find(cell)
    return f"{cell.size} ({str(cell.evidence).removesuffix(',')})" if cell.evidence is not None else str(cell.size)


def misfit(equation: Sum | Product) -> Mismatch:
    total = find(equation.total)
    sources = dict.fromkeys(str(find(part).evidence or "").removesuffix(",") for part in equation.parts)
    described = "; ".join(source for source in sources if " " in source)
    described = f" ({described})" if described else ""
    fix = "change a part, or the whole"
    parts = Counter(map(find, equation.parts))
    open_ = [times for part, times in parts.items() if part.size is None]
    if open_ and isinstance(equation, Product):
        step = equation.factor * prod(part.size**times for part, times in parts.items() if part.size is not None)
        fix = f"make that size a multiple of {step}" if step else "make that size 0"
    elif open_ and isinstance(equation, Sum) and total.size is not None:
        min_size = equation.constant + sum(part.size * times for part, times in parts.items() if part.size is not None)
        fix = f"make that size {min_size} or more"
        if total.size >= min_size:
            fix = f"make that size {f'{min_size} and ' if min_size else ''}a multiple of {open_[0]}"
    if open_ and described:
        fix += ", or change the parts"
    sizes = f"the sizes in `{equation.text}` make {equation.show()}{described}"
    return Mismatch(
        f"{sizes}, but {total.evidence or 'the whole'} is {total.size}",
        dims=(equation.total, *equation.parts), causes=(equation.cause,), fix=fix,
    )  # fmt: skip
