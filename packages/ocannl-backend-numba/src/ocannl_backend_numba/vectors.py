"""Vectors of floats in registers, as values of functions that Numba compiles, and their operations.

    load_8(x, i)    x[i], ..., x[i + 7]            store_8(y, i, v)
    splat_8(a)      a, ..., a
    v + w           also -, *, /, fma(u, v, w), maximum(v, w), minimum(v, w)
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, register_model

WIDTHS = (2, 4, 8, 16)


class Vector(types.Type):
    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"vector({dtype}, {lanes})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, ir.VectorType(manager[vector.dtype].get_value_type(), vector.lanes))


class _Infix(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(args[0], *args) if isinstance(args[0], Vector) and args[0] == args[-1] else None


def _implement(symbol: Any, arity: int, instruction: str) -> None:
    """Defines an operator of Python on vectors by an instruction of LLVM."""
    infer_global(symbol)(type(f"Infix_{instruction}", (_Infix,), {}))
    lower = lower_builtin(symbol, *[Vector] * arity)
    lower(lambda context, builder, sig, args: getattr(builder, instruction)(*args))


_implement(operator.add, 2, "fadd")
_implement(operator.sub, 2, "fsub")
_implement(operator.mul, 2, "fmul")
_implement(operator.truediv, 2, "fdiv")
_implement(operator.neg, 1, "fneg")


def _pointer(builder: Any, array: Any, index: Any, lanes: int) -> Any:
    cell = builder.gep(array, [index], inbounds=True)
    return builder.bitcast(cell, ir.VectorType(cell.type.pointee, lanes).as_pointer())


def _load(lanes: int) -> Any:
    @intrinsic
    def load(typing: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.load(_pointer(builder, args[0], args[1], lanes), align=sig.args[0].dtype.bitwidth // 8)

        return Vector(array.dtype, lanes)(array, types.int64), generate

    return load


def _store(lanes: int) -> Any:
    @intrinsic
    def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            builder.store(args[2], _pointer(builder, args[0], args[1], lanes), align=sig.args[0].dtype.bitwidth // 8)
            return context.get_dummy_value()

        return types.void(array, types.int64, value), generate

    return store


def _splat(lanes: int) -> Any:
    @intrinsic
    def splat(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            type_ = ir.VectorType(args[0].type, lanes)
            first = builder.insert_element(ir.Constant(type_, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0))
            lanes_of_first = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            return builder.shuffle_vector(first, ir.Constant(type_, ir.Undefined), lanes_of_first)

        return Vector(value, lanes)(value), generate

    return splat


@intrinsic
def fma(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """`x * y + z` of numbers or vectors, rounded once where the processor has an instruction for it."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = f"v{x.lanes}" if isinstance(x, Vector) else ""
        bits = (x.dtype if isinstance(x, Vector) else x).bitwidth
        kind = args[0].type
        function = builder.module.declare_intrinsic(
            f"llvm.fmuladd.{vector}f{bits}", (), ir.FunctionType(kind, [kind] * 3)
        )
        return builder.call(function, args)

    return x(x, y, z), generate


def _extreme(comparison: str) -> Any:
    @intrinsic
    def extreme(typing: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            a, b = args
            is_nan, is_extreme = builder.fcmp_unordered("uno", a, a), builder.fcmp_ordered(comparison, a, b)
            return builder.select(builder.or_(is_nan, is_extreme), a, b)

        return x(x, y), generate

    return extreme


FUNCTIONS: dict[str, object] = {"fma": fma, "maximum": _extreme(">"), "minimum": _extreme("<")}
FUNCTIONS |= {f"load_{n}": _load(n) for n in WIDTHS} | {f"store_{n}": _store(n) for n in WIDTHS}
FUNCTIONS |= {f"splat_{n}": _splat(n) for n in WIDTHS}
