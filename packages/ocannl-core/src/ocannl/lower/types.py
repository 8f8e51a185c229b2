"""Which type every number of a lowered program has: what is implicit in a Comp is a `Cast` in a Proc.

An `Apply` computes in the promoted type of its operands (the condition of `where` apart). A number or an index is weak:
it takes the type of its partners, unless an integer type cannot hold it: a fraction makes the default float32, a
large integer the integer type that has room. Operands that are all weak compute in int32 if an index is among them and
nothing is a fraction, else in float32. Then, in this order: operations on floats take integers as float32, arithmetic
on truth values is that of int32, and floats narrower than float32 compute in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, reduce
from math import isinf, isnan

import numpy as np

from ocannl.base.errors import CodeError, DtypeError
from ocannl.ir import assign as comp
from ocannl.ir.index import Cond
from ocannl.ir.loops import Apply, Cast, Expr, Idx, Load, Num, When
from ocannl.ir.ops import BY_NAME, Domain, Op
from ocannl.ir.precision import Family, Precision, float32, int32, int64, promote, uint32, uint64

Weak = comp.Number | comp.Index
Operand = Expr | Weak

TRUTH = frozenset(["not", "lt", "le", "gt", "ge", "eq", "ne", "and", "or"])  # results are 0 or 1 in any type
LOGICAL = TRUTH | {"id", "max", "min", "where", "fst", "snd"}  # of truth values these make truth values


@cache
def limits(precision: Precision) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    if precision.family is Family.BOOL:
        return 0, 1
    info = np.iinfo(precision.numpy)
    return int(info.min), int(info.max)


def is_whole(value: float) -> bool:
    return isinstance(value, int) or float(value).is_integer()


def span(weak: Weak) -> tuple[int, int]:
    """Smallest and largest value of a whole number or of an index."""
    match weak:
        case comp.Number(value):
            return int(value), int(value)
        case comp.Index(index):
            return (0, 0) if any(s.extent == 0 for s in index.syms) else index.range()


def fits(weak: Weak, precision: Precision) -> bool:
    if precision.is_float:
        return True
    if isinstance(weak, comp.Number) and not is_whole(weak.value):
        return False
    (low, high), (least, most) = span(weak), limits(precision)
    return least <= low and high <= most


def own_type(weak: Weak) -> Precision:
    """The type of a weak operand that an integer type cannot hold, or that has no partner."""
    if isinstance(weak, comp.Number) and not is_whole(weak.value):
        return float32
    return next((p for p in (int32, int64, uint64) if fits(weak, p)), float32)


def common(op: Op, operands: Iterable[Operand]) -> Precision:
    """The type that `op` computes in."""
    weak: list[Weak] = []
    strong: list[Precision] = []
    for o in operands:
        if isinstance(o, Weak):
            weak.append(o)
        else:
            strong.append(o.precision)
    if op.domain is Domain.WORD:  # integers have no common type: each is cut to a word
        strong = [kind for kind in strong if kind.is_float] or [uint32]
    if strong:
        kind = reduce(promote, strong)
    elif any(isinstance(o, comp.Index) for o in weak) and all(own_type(o) is not float32 for o in weak):
        kind = int32
    else:
        kind = float32
    kind = reduce(promote, (own_type(o) for o in weak if not fits(o, kind)), kind)
    return compute_type(op, kind)


def compute_type(op: Op, kind: Precision) -> Precision:
    """The type that `op` computes in when its operands are of type `kind`."""
    if op.domain in (Domain.INTEGER, Domain.WORD) and kind.is_float:
        raise DtypeError(f"`{op}` is an operation on integers, not on {kind}")
    if op.domain is Domain.WORD:
        return uint32
    if op.domain is Domain.FLOAT and not kind.is_float:
        return float32
    if kind.family is Family.BOOL and op.name not in LOGICAL:
        return int32
    return kind.arithmetic


def constant(value: float, precision: Precision) -> Num:
    """A number as near to `value` as the type has it: infinities of integer types are their limits."""
    if precision.is_float:
        return Num(float(value), precision)
    least, most = limits(precision)
    if isnan(value):
        return Num(0, precision)
    if isinf(value):
        return Num(most if value > 0 else least, precision)
    if precision.family is Family.BOOL:
        return Num(int(value != 0), precision)
    return Num(min(max(int(value), least), most), precision)


def neutral(op: Op, precision: Precision) -> Num:
    """What a cell starts from when `op` accumulates into it."""
    if op.neutral is None:
        raise CodeError(f"`{op}` has no neutral element to start from; write the statement without clearing")
    return constant(op.neutral, precision)


def cast(operand: Operand, precision: Precision) -> Expr:
    """The operand in this type: as it is, if it has it."""
    match operand:
        case comp.Number() if fits(operand, precision):
            return constant(operand.value, precision)
        case comp.Number():
            return Cast(constant(operand.value, own_type(operand)), precision)
        case comp.Index(index) if fits(operand, precision) and precision.arithmetic is precision:
            return Idx(index, precision)
        case comp.Index(index):
            return Cast(Idx(index, own_type(operand)), precision)
        case _:
            return operand if operand.precision is precision else Cast(operand, precision)


def keeps_zero(source: Precision, target: Precision) -> bool:
    """That a cast makes zero of zero, and of nothing else."""
    if target.family is Family.BOOL or source is target:
        return True
    if source.is_float:
        return target.is_float and promote(source, target) is target
    if target.is_float:
        return target.arithmetic is target
    return target.nbytes >= source.nbytes


def condition(operand: Operand, precision: Precision) -> Expr:
    """The operand in this type, zero exactly where it is zero in its own."""
    match operand:
        case comp.Number(value):
            return constant(int(value != 0), precision)
        case comp.Index(index):
            return condition(Idx(index, own_type(operand)), precision)
        case Apply(op, _) if op.name in TRUTH:
            return cast(operand, precision)
        case _ if keeps_zero(operand.precision, precision):
            return cast(operand, precision)
        case _:
            wide = operand.precision.arithmetic
            return cast(Apply(BY_NAME["ne"], (cast(operand, wide), constant(0, wide))), precision)


def apply(op: Op, operands: Sequence[Operand]) -> Apply:
    """`op` of the operands, all in the type it computes in."""
    if len(operands) != op.arity:
        raise CodeError(f"`{op}` takes {op.arity} operands, not {len(operands)}")
    if op.name == "where":
        kind = common(op, operands[1:])
        return Apply(op, (condition(operands[0], kind), cast(operands[1], kind), cast(operands[2], kind)))
    kind = common(op, operands)
    return Apply(op, tuple(cast(o, kind) for o in operands))


def guarded(load: Load, cond: Cond, outside: float) -> Expr:
    """What is read where `cond` holds, elsewhere the number `outside`, which the smallest types need not have."""
    if cond.is_true:
        return load
    kind = load.precision.arithmetic
    return When(cond, cast(load, kind), constant(outside, kind))
