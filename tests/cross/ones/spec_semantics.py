"""NumPy semantics of specs: computed over the box of all loops, and for concatenations part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any as Anything

import numpy as np

from ones.rows import MEMORY, Rows, dims
from ones.specs import Any, At, Joined, Merged, Name, Reading, RowSpec, Shape, Spec, Term, Window

Array = np.ndarray[Anything, Anything]
Grid = dict[object, Array]

REDUCE: dict[str, tuple[np.ufunc, float]] = {
    "add": (np.add, 0.0), "max": (np.maximum, -np.inf), "min": (np.minimum, np.inf),
}  # fmt: skip
COMBINE: dict[str, Callable[..., Array]] = {
    "mul": lambda *xs: np.prod(np.broadcast_arrays(*xs), axis=0),
    "add": lambda *xs: np.sum(np.broadcast_arrays(*xs), axis=0),
}


class Box:
    """The loops of a spec: one for each name, for each axis of a row variable, and for each `_`."""

    def __init__(self, spec: Spec, operands: Sequence[Rows], only: str = "") -> None:
        """Of the parts of a concatenation, `only` this one is walked."""
        self.spec = spec
        self.reading = reading = Reading(spec, operands)
        self.skipped = parts_of(spec) - {only} if only else set()
        self.extents: dict[object, int] = {
            name: axis.size for name, axis in reading.names.items() if name not in self.skipped
        }
        for key, row in reading.variables.items():
            self.extents |= {(key, n): axis.size for n, axis in enumerate(row)}
        spans = np.ix_(*(np.arange(n) for n in self.extents.values())) if self.extents else ()
        self.grid: Grid = dict(zip(self.extents, spans, strict=True))

    @property
    def extent(self) -> tuple[int, ...]:
        return tuple(self.extents.values())

    def index(self, shape: Shape) -> tuple[Array, ...] | None:
        """Indices into a tensor in memory order; None if a part that is skipped takes it out."""
        cells = []
        for kind in MEMORY:
            row: RowSpec = shape[kind]
            terms = [self.position(term) for term in row.terms]
            if row.var:
                key = row.key(kind)
                terms[row.at : row.at] = [self.grid[key, n] for n in range(len(self.reading.variables[key]))]
            cells += terms
        return None if any(index is None for index in cells) else tuple(np.asarray(index) for index in cells)

    def position(self, term: Term) -> Array | None:
        match term:
            case Name(name): return self.grid.get(name)
            case At(index): return np.asarray(index)
            case Any(key): return self.grid[key]
            case Merged(parts):
                flat = np.asarray(0)
                for part in parts:
                    flat = flat * self.extents[part] + self.grid[part]
                return flat
            case Joined(parts):
                start = 0
                for part in parts:
                    if part in self.grid:
                        return start + self.grid[part]
                    start += part if isinstance(part, int) else self.reading.names[part].size
                return None
            case Window(over, taps, stride, mark, offset, dilation):
                first = stride * self.grid[over] + offset
                if taps is None:
                    return first
                before = (1 + (self.extents[taps] - 1) * dilation) // 2 if mark == "=" else 0
                return first + dilation * self.grid[taps] - before
        raise AssertionError(term)


def parts_of(spec: Spec) -> set[str]:
    rows = [row for shape in (*spec.operands, spec.result) for row in shape]
    return {p for row in rows for t in row.terms if isinstance(t, Joined) for p in t.parts if isinstance(p, str)}


def gather(x: Array, at: tuple[Array, ...], outside: float) -> Array:
    """The cells at some indices; `outside` where these leave the array."""
    inside = np.asarray(True)
    clipped = []
    for index, size in zip(at, x.shape, strict=True):
        inside = inside & (index >= 0) & (index < size)
        clipped.append(np.clip(index, 0, max(0, size - 1)))
    if x.size == 0:
        return np.full(np.broadcast_shapes(*(index.shape for index in at)), outside)
    return np.where(inside, x[tuple(clipped)], outside)


def contract(
    spec: Spec, operands: Sequence[Rows], arrays: Sequence[Array], reduce: str = "add", combine: str = "mul"
) -> Array:
    """The value of an einsum."""
    ufunc, neutral = REDUCE[reduce]
    box = Box(spec, operands)
    out = np.full(dims(box.reading.result), neutral)
    if 0 in box.extent:
        return out
    indices = [box.index(shape) or () for shape in spec.operands]
    read = [gather(x, at, neutral if reduce != "add" else 0.0) for x, at in zip(arrays, indices, strict=True)]
    values = read[0] if len(read) == 1 else COMBINE[combine](*read)
    return reduced(out, ufunc, values, box, spec)


def reduced(out: Array, ufunc: np.ufunc, values: Array, box: Box, spec: Spec) -> Array:
    """The values accumulated at the indices of the result; what falls outside is dropped."""
    values = np.broadcast_to(values, box.extent)
    to = box.index(spec.result)
    assert to is not None
    if not to:
        return np.asarray(ufunc.reduce(values.reshape(-1)))
    indices = [np.broadcast_to(index, values.shape) for index in to]
    inside = np.all([(index >= 0) & (index < size) for index, size in zip(indices, out.shape, strict=True)], axis=0)
    ufunc.at(out, tuple(index[inside] for index in indices), values[inside])
    return out


def lay(spec: Spec, operands: Sequence[Rows], arrays: Sequence[Array]) -> Array:
    """The value of a concatenation: each part alone, from the operands that have it."""
    out = np.zeros(dims(Reading(spec, operands).result))
    for part in sorted(parts_of(spec)):
        box = Box(spec, operands, part)
        to = box.index(spec.result)
        if to is None or 0 in box.extent:
            continue
        for shape, x in zip(spec.operands, arrays, strict=True):
            at = box.index(shape)
            if at is not None:
                values = np.broadcast_to(x[tuple(at)], box.extent)
                if to:
                    np.add.at(out, tuple(np.broadcast_to(index, values.shape) for index in to), values)
                else:
                    out = out + values.sum()
    return out
