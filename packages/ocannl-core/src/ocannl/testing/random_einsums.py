"""Random einsum specs for given operand shapes, with their NumPy semantics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Rows = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # batch, input, output
Rigid = tuple[bool, bool, bool]  # whether broadcasting inserts axes at a fixed position of the row
SOFT: Rigid = (False, False, False)
KINDS = ("batch", "input", "output")
MEMORY = (0, 2, 1)  # the order of the rows in memory
POINTS = 2000  # at most so many iterations

LETTERS = "ijklmnpqstuvh"
LONG_NAMES = ("row", "col", "head", "seq", "chan", "h2", "w_", "key", "val", "pos", "tok", "dim", "unit")
COMBINE: dict[str, Callable[..., Any]] = {
    "mul": lambda *xs: np.prod(np.broadcast_arrays(*xs), axis=0),
    "add": lambda *xs: np.sum(np.broadcast_arrays(*xs), axis=0),
    "sub": np.subtract,
    "fma": lambda x, y, z: x * y + z,
    "fst": lambda x, y: x + 0 * y,
}
REDUCE: dict[str, tuple[np.ufunc, float]] = {
    "add": (np.add, 0.0), "mul": (np.multiply, 1.0), "max": (np.maximum, -np.inf), "min": (np.minimum, np.inf),
}  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """One axis of a spec: a label (or an axis of a row variable, or a wildcard), or a fixed index."""

    text: str
    key: object = None  # the loop; None for a fixed index
    at: int = 0


@dataclass
class RowPattern:
    """A row of a spec: axes, and those that a row variable covers."""

    axes: list[Axis]
    var: str = ""
    covers: range = range(0)  # positions of the axes that `var` stands for

    def text(self, long_names: bool) -> str:
        out = []
        for n, axis in enumerate(self.axes):
            if self.var and n == self.covers.start:
                out.append(self.var)
            if n not in self.covers:
                out.append(axis.text)
        if self.var and self.covers.start >= len(self.axes):
            out.append(self.var)
        apart = any(len(text) > 1 or text.isdecimal() for text in out)
        return (", " if long_names else " " if apart else "").join(out)


RowPatterns = tuple[RowPattern, RowPattern, RowPattern]


@dataclass
class Einsum:
    """A spec: its rows, `sizes` of all loops, and the keyword arguments."""

    long_names: bool
    operands: list[RowPatterns] = field(default_factory=list)
    result: RowPatterns = field(default_factory=lambda: (RowPattern([]), RowPattern([]), RowPattern([])))
    sizes: dict[object, int] = field(default_factory=dict)
    keywords: dict[str, int] = field(default_factory=dict)
    reduce: str = "add"
    combine: str = "mul"
    rigid: Rigid = SOFT

    @property
    def spec(self) -> str:
        return f"{'; '.join(map(self._shape, self.operands))} => {self._shape(self.result)}"

    def _shape(self, rows: RowPatterns) -> str:
        batch, input, output = (row.text(self.long_names) for row in rows)
        return f"{batch}|{input}->{output}" if input else f"{batch}|{output}" if batch else output

    @property
    def rows(self) -> Rows:
        batch, input, output = (
            tuple(a.at + 1 if a.key is None else self.sizes[a.key] for a in row.axes) for row in self.result
        )
        return batch, input, output

    @property
    def points(self) -> int:
        return prod(self.sizes.values())

    @property
    def is_onto(self) -> bool:
        """Whether every cell of the result is written."""
        keys = [a.key for row in self.result for a in row.axes if a.key is not None or a.at]
        return None not in keys and len(set(keys)) == len(keys)

    def terms(self, *arrays: Array) -> Array:
        """The reduced terms, over the box of all loops."""
        grid = self._grid()
        read = [a[self._index(rows, grid)] for a, rows in zip(arrays, self.operands, strict=True)]
        value = read[0] if len(read) == 1 else COMBINE[self.combine](*read)
        return np.broadcast_to(value, tuple(self.sizes.values()))

    def __call__(self, *arrays: Array) -> Array:
        terms = self.terms(*arrays)
        batch, input, output = self.rows
        ufunc, neutral = REDUCE[self.reduce]
        out = np.full(batch + output + input, neutral)
        at = tuple(np.broadcast_to(i, terms.shape) for i in self._index(self.result, self._grid()))
        if at:
            ufunc.at(out, at, terms)
        else:
            out[...] = ufunc.reduce(terms.reshape(-1), initial=neutral)
        return out

    def _grid(self) -> dict[object, Array]:
        spans = np.ix_(*(np.arange(n) for n in self.sizes.values())) if self.sizes else ()
        return dict(zip(self.sizes, spans, strict=True))

    def _index(self, rows: RowPatterns, grid: dict[object, Array]) -> tuple[Array, ...]:
        axes = [axis for n in MEMORY for axis in rows[n].axes]
        return tuple(np.asarray(a.at) if a.key is None else grid[a.key] for a in axes)

    def arguments(self) -> str:
        """The text of the keyword arguments, each after a comma."""
        named: dict[str, object] = dict(self.keywords)
        if self.reduce != "add":
            named["reduce"] = self.reduce
        if self.combine != "mul":
            named["combine"] = self.combine
        return "".join(f", {k}={v!r}" for k, v in named.items())


def random_einsum(random: Random, operands: Sequence[Rows], rigid: Sequence[Rigid]) -> Einsum | None:
    """A spec for tensors of these shapes; None if the first attempt is too large."""
    einsum = Einsum(long_names=random.random() < 0.3)
    maker = _Maker(random, einsum)
    for rows, stiff in zip(operands, rigid, strict=True):
        einsum.operands.append(maker.operand(rows, stiff))
    if einsum.points > POINTS:
        return None
    einsum.result = maker.result()
    batch, input, output = (maker.is_rigid(row, kind) for kind, row in zip(KINDS, einsum.result, strict=True))
    einsum.rigid = (batch, input, output)
    if einsum.long_names and not any(c in einsum.spec for c in ",*+^&<"):  # otherwise every letter would be a name
        return None
    maker.choose_operations(len(operands))
    cells = prod(size for row in einsum.rows for size in row)
    return einsum if einsum.points <= POINTS and cells <= 200 else None


class _Maker:
    def __init__(self, random: Random, einsum: Einsum) -> None:
        self.random = random
        self.einsum = einsum
        self.names = list(LONG_NAMES if einsum.long_names else LETTERS)
        random.shuffle(self.names)
        self.labels: dict[str, int] = {}
        self.vars: dict[str, tuple[int, ...]] = {}
        self.rigid: set[str] = set()  # of the row variables

    def is_rigid(self, row: RowPattern, kind: str) -> bool:
        """Whether axes precede the position at which broadcasting would insert axes."""
        key = f"...{kind}" if row.var == "..." else row.var
        return bool(row.var) and (row.covers.start > 0 or key in self.rigid)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def new_label(self, size: int) -> Axis:
        name = self.names.pop()
        self.labels[name] = self.einsum.sizes[name] = size
        if self.chance(0.1):
            self.einsum.keywords[name] = size
        return Axis(name, name)

    # --- operands ---

    def operand(self, rows: Rows, rigid: Rigid) -> RowPatterns:
        batch, input, output = (self.row(*pair) for pair in zip(KINDS, rows, rigid, strict=True))
        return batch, input, output

    def row(self, kind: str, sizes: tuple[int, ...], rigid: bool) -> RowPattern:
        if self.chance(0.35):
            low = self.random.randint(0, len(sizes))
            high = self.random.randint(low, len(sizes))
            var = "..." if self.chance(0.6) else f"..{self.random.choice(('r', 'rest'))}.."
            key = f"...{kind}" if var == "..." else var
            if self.vars.setdefault(key, sizes[low:high]) == sizes[low:high]:
                if rigid:
                    self.rigid.add(key)
                return RowPattern(self.covered(sizes, range(low, high), key), var, range(low, high))
        return RowPattern([self.axis(n) for n in sizes])

    def covered(self, sizes: tuple[int, ...], covers: range, key: str) -> list[Axis]:
        axes = []
        for n, size in enumerate(sizes):
            if n in covers:
                loop = (key, n - covers.start)
                self.einsum.sizes[loop] = size
                axes.append(Axis("", loop))
            else:
                axes.append(self.axis(size))
        return axes

    def axis(self, size: int) -> Axis:
        if size and self.chance(0.08):
            at = self.random.randrange(size)
            return Axis(str(at), None, at)
        if self.chance(0.05):
            key = object()
            self.einsum.sizes[key] = size
            return Axis("_", key)
        same = [name for name, n in self.labels.items() if n == size]
        if same and self.chance(0.6):
            name = self.random.choice(same)
            return Axis(name, name)
        return self.new_label(size)

    # --- the result ---

    def result(self) -> RowPatterns:
        kept = [Axis(name, name) for name in self.labels if self.chance(0.65)]
        if kept and self.chance(0.08):
            kept.append(self.random.choice(kept))
        if self.chance(0.1):
            extra = self.new_label(self.random.randint(1, 3))
            self.einsum.keywords[extra.text] = self.labels[extra.text]
            kept.append(extra)
        if self.chance(0.08):
            at = self.random.choice((0, 0, 1, 2))
            kept.append(Axis(str(at), None, at))
        self.random.shuffle(kept)
        rows = (RowPattern([]), RowPattern([]), RowPattern([]))
        for axis in kept:
            rows[self.random.choice((0, 1, 2, 2))].axes.append(axis)
        for key, sizes in self.vars.items():
            if self.chance(0.7):
                is_ellipsis = key.startswith("...")
                target = KINDS.index(key[3:]) if is_ellipsis else self.random.randrange(3)
                if not rows[target].var:
                    self.insert_row_var(rows[target], "..." if is_ellipsis else key, key, len(sizes))
        return rows

    def insert_row_var(self, row: RowPattern, var: str, key: str, length: int) -> None:
        low = self.random.randint(0, len(row.axes))
        row.axes[low:low] = [Axis("", (key, n)) for n in range(length)]
        row.var, row.covers = var, range(low, low + length)

    def choose_operations(self, operands: int) -> None:
        more = {1: (), 2: ("add", "sub", "fst"), 3: ("add", "fma")}[operands]
        if more and self.chance(0.25):
            self.einsum.combine = self.random.choice(more)
        if self.einsum.is_onto and 0 not in self.einsum.sizes.values() and self.chance(0.25):
            self.einsum.reduce = self.random.choice(("max", "max", "min", "mul"))
