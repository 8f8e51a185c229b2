"""Pooling to a fixed number of windows, p-norms of windows, and local response normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.spec import AxisSpec, Label, Spec, Window
from ocannl.infer.spec import Padding as AxisPadding
from ocannl.ir.ops import ADD, MAX, neutral_element
from ocannl.ir.precision import Precision
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_number, python_number
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.axis_maps import index_constant, map_axis
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.padding import pad
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.reductions import sum_
from ocannl.lang.ops.resize import area_band, area_windows
from ocannl.lang.ops.selected_axes import SelectedAxes, axis_vector, check_table, integers_per_axis, spatial_axes
from ocannl.lang.ops.windows import SPATIAL_AXES, Padding, Sizes, per_axis, register, spatial_windows

eq, sqrt, where = (PRIMITIVES[name] for name in ("eq", "sqrt", "where"))

# --- adaptive pooling ------------------------------------------------------------------------------------------------


def _adaptive_axes(title: str, axes: Sequence[str], x: object, size: Sizes) -> tuple[SelectedAxes, dict[str, int]]:
    """The spatial axes, and the number of windows along each. Raises: CodeError; ShapeError for empty axes."""
    selected = spatial_axes(x, len(axes), title)
    for name in axes:
        if selected.size(name) == 0:
            raise ShapeError(f"`{title}` of `{selected.x.label}`: the axis `{name}` has no cells")
    windows = dict(zip(axes, integers_per_axis(title, "size", size, len(axes)), strict=True))
    for name, count in windows.items():
        check_table(title, name, count)
    return selected, windows


def _adaptive_mean(axes: Sequence[str]) -> Callable[..., Tensor]:
    def pool(x: object, size: Sizes) -> Tensor:
        selected, windows = _adaptive_axes(f"adaptive_avg_pool{len(axes)}d", axes, x, size)
        for name, count in windows.items():
            selected = selected.with_tensor(map_axis(selected, name, area_band(selected.size(name), count)))
        return selected.x

    return pool


def _adaptive_max(axes: Sequence[str]) -> Callable[..., Tensor]:
    def pool(x: object, size: Sizes) -> Tensor:
        selected, windows = _adaptive_axes(f"adaptive_max_pool{len(axes)}d", axes, x, size)
        return _max_of_windows(selected, {name: _windows(selected.size(name), n) for name, n in windows.items()})

    return pool


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of an axis: a table with the cells of each, where -1 stands for no cell.

    stride   between the cells of a column, which are then read in place; None if they are copied first
    """

    table: Any
    stride: int | None


def _windows(old: int, new: int) -> _Windows:
    """Windows with the least number of cells, or at most half as many more if that makes their starts multiples of a
    stride."""
    first, end = area_windows(old, new)
    stride, width = old // new, int((end - first).max(initial=1))
    starts = np.arange(new) * stride
    regular_width = int((end - starts).max(initial=1))
    is_regular = stride > 0 and 2 * regular_width <= 3 * width
    cells = (starts if is_regular else first)[:, None] + np.arange(regular_width if is_regular else width)
    inside = (first[:, None] <= cells) & (cells < end[:, None])
    return _Windows(np.where(inside, cells, -1), stride if is_regular else None)


def _max_of_windows(axes: SelectedAxes, windows: dict[str, _Windows]) -> Tensor:
    """The maximum over the cells of a window of each axis."""
    kind = axes.x.typing.current
    lowest = neutral_element(MAX, kind)
    preserved = None if kind.is_float else kind
    tables = {name: index_constant(w.table) for name, w in windows.items()}
    regular: dict[str, tuple[AxisSpec, ...]] = {}
    windowed = axes
    for name, w in windows.items():
        if w.stride is None:
            windowed = _copied_windows(windowed, name, tables[name], preserved)
        else:
            regular[name] = (Window(w.stride, f"{name}'", AxisPadding.VALID, kernel=f"{name}''"),)

    def inside(v: Term, *cells: Term) -> Term:
        for cell in cells:
            v = term("where", cell >= 0, v, lowest)
        return v

    incomplete = [name for name, w in windows.items() if (w.table < 0).any()]
    pairs = [axis_vector(f"{name}'", f"{name}''") for name in incomplete]
    sizes = {
        f"{name}{mark}": n for name, w in windows.items() for mark, n in zip(("'", "''"), w.table.shape, strict=True)
    }
    result = axes.renamed({name: (Label(f"{name}'"),) for name in windows})
    weak = ResultType(preserved, weak_operands=frozenset(range(1, 1 + len(pairs))))
    logic = einsum_logic(Spec((windowed.renamed(regular), *pairs), result))
    operation = contraction(axes.title, logic, inside, MAX, result_type=weak, sizes=sizes)
    return apply(operation, [windowed.x, *(tables[name] for name in incomplete)])


def _copied_windows(axes: SelectedAxes, name: str, table: Tensor, kind: Precision | None) -> SelectedAxes:
    """The cells of the windows of an axis, along two axes in its place."""
    result = axes.renamed({name: (Label(f"{name}'"), Label(f"{name}''"))})
    spec = Spec((axes.shape, axis_vector(f"{name}'", f"{name}''"), axis_vector(name)), result)

    def select(v: Term, wanted: Term, source: Term) -> Term:
        return term("where", term("eq", wanted, source), v, 0)

    copied = ResultType(kind, weak_operands=frozenset({1, 2}))
    operation = contraction(axes.title, einsum_logic(spec), select, ADD, result_type=copied)
    return SelectedAxes(apply(operation, [axes.x, table, indices()]), result, axes.names, axes.title)


_ADAPTIVE = """The {reduction} over each of `size` windows along each spatial axis, which together cover `x`.

    oc.{name}(images, 7)

Window t of n windows over an axis of `a` cells extends from `floor(t * a / n)` to `ceil((t + 1) * a / n)`.

Shapes: `...|{windowed}, ..c.. => ...|{positions}, ..c..`; the sizes of the spatial axes must be inferred before the
        call.
Grad:   {grad}.
Raises: CodeError for invalid sizes; ShapeError, also for empty axes.
"""

# --- p-norms ---------------------------------------------------------------------------------------------------------


def _norm_pooling(axes: Sequence[str]) -> Callable[..., Tensor]:
    def pool(
        x: object, window: Sizes, stride: Sizes | None = None, *, p: float = 2, dilation: Sizes = 1,
        padding: Padding = "none",
    ) -> Tensor:  # fmt: skip
        power = python_number(p) if is_number(p) else 0
        if not 1 <= power < float("inf"):
            raise CodeError(f"`p` of oc.lp_pool{len(axes)}d is a number from 1, not {p!r}"[:200])
        taps = {f"k{a}": size for a, size in zip(axes, per_axis(axes, "window", window), strict=True)}
        windowed, positions = spatial_windows(axes, window if stride is None else stride, dilation, padding)
        powers = embed(x).abs() ** power if power % 2 else embed(x) ** power
        total = sum_(powers, f"...|{windowed}, ..c.. => ...|{positions}, ..c..", **taps)
        is_zero = eq(total, 0)
        base = where(is_zero, 1.0, total)  # 0 has no gradient
        root: Tensor = where(is_zero, 0.0, sqrt(base) if power == 2 else base ** (1 / power))
        return root

    return pool


_NORM_POOLING = """The p-norm of each window of `x`, `sum(abs(x)**p)**(1/p)`; `stride` is the window size by default.

The settings are those of the other pooling operations; cells outside `x` count as zeros.

Shapes: `...|{windowed}, ..c.. => ...|{positions}, ..c..`, as in `avg_pool2d`.
Grad:   `g * sign(x) * (abs(x) / v)**(p - 1)`, and 0 where the norm is 0.
Raises: CodeError for invalid settings; ShapeError.
"""

for _axes in SPATIAL_AXES:
    register(
        "adaptive_avg_pool", _axes, _adaptive_mean(_axes), _ADAPTIVE, reduction="mean",
        grad="`g / n` to each of the `n` cells of a window",
    )  # fmt: skip
    register(
        "adaptive_max_pool", _axes, _adaptive_max(_axes), _ADAPTIVE, reduction="maximum",
        grad="`g`, split equally among the cells that attain the maximum",
    )  # fmt: skip
    register("lp_pool", _axes, _norm_pooling(_axes), _NORM_POOLING)


@composite
def local_response_norm(
    x: object, size: int = 5, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """`x / (k + alpha * mean)**beta`, with the mean of the squares in a window of `size` channels.

    The window of channel n, which is an index of the last output axis, extends from `n - size // 2` to
    `n + (size - 1) // 2`; channels outside count as zeros.

    Shapes: `...|..s.., c => ...|..s.., c`.
    Grad:   that of this formula.
    Raises: CodeError for an invalid size; ShapeError.
    Source: Krizhevsky, Sutskever, Hinton 2012.
    """
    (taps,) = integers_per_axis("local_response_norm", "size", size, 1)
    t = embed(x)
    squares = pad(t * t, (taps // 2, (taps - 1) // 2), "...|..s.., c => ...|..s..")
    total = einsum("...|..s.., c<+k => ...|..s.., c", squares, k=taps)
    return t / (k + (alpha / taps) * total) ** beta


REGISTRY.update(local_response_norm=local_response_norm)
