"""Edge values of conversions, and comparison of arrays including signs and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocannl.ir.precision import Precision, float32

Array = np.ndarray[Any, Any]


def assert_same(got: Array, want: Array) -> None:
    """Asserts equal numbers, equal signs, and NaN at equal positions."""
    with np.errstate(invalid="ignore"):
        nan = np.isnan(want) if want.dtype.kind in "fV" else np.zeros(want.shape, bool)
        bad = np.flatnonzero((got != want) & ~nan | nan & (got == got))
    assert not len(bad), [(n, got[n], want[n]) for n in bad[:10]]
    if want.dtype.kind in "fV":
        np.testing.assert_array_equal(np.signbit(got[~nan]), np.signbit(want[~nan]))


def patterns(p: Precision) -> Array:
    """Every value of a narrow type."""
    return np.arange(1 << 8 * p.nbytes, dtype=f"u{p.nbytes}").view(p.numpy)


def near(p: Precision, kind: Precision) -> Array:
    """Numbers of a wide type on both sides of each rounding boundary of the narrow type, and NaN."""
    with np.errstate(all="ignore"):
        values = np.unique(patterns(p).astype(np.float64))
        values = values[np.isfinite(values)]
        middles = (values[1:] + values[:-1]) / 2
        beyond = values[-1] + (values[-1] - values[-2]) / 2  # first number rounded to infinity or NaN
        points = np.concatenate(
            [values, middles, [beyond, -beyond, np.inf, -np.inf, 1e38, -1e38, 1e-45, 1e-300]]
        ).astype(kind.numpy)
        points = np.concatenate(
            [points, np.nextafter(points, kind.numpy.type(np.inf)), np.nextafter(points, kind.numpy.type(-np.inf))]
        )
        bits, nan_bits = (np.uint32, 0x7F800001) if kind is float32 else (np.uint64, 0x7FF0000000000001)
        sign = 1 << (8 * kind.nbytes - 1)
        nans = np.array([nan_bits, nan_bits | sign, sign - 1, 2 * sign - 1], bits).view(kind.numpy)
        return np.concatenate([points, nans])
