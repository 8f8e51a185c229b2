"""Common-subexpression elimination: which subexpressions are bound to variables."""

from __future__ import annotations

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    Const,
    Expr,
    IndexValue,
    Load,
    MemorySpace,
    Proc,
    Ref,
    Store,
    Update,
    When,
    loop,
)
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import float32, float64
from ocannl.ir.printer import print_proc
from ocannl.opt.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions

I = Sym("i", 0, 4)
X = Buf("x", float32, (5,), (1,), MemorySpace.ARENA, AccessMode.TEMP)
Y = Buf("y", float32, (5,), (1,), MemorySpace.ARENA, AccessMode.TEMP)
i = Affine.of(I)
x, target = Load(Ref(X, (i,))), Ref(Y, (i,))


def op(name: str, *args: Expr) -> Expr:
    return Apply(BY_NAME[name], args)


def body(value: Expr) -> list[str]:
    proc = Proc("p", (X, Y), (), (loop(I, (Store(target, value),)),))
    return [line.strip() for line in print_proc(eliminate_common_subexpressions(proc)).splitlines()[4:]]


def test_the_largest_common_subexpression_is_bound() -> None:
    e = op("exp", op("neg", x))
    assert body(op("mul", e, op("sub", Const(1.0, float32), e))) == ["let v = exp(-x[i])", "y[i] = v * (1 - v)"]


def test_nested_subexpressions() -> None:
    e = op("exp", x)
    assert body(op("mul", op("add", e, x), e)) == ["let v = x[i]", "let v_2 = exp(v)", "y[i] = (v_2 + v) * v_2"]


def test_constants_and_indices_are_not_bound() -> None:
    two = op("mul", Const(2.0, float32), Const(2.0, float32))
    index = IndexValue(i, float32)
    assert body(op("add", index, op("mul", index, Const(2.0, float32)))) == ["y[i] = i + i * 2"]
    assert body(op("add", two, two)) == ["let v = 2 * 2", "y[i] = v + v"]


def test_different_precisions_are_different_values() -> None:
    a, b = Cast(x, float64), Cast(Cast(Const(1.0, float32), float64), float64)
    wide = op("add", a, op("mul", a, b))
    assert body(Cast(wide, float32)) == ["let v = f64(x[i])", "y[i] = f32(v + v * f64(f64(1)))"]


def test_different_conditions_are_different_values() -> None:
    a, b = (When(Cond((i - n,)), x, Const(0.0, float32)) for n in (1, 2))
    assert body(op("add", a, b)) == ["y[i] = (x[i] if i-1 >= 0 else 0) + (x[i] if i-2 >= 0 else 0)"]
    assert body(op("add", a, a)) == ["let v = x[i] if i-1 >= 0 else 0", "y[i] = v + v"]


def test_guarded_loads_are_not_hoisted() -> None:
    far = Load(Ref(X, (i - 1,)))
    cond = Cond((i - 1,))
    both = op("mul", far, far)
    assert body(When(cond, both, Const(0.0, float32))) == ["y[i] = x[i-1] * x[i-1] if i-1 >= 0 else 0"]
    assert body(op("add", x, When(cond, op("mul", x, far), Const(0.0, float32)))) == [
        "let v = x[i]", "y[i] = v + (v * x[i-1] if i-1 >= 0 else 0)",
    ]  # fmt: skip


def test_an_unchanged_program_is_returned_by_identity() -> None:
    proc = Proc("p", (X, Y), (), (loop(I, (Update(target, ADD, op("exp", x)),)),))
    assert eliminate_common_subexpressions(proc) is proc


def test_variables_are_local_to_a_statement() -> None:
    cell = Load(Ref(X, (Affine(),)))
    proc = Proc("p", (X, Y), (), (Store(Ref(Y, (Affine(),)), op("mul", cell, cell)),))
    lines = print_proc(eliminate_common_subexpressions(proc)).splitlines()[3:]
    assert lines == ["  scope:", "    let v = x[0]", "    y[0] = v * v"]
