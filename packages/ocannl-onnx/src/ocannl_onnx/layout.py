"""Axes of tensors by position: the layout operations that operators of ONNX are made of.

All tensors have their axes in the output row. Specs are written with the names `a0`, `a1`, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import ocannl as oc


def axis_names(rank: int, letter: str = "a") -> list[str]:
    return [f"{letter}{n}" for n in range(rank)]


def row(names: Sequence[str]) -> str:
    """A row of axes in a spec; the comma at the end makes names whole words."""
    return ", ".join(names) + ("," if names else "")


def along(rank: int, *removed: int, keep: bool = False) -> str:
    """The spec of a reduction or scan over axes: those that its result omits, or keeps with size 1."""
    names = axis_names(rank)
    result = [("0" if keep else None) if n in removed else name for n, name in enumerate(names)]
    return f"{row(names)} => {row([name for name in result if name is not None])}"


def empty_like(x: oc.Tensor, dims: Sequence[int]) -> oc.Tensor:
    return oc.tensor(np.zeros(dims, x.dtype.numpy))


def full(value: float | int | bool, dims: Sequence[int], dtype: Any) -> oc.Tensor:
    """A tensor of equal values, exact in its type."""
    return expanded(oc.tensor(np.asarray(value).astype(dtype.numpy)), dims)


def positions_along(axis: int, count: int, rank: int) -> oc.Tensor:
    """The integers from 0 along an axis, with size 1 along all other axes."""
    return reshaped(oc.cast(oc.iota(count), oc.int64), [count if n == axis else 1 for n in range(rank)])


def transposed(x: oc.Tensor, order: Sequence[int]) -> oc.Tensor:
    if list(order) == list(range(len(order))):
        return x
    names = axis_names(len(order))
    return oc.einsum(f"{row(names)} => {row([names[n] for n in order])}", x)


def moved(x: oc.Tensor, source: int, target: int) -> oc.Tensor:
    """Moves one axis to another position."""
    order = [n for n in range(len(x.dims)) if n != source % len(x.dims)]
    order.insert(target % len(x.dims), source % len(x.dims))
    return transposed(x, order)


def reshaped(x: oc.Tensor, dims: Sequence[int]) -> oc.Tensor:
    """The elements of `x` in row-major order, with other axes.

    Axes are merged and split in the smallest groups with equal products, so that the other axes stay.
    """
    source, target = tuple(x.dims), tuple(dims)
    if source == target:
        return x
    if 0 in source:
        return empty_like(x, target)
    groups = _groups(source, target)
    merged, merging = _grouped_row([group.source for group in groups], source, "a")
    split, splitting = _grouped_row([group.target for group in groups], target, "b")
    if merged != merging:
        x = oc.einsum(f"{merged} => {merging}", x)
    if split != splitting:
        sizes: dict[str, Any] = {f"b{n}": target[n] for group in groups for n in group.target[1:]}
        x = oc.einsum(f"{splitting} => {split}", x, **sizes)
    return x


@dataclass(frozen=True, slots=True)
class _Group:
    """Axes of a tensor, and axes of its reshaped form with the same number of elements; none has size 1."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def _groups(source: Sequence[int], target: Sequence[int]) -> list[_Group]:
    olds = [n for n, size in enumerate(source) if size != 1]
    news = [n for n, size in enumerate(target) if size != 1]
    groups = []
    while olds:
        old, new = [olds.pop(0)], [news.pop(0)]
        while (left := math.prod(source[n] for n in old)) != (right := math.prod(target[n] for n in new)):
            (old if left < right else new).append((olds if left < right else news).pop(0))
        groups.append(_Group(tuple(old), tuple(new)))
    return groups


def _grouped_row(groups: Sequence[tuple[int, ...]], dims: Sequence[int], letter: str) -> tuple[str, str]:
    """The row of all axes, with `0` for those of size 1, and the row of groups, merged axes in parentheses."""
    axes = row([f"{letter}{n}" if size != 1 else "0" for n, size in enumerate(dims)])
    names = [[f"{letter}{n}" for n in group] for group in groups]
    return axes, row([group[0] if len(group) == 1 else f"({' '.join(group)})" for group in names])


def squeezed(x: oc.Tensor, axes: Sequence[int]) -> oc.Tensor:
    """Removes axes of size 1."""
    return reshaped(x, [size for n, size in enumerate(x.dims) if n not in axes])


def unsqueezed(x: oc.Tensor, axes: Sequence[int]) -> oc.Tensor:
    """Inserts axes of size 1 at positions of the result."""
    dims = list(x.dims)
    for axis in sorted(axes):
        dims.insert(axis, 1)
    return reshaped(x, dims)


def expanded(x: oc.Tensor, dims: Sequence[int]) -> oc.Tensor:
    """Broadcasts `x` to `dims`, as NumPy does; axes that are missing on the left are inserted."""
    source = [1] * (len(dims) - len(x.dims)) + list(x.dims)
    if tuple(source) == tuple(dims) == tuple(x.dims):
        return x
    if 0 in dims:
        return empty_like(x, dims)
    x = reshaped(x, source)
    new: dict[str, Any] = {f"a{n}": size for n, size in enumerate(dims) if source[n] == 1 and size != 1}
    names = axis_names(len(dims))
    operand = ["0" if name in new else name for name in names]
    return oc.einsum(f"{row(operand)} => {row(names)}", x, **new) if new else x


def sliced(x: oc.Tensor, axis: int, start: int, stop: int, step: int = 1) -> oc.Tensor:
    """`x[start:stop:step]` along an axis, with `0 <= start <= stop <= size` and `step >= 1`."""
    length = x.dims[axis]
    if (start, stop, step) == (0, length, 1):
        return x
    count = -(-(stop - start) // step)
    dims = [count if n == axis else size for n, size in enumerate(x.dims)]
    if 0 in dims:
        return empty_like(x, dims)
    names = axis_names(len(dims))
    covered = min(start + count * step, length)
    if (start, covered) != (0, length):
        parts = [str(start)] * (start > 0) + [names[axis]] + [str(length - covered)] * (covered < length)
        operand = [*names[:axis], "^".join(parts), *names[axis + 1 :]]
        x = oc.concat(f"{row(operand)} => {row(names)}", x)
    if step > 1:
        missing = count * step - (covered - start)
        if missing:
            x = padded(x, axis, 0, missing)
        operand = [*names[:axis], f"{step}*{names[axis]}", *names[axis + 1 :]]
        x = oc.einsum(f"{row(operand)} => {row(names)}", x)
    return x


def python_slice(x: oc.Tensor, axis: int, bounds: slice) -> oc.Tensor:
    """A slice with any step, as in Python."""
    positions = range(*bounds.indices(x.dims[axis]))
    if not positions:
        return sliced(x, axis, 0, 0)
    if positions.step > 0:
        return sliced(x, axis, positions.start, positions[-1] + 1, positions.step)
    x = sliced(x, axis, positions[-1], positions.start + 1)  # ends with the first cell
    return sliced(oc.flip(x, along(len(x.dims), axis)), axis, 0, x.dims[axis], -positions.step)


def padded(x: oc.Tensor, axis: int, before: int, after: int, value: float = 0.0) -> oc.Tensor:
    """Adds cells of a value along an axis."""
    return oc.pad(x, ((before, after),), along(len(x.dims), axis), value=value) if before or after else x


def concatenated(tensors: Sequence[oc.Tensor], axis: int) -> oc.Tensor:
    tensors = [x for x in tensors if x.dims[axis]] or list(tensors[:1])
    if len(tensors) == 1:
        return tensors[0]
    if 0 in tensors[0].dims:
        total = sum(x.dims[axis] for x in tensors)
        return empty_like(tensors[0], [total if n == axis else size for n, size in enumerate(tensors[0].dims)])
    names = axis_names(len(tensors[0].dims))
    parts = axis_names(len(tensors), "p")
    rows = [row([*names[:axis], part, *names[axis + 1 :]]) for part in [*parts, "^".join(parts)]]
    return oc.concat(f"{'; '.join(rows[:-1])} => {rows[-1]}", *tensors)


def taken(x: oc.Tensor, ids: Any, axis: int) -> oc.Tensor:
    """The parts of `x` along an axis at integer positions; the axes of `ids` take the place of this axis."""
    ids = oc.tensor(np.asarray(ids)) if not isinstance(ids, oc.Tensor) else ids
    rank, count = len(x.dims), len(ids.dims)
    result = oc.take(moved(x, axis, 0) if rank else x, ids)
    order = [*range(count, count + axis), *range(count), *range(count + axis, count + rank - 1)]
    return transposed(result, order)


def reduced(
    x: oc.Tensor, axes: Sequence[int], reduce: Callable[..., oc.Tensor], *, keep: bool = False
) -> oc.Tensor:
    """A reduction over axes; with `keep` they stay with size 1."""
    return reduce(x, along(len(x.dims), *axes, keep=keep)) if axes else x
