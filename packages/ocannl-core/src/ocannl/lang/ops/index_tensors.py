"""Index tensors, from which masks and positions are computed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ocannl.base.errors import DataError
from ocannl.infer.logic import Logic
from ocannl.infer.spec import Label, RowSpec, ShapeSpec, Spec
from ocannl.ir.precision import Precision, int32, precision
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import AxisIndex, Term
from ocannl.lang.core.tensor import Tensor, apply

_AXIS = Logic("iota", Spec((), ShapeSpec(output=RowSpec(trail=(Label("n"),)))), ())


MAX_CELLS = 2**31
"""Indices are of type int32."""


def check_count(n: object, title: str) -> None:
    """Raises: DataError unless `n` is a number of elements with indices of type int32."""
    if is_bool(n) or not isinstance(n, int | np.integer) or not 0 <= n <= MAX_CELLS:
        raise DataError(f"oc.{title} takes the number of its elements, at most 2**31, not {n!r}"[:200])


def iota(n: int, *, dtype: object = None, label: str | None = None) -> Tensor:
    """0, 1, 2, ..., n-1 along one output axis, as int32: an expression without operands and without storage.

        causal = oc.einsum("i; j => ij", oc.iota(4), oc.iota(4), combine="ge")

    Shapes: `=> n`.
    Grad:   none.
    Raises: DataError unless `n` is a nonnegative integer.
    """
    check_count(n, "iota")
    return indices({"n": int(n)}, int32 if dtype is None else precision(dtype), label)


def indices(sizes: Mapping[str, int] | None = None, kind: Precision = int32, label: str | None = None) -> Tensor:
    """The indices of an axis whose size may be inferred from use."""
    formula = Term(AxisIndex(0, 0))
    operation = contraction(
        "iota", _AXIS, lambda: formula, None, differentiable=False, sizes=sizes, result_type=ResultType(kind)
    )
    return apply(operation, (), label=label)


REGISTRY.update(iota=iota)
