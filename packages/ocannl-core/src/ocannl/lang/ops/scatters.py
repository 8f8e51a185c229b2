"""Functional updates at computed indices: the result is a copy of `x` with some cells updated.

    index_update     y = x;  y[ids[s], r] op= values[s, r]
    put_along_axis   y = x;  y[ids[s, c], c] op= values[s, c]
    scatter_nd       y = x;  y[ids[s, 0], ids[s, 1], r] op= values[s, r]

Indices out of range update nothing, and indices do not wrap. If several indices select one cell, `set` stores the value
of the last index in row-major order, and the remaining modes accumulate all values. All are O(size of `x` + values).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ocannl.base.errors import CodeError
from ocannl.infer.logic import EQUAL, STRETCHED, Logic
from ocannl.infer.parse import parse
from ocannl.infer.spec import Spec
from ocannl.ir.ops import ADD, MAX, MIN, MUL
from ocannl.ir.precision import int32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.along_axis import rename_axis, single_axis
from ocannl.lang.ops.gathers import index_labels
from ocannl.lang.ops.indexed_rows import indexed_rows
from ocannl.lang.ops.indexing import require_integers

Mode = Literal["set", "add", "mul", "min", "max"]
Indices = Mapping[str, Term]

_ACCUMULATORS = {"set": None, "add": ADD, "mul": MUL, "min": MIN, "max": MAX}


@composite
def index_update(x: object, ids: object, values: object, *, mode: Mode = "set") -> Tensor:
    """`x` with the rows at the integers `ids` along the leading output axis updated by `values`.

        oc.index_update(x, ids, 1.0)               # the rows `ids` are 1
        oc.index_update(x, ids, rows, mode="add")  # adds to rows, several times if ids are repeated

    `mode` is `set`, `add`, `mul`, `min` or `max`. The last of several indices of a row wins in `set`; an index out of
    range updates nothing.

    Shapes: `n, ..r..; s; s, ..r.. => n, ..r..`, for any number of axes `s`, where `values` broadcasts.
    Grad:   `set`: to the values that were stored, and to the cells of `x` that no index selects; `min`, `max`: equal
            shares to all that attain the extreme; `mul`: products of all remaining factors, exact also for zeros.
    Raises: DtypeError for ids that are not integers; CodeError for an unknown mode; ShapeError.
    Source: JAX `x.at[ids].set`, PyTorch `index_add`, `index_copy`, `index_reduce`.
    """
    base, indices = embed(x), embed(ids)
    require_integers(indices, "index_update")
    rows = indexed_rows(base, indices, "index_update")
    spec = parse(f"{rows.table('n')}; {rows.values()}; {rows.indices()} => {rows.result('n')}")
    return apply(_update("index_update", spec, ["n"], mode), [base, embed(values), indices])


@composite
def put_along_axis(
    x: object, ids: object, values: object, spec: str | None = None, *, mode: Mode = "set", **names: Any
) -> Tensor:
    """`x` with the cells at the integers `ids` along one axis updated by `values`: the axis that the spec removes, or
    the only output axis.

        oc.put_along_axis(x, ids, values, "...|t,c => ...|c", mode="add")  # y[ids[s, c], c] += values[s, c]

    Modes, repeated indices and gradients are those of `index_update`.

    Shapes: those of `x`. `ids` has the axes of `x`, the size of the indexed axis may differ; `values` has the axes of
            `ids`, or broadcasts to these.
    Grad:   as of `index_update`.
    Raises: DtypeError for ids that are not integers; CodeError unless the spec removes exactly one axis, and for an
            unknown mode; ShapeError.
    Source: NumPy `put_along_axis`, PyTorch `scatter`, `scatter_add`, `scatter_reduce`, ONNX `ScatterElements`.
    """
    axes, axis = single_axis(x, spec, names, "put_along_axis")
    indices = embed(ids)
    require_integers(indices, "put_along_axis")
    operand = axes.logic.spec.operands[0]
    per_index = rename_axis(operand, axis, f"{axis}'")  # no user can write such a name
    update = _update("put_along_axis", Spec((operand, per_index, per_index), operand), [axis], mode, axes.sizes)
    return apply(update, [axes.x, embed(values), indices], captures=axes.captures)


@composite
def scatter_nd(x: object, ids: object, values: object, *, mode: Mode = "set") -> Tensor:
    """`x` with the rows at the index tuples along the last output axis of `ids` updated by `values`.

        oc.scatter_nd(x, np.array([[0, 1], [2, 3]]), 1.0)  # x[0, 1] and x[2, 3] are 1

    Modes, repeated indices and gradients are those of `index_update`.

    Shapes: `i, j, ..r..; s, 2; s, ..r.. => i, j, ..r..`, for tuples of 2 indices and any number of axes `s`, where
            `values` broadcasts.
    Grad:   as of `index_update`.
    Raises: DtypeError for ids that are not integers; CodeError for an unknown mode; ShapeError.
    Source: ONNX `ScatterND`; TensorFlow `tensor_scatter_nd_update`.
    """
    base, indices = embed(x), embed(ids)
    require_integers(indices, "scatter_nd")
    labels = index_labels(indices, "scatter_nd")
    rows = indexed_rows(base, indices, "scatter_nd", leading=len(labels), trailing=1)
    components = "; ".join(rows.indices(n) for n in range(len(labels)))
    spec = parse(f"{rows.table(*labels)}; {rows.values()}; {components} => {rows.result(*labels)}")
    return apply(_update("scatter_nd", spec, labels, mode), [base, embed(values), *[indices] * len(labels)])


def _update(name: str, spec: Spec, labels: list[str], mode: str, sizes: dict[str, int] | None = None) -> Operation:
    """The operation on `x`, `values` and the indices of the labelled axes."""
    if not isinstance(mode, str) or mode not in _ACCUMULATORS:
        raise CodeError(f"oc.{name}: mode={mode!r} is not one of {', '.join(map(repr, _ACCUMULATORS))}"[:200])
    op = _ACCUMULATORS[mode]

    def at(s: Slots) -> Indices:
        return dict(zip(labels, s.operands[2:], strict=True))

    def forward(s: Slots) -> None:
        s.result().write(None, True, s.operands[0], {})
        s.result().write(op, False, s.operands[1], at(s))

    def gradient(s: Slots) -> None:
        of_cells, of_values = _COTANGENTS[mode](s, at(s))
        s.operand_gradient(1).write(ADD, False, of_cells, {})
        s.operand_gradient(2).write(ADD, False, of_values, at(s))

    stretched = (EQUAL, STRETCHED, *[EQUAL] * len(labels))
    result_type = ResultType(weak_operands=frozenset(range(2, 2 + len(labels))))
    return Operation(name, Logic(name, spec, stretched), forward, gradient, result_type=result_type, sizes=sizes or {})


# --- gradients: the cotangents of `x` and of `values` -----------------------------------------------------------------


def _added(s: Slots, at: Indices) -> tuple[Term, Term]:
    return s.gradient(), s.gradient()


def _stored(s: Slots, at: Indices) -> tuple[Term, Term]:
    """The gradient of each cell goes to the last of its writers, or to the cell of `x` if there is none."""
    position, writer = s.offset(3), s.local("writer", 0, int32)
    writer.write(None, True, -1, {})
    writer.write(MAX, False, position, at)
    g = s.gradient()
    return term("where", writer < 0, g, 0.0), term("where", term("eq", writer, position), g, 0.0)


def _extreme(s: Slots, at: Indices) -> tuple[Term, Term]:
    """Equal shares to the cell and the values that attain the extreme."""
    cell_attains, value_attains = (term("eq", s.stored(operand), s.value) for operand in s.operands[:2])
    ties = s.local("ties", 0)
    ties.write(None, True, cell_attains, {})
    ties.write(ADD, False, value_attains, at)
    share = s.gradient() / ties
    return term("where", cell_attains, share, 0.0), term("where", value_attains, share, 0.0)


def _multiplied(s: Slots, at: Indices) -> tuple[Term, Term]:
    """The product of all remaining factors: a quotient, except for factors that are 0, infinite or NaN."""
    singular_count, invertible_product = s.local("singular", 0), s.local("invertible", 0)
    cell_inverts, value_inverts = (term("eq", factor / factor, 1.0) for factor in s.operands[:2])
    singular_count.write(None, True, term("where", cell_inverts, 0.0, 1.0), {})
    singular_count.write(ADD, False, term("where", value_inverts, 0.0, 1.0), at)
    invertible_product.write(None, True, term("where", cell_inverts, s.operands[0], 1.0), {})
    invertible_product.write(MUL, False, term("where", value_inverts, s.operands[1], 1.0), at)
    of_singular = term("where", term("eq", singular_count, 1.0), invertible_product, s.value)

    def cofactor(inverts: Term, factor: Term) -> Term:
        return s.gradient() * term("where", inverts, s.value / factor, of_singular)

    return cofactor(cell_inverts, s.operands[0]), cofactor(value_inverts, s.operands[1])


_COTANGENTS = {"set": _stored, "add": _added, "mul": _multiplied, "min": _extreme, "max": _extreme}

REGISTRY.update(index_update=index_update, put_along_axis=put_along_axis, scatter_nd=scatter_nd)
