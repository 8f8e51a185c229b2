"""Padding of axes, with constants or with cells of the tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.logic import einsum
from ocannl.infer.spec import Concat, Label, ShapeSpec, Spec
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.literals import is_bool, is_number, python_number
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.axis_maps import Array, select_along
from ocannl.lang.ops.concat import concatenation
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.selected_axes import SelectedAxes, axis_vector, check_table, removed_axes

Width = tuple[int, int]
Widths = int | Sequence[int] | Sequence[Sequence[int]]

# --- sources ---------------------------------------------------------------------------------------------------------


def _reflect(position: Array, size: int) -> Array:
    """Mirrors positions at the centers of the cells at both ends."""
    period = max(2 * (size - 1), 1)
    offset = position % period
    source: Array = np.minimum(offset, period - offset) if size > 1 else np.zeros_like(position)
    return source


def _symmetric(position: Array, size: int) -> Array:
    """Mirrors positions at the outer borders of the cells at both ends."""
    offset = position % (2 * size)
    source: Array = np.minimum(offset, 2 * size - 1 - offset)
    return source


SOURCES: dict[str, Callable[[Array, int], Array]] = {
    "edge": lambda position, size: np.clip(position, 0, size - 1),
    "reflect": _reflect,
    "symmetric": _symmetric,
    "wrap": lambda position, size: position % size,
}
"""The source of a position in an axis that is continued beyond its ends, by mode."""

PYTORCH_NAMES = {"replicate": "edge", "circular": "wrap"}
MODES = ("constant", *SOURCES, *PYTORCH_NAMES)


@composite
def pad(x: object, widths: Widths, spec: str | None = None, *, mode: str = "constant", value: float = 0.0) -> Tensor:
    """Adds cells before and after the axes that the spec removes, or the only output axis.

        framed = oc.pad(images, 1, "...|h,w,c => ...|c", mode="reflect")

    `widths` is the number of cells on both sides of each axis, a pair of the numbers before and after each axis, or one
    pair for each axis. `mode` is `"constant"` (`value`), `"edge"` (or `"replicate"`), `"reflect"` (mirrored, without
    repeating the cell at the end), `"symmetric"` (mirrored with it) or `"wrap"` (or `"circular"`).

    Shapes: those of `x`, with the removed axes longer by their widths. The sizes of these axes must be inferred before
            the call, except in the mode `"constant"`.
    Grad:   `g` without the new cells; those that copy a cell add their `g` to it.
    Raises: CodeError for invalid settings; ShapeError, also for copies of cells of an empty axis.
    """
    if not isinstance(mode, str) or mode not in MODES:
        raise CodeError(f"`mode` of oc.pad is one of {', '.join(map(repr, MODES))}, and not {mode!r}"[:300])
    if not is_number(value):
        raise CodeError(f"`value` of oc.pad is a number, not {value!r}"[:200])
    mode = PYTORCH_NAMES.get(mode, mode)
    axes = removed_axes(x, spec, "pad")
    per_axis = dict(zip(axes.names, pairs_of("pad", widths, len(axes.names)), strict=True))
    per_axis = {name: width for name, width in per_axis.items() if width != (0, 0)}
    if mode == "constant":
        return pad_with(axes, per_axis, python_number(value))
    sources = {}
    for name, (before, after) in per_axis.items():
        size = axes.size(name)
        if size == 0:
            raise ShapeError(f"`pad` of `{axes.x.label}`: the axis `{name}` has no cells to copy; use mode='constant'")
        check_table("pad", name, before + size + after)
        outside = [np.arange(-before, 0), np.arange(size, size + after)]
        sources[name] = [SOURCES[mode](positions, size) for positions in outside]
    names = list(sources)
    for start in range(0, len(names), AXES_AT_ONCE):
        part = {name: sources[name] for name in names[start : start + AXES_AT_ONCE]}
        axes = axes.with_tensor(_surrounded(axes, part))
    return axes.x


AXES_AT_ONCE = 2
"""More axes are padded in sequence: k axes have 3^k parts, each of which is compiled."""


def _surrounded(axes: SelectedAxes, sources: Mapping[str, Sequence[Array]]) -> Tensor:
    """The tensor between its cells at the sources before and after each axis. All parts are copied to the result at
    once, so that the tensor itself is read once."""
    parts, result = [axes], axes.shape
    for name, (before, after) in sources.items():
        outside = {f"{name}'": before, f"{name}''": after}  # no user can write such names
        labels = [label for label in (f"{name}'", name, f"{name}''") if label == name or len(outside[label])]
        parts = [
            part if label == name else _selected(part, name, label, outside[label])
            for part in parts
            for label in labels
        ]
        result = replace(axes, shape=result).renamed({name: (Concat(tuple(map(Label, labels))),)})
    shapes = tuple(part.shape for part in parts)
    return apply(concatenation(axes.title, einsum(Spec(shapes, result))), [part.x for part in parts])


def _selected(axes: SelectedAxes, name: str, label: str, sources: Array) -> SelectedAxes:
    """The cells of an axis at its sources, along an axis of this label."""
    cells = select_along(axes, name, sources)
    return replace(axes, x=cells, shape=axes.renamed({name: (Label(label),)}))


def pairs_of(title: str, widths: Any, count: int) -> list[Width]:
    """The cells before and after each axis. Raises: CodeError."""
    match widths:
        case list() | tuple() if len(widths) == 2 and all(map(_is_width, widths)):
            pairs: list[Any] = [tuple(widths)] * count
        case list() | tuple():
            pairs = [tuple(pair) if isinstance(pair, list | tuple) else None for pair in widths]
        case _:
            pairs = [(widths, widths)] * count
    if len(pairs) != count or not all(pair and len(pair) == 2 and all(map(_is_width, pair)) for pair in pairs):
        forms = f"a nonnegative integer, a pair of these (before, after), or a pair for each of {count} axes"
        raise CodeError(f"the widths of oc.{title} are {forms}, not {widths!r}"[:250])
    return [(int(before), int(after)) for before, after in pairs]


def _is_width(value: object) -> bool:
    return isinstance(value, int | np.integer) and not is_bool(value) and bool(value >= 0)


def pad_with(axes: SelectedAxes, widths: dict[str, Width], value: float) -> Tensor:
    """The tensor with cells of a value around its axes."""
    if not widths:
        return axes.x
    padded = axes.renamed({name: (_with_parts(name, width),) for name, width in widths.items()})
    zeros = apply(concatenation("pad", einsum(Spec((axes.shape,), padded))), [axes.x])
    return zeros if value == 0 else _fill_outside(axes.with_tensor(zeros), widths, value)


def _with_parts(name: str, width: Width) -> Concat:
    before, after = width
    return Concat(tuple(part for part in (before, Label(name), after) if part != 0))


def _fill_outside(padded: SelectedAxes, widths: dict[str, Width], value: float) -> Tensor:
    """Stores a value in the cells that padding added."""
    positions = [indices() for _ in widths]

    def fill(v: Term, *terms: Term) -> Term:
        for position, (before, after), index in zip(terms, widths.values(), positions, strict=True):
            inside = (position >= before) & (position < index.dims[0] - after)
            v = term("where", inside, v, value)
        return v

    shape: ShapeSpec = padded.shape
    spec = Spec((shape, *(axis_vector(name) for name in widths)), shape)
    weak = frozenset(range(1, 1 + len(widths)))
    kind = None if padded.x.typing.is_float else padded.x.typing.current
    operation = contraction("pad", einsum(spec), fill, None, result_type=ResultType(kind, weak_operands=weak))
    return apply(operation, [padded.x, *positions])


REGISTRY.update(pad=pad)
