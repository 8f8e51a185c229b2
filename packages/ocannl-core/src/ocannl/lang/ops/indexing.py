"""Indexing by integer tensors: rows of tables, class scores, one-hot vectors."""

from __future__ import annotations

from ocannl.base.errors import DtypeError
from ocannl.infer.logic import einsum
from ocannl.infer.parse import parse
from ocannl.ir.ops import ADD
from ocannl.ir.precision import precision
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.index_tensors import iota
from ocannl.lang.ops.indexed_rows import indexed_rows


def take(t: object, ids: object, *, label: str | None = None) -> Tensor:
    """Gathers rows along the leading output axis of `t` at the integers `ids`.

    The result has the axes of `ids`, then the remaining axes of `t`. An id outside the table yields zeros; ids do not
    wrap.

    Shapes: `v, ..r..; ..b..|s => ..b..|s, ..r..`, for any number of axes `s`; the number of axes `s` or `r` must be
            inferred before the call. Batch and input axes of `t` are kept. `ids` have the batch row of the result, or
            no batch axes: then each cell of the batch row takes the same rows.
    Grad:   `g`, added to the gathered rows; none to `ids`.
    Raises: DtypeError for ids that are not integers; ShapeError.
    """
    table, indices = embed(t), embed(ids)
    require_integers(indices, "take")
    rows = indexed_rows(table, indices, "take")
    spec = f"{rows.table('v')}; {rows.indices()} => {rows.values()}"
    return _gather("take", spec, "v", table, indices, "{0}.take({1})", label)


def pick(x: object, ids: object, *, label: str | None = None) -> Tensor:
    """The cell at the integer `ids` along the only output axis of `x`, for each cell of the batch row.

    Shapes: `...|v; ...| => ...|`. An id outside the axis yields 0.
    Grad:   `g`, added to the picked cells; none to `ids`.
    Raises: DtypeError for ids that are not integers; ShapeError.
    """
    values, indices = embed(x), embed(ids)
    require_integers(indices, "pick")
    return _gather("pick", "...|v; ...| => ...|", "v", values, indices, "pick({0}, {1})", label)


def one_hot(ids: object, n: int, *, dtype: object = None, label: str | None = None) -> Tensor:
    """1 at the integer `ids`, else 0, along a new last output axis of size `n`.

    The result has type `dtype`, by default the type that its users require, or float32.

    Shapes: `...|...->... => ...|...->..., n`. An id outside the axis yields zeros.
    Grad:   none.
    Raises: DtypeError for ids that are not integers; DataError unless `n` is a nonnegative integer.
    """
    indices, kind = embed(ids), None if dtype is None else precision(dtype)
    require_integers(indices, "one_hot")
    result_type = ResultType(kind, follows_consumers=kind is None)
    operation = contraction(
        "one_hot", _ONE_HOT_LOGIC, _equals_index, None, differentiable=False, result_type=result_type
    )
    return apply(operation, [indices, iota(n)], label=label)


_ONE_HOT_LOGIC = einsum(parse("...|...->...; n => ...|...->..., n"))


def _equals_index(index: Term, position: Term) -> Term:
    return term("eq", index, position)


def _gather(name: str, spec: str, axis: str, table: Tensor, indices: Tensor, text: str, label: str | None) -> Tensor:
    logic = einsum(parse(spec))
    result_type = ResultType(weak_operands=frozenset({1}))

    def at(_: Term, index: Term) -> dict[str, Term]:
        return {axis: index}

    operation = contraction(name, logic, _value_operand, ADD, result_type=result_type, text=text, is_gather=True, at=at)
    return apply(operation, [table, indices], label=label)


def _value_operand(x: Term, _: Term) -> Term:
    return x


def require_integers(ids: Tensor, name: str) -> None:
    """Raises: DtypeError unless indices are integers."""
    if ids.typing.is_float:
        kind = ids.typing.current
        raise DtypeError(f"`{name}` takes integer indices, and `{ids.label}` is of type {kind}; give dtype=oc.int32")


REGISTRY.update(take=take, pick=pick, one_hot=one_hot)
