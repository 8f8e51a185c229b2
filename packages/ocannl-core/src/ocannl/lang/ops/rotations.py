"""Reversal and rotation of axes: the axes that a one-operand spec removes, or without a spec the only output axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.infer.logic import einsum
from ocannl.infer.spec import Label, Spec
from ocannl.ir.ops import ADD
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.selected_axes import SelectedAxes, axis_vector, integers_per_axis, removed_axes

Formula = Callable[[Term, Term, Term, int], Term]


def _move_cells(axes: SelectedAxes, name: str, formula: Formula) -> Tensor:
    """Sums `formula` over the source positions of an axis, for each target position. Preserves the type.

    `formula` maps a value, its source position, the target position and the size of the axis to the value or 0.
    """
    positions, target = indices(), f"{name}'"  # no user can write such a name
    spec = Spec((axes.shape, axis_vector(name), axis_vector(target)), axes.renamed({name: (Label(target),)}))

    def combine(v: Term, source: Term, target: Term) -> Term:
        return formula(v, source, target, positions.dims[0])

    kind = None if axes.x.typing.is_float else axes.x.typing.current
    result_type = ResultType(kind, weak_operands=frozenset({1, 2}))
    operation = contraction(axes.title, einsum(spec), combine, ADD, result_type=result_type, sizes=axes.sizes)
    return apply(operation, [axes.x, positions, positions], captures=axes.captures)


def _select_at(v: Term, position: Term, wanted: int) -> Term:
    return term("where", term("eq", position, wanted), v, 0)


@composite
def flip(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """Reverses the axes that the spec removes, or the only output axis.

        oc.flip(x, "...|t,c => ...|c")  # along t

    Shapes: those of `x`.
    Grad:   `g`, reversed.
    Raises: CodeError unless the spec removes axes; ShapeError.
    """
    return _flipped(removed_axes(x, spec, "flip", names)).x


def _flipped(axes: SelectedAxes, names: Sequence[str] | None = None) -> SelectedAxes:
    def reversed_cell(v: Term, source: Term, target: Term, size: int) -> Term:
        return _select_at(v, source + target, size - 1)

    for name in axes.names if names is None else names:
        axes = axes.with_tensor(_move_cells(axes, name, reversed_cell))
    return axes


@composite
def roll(x: object, shift: int | Sequence[int], spec: str | None = None, **names: Any) -> Tensor:
    """Rotates axes by `shift` cells towards their end: the axes that the spec removes, or the only output axis.

        oc.roll(x, 1, "...|t,c => ...|c")  # along t

    `shift` is one number, or one for each axis.

    Shapes: those of `x`.
    Grad:   `g`, rotated by `-shift`.
    Raises: CodeError unless the spec removes axes and the shifts are integers; ShapeError.
    """
    axes = removed_axes(x, spec, "roll", names)
    shifts = integers_per_axis("roll", "shift", shift, len(axes.names), None)
    for name, distance in zip(axes.names, shifts, strict=True):
        axes = axes.with_tensor(_move_cells(axes, name, _rotation(distance)))
    return axes.x


def _rotation(shift: int) -> Formula:
    def rotated_cell(v: Term, source: Term, target: Term, size: int) -> Term:
        offset = shift % max(size, 1)
        return _select_at(v, target - source, offset) + _select_at(v, target - source, offset - size)

    return rotated_cell


@composite
def rot90(x: object, k: int = 1, spec: str | None = None) -> Tensor:
    """Rotates by `k` quarter turns in the plane of the two axes that the spec removes, or of the only two output axes,
    from the first axis to the second.

        oc.rot90(images, 1, "...|h,w,c => ...|c")

    Shapes: `...|a, b, ..c.. => ...|b, a, ..c..` for odd `k`, else those of `x`.
    Grad:   `g`, rotated by `-k` quarter turns.
    Raises: CodeError unless the spec removes two axes and `k` is an integer; ShapeError.
    """
    (quarters,) = integers_per_axis("rot90", "k", k, 1, None)
    axes = removed_axes(x, "...|a,b => ...|" if spec is None else spec, "rot90")
    if len(axes.names) != 2:
        raise CodeError(f"`rot90` rotates in the plane of the two axes that its spec removes, not of {len(axes.names)}")
    flips: Sequence[str] = {0: (), 1: axes.names[1:], 2: axes.names, 3: axes.names[:1]}[quarters % 4]
    axes = _flipped(axes, flips)
    if quarters % 2 == 0:
        return axes.x
    a, b = axes.names
    return axes.rearranged(axes.renamed({a: (Label(b),), b: (Label(a),)}))


REGISTRY.update(flip=flip, roll=roll, rot90=rot90)
