"""The types of sums over blocks of keys, and conversions to them."""

from __future__ import annotations

from ocannl.ir.loops import Cast, Expr
from ocannl.ir.precision import Precision, float64
from ocannl.opt import machine_model as machine


def block_sum_precision(precision: Precision, blocks: int) -> Precision:
    """Returns the type of the sum of so many blocks, each of which is summed in `precision`: float64 if the rounding
    errors of that many additions would exceed the bound on errors of sums."""
    return float64 if precision.is_float and blocks > machine.MAX_ROW_ADDITIONS else precision


def cast_to(value: Expr, precision: Precision) -> Expr:
    return value if value.precision is precision else Cast(value, precision)
