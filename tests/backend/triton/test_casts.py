"""Conversions beside ml_dtypes: floats of eight bits, and what there is no room for."""

import numpy as np
import pytest

import ocannl as oc
from ocannl.codegen.numbers import integer
from ocannl.ir.precision import PRECISIONS, float8_e4m3fn, float8_e5m2, precision
from ocannl_backend_triton.float8 import FORMATS8
from ocannl_backend_triton.types import HELD

KINDS = pytest.mark.parametrize("kind", [float8_e5m2, float8_e4m3fn], ids=str)


def every(kind):
    return np.arange(256, dtype=np.uint8).view(kind.numpy)


def converted(context, array, kind):
    y = oc.tensor(array).astype(kind)
    context.compile(y.forward)()
    return context[y]


def equal(got, wanted):
    """In each bit, but for those of what is not a number."""
    numbers = [np.asarray(each, np.float32) for each in (got, wanted)]
    np.testing.assert_array_equal(*numbers)
    np.testing.assert_array_equal(*(np.signbit(each[~np.isnan(numbers[1])]) for each in numbers))


def test_all_types_are_held():
    assert HELD.keys() == set(PRECISIONS)
    assert FORMATS8.keys() == {float8_e5m2, float8_e4m3fn}


@KINDS
@pytest.mark.parametrize("other", ["float16", "bfloat16", "float32", "float64"])
def test_every_number_as_a_wider_one(context, kind, other):
    equal(converted(context, every(kind), other), every(kind).astype(precision(other).numpy))


@KINDS
@pytest.mark.parametrize("other", ["float16", "bfloat16", "float32", "float64"])
def test_the_nearest_number(context, kind, other):
    """Halfway between neighbours, beside that, beyond the largest, and numbers of all sizes."""
    numbers = np.sort(every(kind)[np.isfinite(every(kind))].astype(np.float32))
    half = (numbers[1:] + numbers[:-1]) / 2
    largest = float(numbers[-1])
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 2 * largest, 464, 480, 61439.9, 61440, 1e38, 1e-45, largest]
    rng = np.random.default_rng(0)
    some = rng.normal(size=2000) * np.exp2(rng.integers(-22, 18, 2000))
    near = [half, np.nextafter(half, np.inf), np.nextafter(half, -np.inf)]
    data = np.concatenate([*near, edges, some]).astype(np.float32)
    with np.errstate(all="ignore"):
        data = data.astype(precision(other).numpy)
        wanted = data.astype(kind.numpy)
    equal(converted(context, data, kind), wanted)


@KINDS
def test_matrices_are_multiplied(context, kind):
    a, b = (np.random.default_rng(n).normal(size=(40, 40)).astype(kind.numpy) for n in range(2))
    y = oc.einsum("ik; kj => ij", oc.tensor(a), oc.tensor(b))
    routine = context.compile(y.forward)
    routine()
    wide = (each.astype(np.float64) for each in (a, b))
    equal(context[y], np.matmul(*wide).astype(np.float32).astype(kind.numpy))
    assert "tl.dot(" in routine.source()


WHOLE = [kind for kind in PRECISIONS if not kind.is_float and kind.name != "bool"]


@pytest.mark.parametrize("source", [kind for kind in PRECISIONS if kind.is_float], ids=str)
@pytest.mark.parametrize("target", WHOLE, ids=str)
def test_whole_numbers_of_any_floats(context, source, target):
    """What there is no room for is the nearest there is room for, and what is no number is zero."""
    data = [-2.7, 300.9, np.nan, np.inf, -np.inf, 3e9, -3e9, 1e20, -1e20, 2.5, 255.5, 2**31, -(2**31), 2**63, -0.5]
    with np.errstate(all="ignore"):
        given = np.array(data).astype(source.numpy)
    wanted = [integer(float(x), target) for x in given]
    np.testing.assert_array_equal(converted(context, given, target), np.array(wanted, target.numpy))


@KINDS
@pytest.mark.parametrize("sm", [80, 90])
def test_machine_code_of_every_generation(triton, kind, sm):
    from dataclasses import replace

    from ocannl.testing.kit import casts
    from ocannl_backend_triton.compile import binaries
    from ocannl_backend_triton.source import module
    from ocannl_backend_triton.target import KNOWN

    for name, case in casts.casts(kind).items():
        made = module(case.proc)
        for kernel in made.kernels:
            (binary,) = binaries(replace(made, kernels=(kernel,)), KNOWN[sm])
            assert binary.image.startswith(b"\x7fELF"), name
