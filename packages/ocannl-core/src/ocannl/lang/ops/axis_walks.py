"""One axis, walked in its order: the axis that a spec of one operand takes away, or else the one output axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.logic import EQUAL, Logic, einsum
from ocannl.infer.parse import parse
from ocannl.infer.spec import Label, RowSpec, ShapeSpec, Spec
from ocannl.ir.ops import ADD, MAX, MIN, Op
from ocannl.ir.precision import int32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.literals import is_truth
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.terms import Term
from ocannl.lang.core.terms import apply as term
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.indexing import OUTPUT, axes_known
from ocannl.lang.ops.reduced_axes import Away, away

OUTPUT_AXIS = Logic("walk along the output axis", parse("...|...->n => ...|...->"), (EQUAL,), asks=False)


def one_axis(x: object, spec: str | None, names: dict[str, Any], title: str) -> tuple[Away, str]:
    """The operand, and the name of the one axis that goes away."""
    over = away(x, spec, names, title, OUTPUT_AXIS)
    axes = axes_known(over.x, OUTPUT)
    if spec is None and axes not in (None, 1):
        problem = f"`{title}` goes along one axis, and `{over.x.label}` has {axes} output axes"
        raise CodeError(f'{problem}: give the spec that takes one of them away, such as "...|a,b => ...|a"')
    whole, left = over.logic.spec.operands[0], over.logic.spec.result
    kept = Spec((), left)
    gone = [name for name in Spec((whole,), left).labels() if name not in kept.labels()]
    gone += [name for name in Spec((whole,), left).row_vars() if name not in kept.row_vars()]
    plain = {axis.name for _, row in whole.rows for axis in row.axes if isinstance(axis, Label)}
    if len(gone) != 1 or gone[0] not in plain:
        told = ", ".join("`...`" if name.startswith("...") else f"`{name}`" for name in gone) or "none"
        raise CodeError(f"`{title}` goes along one axis, the one that its spec takes away; {spec!r} takes away {told}")
    return over, gone[0]


def axis_alone(name: str) -> ShapeSpec:
    return ShapeSpec(output=RowSpec(trail=(Label(name),)))


def _renamed(shape: ShapeSpec, old: str, new: str) -> ShapeSpec:
    def row(r: RowSpec) -> RowSpec:
        lead, trail = (tuple(Label(new) if a == Label(old) else a for a in axes) for axes in (r.lead, r.trail))
        return replace(r, lead=lead, trail=trail)

    return ShapeSpec(*(row(r) for _, r in shape.rows))


Formula = Callable[[Term, Term, Term, int], Term]


def _walked(over: Away, axis: str, title: str, op: Op, formula: Formula, *, moves: bool = False) -> Tensor:
    """`op` over all places of the axis, for each of its places: of a value, its place, the place of the result, and the
    size of the axis. If cells just move, truth values stay what they are."""
    places, there = indices(), f"{axis}'"  # no user can write such a name
    whole = over.logic.spec.operands[0]
    spec = Spec((whole, axis_alone(axis), axis_alone(there)), _renamed(whole, axis, there))

    def combine(v: Term, at: Term, to: Term) -> Term:
        return formula(v, at, to, places.dims[0])

    kind = over.x.typing.known if moves and not over.x.typing.is_float else None
    logic, weak = einsum(spec), frozenset({1, 2})
    operation = contraction(title, logic, combine, op, weak_operands=weak, sizes=over.sizes, kind=kind)
    return apply(operation, [over.x, places, places], captures=over.captures)


# --- places ----------------------------------------------------------------------------------------------------------


@composite
def flip(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """Back to front along one axis: the axis that the spec takes away, or the one output axis.

        oc.flip(x, "...|t,c => ...|c")  # along t

    Shapes: those of `x`.
    Grad:   what arrives, back to front.
    Raises: CodeError for a spec that takes away no axis, or several; ShapeError.
    """
    over, axis = one_axis(x, spec, names, "flip")
    return _walked(over, axis, "flip", ADD, lambda v, at, to, size: _there(v, at + to, size - 1), moves=True)


@composite
def roll(x: object, shift: int, spec: str | None = None, **names: Any) -> Tensor:
    """Each cell `shift` places further along one axis, from its end to its start: the axis that the spec takes away, or
    the one output axis.

        oc.roll(x, 1, "...|t,c => ...|c")  # along t

    Shapes: those of `x`.
    Grad:   what arrives, as many places back.
    Raises: CodeError for a spec that takes away no axis, or several, or a shift that is no integer; ShapeError.
    """
    if is_truth(shift) or not isinstance(shift, int | np.integer):
        raise CodeError(f"oc.roll goes by a whole number of places, and not by {shift!r}")
    over, axis = one_axis(x, spec, names, "roll")

    def rolled(v: Term, at: Term, to: Term, size: int) -> Term:
        by = int(shift) % max(size, 1)
        return _there(v, to - at, by) + _there(v, to - at, by - size)

    return _walked(over, axis, "roll", ADD, rolled, moves=True)


def _there(v: Term, place: Term, wanted: int) -> Term:
    return term("where", term("eq", place, wanted), v, 0)


def _first(name: str, op: Op, doc: str) -> Callable[..., Tensor]:
    def arg(x: object, spec: str | None = None, **names: Any) -> Tensor:
        over, axis = one_axis(x, spec, names, name)
        best, places = over.reduced(op, op.name), indices()
        whole, left = over.logic.spec.operands[0], over.logic.spec.result

        def place(v: Term, most: Term, at: Term) -> Term:
            if places.dims == (0,):
                raise ShapeError(f"`{name}` of `{over.x.label}`: an axis of no cells has no {doc}")
            return term("where", term("eq", v, most) | term("ne", v, v), at, _NOWHERE)

        logic = einsum(Spec((whole, left, axis_alone(axis)), left))
        operation = contraction(name, logic, place, MIN, differentiable=False, sizes=over.sizes, kind=int32)
        return apply(operation, [over.x, best, places])

    arg.__name__ = arg.__qualname__ = name
    arg.__doc__ = f"""Where the {doc} is along one axis, as int32: the axis that the spec takes away, or the one output
        axis. The first of equals; the first NaN, if there is one.

            x.{name}("...|t,c => ...|c")  # along t

        Shapes: those of the spec, or `..b..|..i..->n => ..b..|..i..->`.
        Grad:   none.
        Raises: CodeError for a spec that takes away no axis, or several; ShapeError, also for an axis of no cells.
        """
    REGISTRY[name] = composite(arg)
    return REGISTRY[name]


_NOWHERE = 2**31 - 1

argmax = _first("argmax", MAX, "largest value")
argmin = _first("argmin", MIN, "smallest value")

REGISTRY.update(flip=flip, roll=roll)
