"""What the primitive operations mean, and the laws that their table claims."""

from __future__ import annotations

import numpy as np
import pytest

from ocannl.ir import precision as P
from ocannl.ir.ops import BY_NAME, OPS, Domain, Op
from ocannl.ir.precision import PRECISIONS

NAN, INF = float("nan"), float("inf")
VALUES = [NAN, -INF, -2.5, -1.0, -0.0, 0.0, 0.25, 1.0, 1.5, 3.0, INF]
FINITE = np.array([v for v in VALUES if np.isfinite(v)], np.float32)


def apply(name: str, *args: object, kind: type = np.float32) -> object:
    with np.errstate(all="ignore"):
        out = np.asarray(BY_NAME[name].numpy(*(np.asarray(a, kind) for a in args)))
    assert out.dtype == kind
    return out[()]


MEANINGS: list[tuple[str, tuple[float, ...], float]] = [
    ("id", (3,), 3), ("neg", (3,), -3), ("abs", (-3,), 3), ("relu", (-3,), 0), ("relu", (NAN,), NAN), ("relu", (2,), 2),
    ("sat01", (-1,), 0), ("sat01", (0.5,), 0.5), ("sat01", (7,), 1), ("sat01", (NAN,), NAN),
    ("not", (0,), 1), ("not", (0.5,), 0), ("not", (NAN,), 0), ("trunc", (-2.5,), -2), ("exp", (0,), 1),
    ("exp2", (3,), 8),
    ("log", (1,), 0), ("log2", (8,), 3), ("sin", (0,), 0), ("cos", (0,), 1), ("tanh", (INF,), 1), ("sqrt", (4,), 2),
    ("atan", (INF,), np.pi / 2), ("atan2", (1, -1), 3 * np.pi / 4), ("erf", (INF,), 1), ("erf", (NAN,), NAN),
    ("erfc", (1,), 0.15729920705), ("lgamma", (4,), 1.79175946923), ("lgamma", (-2,), INF), ("lgamma", (INF,), INF),
    ("recip", (4,), 0.25), ("recip_sqrt", (4,), 0.5), ("recip", (0,), INF),
    ("add", (1, 2), 3), ("sub", (1, 2), -1), ("mul", (2, 3), 6), ("div", (1, 4), 0.25), ("div", (1, 0), INF),
    ("pow", (2, 3), 8), ("pow", (4, 0.5), 2),
    ("mod", (5, 3), 2), ("mod", (-5, 3), 1), ("mod", (5, -3), -1), ("mod", (-2.5, 2), 1.5),
    ("max", (1, NAN), NAN), ("max", (NAN, 1), NAN), ("max", (1, 2), 2), ("min", (1, NAN), NAN), ("min", (1, 2), 1),
    ("lt", (1, 2), 1), ("le", (2, 2), 1), ("gt", (1, 2), 0), ("ge", (2, 2), 1), ("eq", (NAN, NAN), 0),
    ("ne", (NAN, 1), 1),
    ("lt", (NAN, 1), 0), ("and", (2, 0.5), 1), ("and", (NAN, 1), 1), ("and", (1, 0), 0), ("or", (0, 0), 0),
    ("or", (0, -3), 1),
    ("relu_gate", (2, 5), 5), ("relu_gate", (0, 5), 0), ("relu_gate", (-1, 5), 0),
    ("sat01_gate", (0.5, 5), 5), ("sat01_gate", (1, 5), 0), ("sat01_gate", (0, 5), 0),
    ("fst", (1, 2), 1), ("snd", (1, 2), 2),
    ("where", (2, 5, 6), 5), ("where", (0, 5, 6), 6), ("where", (NAN, 5, 6), 5), ("fma", (2, 3, 4), 10),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "result"), MEANINGS)
def test_meaning(name: str, args: tuple[float, ...], result: float) -> None:
    got = apply(name, *args)
    assert got == np.float32(result) or (np.isnan(got) and np.isnan(result))


def test_every_operation_has_a_meaning_tested() -> None:
    assert {name for name, _, _ in [*MEANINGS, *INTEGERS]} >= {op.name for op in OPS if op.domain is not Domain.WORD}


INTEGERS: list[tuple[str, tuple[int, ...], int]] = [
    ("bitwise_and", (12, 10), 8), ("bitwise_or", (12, 10), 14), ("bitwise_xor", (12, 10), 6),
    ("bitwise_and", (-4, 6), 4), ("bitwise_xor", (5, -1), -6),
    ("left_shift", (3, 4), 48), ("left_shift", (1, 31), -(2**31)), ("left_shift", (1, 32), 0),
    ("left_shift", (1, -1), 0), ("right_shift", (48, 4), 3), ("right_shift", (-5, 1), -3),
    ("right_shift", (-5, 32), -1), ("right_shift", (5, 99), 0), ("right_shift", (5, -1), 0),
    ("right_shift", (-5, -1), -1),
    ("div", (7, 2), 3), ("mod", (-7, 3), 2), ("relu", (-3,), 0), ("sat01", (5,), 1), ("not", (3,), 0),
    ("lt", (1, 2), 1),
    ("and", (2, 4), 1), ("pow", (3, 4), 81), ("abs", (-3,), 3), ("where", (4, 1, 2), 1), ("relu_gate", (3, 4), 4),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "result"), INTEGERS)
def test_meaning_on_integers(name: str, args: tuple[int, ...], result: int) -> None:
    assert apply(name, *args, kind=np.int32) == result


def is_defined(op: Op, kind: P.Precision) -> bool:
    match op.domain:
        case Domain.ANY: return True
        case Domain.FLOAT: return kind.is_float
        case Domain.INTEGER: return not kind.is_float and kind is not P.bool_
        case Domain.WORD: return kind is P.uint32


@pytest.mark.parametrize("op", OPS, ids=repr)
def test_results_have_the_type_of_the_last_operand(op: Op) -> None:
    for kind in PRECISIONS:
        if kind.arithmetic is not kind or not is_defined(op, kind):
            continue
        if kind is P.bool_ and op.name in ("neg", "sub", "mod", "pow", "sat01", "relu"):
            continue  # counted as integers
        apply(op.name, *[np.ones(3)] * op.arity, kind=kind.numpy.type)


@pytest.mark.parametrize("op", [o for o in OPS if o.neutral is not None], ids=repr)
def test_neutral_elements(op: Op) -> None:
    """Beginning with the neutral element gives what the first value alone gives."""
    got = apply(op.name, np.float32(op.neutral), FINITE)
    match op.name:
        case "sub": want = -FINITE
        case "div": want = np.divide(1, FINITE, where=FINITE != 0, out=np.full_like(FINITE, INF))
        case "pow": want = np.ones_like(FINITE)
        case "and" | "or": want = (FINITE != 0).astype(np.float32)
        case _: want = FINITE
    np.testing.assert_array_equal(np.abs(got), np.abs(want))


@pytest.mark.parametrize("op", [o for o in OPS if o.monoid], ids=repr)
def test_monoids(op: Op) -> None:
    assert op.ufunc is not None and op.neutral is not None
    for x in FINITE:
        for y in FINITE:
            assert apply(op.name, x, y) == apply(op.name, y, x)
            if op.idempotent:
                assert apply(op.name, x, x) == x
            for z in FINITE:
                left, right = apply(op.name, apply(op.name, x, y), z), apply(op.name, x, apply(op.name, y, z))
                assert left == right


@pytest.mark.parametrize("op", [o for o in OPS if o.monoid], ids=repr)
def test_ufuncs_reduce_as_the_operation_does(op: Op) -> None:
    assert op.ufunc is not None and op.neutral is not None
    total = np.float32(op.neutral)
    for x in FINITE[FINITE != 0]:
        total = apply(op.name, total, x)
    assert np.float32(op.ufunc.reduce(FINITE[FINITE != 0])) == total


def test_operations_are_identities() -> None:
    assert repr(BY_NAME["add"]) == "add"
    assert BY_NAME["add"] != BY_NAME["sub"] and len(set(OPS)) == len(OPS)
