"""Type promotion: implicit conversions of a computation become `Cast`s in the loop program.

An `Apply` computes in the promoted type of its operands (except the condition of `where`). A number or an index is
weakly typed: it takes the type of the other operands, unless an integer type cannot represent it: a fraction promotes
to float32, a large integer to the integer type that can represent it. Weak operands alone compute in int32 if one is an
index and none is a fraction, else in float32. Then, in this order: float operations convert integers to float32,
arithmetic on truth values is that of int32, and floats narrower than float32 compute in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import isinf, isnan

from ocannl.base.errors import CodeError, DtypeError
from ocannl.ir import assign as comp
from ocannl.ir.affine import Cond
from ocannl.ir.loops import Apply, Cast, Const, Expr, IndexValue, Load, When
from ocannl.ir.ops import BY_NAME, Domain, Op
from ocannl.ir.precision import Family, Precision, float32, int32, int64, integer_limits, promote, uint32, uint64

Weak = comp.Number | comp.Index
Operand = Expr | Weak

TRUTH = frozenset(["not", "lt", "le", "gt", "ge", "eq", "ne", "and", "or"])  # results are 0 or 1 in any type
LOGICAL = TRUTH | {"id", "max", "min", "where", "fst", "snd"}  # map truth values to truth values


def is_integral(value: float) -> bool:
    return isinstance(value, int) or float(value).is_integer()


def span(weak: Weak) -> tuple[int, int]:
    """Returns the minimum and maximum of an integral number or an index."""
    match weak:
        case comp.Number(value):
            return int(value), int(value)
        case comp.Index(index):
            return (0, 0) if any(s.extent == 0 for s in index.syms) else index.range()


def fits(weak: Weak, precision: Precision) -> bool:
    if precision.is_float:
        return True
    if isinstance(weak, comp.Number) and not is_integral(weak.value):
        return False
    (low, high), (min_value, max_value) = span(weak), integer_limits(precision)
    return min_value <= low and high <= max_value


def default_type(weak: Weak) -> Precision:
    """Returns the type of a weak operand that does not fit the type of the other operands, or has none."""
    if isinstance(weak, comp.Number) and not is_integral(weak.value):
        return float32
    return next((p for p in (int32, int64, uint64) if fits(weak, p)), float32)


def common(op: Op, operands: Iterable[Operand]) -> Precision:
    """Returns the type in which `op` computes on these operands."""
    weak: list[Weak] = []
    strong: list[Precision] = []
    for o in operands:
        if isinstance(o, Weak):
            weak.append(o)
        else:
            strong.append(o.precision)
    if op.domain is Domain.WORD:  # each integer is truncated to a word, so no promotion applies
        strong = [kind for kind in strong if kind.is_float] or [uint32]
    if strong:
        kind = reduce(promote, strong)
    elif any(isinstance(o, comp.Index) for o in weak) and all(default_type(o) is not float32 for o in weak):
        kind = int32
    else:
        kind = float32
    kind = reduce(promote, (default_type(o) for o in weak if not fits(o, kind)), kind)
    return compute_type(op, kind)


def compute_type(op: Op, kind: Precision) -> Precision:
    """Returns the type in which `op` computes on operands of type `kind`."""
    if op.domain in (Domain.INTEGER, Domain.WORD) and kind.is_float:
        raise DtypeError(f"`{op}` is an operation on integers, not on {kind}")
    if op.domain is Domain.WORD:
        return uint32
    if op.domain is Domain.FLOAT and not kind.is_float:
        return float32
    if kind.family is Family.BOOL and op.name not in LOGICAL:
        return int32
    return kind.arithmetic


def constant(value: float, precision: Precision) -> Const:
    """Returns the constant of the type nearest to `value`; integer types saturate."""
    if precision.is_float:
        return Const(float(value), precision)
    min_value, max_value = integer_limits(precision)
    if isnan(value):
        return Const(0, precision)
    if isinf(value):
        return Const(max_value if value > 0 else min_value, precision)
    if precision.family is Family.BOOL:
        return Const(int(value != 0), precision)
    return Const(min(max(int(value), min_value), max_value), precision)


def cast(operand: Operand, precision: Precision) -> Expr:
    """Converts an operand to this type, without a `Cast` if it already has it."""
    match operand:
        case comp.Number() if fits(operand, precision):
            return constant(operand.value, precision)
        case comp.Number():
            return Cast(constant(operand.value, default_type(operand)), precision)
        case comp.Index(index) if fits(operand, precision) and precision.arithmetic is precision:
            return IndexValue(index, precision)
        case comp.Index(index):
            return Cast(IndexValue(index, default_type(operand)), precision)
        case _:
            return operand if operand.precision is precision else Cast(operand, precision)


def keeps_zero(source: Precision, target: Precision) -> bool:
    """Whether a cast maps exactly zero to zero."""
    if target.family is Family.BOOL or source is target:
        return True
    if source.is_float:
        return target.is_float and promote(source, target) is target
    if target.is_float:
        return target.arithmetic is target
    return target.nbytes >= source.nbytes


def condition(operand: Operand, precision: Precision) -> Expr:
    """Converts an operand used as a truth value; the result is zero exactly where the operand is zero."""
    match operand:
        case comp.Number(value):
            return constant(int(value != 0), precision)
        case comp.Index(index):
            return condition(IndexValue(index, default_type(operand)), precision)
        case Apply(op, _) if op.name in TRUTH:
            return cast(operand, precision)
        case _ if keeps_zero(operand.precision, precision):
            return cast(operand, precision)
        case _:
            wide = operand.precision.arithmetic
            return cast(Apply(BY_NAME["ne"], (cast(operand, wide), constant(0, wide))), precision)


def apply(op: Op, operands: Sequence[Operand]) -> Apply:
    """Builds an `Apply` with all operands converted to the type in which it computes."""
    if len(operands) != op.arity:
        raise CodeError(f"`{op}` takes {op.arity} operands, not {len(operands)}")
    if op.name == "where":
        kind = common(op, operands[1:])
        return Apply(op, (condition(operands[0], kind), cast(operands[1], kind), cast(operands[2], kind)))
    kind = common(op, operands)
    return Apply(op, tuple(cast(o, kind) for o in operands))


def guarded_load(load: Load, cond: Cond, outside: float) -> Expr:
    """Builds a load guarded by `cond`, with the value `outside` elsewhere, which narrow types may not represent."""
    if cond.is_true:
        return load
    kind = load.precision.arithmetic
    return When(cond, cast(load, kind), constant(outside, kind))
