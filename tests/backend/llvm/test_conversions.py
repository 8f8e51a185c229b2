"""Casts between all precisions, and constants of each."""

import numpy as np
import pytest

from ocannl.codegen import signature
from ocannl.codegen.numbers import integer
from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Access, Apply, Cast, Idx, Load, Num, Proc, Ref, Store, loop
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import PRECISIONS, Family, bool_, float16, float32, float64, int32, int64
from ocannl_backend_llvm.code import compiled
from ocannl_backend_llvm.emit import emit
from ocannl_backend_llvm.engine import Target, host
from ocannl_backend_llvm.types import constant

NARROW = [p for p in PRECISIONS if p.is_float and p.nbytes < 4]
WIDE = [float32, float64]


def old_processor():
    """This one, as if it could not convert float16."""
    target = host()
    features = ",".join(f for f in target.features.split(",") if f not in ("+f16c", "-f16c") and "avx512" not in f)
    return Target(target.triple, "x86-64", f"{features},-f16c") if target.triple.startswith("x86_64") else None


def cast_program(run, array, target):
    x, y = run.like("x", array, Access.IN), run.like("y", np.zeros(array.size, target.numpy), Access.OUT)
    at = (Affine.of(i := Sym("i", 0, array.size - 1)),)
    return Proc("cast", (x, y), (), (loop(i, (Store(Ref(y, at), Cast(Load(Ref(x, at)), target)),)),))


def cast(run, array, target, code=None):
    return run(cast_program(run, array, target), array, np.zeros(array.size, target.numpy), code=code)[1]


def on(target, proc):
    return compiled([signature(proc)], emit([proc], target.has_half), target)


def assert_same(got, want):
    """The same numbers and the same signs; NaN wherever there should be one."""
    with np.errstate(invalid="ignore"):
        nan = np.isnan(want) if want.dtype.kind in "fV" else np.zeros(want.shape, bool)
        bad = np.flatnonzero((got != want) & ~nan | nan & (got == got))
    assert not len(bad), [(n, got[n], want[n]) for n in bad[:10]]
    if want.dtype.kind in "fV":
        np.testing.assert_array_equal(np.signbit(got[~nan]), np.signbit(want[~nan]))


def patterns(p):
    """Every value of a narrow type."""
    return np.arange(1 << 8 * p.nbytes, dtype=f"u{p.nbytes}").view(p.numpy)


def near(p, kind):
    """Numbers of a wide type on both sides of every place where rounding to the narrow one turns, and NaN."""
    with np.errstate(all="ignore"):
        values = np.unique(patterns(p).astype(np.float64))
        values = values[np.isfinite(values)]
        middles = (values[1:] + values[:-1]) / 2
        beyond = values[-1] + (values[-1] - values[-2]) / 2  # where infinity, or NaN, begins
        places = np.concatenate(
            [values, middles, [beyond, -beyond, np.inf, -np.inf, 1e38, -1e38, 1e-45, 1e-300]]
        ).astype(kind.numpy)
        places = np.concatenate(
            [places, np.nextafter(places, kind.numpy.type(np.inf)), np.nextafter(places, kind.numpy.type(-np.inf))]
        )
        bits, one = (np.uint32, 0x7F800001) if kind is float32 else (np.uint64, 0x7FF0000000000001)
        sign = 1 << (8 * kind.nbytes - 1)
        nans = np.array([one, one | sign, sign - 1, 2 * sign - 1], bits).view(kind.numpy)
        return np.concatenate([places, nans])


@pytest.mark.parametrize("wide", WIDE, ids=str)
@pytest.mark.parametrize("p", NARROW, ids=str)
def test_every_narrow_number_widens(run, p, wide):
    every = patterns(p)
    with np.errstate(invalid="ignore"):
        want = every.astype(wide.numpy)
    assert_same(cast(run, every, wide), want)


@pytest.mark.parametrize("wide", WIDE, ids=str)
@pytest.mark.parametrize("p", NARROW, ids=str)
def test_rounding_to_narrow_numbers(run, p, wide):
    places = near(p, wide)
    with np.errstate(all="ignore"):
        want = places.astype(p.numpy)
    assert_same(cast(run, places, p), want)


@pytest.mark.parametrize("wide", WIDE, ids=str)
def test_half_without_instructions_for_it(llvm, run, wide):
    target = old_processor()
    if target is None:
        pytest.skip("every processor of this kind converts float16")
    assert not target.has_half
    every, places = patterns(float16), near(float16, wide)
    with np.errstate(all="ignore"):
        rounded = places.astype(np.float16)
    widening, narrowing = cast_program(run, every, wide), cast_program(run, places, float16)
    assert_same(cast(run, every, wide, on(target, widening)), every.astype(wide.numpy))
    assert_same(cast(run, places, float16, on(target, narrowing)), rounded)


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
    return np.array([*edges, *random.integers(info.min, info.max, 20, p.numpy, endpoint=True)], p.numpy)


def converted(x, source, target):
    """NumPy's conversion, with the cases that it leaves to the processor filled in: floats saturate, NaN becomes 0."""
    with np.errstate(all="ignore"):
        if target is bool_ or not source.is_float or target.is_float:
            return x.astype(target.numpy)
        info = np.iinfo(target.numpy)
        wide = x.astype(np.float64)
        out = [0 if np.isnan(v) else info.max if v > info.max else info.min if v < info.min else int(v) for v in wide]
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
    buf = run.like("y", y, Access.OUT)
    body = tuple(Store(Ref(buf, (Affine.of(n),)), Num(value, p)) for n, value in enumerate(numbers))
    (got,) = run(Proc("constants", (buf,), (), body), y)
    if p.is_float:
        with np.errstate(all="ignore"):
            want = np.array(numbers, np.float64).astype(p.numpy)
    else:
        want = np.array([integer(v, p) for v in numbers], p.numpy)
    assert_same(got, want)


@pytest.mark.parametrize(
    ("value", "name", "number"),
    [
        (float("inf"), "int32", 2**31 - 1),
        (float("-inf"), "int64", -(2**63)),
        (float("-inf"), "uint8", 0),
        (float("nan"), "int32", 0),
        (2.9, "int32", 2),
        (-2.9, "int32", -2),
        (2**32 + 5, "int32", 5),
        (2**31, "int32", -(2**31)),
        (-1, "uint16", 65535),
        (0.5, "bool", 1),
        (1e20, "uint64", 2**64 - 1),
        (10**400, "uint8", 0),
    ],
)
def test_numbers_as_integers(value, name, number):
    (p,) = (p for p in PRECISIONS if p.name == name)
    assert integer(value, p) == number
    assert constant(value, p) == str(number)


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
def test_indices_as_numbers(run, p):
    y = np.zeros(20, p.numpy)
    buf = run.like("y", y, Access.OUT)
    i = Sym("i", 0, 19)
    body = (loop(i, (Store(Ref(buf, (Affine.of(i),)), Idx(3 * Affine.of(i) - 5, p)),)),)
    (got,) = run(Proc("ramp", (buf,), (), body), y)
    want = 3 * np.arange(20) - 5
    want = np.maximum(want, want.dtype.type(-(10**9))).astype(p.numpy)
    assert_same(got, want)


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
def test_a_comparison_becomes_a_number_of_another_type(run, p):
    x = np.arange(-3, 4).astype(np.float32)
    y = np.zeros(7, p.numpy)
    bufs = run.like("x", x, Access.IN), run.like("y", y, Access.OUT)
    i = Sym("i", 0, 6)
    at = (Affine.of(i),)
    test = Apply(BY_NAME["gt"], (Load(Ref(bufs[0], at)), Num(0, float32)))
    got = run(Proc("above", bufs, (), (loop(i, (Store(Ref(bufs[1], at), Cast(test, p)),)),)), x, y)[1]
    assert_same(got, (x > 0).astype(p.numpy))


def test_integers_wrap_between_sizes(run):
    x = np.array([-1, 2**40 + 3, -(2**31) - 1], np.int64)
    np.testing.assert_array_equal(cast(run, x, int32), [-1, 3, 2**31 - 1])
    assert [p for p in PRECISIONS if p.family is Family.SIGNED] == [int32, int64]
