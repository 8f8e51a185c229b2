"""Counts of integers, and of numbers in intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import DataError
from ocannl.infer.logic import einsum
from ocannl.infer.parse import parse
from ocannl.ir.assign import Number
from ocannl.ir.ops import ADD, MAX, MIN
from ocannl.ir.precision import Precision, float64, int32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool, is_number
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term, convert
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.index_tensors import check_count
from ocannl.lang.ops.indexing import require_integers
from ocannl.lang.ops.reduced_axes import OUTPUT_ROW, axes_to_reduce


@composite
def bincount(ids: object, n: int, weights: object = None) -> Tensor:
    """The number of cells of each integer below `n`, or the sum of their `weights`, over the output row.

        oc.bincount(ids, 4)  # of 0, 2, 2: the counts 1, 0, 2, 0

    Counts are int32. Integers that are not below `n`, or negative, are left out.

    Shapes: `...|..s..; ...|..s.. => ...|n`, `weights` being the second operand.
    Grad:   none to `ids`; to `weights`, `g` of the integer of the cell.
    Raises: DtypeError for ids that are not integers; DataError unless `n` is a nonnegative integer; ShapeError.
    Source: NumPy `bincount`.
    """
    indices = embed(ids)
    require_integers(indices, "bincount")
    check_count(n, "bincount")
    if weights is None:
        return count_ids(indices, n)
    logic = einsum(parse("...|..s..; ...|..s.. => ...|n"))
    result_type = ResultType(weak_operands=frozenset({1}))
    sums = contraction(
        "bincount", logic, lambda w, _: w, ADD, result_type=result_type, sizes={"n": int(n)},
        at=lambda _, index: {"n": index},
    )  # fmt: skip
    return apply(sums, [embed(weights), indices])


def count_ids(ids: Tensor, n: int) -> Tensor:
    """The int32 number of cells of each integer below `n` in the output row."""
    counts = contraction(
        "bincount", einsum(parse("...|..s.. => ...|n")), _one, ADD, differentiable=False,
        result_type=ResultType(int32), sizes={"n": int(n)}, at=lambda index: {"n": index},
    )  # fmt: skip
    return apply(counts, [ids])


@composite
def histogram(x: object, bins: int = 10, range: tuple[float, float] | None = None) -> Tensor:
    """The int32 number of cells in each of `bins` intervals of equal width, over the output row.

        oc.histogram(x, 20, (0.0, 1.0))

    The intervals divide `range`, by default from the least to the largest cell. The first includes the lower bound of
    each interval, and the last one also includes the upper bound. Cells out of range, and NaN, are left out.

    Shapes: `...|..s.. => ...|n`.
    Grad:   none.
    Raises: DataError unless `bins` is a positive integer and `range` two finite numbers, the first the smaller one;
            ShapeError.
    Source: NumPy `histogram`, PyTorch `histc`.
    """
    values = embed(x)
    if is_bool(bins) or not isinstance(bins, int | np.integer) or bins < 1:
        raise DataError(f"oc.histogram: the number of bins must be a positive integer, not {bins!r}"[:200])
    if range is None:
        axes = axes_to_reduce(values, None, {}, "histogram", OUTPUT_ROW)
        bounds, spec = [axes.reduce(MIN, "min"), axes.reduce(MAX, "max")], "...|"
    else:
        bounds, spec = [embed(bound) for bound in _checked_range(range)], ""
    logic = einsum(parse(f"...|..s..; {spec}; {spec} => ...|n"))

    def at(v: Term, low: Term, high: Term) -> dict[str, Term]:
        kind = values.dtype if values.dtype.is_float else float64
        return {"n": _bin_index(v, low, high, int(bins), kind, kind if range is None else float64)}

    counts = contraction(
        "histogram", logic, _one, ADD, differentiable=False, result_type=ResultType(int32), sizes={"n": int(bins)},
        at=at,
    )  # fmt: skip
    return apply(counts, [values, *bounds])


def _bin_index(v: Term, low: Term, high: Term, bins: int, kind: Precision, kind_of_range: Precision) -> Term:
    """The index of the interval of a number, or -1. The quotient is corrected where rounding crosses a bound, which is
    computed in the type of the range and stored in that of the number, as in NumPy."""
    v, low, high = convert(v, float64), convert(low, kind_of_range), convert(high, kind_of_range)
    is_point = term("eq", low, high)
    low, high = term("where", is_point, low - 0.5, low), term("where", is_point, high + 0.5, high)
    width = (high - low) / bins

    def bound(n: Term) -> Term:
        return convert(convert(convert(n, kind_of_range) * width + low, kind), float64)

    quotient = term("min", term("trunc", (v - low) / width), bins - 1)
    index = quotient - term("where", v < bound(quotient), 1.0, 0.0)
    is_above = (v >= bound(quotient + 1)) & (quotient < bins - 1)
    index = index + term("where", is_above, 1.0, 0.0)
    return term("where", (v >= low) & (v <= high), index, -1.0)


def _checked_range(range: Any) -> Sequence[float]:
    is_pair = isinstance(range, Sequence | np.ndarray) and len(range) == 2
    if not is_pair or not all(is_number(bound) and np.isfinite(bound) for bound in range) or range[0] > range[1]:
        raise DataError(f"oc.histogram: `range` is two finite numbers, the smaller one first, not {range!r}"[:200])
    return [float(bound) for bound in range]


def _one(*_: Term) -> Term:
    return Term(Number(1))


REGISTRY.update(bincount=bincount, histogram=histogram)
