"""The type of every kind of expression, as a table: what an expression of these operands becomes."""

from __future__ import annotations

import pytest

from ocannl.base.errors import DtypeError
from ocannl.ir import assign as comp
from ocannl.ir import precision as P
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Buf, Cast, Const, IndexValue, Load, MemorySpace, Ref
from ocannl.ir.ops import BY_NAME, OPS, Domain
from ocannl.ir.precision import PRECISIONS, Precision
from ocannl.ir.printer import format_expr
from ocannl.lower import types
from ocannl.lower.types import Operand

ROW = Sym("i", 0, 299)
I = comp.Index(Affine.of(ROW))


def cell(kind: Precision) -> Load:
    return Load(Ref(Buf(kind.name.replace("float", "f"), kind, (), (), MemorySpace.GLOBAL, AccessMode.IN), ()))


def number(value: float) -> comp.Number:
    return comp.Number(value)


def typed(operand: Operand) -> str:
    return format_expr(operand) + " : " + operand.precision.name if not isinstance(operand, types.Weak) else "weak"


F16, BF16, F32, F64, F8 = map(cell, (P.float16, P.bfloat16, P.float32, P.float64, P.float8_e4m3fn))
I32, I64, U8, U32, U64, B = map(cell, (P.int32, P.int64, P.uint8, P.uint32, P.uint64, P.bool_))

APPLIED: list[tuple[str, list[Operand], str]] = [
    ("add", [F32, F32], "f32 + f32 : float32"),
    ("add", [F32, F64], "f64(f32) + f64 : float64"),
    ("add", [F16, F16], "f32(f16) + f32(f16) : float32"),
    ("add", [F16, BF16], "f32(f16) + f32(bf16) : float32"),
    ("mul", [F8, F8], "f32(f8_e4m3fn) * f32(f8_e4m3fn) : float32"),
    ("id", [F16], "id(f32(f16)) : float32"),
    ("add", [I32, F16], "f32(int32) + f32(f16) : float32"),
    ("add", [U8, I32], "i32(uint8) + int32 : int32"),
    ("add", [U32, I32], "i64(uint32) + i64(int32) : int64"),
    ("add", [U64, I64], "f64(uint64) + f64(int64) : float64"),
    ("mul", [B, B], "i32(bool) * i32(bool) : int32"),
    ("max", [B, B], "max(bool, bool) : bool"),
    ("and", [B, I32], "i32(bool) && int32 : int32"),
    ("neg", [B], "-i32(bool) : int32"),
    ("not", [B], "!bool : bool"),
    ("div", [I32, I32], "f32(int32) / f32(int32) : float32"),
    ("exp", [I64], "exp(f32(int64)) : float32"),
    ("exp", [B], "exp(f32(bool)) : float32"),
    ("exp", [F64], "exp(f64) : float64"),
    ("lt", [F64, F32], "f64 < f64(f32) : float64"),
    # weak operands
    ("add", [F64, number(0.1)], "f64 + 0.1 : float64"),
    ("add", [F16, number(2)], "f32(f16) + 2 : float32"),
    ("add", [U8, number(2)], "uint8 + 2 : uint8"),
    ("add", [U8, number(2.0)], "uint8 + 2 : uint8"),
    ("add", [U8, number(300)], "i32(uint8) + 300 : int32"),
    ("add", [U8, number(-1)], "i32(uint8) + -1 : int32"),
    ("add", [I32, number(2**40)], "i64(int32) + 1099511627776 : int64"),
    ("add", [U8, number(0.5)], "f32(uint8) + 0.5 : float32"),
    ("add", [U8, number(float("inf"))], "f32(uint8) + inf : float32"),
    ("or", [B, number(1)], "bool || 1 : bool"),
    ("mul", [B, number(3)], "i32(bool) * 3 : int32"),
    ("add", [F32, I], "f32 + i : float32"),
    ("add", [I32, I], "int32 + i : int32"),
    ("add", [U8, I], "i32(uint8) + i : int32"),
    ("lt", [I, I], "i < i : int32"),
    ("add", [I, number(1)], "i + 1 : int32"),
    ("mul", [I, number(0.5)], "i * 0.5 : float32"),
    ("div", [I, number(2)], "i / 2 : float32"),
    ("add", [number(1), number(2)], "1 + 2 : float32"),
    # conditions keep their own type until they are decided
    ("where", [F32, F32, F32], "where(f32, f32, f32) : float32"),
    ("where", [F64, F32, F32], "where(f32(f64 != 0), f32, f32) : float32"),
    ("where", [F16, F32, F32], "where(f32(f16), f32, f32) : float32"),
    ("where", [F32, I32, I32], "where(i32(f32 != 0), int32, int32) : int32"),
    ("where", [F16, I32, I32], "where(i32(f32(f16) != 0), int32, int32) : int32"),
    ("where", [I64, U8, U8], "where(u8(int64 != 0), uint8, uint8) : uint8"),
    ("where", [I64, F32, F32], "where(f32(int64), f32, f32) : float32"),
    ("where", [F32, B, B], "where(bool(f32), bool, bool) : bool"),
    ("where", [number(0.5), F32, number(1)], "where(1, f32, 1) : float32"),
    ("where", [I, U8, U8], "where(u8(i != 0), uint8, uint8) : uint8"),
    ("where", [F32, F16, I], "where(f32, f32(f16), i) : float32"),
]


@pytest.mark.parametrize(("name", "operands", "text"), APPLIED, ids=lambda x: x if isinstance(x, str) else "")
def test_application(name: str, operands: list[Operand], text: str) -> None:
    assert typed(types.apply(BY_NAME[name], operands)) == text


def test_truth_values_are_not_compared_again() -> None:
    less = types.apply(BY_NAME["lt"], [F64, number(0)])
    assert typed(types.apply(BY_NAME["where"], [less, F32, F32])) == "where(f32(f64 < 0), f32, f32) : float32"


CAST: list[tuple[Operand, Precision, object]] = [
    (F32, P.float32, F32),
    (F32, P.float16, Cast(F32, P.float16)),
    (number(0.1), P.float64, Const(0.1, P.float64)),
    (number(3), P.uint8, Const(3, P.uint8)),
    (number(2.0), P.int32, Const(2, P.int32)),
    (number(2.5), P.int32, Cast(Const(2.5, P.float32), P.int32)),
    (number(300), P.uint8, Cast(Const(300, P.int32), P.uint8)),
    (number(2), P.bool_, Cast(Const(2, P.int32), P.bool_)),
    (I, P.float32, IndexValue(I.index, P.float32)),
    (I, P.float16, Cast(IndexValue(I.index, P.int32), P.float16)),
    (I, P.uint8, Cast(IndexValue(I.index, P.int32), P.uint8)),
    (I, P.uint16, IndexValue(I.index, P.uint16)),
]


@pytest.mark.parametrize(("operand", "kind", "expected"), CAST)
def test_cast(operand: Operand, kind: Precision, expected: object) -> None:
    assert types.cast(operand, kind) == expected


@pytest.mark.parametrize("op", OPS, ids=repr)
def test_compute_type_is_in_the_domain_of_the_operation(op) -> None:
    for first in PRECISIONS:
        for last in PRECISIONS:
            both = P.promote(first, last) if op.domain is Domain.INTEGER else first if first.is_float else last
            if op.domain in (Domain.INTEGER, Domain.WORD) and both.is_float:
                with pytest.raises(DtypeError, match=f"`{op}` is an operation on integers"):
                    types.apply(op, [cell(first), *[cell(last)] * (op.arity - 1)])
                continue
            kind = types.apply(op, [cell(first), *[cell(last)] * (op.arity - 1)]).precision
            assert kind.arithmetic is kind
            assert kind.is_float or op.domain is not Domain.FLOAT
            assert kind is P.uint32 or op.domain is not Domain.WORD
            assert kind is not P.bool_ or op.name in types.LOGICAL
