"""Sampling of images at computed positions.

    y[p] = sum over taps j of weight_j(p) * x[base(p) + offset_j]

The taps of a position are a block of adjacent cells that lies inside the image; its first cell is `base`, an index of
the merged spatial axes. The offsets are constants, so that a position is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from typing import Any

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.parse import parse
from ocannl.ir.ops import ADD
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Hole, ShiftedRead, Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.casts import cast
from ocannl.lang.ops.einsum import einsum, stop_gradient
from ocannl.lang.ops.elementwise import clip, floor
from ocannl.lang.ops.elementwise import round as round_
from ocannl.lang.ops.index_tensors import indices, iota
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.selected_axes import SelectedAxes, integers_per_axis, spatial_axes

where, eq, mod, minimum = PRIMITIVES["where"], PRIMITIVES["eq"], PRIMITIVES["mod"], PRIMITIVES["min"]
Tap = tuple[Any, Any]  # position of a cell along an axis, and its weight

PADDINGS = ("zeros", "border", "reflection")
CUBIC_A = -0.75

# --- positions -------------------------------------------------------------------------------------------------------


def _continued(position: Any, size: int, padding: str, align_corners: bool) -> Any:
    """The position inside the axis at which a position outside is read; unchanged for padding with zeros."""
    if padding == "zeros":
        return position
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span > 0:
            offset = mod((position - low).abs(), 2 * span)
            position = span - (offset - span).abs() + low
    return clip(position, 0.0, size - 1.0)


def _nearest(position: Any) -> list[Tap]:
    return [(round_(position), 1.0)]


def _linear(position: Any) -> list[Tap]:
    below = stop_gradient(floor(position))
    fraction = position - below
    return [(below, 1.0 - fraction), (below + 1.0, fraction)]


def _cubic(position: Any) -> list[Tap]:
    below = stop_gradient(floor(position))
    f, a = position - below, CUBIC_A

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1.0

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [(below - 1.0, far(f + 1.0)), (below, near(f)), (below + 1.0, near(1.0 - f)), (below + 2.0, far(2.0 - f))]


MODES: dict[str, Callable[[Any], list[Tap]]] = {
    "nearest": _nearest, "linear": _linear, "bilinear": _linear, "cubic": _cubic, "bicubic": _cubic,
}  # fmt: skip


def _block(position: Any, size: int, mode: str, padding: str, align_corners: bool) -> tuple[Any, list[Any]]:
    """The first cell along an axis that a position reads, and the weights of this cell and those after it."""
    taps_of = MODES[mode]
    if taps_of is _cubic:  # each cell outside is continued
        taps = [(_continued(cell, size, padding, align_corners), w) for cell, w in taps_of(position)]
    else:
        taps = taps_of(_continued(position, size, padding, align_corners))
    width = min(len(taps), size)
    first = clip(reduce(minimum, (stop_gradient(cell) for cell, _ in taps)), 0.0, float(size - width))
    weights = []
    for k in range(width):
        matching = [where(eq(cell, first + float(k)), w, 0.0) for cell, w in taps]
        weights.append(reduce(lambda a, b: a + b, matching))
    return stop_gradient(where(first >= 0.0, first, 0.0)), weights  # a position that is NaN has weights of 0


# --- sampling --------------------------------------------------------------------------------------------------------


@composite
def grid_sample(
    x: object, grid: object, *, mode: str = "bilinear", padding: str = "zeros", align_corners: bool = False
) -> Tensor:
    """The values of images at positions between their cells.

        oc.grid_sample(images, oc.affine_grid(transforms, (32, 32)))

    The spatial axes of `x` are all output axes but the last. `grid` holds one position for each cell of the result: its
    last output axis contains the coordinates from the last spatial axis to the first, in units in which -1 and 1 are
    the borders of the image, or with `align_corners` the centers of its cells at the ends. `mode` is `"nearest"`,
    `"bilinear"` (or `"linear"`) or `"bicubic"` (or `"cubic"`); `padding` is `"zeros"`, `"border"` or `"reflection"`.

    Shapes: `...|h, w, c; ...|..p.., 2 => ...|..p.., c`; so for one to three spatial axes, whose sizes must be
            inferred before the call.
    Grad:   to `x` the weights times `g`, added to the cells that were read; to `grid` through the weights, none for
            `mode="nearest"`.
    Raises: CodeError for invalid settings; ShapeError, also for empty images.
    """
    if not isinstance(mode, str) or mode not in MODES:
        raise CodeError(f"`mode` of oc.grid_sample is one of {', '.join(map(repr, MODES))}, and not {mode!r}"[:200])
    if not isinstance(padding, str) or padding not in PADDINGS:
        listed = ", ".join(map(repr, PADDINGS))
        raise CodeError(f"`padding` of oc.grid_sample is one of {listed}, and not {padding!r}"[:200])
    axes = spatial_axes(x, None, "grid_sample")
    positions = embed(grid)
    sizes = [axes.size(name) for name in axes.names]
    if 0 in sizes:
        raise ShapeError(f"`grid_sample` of `{axes.x.label}`: the image has no cells")
    base: Any = None
    weights: list[list[Any]] = []
    for n, size in enumerate(sizes):
        g = einsum(f"...|..p.., {len(sizes) - 1 - n} => ...|..p..", positions)
        centered = (g + 1.0) * (0.5 * (size - 1)) if align_corners else ((g + 1.0) * float(size) - 1.0) * 0.5
        first, axis_weights = _block(centered, size, mode, padding, align_corners)
        first = cast(first, "int32")
        base = first if base is None else base * size + first
        weights.append(axis_weights)
    offsets = [_offset(cell, sizes) for cell in product(*(range(len(w)) for w in weights))]
    products = [reduce(lambda a, b: a * b, block) for block in product(*weights)]
    flat = axes.x
    if len(sizes) > 1:
        flat = einsum(f"...|{', '.join(axes.names)}, c => ...|({' '.join(axes.names)}), c", axes.x)
    return _sample(axes, flat, base, products, offsets)


def _offset(cell: Sequence[int], sizes: Sequence[int]) -> int:
    return reduce(lambda offset, part: offset * part[1] + part[0], zip(cell, sizes, strict=True), 0)


def _sample(axes: SelectedAxes, flat: Tensor, base: Tensor, weights: list[Any], offsets: list[int]) -> Tensor:
    """The weighted sums of the cells at the offsets from `base`."""
    logic = einsum_logic(parse(f"...|v, c; ...|..p..; v{'; ...|..p..' * len(weights)} => ...|..p.., c"))

    def shifted(x: Term, offset: int) -> Term:
        assert isinstance(x.tree, Hole)
        return Term(ShiftedRead(x.tree, SOURCE, offset, 0.0)) if offset else x

    def forward(s: Slots) -> None:
        x, start, source, *factors = s.operands
        products = (_counted(w, shifted(x, offset)) for w, offset in zip(factors, offsets, strict=True))
        total = reduce(lambda a, b: a + b, products)
        s.result().write(ADD, True, term("where", term("eq", start, source), total, 0))

    def gradient(s: Slots) -> None:
        x, start, source, *factors = s.operands
        for n, (w, offset) in enumerate(zip(factors, offsets, strict=True)):
            taken = term("eq", start + offset, source)
            s.operand_gradient(1).write(ADD, False, term("where", taken, _counted(w, s.gradient()), 0))
            contribution = shifted(x, offset) * s.gradient()
            s.operand_gradient(4 + n).write(ADD, False, term("where", term("eq", start, source), contribution, 0))

    operation = Operation(
        axes.title, logic, forward, gradient, reduce=ADD, result_type=ResultType(weak_operands=frozenset({1, 2}))
    )
    return apply(operation, [flat, base, indices(), *map(embed, weights)])


SOURCE = 3  # the operand whose only axis enumerates the cells of an image


def _counted(weight: Term, value: Term) -> Term:
    """The product, in which a weight of 0 excludes its cell."""
    return term("where", term("ne", weight, 0), weight * value, 0)


@composite
def affine_grid(transform: object, size: Sequence[int], *, align_corners: bool = False) -> Tensor:
    """The positions of the cells of an image of some size after an affine transformation, for `grid_sample`.

    `transform` has one row for each coordinate, from the last spatial axis to the first, and in each row the factors of
    these coordinates and a summand.

    Shapes: `...|2, 3 => ...|h, w, 2` for two sizes, and `...|3, 4 => ...|d, h, w, 3` for three.
    Grad:   the sum of `g` times the coordinates.
    Raises: CodeError for invalid sizes; ShapeError.
    """
    if not isinstance(size, list | tuple) or len(size) not in (1, 2, 3):
        raise CodeError(f"`size` of oc.affine_grid is a list of one to three sizes, not {size!r}"[:200])
    sizes = integers_per_axis("affine_grid", "size", size, len(size))
    t = embed(transform)
    names = [f"s{n}" for n in range(len(sizes))]
    result = f"...|{', '.join(names)}, k"
    cells: dict[str, Any] = dict(zip(names, sizes, strict=True))
    grid = einsum(f"...|k, {len(sizes)} => {result}", t, **cells)
    for column, (name, n) in enumerate(zip(reversed(names), reversed(sizes), strict=True)):
        broadcast_sizes: dict[str, Any] = {axis: m for axis, m in cells.items() if axis != name}
        spec = f"...|k, {column}; {name}, => {result}"
        grid = grid + einsum(spec, t, _coordinates(n, align_corners, t), **broadcast_sizes)
    return grid


def _coordinates(size: int, align_corners: bool, like: Tensor) -> Tensor:
    """The coordinates of the cells of an axis, from -1 to 1."""
    positions = iota(size, dtype=like.typing.current if like.typing.is_float else "float32")
    if align_corners:
        return positions * (2.0 / (size - 1)) - 1.0 if size > 1 else positions * 0.0
    return (2.0 * positions + (1.0 - size)) / float(size)


REGISTRY.update(grid_sample=grid_sample, affine_grid=affine_grid)
