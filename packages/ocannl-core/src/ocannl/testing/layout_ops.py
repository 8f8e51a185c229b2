"""Random operations that change the layout, with their NumPy semantics: concatenation, stacking, merged axes, windows.

Specs write each axis of the first operand as a letter, except the axis that the operation changes. Its size is at least
2: an axis of size 1 of an expression could still grow by later uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from ocannl.testing.random_einsums import KINDS, MEMORY, REDUCE, SOFT, Array, Rigid, Rows

LETTERS = "abcdefghijlmnrstuvwxy"  # k, o, p, q and z name the changed axes


@dataclass(frozen=True)
class LayoutOp:
    """A layout operation. `text` has a placeholder for each operand: the first one, then tensors of the rows
    `operands`.

    `candidates` are the values that a maximum selects from, a row for each cell; `fits` is true where the function is
    smooth.
    """

    text: str
    rows: Rows
    compute: Callable[..., Array]
    operands: tuple[Rows, ...] = ()
    rigid: Rigid = SOFT
    candidates: Callable[..., Array] | None = None
    fits: Callable[..., bool] = lambda *xs: True


@dataclass(frozen=True)
class AxisPosition:
    """An axis of a tensor: the kind of its row, and its positions in the row and in memory."""

    kind: int
    at: int
    axis: int
    size: int


def positions(rows: Rows) -> list[AxisPosition]:
    axes: list[AxisPosition] = []
    for kind in MEMORY:
        for at, size in enumerate(rows[kind]):
            axes.append(AxisPosition(kind, at, len(axes), size))
    return axes


def random_position(random: Random, rows: Rows, min_size: int = 1) -> AxisPosition | None:
    fine = [p for p in positions(rows) if p.size >= min_size]
    return random.choice(fine) if fine else None


def spec_text(rows: Rows, position: AxisPosition, axis_text: str, extra: Sequence[str] = ()) -> str:
    """The text of a shape: letters, `axis_text` at one position, and the output axes `extra` at the end."""
    letters = iter(LETTERS)
    axes = {kind: [next(letters) for _ in rows[kind]] for kind in MEMORY}
    if axis_text:
        axes[position.kind][position.at] = axis_text
    else:
        del axes[position.kind][position.at]
    axes[2] = [*axes[2], *extra]
    batch, input, output = (", ".join(axes[k]) for k in range(3))
    return f"{batch}|{input}->{output}" if input else f"{batch}|{output}" if batch else output


def at(rows: Rows, position: AxisPosition, *sizes: int, extra: tuple[int, ...] = ()) -> Rows:
    """Replaces the axis at a position."""
    new_rows = list(rows)
    row = rows[position.kind]
    new_rows[position.kind] = (*row[: position.at], *sizes, *row[position.at + 1 :])
    return new_rows[0], new_rows[1], new_rows[2] + extra


def concatenation(random: Random, rows: Rows) -> LayoutOp | None:
    position = random_position(random, rows, 2)
    if position is None:
        return None
    added = random.choice((1, 2, 3))
    first, second = spec_text(rows, position, "p"), spec_text(rows, position, "q")
    joined = spec_text(rows, position, "p^q")
    return LayoutOp(
        f'oc.concat("{first}; {second} => {joined}", {{}}, {{}})',
        at(rows, position, position.size + added),
        lambda x, y: np.concatenate([x, y], position.axis),
        (at(rows, position, added),),
    )


def padding(random: Random, rows: Rows) -> LayoutOp | None:
    position = random_position(random, rows, 2)
    if position is None:
        return None
    before, after = random.choice(((1, 0), (0, 2), (2, 1)))
    parts = "^".join([*([str(before)] if before else []), "p", *([str(after)] if after else [])])
    wide = [(before, after) if p == position else (0, 0) for p in positions(rows)]
    return LayoutOp(
        f'oc.concat("{spec_text(rows, position, "p")} => {spec_text(rows, position, parts)}", {{}})',
        at(rows, position, before + position.size + after),
        lambda x: np.pad(x, wide),
    )


def part(random: Random, rows: Rows) -> LayoutOp | None:
    position = random_position(random, rows, 2)
    if position is None:
        return None
    cut = random.randrange(1, position.size)
    last = random.random() < 0.5
    number = random.random() < 0.5
    taken = position.size - cut if last else cut
    left = str(position.size - taken) if number else "p" if last else "q"
    parts = f"{left}^k" if last else f"k^{left}"
    size = "" if number else f", k={taken}"
    cells = slice(cut, None) if last else slice(0, cut)
    return LayoutOp(
        f'oc.concat("{spec_text(rows, position, parts)} => {spec_text(rows, position, "k")}", {{}}{size})',
        at(rows, position, taken),
        lambda x: x[(slice(None),) * position.axis + (cells,)],
    )


def stack(random: Random, rows: Rows) -> LayoutOp:
    kind = random.choice((0, 1, 2, 2))
    count = random.choice((1, 2, 2, 3))
    new_rows = [*rows]
    new_rows[kind] = (count, *rows[kind])
    axis = [0, len(rows[0]) + len(rows[2]), len(rows[0])][kind]
    stiff = tuple(k == kind for k in range(3))
    operands = ", ".join(["{}"] * count)
    if random.random() < 0.4:
        text = f"oc.block({('oc.batch({})', '({},)', '[{}]')[kind].format(operands)})"
    else:
        text = f'oc.stack([{operands}], axis="{KINDS[kind]}")'
    return LayoutOp(
        text, (new_rows[0], new_rows[1], new_rows[2]), lambda *xs: np.stack(xs, axis), (rows,) * (count - 1),
        (stiff[0], stiff[1], stiff[2]),
    )  # fmt: skip


def block(random: Random, rows: Rows) -> LayoutOp:
    """A matrix of four blocks: an output axis around an input axis."""
    new_rows = (rows[0], (2, *rows[1]), (2, *rows[2]))
    inner, outer = len(rows[0]) + len(rows[2]), len(rows[0])

    def compute(a: Array, b: Array, c: Array, d: Array) -> Array:
        return np.stack([np.stack([a, b], inner), np.stack([c, d], inner)], outer)

    return LayoutOp("oc.block([({}, {}), ({}, {})])", new_rows, compute, (rows,) * 3, (False, True, True))


def merged(random: Random, rows: Rows) -> LayoutOp | None:
    """Splits an axis, or merges two."""
    position = random_position(random, rows, 2)
    if position is None:
        return None
    row = rows[position.kind]
    if position.at + 1 < len(row) and row[position.at + 1] > 1 and random.random() < 0.6:
        merged_at = AxisPosition(position.kind, position.at, position.axis, row[position.at])
        sizes = (row[position.at] * row[position.at + 1],)
        both = at(rows, merged_at)
        wide = (*both[position.kind][: position.at], *sizes, *both[position.kind][position.at + 1 :])
        result = [*both]
        result[position.kind] = wide
        merged_rows = (both[0], both[1], both[2])
        left, right = spec_text(merged_rows, merged_at, "p, q"), spec_text(merged_rows, merged_at, "(p q)")
        new_rows = (result[0], result[1], result[2])
        return LayoutOp(f'oc.einsum("{left} => {right}", {{}})', new_rows, lambda x: x.reshape(_dims(new_rows)))
    factors = [n for n in range(1, position.size + 1) if position.size % n == 0]
    first = random.choice(factors) if factors else 1
    swap = random.random() < 0.4
    sizes_apart = (first, position.size // first)
    split = at(rows, position, *sizes_apart)
    after = at(rows, position, *sizes_apart[::-1]) if swap else split

    def apart(x: Array) -> Array:
        x = x.reshape(_dims(split))
        return np.swapaxes(x, position.axis, position.axis + 1) if swap else x

    left, right = spec_text(rows, position, "(p q)"), spec_text(rows, position, "q, p" if swap else "p, q")
    return LayoutOp(f'oc.einsum("{left} => {right}", {{}}, p={first})', after, apart)


def _dims(rows: Rows) -> tuple[int, ...]:
    return tuple(n for kind in MEMORY for n in rows[kind])


# --- windows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """A window: its text in a spec, and the cells that it reads."""

    text: str
    cells: Array  # output positions x taps; the size of the axis where a tap is outside
    taps: int

    def gathered(self, x: Array, axis: int, outside: float) -> Array:
        """The values read, with an axis of taps after the axis of output positions."""
        rim = np.full([1 if n == axis else size for n, size in enumerate(x.shape)], outside)
        return np.take(np.concatenate([x, rim], axis), self.cells, axis)


def random_window(random: Random, size: int) -> Window | None:
    """A window over an axis of this size: without padding (`<`), or with (`=`)."""
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


def pooled(random: Random, rows: Rows) -> LayoutOp | None:
    """Pooling by sum, maximum or minimum; or the windows themselves (im2col)."""
    position = random_position(random, rows, 2)
    window = random_window(random, position.size) if position is not None else None
    if position is None or window is None:
        return None
    kept = random.random() < 0.2
    reduce = "add" if kept else random.choice(("add", "max", "max", "min"))
    ufunc, neutral = REDUCE[reduce]
    new_rows = at(rows, position, len(window.cells), *((window.taps,) if kept else ()))

    def compute(x: Array) -> Array:
        taps = window.gathered(x, position.axis, neutral)
        return taps if kept else np.asarray(ufunc.reduce(taps, axis=position.axis + 1))

    def candidates(x: Array) -> Array:
        taps = np.moveaxis(window.gathered(x, position.axis, np.nan), position.axis + 1, -1)
        far = -1000.0 * (1 + np.arange(window.taps))
        return np.where(np.isnan(taps), far, taps).reshape(-1, window.taps)

    left, right = spec_text(rows, position, window.text), spec_text(rows, position, "o, k" if kept else "o")
    word = "" if reduce == "add" else f', reduce="{reduce}"'
    text = f'oc.einsum("{left} => {right}", {{}}, k={window.taps}{word})'
    return LayoutOp(text, new_rows, compute, candidates=None if reduce == "add" else candidates)


def convolution(random: Random, rows: Rows) -> LayoutOp | None:
    position = random_position(random, rows, 2)
    window = random_window(random, position.size) if position is not None else None
    if position is None or window is None:
        return None
    channels = random.choice(((), (2,)))
    extra = ["z"] * len(channels)
    new_rows = at(rows, position, len(window.cells), extra=channels)
    ends = len(rows[0]) + len(rows[2])

    def compute(x: Array, w: Array) -> Array:
        taps = np.moveaxis(window.gathered(x, position.axis, 0.0), position.axis + 1, -1)
        out = np.tensordot(taps, w, 1)
        return np.moveaxis(out, -1, ends) if channels else out

    left, right = spec_text(rows, position, window.text), spec_text(rows, position, "o", extra)
    text = f'oc.einsum("{left}; {", ".join(["k", *extra])} => {right}", {{}}, {{}})'
    return LayoutOp(text, new_rows, compute, (((), (), (window.taps, *channels)),))


def strided(random: Random, rows: Rows) -> LayoutOp | None:
    """Every second cell along an axis."""
    position = random_position(random, rows, 2)
    if position is None or position.size % 2:
        return None
    first = random.choice((0, 1))
    cells = (slice(None),) * position.axis + (slice(first, None, 2),)
    over = "2*o + 1" if first else "2*o"
    text = f'oc.einsum("{spec_text(rows, position, over)} => {spec_text(rows, position, "o")}", {{}})'
    return LayoutOp(text, at(rows, position, position.size // 2), lambda x: x[cells])


LAYOUT_OPS: tuple[Callable[[Random, Rows], LayoutOp | None], ...] = (
    concatenation, padding, part, stack, block, merged, pooled, pooled, convolution, convolution, strided,
)  # fmt: skip
