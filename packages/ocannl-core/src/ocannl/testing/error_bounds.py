"""Interval and error analysis: how far correct results of a generated program may differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import ml_dtypes
import numpy as np

from ocannl.ir.assign import Value
from ocannl.ir.ops import Domain, Op
from ocannl.ir.precision import Family, Precision, float32, int32, promote, uint32

LOGICAL = ("id", "not", "max", "min", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "where", "fst", "snd")
BITS = 21  # of an exact number: sums and products of such numbers are exact in float32
HUGE = 1e8  # larger values have no error bound


@dataclass(frozen=True)
class Info:
    """Bounds of a value: its range, the power of two that it is a multiple of, its maximum error, and its type (None:
    weak)."""

    low: float
    high: float
    grain: int
    error: float
    kind: Precision | None
    is_index: bool = False

    @property
    def exact(self) -> bool:
        return self.error == 0

    @property
    def size(self) -> float:
        return max(abs(self.low), abs(self.high))


BoundedValue = tuple[Value, Info]


def limits(kind: Precision) -> tuple[int, int]:
    if kind.family is Family.BOOL:
        return 0, 1
    return int(np.iinfo(kind.numpy).min), int(np.iinfo(kind.numpy).max)


def is_integer(kind: Precision | None) -> bool:
    return kind is not None and not kind.is_float


def settled(info: Info) -> Info:
    """The bounds after rounding to the type that the value is computed in."""
    kind = info.kind or float32
    if not kind.is_float:
        low_limit, high_limit = limits(kind)
        if kind.family is Family.BOOL or (info.low >= low_limit and info.high <= high_limit):
            return info
        return replace(info, low=low_limit, high=high_limit)  # wrap-around
    if info.exact and info.grain + log(info.size + 1, 2) <= BITS:
        return info
    return replace(info, error=info.error + info.size * 2.0**-21)


def step(kind: Precision) -> float:
    """The relative distance of neighbouring numbers of a float type."""
    return float(ml_dtypes.finfo(kind.numpy).eps)  # type: ignore[no-untyped-call]


def converted(info: Info, kind: Precision) -> Info:
    """The bounds after a conversion; values converted to an integer type must fit it."""
    if kind.family is Family.BOOL:
        return Info(0, 1, 0, 0, kind)
    if not kind.is_float:
        integral = replace(info, kind=kind) if info.grain == 0 else replace(info, grain=0, kind=kind)
        return settled(integral)
    narrow = kind.nbytes < 4
    wide = settled(replace(info, kind=float32))
    error = wide.error + (wide.size * step(kind) if narrow and wide.error else 0)
    grow = 1.25 if narrow else 1
    return Info(wide.low * grow, wide.high * grow, wide.grain, error, kind)


def limits_below(kind: Precision, value: int) -> bool:
    return kind.is_float or limits(kind)[0] <= value


def common(op: Op, infos: Sequence[Info]) -> Precision:
    """The type that an operation on these operands is computed in, which determines whether integers wrap."""
    if op.domain is Domain.WORD:
        return uint32
    kind: Precision | None = None
    for info in infos:
        if info.kind is not None:
            kind = info.kind if kind is None else promote(kind, info.kind)
    if kind is None:
        integral = any(i.is_index for i in infos) and all(i.grain == 0 and i.exact for i in infos)
        kind = int32 if integral else float32
    for info in infos:
        if info.kind is None and not kind.is_float:
            low_limit, high_limit = limits(kind)
            if info.grain or not info.exact:
                kind = float32
            elif info.low < low_limit or info.high > high_limit:
                kind = promote(kind, int32)
    if op.domain is Domain.FLOAT and not kind.is_float:
        return float32
    if kind.family is Family.BOOL and op.name not in LOGICAL:
        return int32
    return kind.arithmetic


def can_meet(op: Op, old: Info) -> bool:
    """Whether accumulating into such cells is well conditioned."""
    match op.name:
        case "and" | "or" | "relu_gate" | "sat01_gate" | "mod": return old.exact and old.size <= 1e6
        case "pow": return (old.low >= 0.25 and old.high <= 8) or (is_integer(old.kind) and old.size < 100)
        case "div": return old.size <= 1e5
        case _: return old.size <= 1e6 or is_integer(old.kind)


def error_of(op: Op | None, start: Info, values: Sequence[tuple[Info, int]], kind: Precision) -> float | None:
    """The maximum error of a cell after accumulating these values, each so many times; None if it is unbounded."""
    cell = start
    for value, times in values:
        if times == 0 or (is_integer(kind) and value.exact and cell.exact):  # integers wrap, exactly
            continue
        v, grow = value.size, max(1.0, value.size)
        match op.name if op is not None else "":
            case "add" | "sub":
                bound = cell.size + times * v
                cell = Info(-bound, bound, max(cell.grain, value.grain), cell.error + times * value.error, None)
            case "mul":
                bound = max(cell.size, 1e-9) * grow**times
                error = (cell.error + times * value.error * max(1.0, cell.size)) * grow**times
                cell = Info(-bound, bound, cell.grain + times * value.grain, error, None)
            case "pow":
                for _ in range(0 if is_integer(kind) else times):
                    raised = _raised(cell, value)
                    if raised is None:
                        return None
                    cell = raised
            case "div":
                if is_integer(kind):
                    continue
                cell = replace(cell, error=cell.error + times * (value.error + 2.0**-16) * max(cell.size, 8.0))
            case _:
                bound = max(cell.size, v)
                error = max(cell.error, value.error)
                cell = Info(-bound, bound, max(cell.grain, value.grain), error, None)
        if not is_integer(kind):
            if cell.size > HUGE:
                return None
            error = cell.error
            cell = settled(replace(cell, kind=None))
            if cell.error != error:
                cell = replace(cell, error=error + times * cell.size * 2.0**-21)
    return None if kind.is_float and kind.nbytes < 4 and cell.size > 200 else cell.error


def _raised(x: Info, y: Info) -> Info | None:
    """The bounds of a power; None if it may be huge, or if the base may be close to zero."""
    low, high = x.low - x.error, x.high + x.error
    if low <= 0:
        return None
    exponents = y.low - y.error, y.high + y.error
    steep, high_power = max(abs(log(low)), abs(log(high))), max(map(abs, exponents))
    if steep * max(1, high_power) > log(HUGE):
        return None
    low_limit, *_, high_limit = sorted([base**power for base in (low, high) for power in exponents])
    by_x = high_power * max(base ** (power - 1) for base in (low, high) for power in exponents)
    error = x.error * by_x + y.error * steep * high_limit + high_limit * 2.0**-18
    return Info(low_limit, high_limit, 99, error, None)


def step_of(error: float, size: float, kind: Precision) -> float:
    """The maximum distance, after rounding to a narrow type, of numbers up to `size` that differ by at most `error`."""
    if not error or not kind.is_float or kind.nbytes >= 4:
        return 0
    info = ml_dtypes.finfo(kind.numpy)  # type: ignore[no-untyped-call]
    return 1.25 * size * float(info.eps) + float(info.smallest_subnormal)
