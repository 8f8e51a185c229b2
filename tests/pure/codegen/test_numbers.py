"""Numbers as values of a precision."""

import numpy as np
import pytest

from ocannl.codegen.numbers import FORMATS, integer, next_power_of_two, pattern, rounded
from ocannl.ir.precision import PRECISIONS


@pytest.mark.parametrize(
    ("value", "name", "number"),
    [
        (float("inf"), "int32", 2**31 - 1),
        (float("-inf"), "int64", -(2**63)),
        (float("nan"), "int32", 0),
        (-2.9, "int32", -2),
        (2**32 + 5, "int32", 5),
        (-1, "uint16", 65535),
        (0.5, "bool", 1),
        (1e20, "uint64", 2**64 - 1),
        (10**400, "uint8", 0),
    ],
)
def test_numbers_as_integers(value, name, number):
    (p,) = (p for p in PRECISIONS if p.name == name)
    assert integer(value, p) == number


@pytest.mark.parametrize("p", [p for p in PRECISIONS if p.is_float], ids=str)
@pytest.mark.parametrize("value", [0.1, -3, 1e300, -1e-45, float("inf"), 10**400])
def test_numbers_as_floats(p, value):
    with np.errstate(all="ignore"):
        want = np.array(float("inf") if value == 10**400 else value, np.float64).astype(p.numpy)
    got = rounded(value, p)
    assert np.array_equal(np.array(got).astype(p.numpy), want, equal_nan=True)
    assert pattern(value, p) == int.from_bytes(want.tobytes(), "little")


@pytest.mark.parametrize("p", FORMATS, ids=str)
def test_bit_layouts_of_narrow_floats(p):
    fmt = FORMATS[p]
    values = np.arange(fmt.sign, dtype=f"u{p.nbytes}").view(p.numpy).astype(np.float64)
    assert values[1] == 2.0**fmt.smallest_step and np.all(np.isfinite(values[: fmt.top]))
    assert not np.any(np.isfinite(values[fmt.top :])) and np.isnan(values[fmt.nan])
    assert np.isinf(values[fmt.top]) == fmt.infinities


def test_next_power_of_two():
    for size in range(1, 300):
        power = next_power_of_two(size)
        assert power & (power - 1) == 0 and power // 2 < size <= power
    assert next_power_of_two(0) == 1
