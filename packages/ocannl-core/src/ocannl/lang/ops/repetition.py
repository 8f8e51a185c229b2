"""Repetition and division of axes, and grids of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.spec import Concat, Label, Merged, Spec
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.axis_maps import select_along
from ocannl.lang.ops.concat import concatenation
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.selected_axes import SelectedAxes, check_table, integers_per_axis, removed_axes

COPY = "copy'"  # the name of a loop over copies; no user can write it


@composite
def tile(x: object, times: int | Sequence[int], spec: str | None = None) -> Tensor:
    """Repeats the axes that the spec removes, or the only output axis, as blocks: `a, b` becomes `a, b, a, b`.

        oc.tile(x, (2, 3), "...|a,b => ...|")  # twice along a, three times along b

    Shapes: `..., a => ..., (times a)` for each removed axis.
    Grad:   the sum of `g` over the copies.
    Raises: CodeError for invalid settings; ShapeError.
    """
    axes = removed_axes(x, spec, "tile")
    counts = integers_per_axis("tile", "times", times, len(axes.names), 0)
    copies = {name: f"{name}{COPY}" for name in axes.names}
    shape = axes.renamed({name: (Merged((Label(copy), Label(name))),) for name, copy in copies.items()})
    return axes.rearranged(shape, dict(zip(copies.values(), counts, strict=True)))


@composite
def repeat(x: object, times: int | Sequence[int], spec: str | None = None) -> Tensor:
    """Repeats each cell of the axis that the spec removes, or of the only output axis: `a, b` becomes `a, a, b, b`.

        oc.repeat(x, 2, "...|t,c => ...|c")  # along t

    `times` is one number, or a number for each cell.

    Shapes: `..., a => ..., (a times)`, or the sum of the numbers.
    Grad:   the sum of `g` over the copies.
    Raises: CodeError for invalid settings; ShapeError.
    """
    axes = _single(removed_axes(x, spec, "repeat"))
    (name,) = axes.names
    if isinstance(times, list | tuple | np.ndarray):
        counts = integers_per_axis("repeat", "times", [*times], axes.size(name), 0)
        check_table("repeat", name, sum(counts))
        return select_along(axes, name, np.repeat(np.arange(len(counts)), counts))
    (count,) = integers_per_axis("repeat", "times", times, 1, 0)
    copy = f"{name}{COPY}"
    return axes.rearranged(axes.renamed({name: (Merged((Label(name), Label(copy))),)}), {copy: count})


def _single(axes: SelectedAxes) -> SelectedAxes:
    if len(axes.names) != 1:
        listed = ", ".join(f"`{name}`" for name in axes.names)
        raise CodeError(f"`{axes.title}` operates along the one axis that its spec removes, not along {listed}")
    return axes


# --- parts -----------------------------------------------------------------------------------------------------------


def split(x: object, sizes: int | Sequence[int], spec: str | None = None) -> list[Tensor]:
    """The parts of the axis that the spec removes, or of the only output axis, as a list.

        first, second = oc.split(x, [2, 3], "...|t,c => ...|c")

    `sizes` are the sizes of the parts, or one number: then all parts have this size, and the last may be smaller.

    Shapes: `a => size` for each part. The size of the axis must be inferred before the call.
    Grad:   `g` at the cells of the part, else 0.
    Raises: CodeError for invalid settings; ShapeError, also if the sizes do not sum to that of the axis.
    """
    axes = _single(removed_axes(x, spec, "split"))
    total = axes.size(axes.names[0])
    if isinstance(sizes, list | tuple):
        parts = integers_per_axis("split", "sizes", sizes, len(sizes), 0)
    else:
        (size,) = integers_per_axis("split", "sizes", sizes, 1)
        parts = tuple(min(size, total - start) for start in range(0, max(total, 1), size))
    if sum(parts) != total:
        listed = " + ".join(map(str, parts)) or "0"
        problem = f"`split` of `{axes.x.label}`: the axis `{axes.names[0]}` has {total} cells"
        raise ShapeError(f"{problem}, and the parts have {listed} = {sum(parts)}")
    return _parts(axes, parts)


def chunk(x: object, count: int, spec: str | None = None) -> list[Tensor]:
    """At most `count` parts of equal size, the last of which may be smaller, of the axis that the spec removes, or of
    the only output axis, as a list.

        queries, keys, values = oc.chunk(x, 3, "...|t,c => ...|t")

    Shapes: `..., part^rest => ..., part`, for each part. The size of the axis must be inferred before the call.
    Grad:   `g` at the cells of the part, else 0.
    Raises: CodeError for invalid settings; ShapeError.
    """
    axes = _single(removed_axes(x, spec, "chunk"))
    (number,) = integers_per_axis("chunk", "count", count, 1)
    total = axes.size(axes.names[0])
    size = max(-(-total // number), 1)
    return _parts(axes, [min(size, total - start) for start in range(0, max(total, 1), size)])


def _parts(axes: SelectedAxes, sizes: Sequence[int]) -> list[Tensor]:
    starts = np.cumsum([0, *sizes]).tolist()
    return [slice_axes(axes, {axes.names[0]: (start, size)}) for start, size in zip(starts, sizes, strict=False)]


def slice_axes(axes: SelectedAxes, ranges: dict[str, tuple[int, int]]) -> Tensor:
    """The cells of each axis from a start, in a given number."""
    parts = {name: (start, Label(name), axes.size(name) - start - size) for name, (start, size) in ranges.items()}
    sliced = {name: (Concat(tuple(part for part in row if part != 0)),) for name, row in parts.items()}
    sliced = {name: row for name, row in sliced.items() if len(row[0].parts) > 1}
    if not sliced:
        return axes.x
    logic = einsum_logic(Spec((axes.renamed(sliced),), axes.shape))
    sizes = {name: size for name, (_, size) in ranges.items()}
    return apply(concatenation(axes.title, logic, sizes=sizes), [axes.x])


# --- grids -----------------------------------------------------------------------------------------------------------


def meshgrid(*xs: object, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of a grid: each vector as a tensor with one axis per vector, along which it varies.

        rows, columns = oc.meshgrid(oc.iota(3), oc.iota(4), indexing="ij")

    With `indexing="xy"`, the first two axes are exchanged.

    Shapes: `a; b; c => a, b, c` for each vector, or `b, a, c`.
    Grad:   the sum of `g` over the axes of the other vectors.
    Raises: CodeError for an unknown `indexing` and without vectors; ShapeError for operands that are not vectors.
    """
    if indexing not in ("xy", "ij"):
        raise CodeError(f"`indexing` of oc.meshgrid is 'xy' or 'ij', and not {indexing!r}"[:200])
    if not xs:
        raise CodeError("oc.meshgrid takes at least one vector")
    vectors = [embed(x) for x in xs]
    names = [f"a{n}" for n in range(len(vectors))]
    order = names if indexing == "ij" or len(names) < 2 else [names[1], names[0], *names[2:]]
    sizes = {name: removed_axes(v, "n => ", "meshgrid").size("n") for name, v in zip(names, vectors, strict=True)}
    grids = []
    for vector, name in zip(vectors, names, strict=True):
        broadcast_sizes: dict[str, Any] = {axis: size for axis, size in sizes.items() if axis != name}
        grids.append(einsum(f"{name}, => {', '.join(order)},", vector, **broadcast_sizes))
    return grids


REGISTRY.update(tile=tile, repeat=repeat, split=split, chunk=chunk, meshgrid=meshgrid)
