"""All operations equal NumPy in all precisions."""

from itertools import product

import numpy as np
import pytest

from ocannl.backend import CompileError
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Apply, Const, Load, Proc, Ref, Store, Update, loop
from ocannl.ir.ops import BY_NAME, OPS, Domain
from ocannl.ir.precision import PRECISIONS, Family, bool_, uint32

MONOIDS = [op for op in OPS if op.monoid]
ULPS = {
    "exp": 2, "exp2": 2, "log": 2, "log2": 2, "sin": 2, "cos": 2, "tanh": 3, "pow": 3, "recip_sqrt": 1, "mod": 0,
    "atan": 2, "atan2": 2, "erf": 2, "erfc": 4, "lgamma": 7,
}  # fmt: skip


def specials(p):
    """Edge cases, followed by random values."""
    random = np.random.default_rng(0)
    if p is bool_:
        return np.array([False, True])
    if not p.is_float:
        info = np.iinfo(p.numpy)
        edges = {info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 8, 100} | (
            {-1, -2, -3, -7} if info.min else set()
        )
        return np.array([*edges, *random.integers(info.min, info.max, 6, p.numpy, endpoint=True)], p.numpy)
    edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        7.0,
        -7.5,
        0.1,
        np.inf,
        -np.inf,
        np.nan,
        1e-3,
        100.0,
        1e-40,
        1e30,
        -1e30,
    ]
    edges += [1 + 2**-7, 1 - 2**-8, 10.25, 87.0, -87.0, 709.0]
    with np.errstate(all="ignore"):
        return np.array([*edges, *random.normal(0, 3, 8)]).astype(p.numpy)


def program(run, name, op, arrays, result, args=None):
    """`y[i] = op(...)` over all of the arrays."""
    bufs = [run.like(f"x{n}", a, AccessMode.IN) for n, a in enumerate(arrays)]
    y = run.like("y", result, AccessMode.OUT)
    i = Sym("i", 0, result.size - 1)
    at = (Affine.of(i),)
    value = Apply(op, args(*(Load(Ref(b, at)) for b in bufs)) if args else tuple(Load(Ref(b, at)) for b in bufs))
    return Proc(name, (*bufs, y), (), (loop(i, (Store(Ref(y, at), value),)),))


def elementwise(run, op, arrays, result, args=None):
    return run(program(run, op.name, op, arrays, result, args), *arrays, result)[-1]


def meaning(op, p, *arrays):
    """NumPy's result, computed in the arithmetic type; bool is computed as uint8."""
    kind = np.uint8 if p is bool_ else p.arithmetic.numpy
    with np.errstate(all="ignore"):
        value = np.asarray(op.numpy(*(a.astype(kind) for a in arrays)))
        return (value != 0) if p is bool_ else value.astype(p.numpy)


def differences(got, want, ulps):
    """Positions that differ by more than `ulps`; zeros of any sign are equal, and so are all NaN."""
    if not np.issubdtype(want.dtype, np.floating) and want.dtype.kind != "V" and want.dtype.kind in "biu":
        return np.flatnonzero(got != want)
    with np.errstate(all="ignore"):
        is_equal = (got == want) | (np.isnan(got) & np.isnan(want))
        finite = np.isfinite(got) & np.isfinite(want)
        step = np.spacing(np.abs(want)).astype(np.float64)
        is_near = finite & (np.abs(got.astype(np.float64) - want.astype(np.float64)) <= ulps * step)
    return np.flatnonzero(~(is_equal | is_near))


def agree(op, p, got, want, operands, ulps):
    wrong = differences(got, want, ulps)
    shown = [(*(str(x[n]) for x in operands), f"got {got[n]}", f"want {want[n]}") for n in wrong[:8]]
    assert not len(wrong), f"{op.name} of {p.name}: {len(wrong)} of {len(got)} differ: {shown}"


def operands(op, p):
    values = specials(p)
    columns = [np.array(c, p.numpy) for c in zip(*product(values, repeat=min(op.arity, 2)), strict=True)]
    columns += [np.resize(np.roll(values[::-1], n), len(columns[0])) for n in range(op.arity - len(columns))]
    if op.name == "pow" and p.family is Family.SIGNED:
        columns[1] = np.abs(columns[1] // 2)  # NumPy refuses negative exponents
    if op.name == "fma" and p.is_float:
        columns = [np.clip(c.astype(np.float32), -100, 100).astype(p.numpy) for c in columns]
    return columns


@pytest.mark.sample(covering=("op p",))
@pytest.mark.parametrize("p", PRECISIONS, ids=str)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_operations_equal_numpy(run, op, p):
    columns = operands(op, p)
    result = np.zeros(len(columns[0]), p.numpy)
    if (op.domain is Domain.INTEGER and p.is_float) or (op.domain is Domain.WORD and p is not uint32):
        with pytest.raises(CompileError, match=f"`{op.name}` has no meaning in"):
            elementwise(run, op, columns, result)
        return
    if op.domain is Domain.FLOAT and not p.is_float:
        if op.name not in ("trunc", "div"):
            with pytest.raises(CompileError, match=f"`{op.name}` has no meaning in"):
                elementwise(run, op, columns, result)
            return
        want = columns[0] if op.name == "trunc" else quotients(*columns)
    else:
        want = meaning(op, p, *columns)
    got = elementwise(run, op, columns, result)
    if op.name == "fma" and p.is_float:
        x, y, z = (c.astype(np.float64) for c in columns)
        with np.errstate(all="ignore"):
            magnitude = np.abs(x * y) + np.abs(z)
            is_near = np.abs(got.astype(np.float64) - (x * y + z)) <= 2 * np.spacing(magnitude.astype(p.numpy)).astype(
                np.float64
            )
        got = np.where(is_near, want, got)
    ulps = ULPS.get(op.name, 0) if p.arithmetic is p else min(ULPS.get(op.name, 0), 1)
    agree(op, p, got, want, columns, ulps)


def quotients(x, y):
    """Quotients truncated towards zero; 0 for division by zero."""
    exact = [
        0 if int(b) == 0 else abs(int(a)) // abs(int(b)) * (-1 if (a < 0) != (b < 0) else 1)
        for a, b in zip(x, y, strict=True)
    ]
    unsigned = np.array([q % 2**64 for q in exact], np.uint64)
    return unsigned.astype(x.dtype)


@pytest.mark.parametrize(
    "op", [op for op in OPS if op.name not in ("neg", "sub", "pow", "mod", "trunc", "div", "sat01_gate")], ids=str
)
def test_operations_on_bool_equal_numpy(run, op):
    if op.domain in (Domain.FLOAT, Domain.WORD):
        return
    columns = operands(op, bool_)
    want = np.asarray(op.numpy(*columns)).astype(np.bool_)
    agree(op, bool_, elementwise(run, op, columns, np.zeros(len(want), np.bool_)), want, columns, 0)


@pytest.mark.sample(covering=("name p", "name left", "p left"))
@pytest.mark.parametrize("p", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", ["max", "min", "add", "lt", "ne", "and", "where", "mod", "relu_gate"])
@pytest.mark.parametrize("left", [False, True])
def test_constant_operands(native, run, p, name, left):
    op, table = BY_NAME[name], specials(p)
    values = (0, 1, 2, -1) if not p.is_float else (0.0, 1.0, -0.5, float("nan"), float("inf"), -1e300)
    values = [v for v in values if not (p.family in (Family.UNSIGNED, Family.BOOL) and v < 0)]

    def operands_of(x, constant):
        pair = (constant, x) if left else (x, constant)
        return (x, *pair) if op.arity == 3 else pair

    result = np.zeros(table.size, p.numpy)
    procs = [
        program(run, f"{name}_{n}", op, [table], result, lambda x, v=v: operands_of(x, Const(v, p)))
        for n, v in enumerate(values)
    ]
    code = native.compile(procs)
    for proc, value in zip(procs, values, strict=True):
        with np.errstate(all="ignore"):
            arrays = operands_of(table, np.full(table.shape, value).astype(p.numpy))
        agree(op, p, run(proc, table, result, code=code)[-1], meaning(op, p, *arrays), arrays, 0)


@pytest.mark.parametrize("p", [p for p in PRECISIONS if p is not bool_], ids=str)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5])
def test_small_powers(run, p, exponent):
    table = specials(p)
    got = elementwise(run, BY_NAME["pow"], [table], np.zeros(table.size, p.numpy), lambda x: (x, Const(exponent, p)))
    want = meaning(BY_NAME["pow"], p, table, np.full(table.shape, exponent, p.numpy))
    agree(BY_NAME["pow"], p, got, want, [table], 2 if p.arithmetic is p else 1)


@pytest.mark.parametrize("p", [p for p in PRECISIONS if p.family is Family.SIGNED], ids=str)
def test_negative_powers_of_integers_truncate(run, p):
    x = np.array([0, 1, -1, -1, 2, -2, 5], p.numpy)
    n = np.array([-1, -3, -3, -2, -1, -1, np.iinfo(p.numpy).min], p.numpy)
    got = elementwise(run, BY_NAME["pow"], [x, n], np.zeros(x.size, p.numpy))
    np.testing.assert_array_equal(got, [0, 1, -1, 1, 0, 0, 0])


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
@pytest.mark.parametrize("op", MONOIDS, ids=str)
def test_a_reduction_by_updates(run, op, p):
    """`y[i] = op(y[i], x[i, j])` for all j, starting from what y holds."""
    table = specials(p)
    rows = np.stack([np.resize(np.roll(table, n), 12) for n in range(len(table))])
    if op.name in ("add", "mul") and p.is_float:
        rows = np.random.default_rng(1).uniform(0.5, 1.5, rows.shape).astype(p.numpy)
    start = rows[:, 0].copy()
    x, y = run.like("x", rows, AccessMode.IN), run.like("y", start, AccessMode.INOUT)
    i, j = Sym("i", 0, rows.shape[0] - 1), Sym("j", 0, rows.shape[1] - 1)
    update = Update(Ref(y, (Affine.of(i),)), op, Load(Ref(x, (Affine.of(i), Affine.of(j)))))
    got = run(Proc("reduce", (x, y), (), (loop(i, (loop(j, (update,)),)),)), rows, start)[-1]
    want = start
    for column in rows.T:
        want = meaning(op, p, want, column)
    agree(op, p, got, want, [start], 12 if p.arithmetic is p else 1)


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
@pytest.mark.parametrize("negate", [False, True])
def test_updates_by_products(run, p, negate):
    random = np.random.default_rng(2)
    a, b = (random.integers(0, 9, (2, 5, 7)) / 4).astype(p.numpy)
    start = np.ones(5, p.numpy)
    bufs = [run.like("a", a, AccessMode.IN), run.like("b", b, AccessMode.IN), run.like("y", start, AccessMode.INOUT)]
    i, j = Sym("i", 0, 4), Sym("j", 0, 6)
    term = Apply(BY_NAME["mul"], tuple(Load(Ref(x, (Affine.of(i), Affine.of(j)))) for x in bufs[:2]))
    update = Update(Ref(bufs[2], (Affine.of(i),)), BY_NAME["add"], Apply(BY_NAME["neg"], (term,)) if negate else term)
    got = run(Proc("dot", tuple(bufs), (), (loop(i, (loop(j, (update,)),)),)), a, b, start)[-1]
    want = start.astype(np.float64)
    if p is bool_:
        want = (a & b).any(1) | True
    elif p.is_float:
        for x, y in zip(a.T.astype(np.float64), b.T.astype(np.float64), strict=True):
            want = (want - x * y if negate else want + x * y).astype(p.numpy).astype(np.float64)
        want = want.astype(p.numpy)
    else:
        total = (a.astype(np.int64) * b.astype(np.int64)).sum(1)
        want = (1 - total if negate else 1 + total).astype(p.numpy)
    np.testing.assert_array_equal(got, want)


def test_all_precisions_are_supported(native):
    assert native.capabilities.precisions == {p.name for p in PRECISIONS}
