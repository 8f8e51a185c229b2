"""Division and powers of integers of 64 bits, which float64 cannot represent exactly."""

import numpy as np
import pytest

import ocannl as oc

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

RANDOM = np.random.default_rng(5)


def applied(operator, x, y):
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in (("x", x), ("y", y))
    ]
    output = helper.make_tensor_value_info("z", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    graph = helper.make_graph([helper.make_node(operator, ["x", "y"], ["z"])], "integers", declared, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return oc.onnx.load(model).compile(oc.Context())(x, y)


def edges(dtype):
    info = np.iinfo(dtype)
    near = [info.max, info.max - 1, info.min, info.min + 1, 2**62 + 1, 2**53 + 1, 3, 7, 1, 2, 10**12 + 39]
    numbers = [*near, *(-n for n in near if info.min < 0 and n != info.min)]
    numbers = [n for n in numbers if info.min <= n <= info.max]
    wide, shifts = RANDOM.integers(info.min, info.max, 80, dtype), RANDOM.integers(0, 60, 80)
    scaled = [int(n) >> int(shift) for n, shift in zip(wide, shifts, strict=True)]
    return np.array([n for n in [*numbers, *scaled] if n != 0], dtype)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8", "int8"])
def test_division_rounds_towards_zero(dtype):
    info = np.iinfo(dtype)
    numbers = edges(dtype) if info.bits == 64 else RANDOM.integers(info.min, info.max, 60, dtype)
    numbers = numbers[numbers != 0]
    x, y = (array.ravel().copy() for array in np.meshgrid(numbers, numbers))
    overflow = (x == info.min) & (y.astype("float64") == -1)
    x, y = x[~overflow], y[~overflow]
    want = [abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(applied("Div", x, y), np.array(want, dtype))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_powers_are_exact(dtype):
    x = np.array([2**20 + 1, 3, 10, 7, 2, 1, 0, 1291], dtype)
    y = np.array([3, 39, 18, 22, 62, 63, 5, 6], dtype)
    want = [int(a) ** int(b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(applied("Pow", x, y), np.array(want, dtype))
