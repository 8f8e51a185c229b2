"""Conversions compared with ml_dtypes: 8-bit floats, overflow and saturation."""

import numpy as np
import pytest

import ocannl as oc
from ocannl.codegen.numbers import integer
from ocannl.ir.precision import PRECISIONS, float8_e4m3fn, float8_e5m2, precision
from ocannl_backend_triton.float8 import FORMATS8
from ocannl_backend_triton.types import TRITON_TYPES

KINDS = pytest.mark.parametrize("dtype", [float8_e5m2, float8_e4m3fn], ids=str)


def all_values(dtype):
    return np.arange(256, dtype=np.uint8).view(dtype.numpy)


def convert(context, array, dtype):
    y = oc.tensor(array).astype(dtype)
    context.compile(y.forward)()
    return context[y]


def assert_equal_bits(actual, expected):
    """Bitwise equality, except for the bits of NaN."""
    numbers = [np.asarray(values, np.float32) for values in (actual, expected)]
    np.testing.assert_array_equal(*numbers)
    np.testing.assert_array_equal(*(np.signbit(values[~np.isnan(numbers[1])]) for values in numbers))


def test_all_types_are_supported():
    assert TRITON_TYPES.keys() == set(PRECISIONS)
    assert FORMATS8.keys() == {float8_e5m2, float8_e4m3fn}


@KINDS
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float64"])
def test_widening_all_values(context, dtype, target):
    assert_equal_bits(convert(context, all_values(dtype), target), all_values(dtype).astype(precision(target).numpy))


@KINDS
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float64"])
def test_rounding_to_nearest(context, dtype, target):
    """Ties between neighbouring values and their neighbours, overflow, and random values of all magnitudes."""
    numbers = np.sort(all_values(dtype)[np.isfinite(all_values(dtype))].astype(np.float32))
    half = (numbers[1:] + numbers[:-1]) / 2
    largest = float(numbers[-1])
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 2 * largest, 464, 480, 61439.9, 61440, 1e38, 1e-45, largest]
    rng = np.random.default_rng(0)
    random_values = rng.normal(size=2000) * np.exp2(rng.integers(-22, 18, 2000))
    neighbours = [half, np.nextafter(half, np.inf), np.nextafter(half, -np.inf)]
    data = np.concatenate([*neighbours, edges, random_values]).astype(np.float32)
    with np.errstate(all="ignore"):
        data = data.astype(precision(target).numpy)
        expected = data.astype(dtype.numpy)
    assert_equal_bits(convert(context, data, dtype), expected)


@KINDS
def test_matrices_are_multiplied(context, dtype):
    a, b = (np.random.default_rng(n).normal(size=(40, 40)).astype(dtype.numpy) for n in range(2))
    y = oc.einsum("ik; kj => ij", oc.tensor(a), oc.tensor(b))
    routine = context.compile(y.forward)
    routine()
    wide = (values.astype(np.float64) for values in (a, b))
    assert_equal_bits(context[y], np.matmul(*wide).astype(np.float32).astype(dtype.numpy))
    assert "tl.dot(" in routine.source()


INTEGERS = [dtype for dtype in PRECISIONS if not dtype.is_float and dtype.name != "bool"]


@pytest.mark.parametrize("source", [dtype for dtype in PRECISIONS if dtype.is_float], ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_float_to_integer_saturates(context, source, target):
    """Values out of range become the nearest representable integer, NaN becomes 0."""
    data = [-2.7, 300.9, np.nan, np.inf, -np.inf, 3e9, -3e9, 1e20, -1e20, 2.5, 255.5, 2**31, -(2**31), 2**63, -0.5]
    with np.errstate(all="ignore"):
        array = np.array(data).astype(source.numpy)
    expected = [integer(float(x), target) for x in array]
    np.testing.assert_array_equal(convert(context, array, target), np.array(expected, target.numpy))


@KINDS
@pytest.mark.parametrize("sm", [80, 90])
def test_machine_code_of_every_generation(triton, dtype, sm):
    from dataclasses import replace

    from ocannl.testing.kit import casts
    from ocannl_backend_triton.compile import compile_kernels
    from ocannl_backend_triton.cuda_target import TARGETS
    from ocannl_backend_triton.emit_module import generate_module

    for name, case in casts.casts(dtype).items():
        module = generate_module(case.proc)
        for kernel in module.kernels:
            (binary,) = compile_kernels(replace(module, kernels=(kernel,)), TARGETS[sm])
            assert binary.image.startswith(b"\x7fELF"), name
