"""Reductions of rows by segments: row `s` belongs to the segment `ids[s]`.

    segment_sum  y[n, r] = sum of x[s, r] over all s with ids[s] = n

Ids need not be sorted; rows whose id is not a segment are left out. All are O(size of `x` + size of the result).
"""

from __future__ import annotations

from collections.abc import Callable

from ocannl.infer.logic import einsum
from ocannl.infer.parse import parse
from ocannl.ir.ops import ADD, MAX, MIN, MUL, Op
from ocannl.ir.precision import Precision, float32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.counting import count_ids
from ocannl.lang.ops.index_tensors import check_count
from ocannl.lang.ops.indexed_rows import IndexedRows, indexed_rows
from ocannl.lang.ops.indexing import require_integers


def _define_segment_reduction(name: str, op: Op, doc: str, grad: str) -> Callable[..., Tensor]:
    def reduction(x: object, ids: object, n: int) -> Tensor:
        values, indices, rows = _arguments(x, ids, n, name)
        return _reduce(name, op, rows, values, indices, n)

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"""{doc} of the rows of each of `n` segments; row `s` belongs to the segment `ids[s]`.

            oc.{name}(x, ids, 3)  # for ids 0, 0, 2: of rows 0 and 1, of no row, of row 2

        An empty segment has the neutral element. Rows whose id is not below `n`, or negative, are left out.

        Shapes: `s, ..r..; s => n, ..r..`, for any number of axes `s`. Batch and input axes of `x` are kept; `ids` has
                the batch row of `x`, or no batch axes.
        Grad:   {grad}
        Raises: DtypeError for ids that are not integers; DataError unless `n` is a nonnegative integer; ShapeError.
        Source: TensorFlow `unsorted_{name}`, JAX `{name}`.
        """
    REGISTRY[name] = composite(reduction)
    return REGISTRY[name]


segment_sum = _define_segment_reduction("segment_sum", ADD, "The sum", "`g` of the segment of a row.")
segment_prod = _define_segment_reduction(
    "segment_prod", MUL, "The product", "`g` times the product of all remaining rows, exact also for zeros."
)
segment_max = _define_segment_reduction(
    "segment_max", MAX, "The maximum", "split equally among the cells that attain the maximum."
)
segment_min = _define_segment_reduction(
    "segment_min", MIN, "The minimum", "split equally among the cells that attain the minimum."
)


@composite
def segment_mean(x: object, ids: object, n: int) -> Tensor:
    """The mean of the rows of each of `n` segments; row `s` belongs to the segment `ids[s]`.

        oc.segment_mean(x, ids, 3)  # for ids 0, 0, 2: of rows 0 and 1, of no row, of row 2

    The mean of an empty segment is NaN. Rows whose id is not below `n`, or negative, are left out.

    Shapes: `s, ..r..; s => n, ..r..`, for any number of axes `s`. Batch and input axes of `x` are kept; `ids` has the
            batch row of `x`, or no batch axes.
    Grad:   `g` of the segment of a row, divided by the number of its rows.
    Raises: DtypeError for ids that are not integers; DataError unless `n` is a nonnegative integer; ShapeError.
    Source: TensorFlow `unsorted_segment_mean`.
    """
    values, indices, rows = _arguments(x, ids, n, "segment_mean")
    total = _reduce("segment_sum", ADD, rows, values, indices, n, float32)
    number = count_ids(indices, n)
    logic = einsum(parse(f"{rows.result('n')}; {rows.index_batch}n => {rows.result('n')}"))
    result_type = ResultType(weak_operands=frozenset({1}))
    mean = contraction("segment_mean", logic, lambda t, k: t / k, None, result_type=result_type)
    return apply(mean, [total, number])


def _arguments(x: object, ids: object, n: int, title: str) -> tuple[Tensor, Tensor, IndexedRows]:
    values, indices = embed(x), embed(ids)
    require_integers(indices, title)
    check_count(n, title)
    return values, indices, indexed_rows(values, indices, title, is_per_index=True)


def _reduce(
    name: str, op: Op, rows: IndexedRows, values: Tensor, ids: Tensor, n: int, min_precision: Precision | None = None
) -> Tensor:
    logic = einsum(parse(f"{rows.values()}; {rows.indices()} => {rows.result('n')}"))
    result_type = ResultType(min_precision=min_precision, weak_operands=frozenset({1}))
    operation = contraction(
        name, logic, lambda v, _: v, op, result_type=result_type, sizes={"n": int(n)}, at=lambda _, index: {"n": index}
    )
    return apply(operation, [values, ids])


REGISTRY.update(segment_mean=segment_mean)
