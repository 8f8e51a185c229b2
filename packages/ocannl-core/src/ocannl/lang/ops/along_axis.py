"""Operations along one axis: the axis that a one-operand spec removes, or without a spec the only output axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.logic import EQUAL, Logic, einsum
from ocannl.infer.parse import parse
from ocannl.infer.spec import Label, RowSpec, ShapeSpec, Spec
from ocannl.ir.ops import MAX, MIN, Op
from ocannl.ir.precision import int32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.indexed_rows import OUTPUT, axis_count
from ocannl.lang.ops.reduced_axes import ReducedAxes, axes_to_reduce

OUTPUT_AXIS = Logic("walk along the output axis", parse("...|...->n => ...|...->"), (EQUAL,), needs_axes=False)


def single_axis(x: object, spec: str | None, names: dict[str, Any], title: str) -> tuple[ReducedAxes, str]:
    """The operand, and the name of the only axis that its spec removes. Raises: CodeError, EinsumSyntaxError."""
    axes = axes_to_reduce(x, spec, names, title, OUTPUT_AXIS)
    count = axis_count(axes.x, OUTPUT)
    if spec is None and count not in (None, 1):
        problem = f"`{title}` operates along one axis, but `{axes.x.label}` has {count} output axes"
        raise CodeError(f'{problem}: give a spec that removes one of them, such as "...|a,b => ...|a"')
    operand, result = axes.logic.spec.operands[0], axes.logic.spec.result
    all_names, remaining = Spec((operand,), result), Spec((), result)
    removed = [name for name in all_names.labels() if name not in remaining.labels()]
    removed += [name for name in all_names.row_vars() if name not in remaining.row_vars()]
    plain = {axis.name for _, row in operand.rows for axis in row.axes if isinstance(axis, Label)}
    if len(removed) != 1 or removed[0] not in plain:
        listed = ", ".join("`...`" if name.startswith("...") else f"`{name}`" for name in removed) or "none"
        raise CodeError(f"`{title}` operates along the one axis that its spec removes, but {spec!r} removes {listed}")
    return axes, removed[0]


def axis_spec(name: str) -> ShapeSpec:
    """The spec of a vector whose only output axis has a name."""
    return ShapeSpec(output=RowSpec(trail=(Label(name),)))


def rename_axis(shape: ShapeSpec, old: str, new: str) -> ShapeSpec:
    """The spec of a shape with a label renamed."""

    def row(r: RowSpec) -> RowSpec:
        lead, trail = (tuple(Label(new) if a == Label(old) else a for a in axes) for axes in (r.lead, r.trail))
        return replace(r, lead=lead, trail=trail)

    return ShapeSpec(*(row(r) for _, r in shape.rows))


def _define_arg_extreme(name: str, op: Op, doc: str) -> Callable[..., Tensor]:
    def arg(x: object, spec: str | None = None, **names: Any) -> Tensor:
        axes, axis = single_axis(x, spec, names, name)
        extreme, positions = axes.reduce(op, op.name), indices()
        operand, result = axes.logic.spec.operands[0], axes.logic.spec.result

        def first_match(v: Term, extreme: Term, position: Term) -> Term:
            if positions.dims == (0,):
                raise ShapeError(f"`{name}` of `{axes.x.label}`: an axis of size 0 has no {doc}")
            return term("where", term("eq", v, extreme) | term("ne", v, v), position, _NO_INDEX)

        logic = einsum(Spec((operand, result, axis_spec(axis)), result))
        operation = contraction(
            name, logic, first_match, MIN, differentiable=False, sizes=axes.sizes, result_type=ResultType(int32)
        )
        return apply(operation, [axes.x, extreme, positions])

    arg.__name__ = arg.__qualname__ = name
    arg.__doc__ = f"""The int32 index of the {doc} along one axis: the axis that the spec removes, or the only output
        axis. Of several equal values the first; the first NaN, if there is one.

            x.{name}("...|t,c => ...|c")  # along t

        Shapes: those of the spec, or `..b..|..i..->n => ..b..|..i..->`.
        Grad:   none.
        Raises: CodeError unless the spec removes exactly one axis; ShapeError, also for an axis of size 0.
        """
    REGISTRY[name] = composite(arg)
    return REGISTRY[name]


_NO_INDEX = 2**31 - 1

argmax = _define_arg_extreme("argmax", MAX, "largest value")
argmin = _define_arg_extreme("argmin", MIN, "smallest value")
