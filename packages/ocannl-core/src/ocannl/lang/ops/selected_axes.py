"""The axes that an operation changes: those that a one-operand spec removes, or the spatial axes of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.explain import table
from ocannl.infer.logic import einsum
from ocannl.infer.parse import parse
from ocannl.infer.spec import AxisSpec, Label, RowSpec, ShapeSpec, Spec
from ocannl.infer.terms import find, resolve
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.along_axis import OUTPUT_AXIS
from ocannl.lang.ops.indexed_rows import OUTPUT, axis_count
from ocannl.lang.ops.reduced_axes import axes_to_reduce

SPATIAL_NAMES = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}
"""Names of the spatial axes of signals, images and volumes."""


@dataclass(frozen=True, slots=True)
class SelectedAxes:
    """A tensor, a spec of its shape, and the names of the axes that an operation changes, in the order of the spec.

    title             of the operation, in errors
    sizes, captures   of names of the spec
    """

    x: Tensor
    shape: ShapeSpec
    names: tuple[str, ...]
    title: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    captures: Mapping[str, Any] = field(default_factory=dict)

    def size(self, name: str) -> int:
        """The inferred size of an axis. Raises: ShapeError if it is unknown, or if the spec does not fit the tensor."""
        for (_, spec), cells in zip(self.shape.rows, map(resolve, self.x.handle.rows), strict=True):
            lead, trail = (cells.lead, cells.trail) if cells.var is not None else (cells.axes, cells.axes)
            from_left, from_right = zip(spec.lead, lead, strict=False), zip(spec.trail[::-1], trail[::-1], strict=False)
            for axis, cell in (*from_left, *from_right):
                size = find(cell).size
                if axis == Label(name) and size is not None:
                    return size
        self.rearranged(self.shape)  # raises if the spec does not fit
        problem = f"`{self.title}` of `{self.x.label}`: the size of the axis `{name}` is unknown"
        raise ShapeError("\n".join([problem, *table([self.x.handle], "declare this size where the tensor is created")]))

    def rearranged(self, result: ShapeSpec, sizes: Mapping[str, int] | None = None) -> Tensor:
        """The tensor with the axes of a result that has the names of its spec."""
        logic = einsum(Spec((self.shape,), result))
        return apply(contraction(self.title, logic, _value, None, sizes=sizes), [self.x])

    def with_tensor(self, x: Tensor) -> SelectedAxes:
        return replace(self, x=x)

    def renamed(self, axes: Mapping[str, Sequence[AxisSpec]]) -> ShapeSpec:
        """The spec of the tensor with other axes in place of some names."""
        return replace_axes(self.shape, axes)


def _value(v: Term) -> Term:
    return v


def replace_axes(shape: ShapeSpec, axes: Mapping[str, Sequence[AxisSpec]]) -> ShapeSpec:
    """The spec with other axes in place of some names."""

    def replaced(old: Sequence[AxisSpec]) -> tuple[AxisSpec, ...]:
        return tuple(new for a in old for new in (axes.get(a.name, (a,)) if isinstance(a, Label) else (a,)))

    return ShapeSpec(*(replace(r, lead=replaced(r.lead), trail=replaced(r.trail)) for _, r in shape.rows))


def removed_axes(
    x: object, spec: str | None, title: str, sizes_and_captures: Mapping[str, Any] | None = None
) -> SelectedAxes:
    """The axes that a one-operand spec removes, or without a spec the only output axis.

    Raises: CodeError unless the spec removes an axis, and only whole axes; EinsumSyntaxError.
    """
    axes = axes_to_reduce(x, spec, dict(sizes_and_captures or {}), title, OUTPUT_AXIS)
    count = axis_count(axes.x, OUTPUT)
    if spec is None and count not in (None, 1):
        problem = f"`{title}` operates along one axis, but `{axes.x.label}` has {count} output axes"
        raise CodeError(f'{problem}: give a spec that removes the axes to operate on, such as "...|a,b => ...|b"')
    operand, result = axes.logic.spec.operands[0], axes.logic.spec.result
    everything, kept = Spec((operand,), result), Spec((), result)
    removed = [name for name in everything.labels() if name not in kept.labels()]
    rows = [name for name in everything.row_vars() if name not in kept.row_vars()]
    plain = {axis.name for _, row in operand.rows for axis in row.axes if isinstance(axis, Label)}
    if not removed or rows or not plain.issuperset(removed):
        listed = ", ".join("`...`" if name.startswith("...") else f"`{name}`" for name in removed + rows) or "none"
        raise CodeError(f"`{title}` operates along whole axes that its spec removes, but {spec!r} removes {listed}")
    return SelectedAxes(axes.x, operand, tuple(removed), title, axes.sizes, axes.captures)


def spatial_axes(x: object, number: int | None, title: str) -> SelectedAxes:
    """The first `number` output axes, or without a number all but the last, which are the channels.

    Raises: ShapeError if the number of output axes is unknown; CodeError unless there are one to three spatial axes.
    """
    t = embed(x)
    if number is None:
        count = axis_count(t, OUTPUT)
        if count is None:
            problem = f"`{title}` of `{t.label}`: the number of its output axes is unknown"
            raise ShapeError("\n".join([problem, *table([t.handle], "give one size for each spatial axis")]))
        number = count - 1
    if number not in SPATIAL_NAMES:
        raise CodeError(
            f"`{title}` takes one to three spatial axes, followed by channels, and `{t.label}` has {max(number, 0)}"
        )
    names = SPATIAL_NAMES[number]
    shape = parse(f"...|{', '.join(names)}, ..c.. => ").operands[0]
    return SelectedAxes(t, shape, names, title)


def integers_per_axis(title: str, setting: str, value: object, count: int, minimum: int | None = 1) -> tuple[int, ...]:
    """The integers of a setting, one for each axis, from one integer or a sequence. Raises: CodeError."""
    values: Sequence[Any] = list(value) if isinstance(value, list | tuple) else [value] * count
    integers = all(isinstance(n, int | np.integer) and not is_bool(n) for n in values)
    if len(values) != count or not integers or (minimum is not None and min(values, default=minimum) < minimum):
        at_least = "an integer" if minimum is None else ("a nonnegative integer", "a positive integer")[minimum]
        per_axis = f", or one for each of {count} axes" if count > 1 else ""
        problem = f"`{setting}` of oc.{title} is {at_least}{per_axis}, not {value!r}"
        raise CodeError(problem[:200])
    return tuple(int(n) for n in values)


MAX_TABLE = 2**24
"""The largest axis for which indices and weights are computed before compilation."""


def check_table(title: str, name: str, size: int) -> None:
    """Raises: CodeError for an axis that is too large for a table of indices."""
    if size > MAX_TABLE:
        raise CodeError(f"oc.{title}: the axis `{name}` of the result would have {size} cells, and 2**24 are supported")


def axis_vector(*names: str) -> ShapeSpec:
    """The spec of a tensor of plain output axes."""
    return ShapeSpec(output=RowSpec(trail=tuple(map(Label, names))))

