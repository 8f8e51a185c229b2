"""Conversions between all precisions, and constants of all precisions."""

import numpy as np
import pytest

from ocannl.codegen.numbers import integer
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Apply, Cast, Const, IndexValue, Load, Proc, Ref, Store, loop
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import PRECISIONS, Family, bool_, float32, float64, int8, int16, int32, int64
from ocannl.testing.edge_values import assert_same, near, patterns

NARROW = [p for p in PRECISIONS if p.is_float and p.nbytes < 4]
WIDE = [float32, float64]


def cast_program(run, array, target):
    x, y = run.like("x", array, AccessMode.IN), run.like("y", np.zeros(array.size, target.numpy), AccessMode.OUT)
    at = (Affine.of(i := Sym("i", 0, array.size - 1)),)
    return Proc("cast", (x, y), (), (loop(i, (Store(Ref(y, at), Cast(Load(Ref(x, at)), target)),)),))


def cast(run, array, target, code=None):
    return run(cast_program(run, array, target), array, np.zeros(array.size, target.numpy), code=code)[1]


@pytest.mark.parametrize("target", WIDE, ids=str)
@pytest.mark.parametrize("p", NARROW, ids=str)
def test_every_narrow_number_widens(run, p, target):
    values = patterns(p)
    with np.errstate(invalid="ignore"):
        want = values.astype(target.numpy)
    assert_same(cast(run, values, target), want)


@pytest.mark.parametrize("source", WIDE, ids=str)
@pytest.mark.parametrize("p", NARROW, ids=str)
def test_rounding_to_narrow_numbers(run, p, source):
    inputs = near(p, source)
    with np.errstate(all="ignore"):
        want = inputs.astype(p.numpy)
    assert_same(cast(run, inputs, p), want)


def table(p):
    random = np.random.default_rng(0)
    if p is bool_:
        return np.array([False, True])
    if p.is_float:
        edges = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.49,
            1.5,
            2.5,
            -2.5,
            100.7,
            -100.7,
            255.0,
            256.0,
            300.0,
            65504.0,
            65535.0,
            65536.0,
            2.0**31,
            -(2.0**31),
        ]
        edges += [
            2.0**32,
            2.0**53 + 2,
            2.0**63,
            -(2.0**63),
            2.0**64,
            1e30,
            -1e30,
            np.inf,
            -np.inf,
            np.nan,
            1e-40,
            1e-320,
        ]
        with np.errstate(all="ignore"):
            return np.array([*edges, *random.normal(0, 50, 20)]).astype(p.numpy)
    info = np.iinfo(p.numpy)
    edges = {0, 1, 2, 127, 128, 255, info.max, info.max - 1, info.min, info.min + 1}
    edges = sorted(edge for edge in edges if info.min <= edge <= info.max)
    return np.array([*edges, *random.integers(info.min, info.max, 20, p.numpy, endpoint=True)], p.numpy)


def converted(x, source, target):
    """NumPy's conversion, except that floats saturate and NaN becomes 0, which NumPy leaves undefined."""
    with np.errstate(all="ignore"):
        if target is bool_ or not source.is_float or target.is_float:
            return x.astype(target.numpy)
        info = np.iinfo(target.numpy)
        float64_values = x.astype(np.float64)
        out = [
            0 if np.isnan(v) else info.max if v > info.max else info.min if v < info.min else int(v)
            for v in float64_values
        ]
        return np.array([min(max(v, info.min), info.max) for v in out], target.numpy)


@pytest.mark.parametrize("target", PRECISIONS, ids=str)
@pytest.mark.parametrize("source", PRECISIONS, ids=str)
def test_every_cast(run, source, target):
    x = table(source)
    assert_same(cast(run, x, target), converted(x, source, target))


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
def test_constants(run, p):
    numbers = [
        0,
        1,
        -1,
        2,
        7,
        255,
        0.5,
        0.1,
        -2.5,
        1e-3,
        1e30,
        1e300,
        -1e300,
        1e-45,
        float("inf"),
        float("-inf"),
        float("nan"),
        -0.0,
    ]
    y = np.zeros(len(numbers), p.numpy)
    buf = run.like("y", y, AccessMode.OUT)
    body = tuple(Store(Ref(buf, (Affine.of(n),)), Const(value, p)) for n, value in enumerate(numbers))
    (got,) = run(Proc("constants", (buf,), (), body), y)
    if p.is_float:
        with np.errstate(all="ignore"):
            want = np.array(numbers, np.float64).astype(p.numpy)
    else:
        want = np.array([integer(v, p) for v in numbers], p.numpy)
    assert_same(got, want)


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
def test_indices_as_numbers(run, p):
    y = np.zeros(20, p.numpy)
    buf = run.like("y", y, AccessMode.OUT)
    i = Sym("i", 0, 19)
    body = (loop(i, (Store(Ref(buf, (Affine.of(i),)), IndexValue(3 * Affine.of(i) - 5, p)),)),)
    (got,) = run(Proc("ramp", (buf,), (), body), y)
    want = 3 * np.arange(20) - 5
    want = np.maximum(want, want.dtype.type(-(10**9))).astype(p.numpy)
    assert_same(got, want)


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
def test_a_comparison_becomes_a_number_of_another_type(run, p):
    x = np.arange(-3, 4).astype(np.float32)
    y = np.zeros(7, p.numpy)
    bufs = run.like("x", x, AccessMode.IN), run.like("y", y, AccessMode.OUT)
    i = Sym("i", 0, 6)
    at = (Affine.of(i),)
    test = Apply(BY_NAME["gt"], (Load(Ref(bufs[0], at)), Const(0, float32)))
    got = run(Proc("above", bufs, (), (loop(i, (Store(Ref(bufs[1], at), Cast(test, p)),)),)), x, y)[1]
    assert_same(got, (x > 0).astype(p.numpy))


def test_integers_wrap_between_sizes(run):
    x = np.array([-1, 2**40 + 3, -(2**31) - 1], np.int64)
    np.testing.assert_array_equal(cast(run, x, int32), [-1, 3, 2**31 - 1])
    np.testing.assert_array_equal(cast(run, x, int16), [-1, 3, -1])
    np.testing.assert_array_equal(cast(run, x, int8), [-1, 3, -1])
    assert [p for p in PRECISIONS if p.family is Family.SIGNED] == [int8, int16, int32, int64]
