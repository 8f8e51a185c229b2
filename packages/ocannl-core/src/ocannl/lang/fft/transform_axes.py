"""The axes of a Fourier transform: those that a one-operand spec removes, or the last output axes.

A complex number is a pair of its real and imaginary part along the last output axis, of size 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.spec import AxisSpec, Label, RowSpec, ShapeSpec, Spec
from ocannl.lang.core.indirect_axes import slot_axes_by_label
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.linalg.arrays import Array
from ocannl.lang.ops.reduced_axes import axes_to_reduce

LAST_AXES = {1: ("n",), 2: ("m", "n")}
PAIR = Label("pair'")  # no user can write such a name


@dataclass(frozen=True, slots=True)
class TransformAxes:
    """A tensor, a spec of its shape, and the names of the axes to transform; `pair` is the axis of complex numbers."""

    x: Tensor
    shape: ShapeSpec
    names: tuple[str, ...]
    pair: str | None

    def axis(self, name: str) -> int:
        """The position of an axis in memory order. Finishes inference."""
        ((_, axis),) = slot_axes_by_label(Spec((), self.shape), [self.x.shape])[name]
        return axis

    def size(self, name: str) -> int:
        """The size of an axis. Finishes inference. Raises: ShapeError if the tensor has fewer axes than the spec."""
        for kind, row in self.shape.rows:
            count = len(getattr(self.x.shape, kind))
            if count < len(row.axes):
                counts = f"has {count} axes, but `{self.shape}` has {len(row.axes)}"
                raise ShapeError(f"the {kind} row of `{self.x.label}` {counts}")
        return self.x.dims[self.axis(name)]

    @property
    def transformed(self) -> tuple[int, ...]:
        """The positions of the axes to transform, after complex numbers have replaced pairs."""
        pair = self.pair_position
        axes = map(self.axis, self.names)
        return tuple(axes) if self.pair is None else tuple(axis - (axis > pair) for axis in axes)

    @property
    def pair_position(self) -> int:
        """The position of the axis of complex numbers, in the operand or in the result."""
        return len(self.x.shape.batch) + len(self.x.shape.output) - (self.pair is not None)

    def result(self, *, is_complex: bool, last: str | None = None) -> ShapeSpec:
        """The spec of the result; `last` renames the last transformed axis."""
        renamed = {self.names[-1]: last} if last is not None else {}
        rows = [_renamed(row, renamed) for _, row in self.shape.rows]
        output = rows[2]
        if self.pair is not None:
            output = _without_last(output)
        if is_complex:
            output = replace(output, trail=(*(output.axes if output.var is None else output.trail), PAIR))
            output = replace(output, lead=()) if output.var is None else output
        return ShapeSpec(rows[0], rows[1], output)


def transform_axes(x: object, spec: str | None, title: str, number: int, *, is_complex: bool) -> TransformAxes:
    """The axes of a transform of a real or complex tensor. Raises: CodeError unless the spec removes `number` axes."""
    names = LAST_AXES[number]
    pair = ", p" if is_complex else ""
    text = f"...|...->..o.., {', '.join(names)}{pair} => ...|...->..o..{pair}" if spec is None else spec
    axes = axes_to_reduce(embed(x), text, {}, title)
    operand, result = axes.logic.spec.operands[0], axes.logic.spec.result
    kept = Spec((), result)
    removed = [name for name in Spec((operand,), result).labels() if name not in kept.labels()]
    plain = [axis.name for _, row in operand.rows for axis in row.axes if isinstance(axis, Label)]
    keeps_rows = Spec((operand,), result).row_vars() == kept.row_vars()
    if len(removed) != number or not set(removed) <= set(plain) or not keeps_rows:
        expected = "one axis" if number == 1 else f"{number} axes"
        raise CodeError(f"oc.fft.{title} transforms {expected}, which its spec removes, and {spec!r} does not")
    ordered = tuple(name for name in plain if name in removed)
    if not is_complex:
        return TransformAxes(axes.x, operand, ordered, None)
    last = operand.output.axes[-1:]
    if not last or not isinstance(last[0], Label) or last[0].name in removed:
        raise CodeError(
            f"the last output axis of a complex tensor contains the real and imaginary parts; {spec!r} must keep it"
        )
    return TransformAxes(axes.x, operand, ordered, last[0].name)


def _renamed(row: RowSpec, names: dict[str, str]) -> RowSpec:
    def new(axes: tuple[AxisSpec, ...]) -> tuple[AxisSpec, ...]:
        return tuple(Label(names.get(a.name, a.name)) if isinstance(a, Label) else a for a in axes)

    return replace(row, lead=new(row.lead), trail=new(row.trail))


def _without_last(row: RowSpec) -> RowSpec:
    return replace(row, trail=row.trail[:-1]) if row.trail else replace(row, lead=row.lead[:-1])


def complex_array(pairs: Array, axis: int) -> Array:
    """The complex numbers of an array of pairs along an axis."""
    last = np.ascontiguousarray(np.moveaxis(pairs, axis, -1))
    kind = np.complex64 if last.dtype == np.float32 else np.complex128
    # not a view of `last`: its axes of size 1 may have strides that SciPy refuses
    return last.reshape(-1).view(kind).reshape(last.shape[:-1])


def pair_array(numbers: Array, axis: int) -> Array:
    """The array of pairs along an axis of complex numbers."""
    numbers = np.ascontiguousarray(numbers)
    return np.moveaxis(numbers.view(numbers.real.dtype).reshape(*numbers.shape, 2), -1, axis)
