"""Gathers: values at computed indices along one axis, or of several axes.

    take_along_axis  y[s, c] = x[ids[s, c], c]
    gather_nd        y[s, r] = x[ids[s, 0], ids[s, 1], r]

Their gradients are scatters. An index out of range yields 0; indices do not wrap.
"""

from __future__ import annotations

from typing import Any

from ocannl.base.errors import ShapeError
from ocannl.infer.logic import Logic, einsum
from ocannl.infer.parse import parse
from ocannl.infer.spec import Spec
from ocannl.ir.ops import ADD
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import Operation, ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.along_axis import rename_axis, single_axis
from ocannl.lang.ops.indexed_rows import indexed_rows, last_axis_size
from ocannl.lang.ops.indexing import require_integers
from ocannl.lang.ops.reduced_axes import ReducedAxes


@composite
def take_along_axis(x: object, ids: object, spec: str | None = None, **names: Any) -> Tensor:
    """The cells at the integers `ids` along one axis: the axis that the spec removes, or the only output axis.

        oc.take_along_axis(x, ids, "...|t,c => ...|c")  # y[s, c] = x[ids[s, c], c]

    Shapes: those of `ids`, which has the axes of `x`; the size of the indexed axis may differ. An index out of range
            yields 0.
    Grad:   `g`, added to the gathered cells; none to `ids`.
    Raises: DtypeError for ids that are not integers; CodeError unless the spec removes exactly one axis; ShapeError.
    Source: NumPy `take_along_axis`, PyTorch `gather`.
    """
    axes, axis = single_axis(x, spec, names, "take_along_axis")
    indices = embed(ids)
    require_integers(indices, "take_along_axis")
    return take_cells(axes, axis, indices)


def take_cells(axes: ReducedAxes, axis: str, ids: Tensor) -> Tensor:
    """The cells at the integers `ids` along a labelled axis."""
    operand = axes.logic.spec.operands[0]
    result = rename_axis(operand, axis, f"{axis}'")  # no user can write such a name
    logic = einsum(Spec((operand, result), result))
    operation = gather("take_along_axis", logic, [axis], sizes=axes.sizes)
    return apply(operation, [axes.x, ids], captures=axes.captures)


@composite
def gather_nd(x: object, ids: object) -> Tensor:
    """The rows of `x` at the index tuples along the last output axis of `ids`.

        oc.gather_nd(x, np.array([[0, 1], [2, 3]]))  # x[0, 1] and x[2, 3]

    Shapes: `i, j, ..r..; s, 2 => s, ..r..`, for tuples of 2 indices and any number of axes `s`; an index out of range
            yields zeros. Batch and input axes of `x` are kept; `ids` has the batch row of the result, or no batch axes.
    Grad:   `g`, added to the gathered rows; none to `ids`.
    Raises: DtypeError for ids that are not integers; ShapeError, also while the size of a tuple is unknown.
    Source: TensorFlow `gather_nd`, ONNX `GatherND`.
    """
    values, indices = embed(x), embed(ids)
    require_integers(indices, "gather_nd")
    labels = index_labels(indices, "gather_nd")
    rows = indexed_rows(values, indices, "gather_nd", leading=len(labels), trailing=1)
    components = [rows.indices(n) for n in range(len(labels))]
    spec = parse("; ".join([rows.table(*labels), *components]) + f" => {rows.values()}")
    return apply(gather("gather_nd", einsum(spec), labels), [values, *[indices] * len(labels)])


def gather(
    name: str, logic: Logic, labels: list[str], *, text: str = "", sizes: dict[str, int] | None = None
) -> Operation:
    """Reads operand 1 where the axes of labels have the indices of the following operands."""

    def at(_: Term, *indices: Term) -> dict[str, Term]:
        return dict(zip(labels, indices, strict=True))

    result_type = ResultType(weak_operands=frozenset(range(1, 1 + len(labels))))
    return contraction(
        name, logic, _value_operand, ADD, result_type=result_type, text=text, sizes=sizes, is_gather=True, at=at
    )


def _value_operand(x: Term, *_: Term) -> Term:
    return x


def index_labels(ids: Tensor, title: str) -> list[str]:
    """A label for each component of index tuples. Raises: ShapeError while their number is unknown."""
    count = last_axis_size(ids)
    if count is None:
        raise ShapeError(
            f"`{title}`: the last output axis of `{ids.label}` holds the indices of a tuple, and its size is unknown"
            f"\n  fix    give `{ids.label}` output=[...]"
        )
    return [f"i{n}" for n in range(count)]


REGISTRY.update(take_along_axis=take_along_axis, gather_nd=gather_nd)
