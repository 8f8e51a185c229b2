"""Random ways to lay cells elsewhere, each with its meaning in NumPy: parts, stacks, merged axes, windows.

A spec here writes all axes of its first operand, each as a letter, but the one at which something happens. That one has
two cells at least: of an expression, a single cell may be the beginning of an axis that grows by later uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from ocannl.testing.random_einsums import KINDS, MEMORY, REDUCE, SOFT, Array, Rigid, Rows

LETTERS = "abcdefghijlmnrstuvwxy"  # k, o, p, q and z stand for what happens


@dataclass(frozen=True)
class Move:
    """`text` has a place for each operand: the tensor of the rows that were given, then new ones of the rows `beside`.

    `candidates` are those among which a maximum chooses, a row for each cell; `fits` says where it is smooth.
    """

    text: str
    rows: Rows
    compute: Callable[..., Array]
    beside: tuple[Rows, ...] = ()
    rigid: Rigid = SOFT
    candidates: Callable[..., Array] | None = None
    fits: Callable[..., bool] = lambda *xs: True


@dataclass(frozen=True)
class Place:
    """An axis of a tensor: of a kind of row, and where it is in that row and in memory."""

    kind: int
    at: int
    axis: int
    size: int


def places(rows: Rows) -> list[Place]:
    found: list[Place] = []
    for kind in MEMORY:
        for at, size in enumerate(rows[kind]):
            found.append(Place(kind, at, len(found), size))
    return found


def some_place(random: Random, rows: Rows, least: int = 1) -> Place | None:
    fine = [p for p in places(rows) if p.size >= least]
    return random.choice(fine) if fine else None


def spelled(rows: Rows, place: Place, here: str, more: Sequence[str] = ()) -> str:
    """One shape of a spec: letters, and what is written at one place; `more` output axes at the end."""
    letters = iter(LETTERS)
    axes = {kind: [next(letters) for _ in rows[kind]] for kind in MEMORY}
    if here:
        axes[place.kind][place.at] = here
    else:
        del axes[place.kind][place.at]
    axes[2] = [*axes[2], *more]
    batch, input, output = (", ".join(axes[k]) for k in range(3))
    return f"{batch}|{input}->{output}" if input else f"{batch}|{output}" if batch else output


def at(rows: Rows, place: Place, *sizes: int, more: tuple[int, ...] = ()) -> Rows:
    """The rows with other axes at one place."""
    made = list(rows)
    row = rows[place.kind]
    made[place.kind] = (*row[: place.at], *sizes, *row[place.at + 1 :])
    return made[0], made[1], made[2] + more


def concatenation(random: Random, rows: Rows) -> Move | None:
    place = some_place(random, rows, 2)
    if place is None:
        return None
    other = random.choice((1, 2, 3))
    first, second = spelled(rows, place, "p"), spelled(rows, place, "q")
    whole = spelled(rows, place, "p^q")
    return Move(
        f'oc.concat("{first}; {second} => {whole}", {{}}, {{}})',
        at(rows, place, place.size + other),
        lambda x, y: np.concatenate([x, y], place.axis),
        (at(rows, place, other),),
    )


def padding(random: Random, rows: Rows) -> Move | None:
    place = some_place(random, rows, 2)
    if place is None:
        return None
    before, after = random.choice(((1, 0), (0, 2), (2, 1)))
    parts = "^".join([*([str(before)] if before else []), "p", *([str(after)] if after else [])])
    wide = [(before, after) if p == place else (0, 0) for p in places(rows)]
    return Move(
        f'oc.concat("{spelled(rows, place, "p")} => {spelled(rows, place, parts)}", {{}})',
        at(rows, place, before + place.size + after),
        lambda x: np.pad(x, wide),
    )


def part(random: Random, rows: Rows) -> Move | None:
    place = some_place(random, rows, 2)
    if place is None:
        return None
    cut = random.randrange(1, place.size)
    last = random.random() < 0.5
    number = random.random() < 0.5
    taken = place.size - cut if last else cut
    left = str(place.size - taken) if number else "p" if last else "q"
    parts = f"{left}^k" if last else f"k^{left}"
    size = "" if number else f", k={taken}"
    cells = slice(cut, None) if last else slice(0, cut)
    return Move(
        f'oc.concat("{spelled(rows, place, parts)} => {spelled(rows, place, "k")}", {{}}{size})',
        at(rows, place, taken),
        lambda x: x[(slice(None),) * place.axis + (cells,)],
    )


def stack(random: Random, rows: Rows) -> Move:
    kind = random.choice((0, 1, 2, 2))
    count = random.choice((1, 2, 2, 3))
    made = [*rows]
    made[kind] = (count, *rows[kind])
    axis = [0, len(rows[0]) + len(rows[2]), len(rows[0])][kind]
    stiff = tuple(k == kind for k in range(3))
    operands = ", ".join(["{}"] * count)
    if random.random() < 0.4:
        text = f"oc.block({('oc.batch({})', '({},)', '[{}]')[kind].format(operands)})"
    else:
        text = f'oc.stack([{operands}], axis="{KINDS[kind]}")'
    return Move(
        text, (made[0], made[1], made[2]), lambda *xs: np.stack(xs, axis), (rows,) * (count - 1),
        (stiff[0], stiff[1], stiff[2]),
    )  # fmt: skip


def block(random: Random, rows: Rows) -> Move:
    """Two rows of two: output axes around input axes."""
    made = (rows[0], (2, *rows[1]), (2, *rows[2]))
    inner, outer = len(rows[0]) + len(rows[2]), len(rows[0])

    def compute(a: Array, b: Array, c: Array, d: Array) -> Array:
        return np.stack([np.stack([a, b], inner), np.stack([c, d], inner)], outer)

    return Move("oc.block([({}, {}), ({}, {})])", made, compute, (rows,) * 3, (False, True, True))


def merged(random: Random, rows: Rows) -> Move | None:
    """An axis taken apart, or two made one."""
    place = some_place(random, rows, 2)
    if place is None:
        return None
    row = rows[place.kind]
    if place.at + 1 < len(row) and row[place.at + 1] > 1 and random.random() < 0.6:
        here = Place(place.kind, place.at, place.axis, row[place.at])
        sizes = (row[place.at] * row[place.at + 1],)
        both = at(rows, here)
        wide = (*both[place.kind][: place.at], *sizes, *both[place.kind][place.at + 1 :])
        result = [*both]
        result[place.kind] = wide
        one = (both[0], both[1], both[2])
        left, right = spelled(one, here, "p, q"), spelled(one, here, "(p q)")
        made = (result[0], result[1], result[2])
        return Move(f'oc.einsum("{left} => {right}", {{}})', made, lambda x: x.reshape(_dims(made)))
    factors = [n for n in range(1, place.size + 1) if place.size % n == 0]
    first = random.choice(factors) if factors else 1
    swap = random.random() < 0.4
    sizes_apart = (first, place.size // first)
    split = at(rows, place, *sizes_apart)
    after = at(rows, place, *sizes_apart[::-1]) if swap else split

    def apart(x: Array) -> Array:
        x = x.reshape(_dims(split))
        return np.swapaxes(x, place.axis, place.axis + 1) if swap else x

    left, right = spelled(rows, place, "(p q)"), spelled(rows, place, "q, p" if swap else "p, q")
    return Move(f'oc.einsum("{left} => {right}", {{}}, p={first})', after, apart)


def _dims(rows: Rows) -> tuple[int, ...]:
    return tuple(n for kind in MEMORY for n in rows[kind])


# --- windows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """Where the taps of each place read, by the text and the cells."""

    text: str
    cells: Array  # places x taps, the size of the axis where a tap lies outside
    taps: int

    def gathered(self, x: Array, axis: int, outside: float) -> Array:
        """An axis of taps behind that of places."""
        rim = np.full([1 if n == axis else size for n, size in enumerate(x.shape)], outside)
        return np.take(np.concatenate([x, rim], axis), self.cells, axis)


def some_window(random: Random, size: int) -> Window | None:
    """Of an axis of this size: all taps inside (`<`), or as many places as fit (`=`)."""
    for _ in range(6):
        taps, dilation, stride = random.choice((1, 2, 2, 3)), random.choice((1, 1, 2)), random.choice((1, 1, 2))
        reach = (taps - 1) * dilation + 1
        padded = random.random() < 0.5
        if size % stride if padded else reach > size or (size - reach) % stride:
            continue
        count = size // stride if padded else (size - reach) // stride + 1
        before = reach // 2 if padded else 0
        cells = stride * np.arange(count)[:, None] + dilation * np.arange(taps) - before
        over = "o" if stride == 1 else f"{stride}*o"
        tap = "k" if dilation == 1 else f"{dilation}*k"
        inside = (cells >= 0) & (cells < size)
        return Window(f"{over}{'=' if padded else '<'}+{tap}", np.where(inside, cells, size), taps)
    return None


def pooled(random: Random, rows: Rows) -> Move | None:
    """Each window summed, or its largest or smallest; or, as in im2col, with an axis of its own."""
    place = some_place(random, rows, 2)
    window = some_window(random, place.size) if place is not None else None
    if place is None or window is None:
        return None
    kept = random.random() < 0.2
    reduce = "add" if kept else random.choice(("add", "max", "max", "min"))
    ufunc, neutral = REDUCE[reduce]
    made = at(rows, place, len(window.cells), *((window.taps,) if kept else ()))

    def compute(x: Array) -> Array:
        taps = window.gathered(x, place.axis, neutral)
        return taps if kept else np.asarray(ufunc.reduce(taps, axis=place.axis + 1))

    def candidates(x: Array) -> Array:
        taps = np.moveaxis(window.gathered(x, place.axis, np.nan), place.axis + 1, -1)
        far = -1000.0 * (1 + np.arange(window.taps))
        return np.where(np.isnan(taps), far, taps).reshape(-1, window.taps)

    left, right = spelled(rows, place, window.text), spelled(rows, place, "o, k" if kept else "o")
    word = "" if reduce == "add" else f', reduce="{reduce}"'
    text = f'oc.einsum("{left} => {right}", {{}}, k={window.taps}{word})'
    return Move(text, made, compute, candidates=None if reduce == "add" else candidates)


def convolution(random: Random, rows: Rows) -> Move | None:
    place = some_place(random, rows, 2)
    window = some_window(random, place.size) if place is not None else None
    if place is None or window is None:
        return None
    channels = random.choice(((), (2,)))
    more = ["z"] * len(channels)
    made = at(rows, place, len(window.cells), more=channels)
    ends = len(rows[0]) + len(rows[2])

    def compute(x: Array, w: Array) -> Array:
        taps = np.moveaxis(window.gathered(x, place.axis, 0.0), place.axis + 1, -1)
        out = np.tensordot(taps, w, 1)
        return np.moveaxis(out, -1, ends) if channels else out

    left, right = spelled(rows, place, window.text), spelled(rows, place, "o", more)
    text = f'oc.einsum("{left}; {", ".join(["k", *more])} => {right}", {{}}, {{}})'
    return Move(text, made, compute, (((), (), (window.taps, *channels)),))


def strided(random: Random, rows: Rows) -> Move | None:
    """Every second cell."""
    place = some_place(random, rows, 2)
    if place is None or place.size % 2:
        return None
    first = random.choice((0, 1))
    cells = (slice(None),) * place.axis + (slice(first, None, 2),)
    over = "2*o + 1" if first else "2*o"
    text = f'oc.einsum("{spelled(rows, place, over)} => {spelled(rows, place, "o")}", {{}})'
    return Move(text, at(rows, place, place.size // 2), lambda x: x[cells])


MOVES: tuple[Callable[[Random, Rows], Move | None], ...] = (
    concatenation, padding, part, stack, block, merged, pooled, pooled, convolution, convolution, strided,
)  # fmt: skip
