import itertools

import numpy as np
import pytest

from ocannl.backend.reference.arithmetic import (
    accumulate,
    accumulator_type,
    compute,
    constant,
    convert,
    reduce,
    scatter,
)
from ocannl.ir.ops import BY_NAME, OPS, Domain, neutral_element
from ocannl.ir.precision import PRECISIONS, bool_, float16, float32, int32, int64, precision, uint8, uint64

MONOIDS = [op for op in OPS if op.monoid]
SAMPLES = {"bool": [0, 1, 1, 0], "unsigned": [0, 1, 3, 7], "signed": [0, -1, 3, -7], "float": [0.0, -1.0, 0.5, 3.0]}


def sample(p):
    return np.array(SAMPLES[p.family.value]).astype(p.numpy)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize(
    ("op", "p"),
    [(op, p) for op in OPS for p in PRECISIONS if op.domain is Domain.ANY or (op.domain is Domain.FLOAT) == p.is_float],
    ids=str,
)
def test_operations_preserve_type(op, p):
    out = compute(op, p, [sample(p)] * op.arity)
    assert out.dtype == p.numpy
    assert out.shape == (4,)


@pytest.mark.parametrize("p", [p for p in PRECISIONS if p.arithmetic is not p], ids=str)
@pytest.mark.parametrize("name", ["add", "mul", "div", "exp", "max", "fma", "where"])
def test_narrow_floats_compute_in_float32_and_round_once(name, p):
    op = BY_NAME[name]
    args = [sample(p)] * op.arity
    wanted = np.asarray(op.numpy(*(a.astype("f4") for a in args)), "f4").astype(p.numpy)
    np.testing.assert_array_equal(compute(op, p, args).astype("f4"), wanted.astype("f4"))


def test_comparisons_and_logic_return_zero_or_one_values():
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or"):
        out = compute(BY_NAME[name], float32, [np.float32([0, 1, np.nan, 2]), np.float32([1, 1, np.nan, 0])])
        assert set(out.tolist()) <= {0.0, 1.0}
    np.testing.assert_array_equal(compute(BY_NAME["not"], float32, [np.float32([0, -0.0, 2, np.nan])]), [1, 1, 0, 0])


def test_nan_propagates():
    nan = np.float32([np.nan])
    for name in ("relu", "sat01"):
        assert np.isnan(compute(BY_NAME[name], float32, [nan]))
    for name in ("max", "min"):
        assert np.isnan(compute(BY_NAME[name], float32, [nan, np.float32([1])]))
        assert np.isnan(reduce(BY_NAME[name], np.float32([1, np.nan, 2]), (0,), float32))


def test_mod_has_the_sign_of_the_right_operand():
    np.testing.assert_array_equal(compute(BY_NAME["mod"], int32, [np.int32([-7, 7]), np.int32([3, -3])]), [2, -2])


def test_integers_to_negative_powers_truncate():
    base, exponent = np.int32([1, -1, -1, 2, 0, 3]), np.int32([-5, -3, -2, -1, -1, 2])
    np.testing.assert_array_equal(compute(BY_NAME["pow"], int32, [base, exponent]), [1, -1, 1, 0, 0, 9])
    np.testing.assert_array_equal(compute(BY_NAME["pow"], uint8, [np.uint8([2]), np.uint8([3])]), [8])


@pytest.mark.parametrize(
    ("number", "target", "wanted"),
    [
        ([2.9, -2.9, 0.5], "int32", [2, -2, 0]),
        ([1e30, -1e30, np.nan, np.inf, -np.inf], "int32", [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]),
        ([1e30, -1e30], "int64", [2**63 - 1, -(2**63)]),
        ([1e30, -5.0, 255.9], "uint8", [255, 0, 255]),
        ([2.0**64, 2.0**63], "uint64", [2**64 - 1, 2**63]),
        ([0.0, -0.0, 1e-30, np.nan], "bool", [False, False, True, True]),
    ],
)
def test_casts_from_floats(number, target, wanted):
    out = convert(np.array(number), precision(target))
    assert out.dtype == np.dtype(target)
    assert out.tolist() == wanted


def test_casts_between_integers_wrap():
    assert convert(np.int64([300, -1]), uint8).tolist() == [44, 255]
    assert convert(np.int32([-1]), uint64).tolist() == [2**64 - 1]
    assert convert(np.int32([3, 0]), bool_).tolist() == [True, False]
    assert convert(np.array([True, False]), int64).tolist() == [1, 0]


@pytest.mark.parametrize("source", PRECISIONS, ids=str)
@pytest.mark.parametrize("target", PRECISIONS, ids=str)
def test_zero_one_are_exact_in_every_type(source, target):
    out = convert(constant(1, source).reshape(1), target)
    assert out.dtype == target.numpy
    assert float(out[0]) == 1
    assert float(convert(constant(0, source), target)) == 0


def test_constants_not_representable_as_integers():
    assert constant(float("-inf"), int32) == -(2**31)
    assert constant(float("inf"), uint8) == 255
    assert constant(float("-inf"), uint8) == 0
    assert not constant(float("-inf"), bool_)
    assert constant(2**63, uint64) == 2**63
    assert np.isnan(constant(float("-inf"), precision("float8_e4m3fn")).astype(float))  # it has no infinities


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
@pytest.mark.parametrize("op", MONOIDS, ids=str)
def test_reduction_equals_sequential_accumulation(op, p):
    values = np.stack([sample(p)[::-1], sample(p)])
    wide = accumulator_type(p)
    for axes in ((), (0,), (1,), (0, 1)):
        out = reduce(op, values, axes, p)
        assert out.dtype == (wide.numpy if axes else out.dtype)
        for at in itertools.product(*(range(1) if n in axes else range(s) for n, s in enumerate(values.shape))):
            cells = values[tuple(slice(None) if n in axes else at[n] for n in range(2))].reshape(-1)
            total = convert(constant(neutral_element(op, p), p), wide)
            for cell in cells:
                total = compute(op, wide, [total, convert(np.asarray(cell), wide)])
            wanted = convert(np.asarray(total), p) if axes else cells[0]
            assert convert(np.asarray(out[at]), p) == wanted or (op.name in ("and", "or") and not axes)


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
@pytest.mark.parametrize("op", MONOIDS, ids=str)
def test_scatter_equals_sequential_accumulation(op, p):
    flat = sample(p).copy()
    cells, values = np.array([3, 1, 1, 3, 3]), sample(p)[[1, 2, 3, 2, 1]]
    wanted = flat.astype(accumulator_type(p).numpy)
    for cell, value in zip(cells, convert(values, accumulator_type(p)), strict=True):
        wanted[cell] = compute(op, accumulator_type(p), [wanted[cell], value])
    wanted = convert(wanted, p)
    wanted[[0, 2]] = flat[[0, 2]]
    scatter(op, flat, cells, values, p)
    np.testing.assert_array_equal(flat.astype("f8"), wanted.astype("f8"))


def test_narrow_float_sums_do_not_stagnate():
    ones = np.ones(4096, np.float16)
    assert accumulate(BY_NAME["add"], np.float16([0]), reduce(BY_NAME["add"], ones, (0,), float16), float16) == 4096
    cells = np.full(2**25, 1, np.float32)
    assert reduce(BY_NAME["add"], cells, (0,), float32) == 2**25
