import ml_dtypes
import numpy as np
import pytest

from ocannl.base.errors import DataError, DtypeError, ShapeError
from ocannl.ir.precision import precision
from ocannl.runtime.host_conversion import array_for_node, is_zero


def take(value, dims, kind="float32"):
    return array_for_node(value, "x", dims, precision(kind))


@pytest.mark.parametrize(
    ("value", "dims", "kind", "wanted"),
    [
        (3, (2, 2), "float32", [[3, 3], [3, 3]]),
        (2.5, (), "float64", 2.5),
        (True, (2,), "float32", [1, 1]),
        ([[1, 2], [3, 4]], (2, 2), "int32", [[1, 2], [3, 4]]),
        (np.float64([1, 2]), (2,), "float32", [1, 2]),
        (np.arange(4)[::2], (2,), "int64", [0, 2]),  # not contiguous
        (np.arange(4).reshape(2, 2).T, (2, 2), "float32", [[0, 2], [1, 3]]),
        (np.float64([1.0, -2.0]), (2,), "int32", [1, -2]),
        (np.array([True, False]), (2,), "int32", [1, 0]),
        (np.int64([0, 1]), (2,), "bool", [False, True]),
        (np.float16([1.5]), (1,), "bfloat16", [1.5]),
        (np.array([1.5], ml_dtypes.bfloat16), (1,), "float32", [1.5]),
        (np.float32([1e30, np.inf, np.nan]), (3,), "float64", [np.float32(1e30), np.inf, np.nan]),
        (np.float64([np.inf, np.nan]), (2,), "float16", [np.inf, np.nan]),
        (np.zeros((0, 3)), (0, 3), "float32", np.zeros((0, 3))),
        (5, (0,), "float32", []),
        (np.array([2.0, -3.0], ">f8"), (2,), "float32", [2, -3]),  # the other byte order
        (2**64 - 1, (), "uint64", 2**64 - 1),
        (range(3), (3,), "int32", [0, 1, 2]),
    ],
)
def test_accepted_values(value, dims, kind, wanted):
    out = take(value, dims, kind)
    assert out.dtype == np.dtype(precision(kind).numpy)
    assert out.shape == dims
    assert out.flags.c_contiguous and out.flags.writeable
    np.testing.assert_array_equal(out.astype("f8"), np.asarray(wanted, "f8"))


def test_matching_array_is_not_copied():
    array = np.zeros(3, np.float32)
    assert take(array, (3,)) is array
    assert take(array.reshape(3, 1).T, (1, 3)).base is array
    array.flags.writeable = False
    assert take(array, (3,)) is array


def test_arrays_of_foreign_libraries():
    class WithArray:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0)

    class WithDlpack:
        def __init__(self):
            self.array = np.arange(3.0)

        def __dlpack__(self, **arguments):
            return self.array.__dlpack__(**arguments)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    for array in (WithArray(), WithDlpack()):
        np.testing.assert_array_equal(take(array, (3,)), [0, 1, 2])


@pytest.mark.parametrize(
    ("value", "dims", "kind", "error", "says"),
    [
        ([1, 2], (3,), "float32", ShapeError, r"`x` has the sizes \(3,\), but the assigned array has \(2,\)"),
        ([[1, 2]], (2,), "float32", ShapeError, r"\(1, 2\)"),
        ([1], (), "float32", ShapeError, r"\(1,\)"),
        ([1], (3,), "float32", ShapeError, r"\(1,\)"),
        ([[1, 2], [3]], (2, 2), "float32", DataError, "`x` is not an array of numbers"),
        ("text", (), "float32", DtypeError, "`x` takes real numbers, not <U4"),
        (b"bytes", (), "float32", DtypeError, "real numbers"),
        (1j, (), "float32", DtypeError, "not complex128"),
        (np.datetime64("2020-01-01"), (), "float32", DtypeError, "real numbers"),
        (None, (), "float32", DataError, "NoneType"),
        (object(), (), "float32", DataError, "is not an array of numbers: object"),
        ([1, None], (2,), "float32", DataError, "list"),
        ({1: 2}, (), "float32", DataError, "dict"),
        (2**70, (), "int64", DataError, "not an array of numbers: int"),
        ([0.5], (1,), "int32", DtypeError, "int32, but the assigned values are not all integers"),
        ([np.nan], (1,), "int32", DtypeError, "not all integers"),
        ([np.inf], (1,), "int32", DataError, "int32, which cannot represent inf"),
        ([1e10], (1,), "int32", DataError, "cannot represent 10000000000"),
        ([2.0**63], (1,), "int64", DataError, "cannot represent 9.2"),
        ([2**31], (1,), "int32", DataError, "cannot represent 2147483648"),
        ([-1], (1,), "uint64", DataError, "cannot represent -1"),
        ([300], (1,), "uint8", DataError, "cannot represent 300"),
        ([2], (1,), "bool", DataError, "cannot represent 2"),
        ([0.5], (1,), "bool", DtypeError, "not all integers"),
        ([1e300], (1,), "float32", DataError, "float32, which cannot represent 1e"),
        ([70000], (1,), "float16", DataError, "cannot represent 70000"),
        ([1000.0], (1,), "float8_e4m3fn", DataError, "cannot represent 1000"),
    ],
)
def test_rejected_values(value, dims, kind, error, says):
    with pytest.raises(error, match=says):
        take(value, dims, kind)


@pytest.mark.parametrize("kind", [np.float32, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.bool_])
def test_repeated_zeros(kind):
    zero, unit = np.zeros((), kind), np.ones((), kind)
    assert is_zero(zero) and is_zero(np.broadcast_to(zero, (3, 2)))
    assert not is_zero(unit) and not is_zero(np.broadcast_to(unit, (3, 2)))
    assert not is_zero(np.broadcast_to(np.array([0, 1], kind), (3, 2)))
    assert not is_zero(np.broadcast_to(zero, (3, 0)))


def test_negative_zeros_have_other_bytes():
    assert not is_zero(np.broadcast_to(np.float32(-0.0), 2))
