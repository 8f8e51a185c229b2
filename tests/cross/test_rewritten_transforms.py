"""Transforms and selections of graphs whose operands are replaced: compiled code reads the new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc

Array = np.ndarray[Any, Any]


def replaced(y: Any, cells: Array, backend: str) -> Array:
    """The values of a copy of the graph of `y` that reads `cells` in place of `x`."""
    z = oc.placeholder("z", output=list(cells.shape))
    (copy,) = oc.graph(y).replace("x", z).outputs
    ctx = oc.Context(backend)
    ctx[z] = cells
    ctx.compile(copy.forward)()
    return np.asarray(ctx[copy])


@pytest.mark.parametrize("length", [64 + 16 * 60, 1000])
def test_spectra_of_frames(backend: str, length: int) -> None:
    cells = np.random.default_rng(0).normal(size=(20, length)).astype("float32")
    y = oc.fft.stft(oc.placeholder("x", output=[20, length]), 64, hop=16)
    x = oc.placeholder("x", output=[20, length])
    want, ctx = oc.fft.stft(x, 64, hop=16), oc.Context("numpy")
    ctx[x] = cells
    ctx.compile(want.forward)()
    np.testing.assert_allclose(replaced(y, cells, backend), np.asarray(ctx[want]), atol=1e-4)


@pytest.mark.parametrize(("before", "length"), [(256, 512), (512, 256)])
def test_transforms_of_another_length(backend: str, before: int, length: int) -> None:
    cells = np.random.default_rng(0).normal(size=(64, length, 2)).astype("float32")
    y = oc.fft.fft(oc.placeholder("x", output=[64, before, 2]))
    want = np.fft.fft(cells[..., 0] + 1j * cells[..., 1])
    got = replaced(y, cells, backend)
    np.testing.assert_allclose(got, np.stack([want.real, want.imag], -1), atol=1e-3)


def test_selections_along_an_axis_of_another_size(backend: str) -> None:
    cells = np.random.default_rng(0).normal(size=(50, 40)).astype("float32")
    values, _ = oc.topk(oc.placeholder("x", output=[30, 40]), 3, "tc => c")
    np.testing.assert_array_equal(replaced(values * 1.0, cells, backend), -np.sort(-cells, 0)[:3])
