"""Gradients of padded convolutions: no term beyond the border takes part, so infinite weights make no NaN there."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.backend.registry import resolve

CONVOLUTIONS = {1: oc.conv1d, 2: oc.conv2d, 3: oc.conv3d}

CASES = {  # images, window, output channels, settings
    "rows of two and a half tiles": ((2, 8, 25, 16), (3, 3), 16, {"padding": 1}),
    "narrow images": ((3, 2, 3, 32), (3, 3), 32, {"padding": 1}),
    "windows larger than images": ((2, 3, 4, 16), (5, 5), 16, {"padding": 2}),
    "wide windows": ((2, 14, 14, 16), (5, 7), 32, {"padding": (2, 3)}),
    "many ranges of rows": ((1, 4, 30, 16), (1, 9), 16, {"padding": (0, 4)}),
    "holes": ((2, 9, 23, 16), (3, 3), 16, {"padding": 2, "dilation": 2}),
    "steps": ((2, 9, 23, 16), (3, 3), 16, {"padding": 1, "stride": 2}),
    "steps and holes": ((1, 11, 25, 16), (3, 3), 16, {"padding": 3, "dilation": 3, "stride": (2, 1)}),
    "one side": ((2, 7, 20, 16), (3, 3), 16, {"padding": ((2, 0), (0, 2))}),
    "more padding than window": ((1, 6, 17, 16), (3, 2), 16, {"padding": 3}),
    "no padding": ((2, 7, 21, 16), (3, 3), 16, {}),
    "groups": ((2, 8, 19, 32), (3, 3), 32, {"padding": 1, "groups": 2}),
    "few channels": ((2, 9, 17, 3), (3, 3), 5, {"padding": 1}),
    "sums along channels": ((2, 150, 6), (4,), 64, {"padding": 3, "dilation": 3, "groups": 2}),
    "long signals": ((2, 300, 16), (5,), 16, {"padding": 2}),
    "volumes": ((1, 4, 5, 12, 16), (3, 3, 3), 16, {"padding": 1}),
}  # fmt: skip


def gradients(
    x: np.ndarray, w: np.ndarray, g: np.ndarray, padding: object = 0, dilation: int = 1, stride: object = 1,
    groups: int = 1,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Gradients to the images and to the kernel, one cell of the window and of the result at a time."""
    axes = x.ndim - 2
    sides = padding if isinstance(padding, tuple) else (padding,) * axes
    before = [side[0] if isinstance(side, tuple) else side for side in sides]
    strides = stride if isinstance(stride, tuple) else (stride,) * axes
    of_x, of_w = np.zeros(x.shape), np.zeros(w.shape)
    inputs, outputs = x.shape[-1] // groups, w.shape[-1] // groups
    for offset, position in product(np.ndindex(*w.shape[:axes]), np.ndindex(*g.shape[1:-1])):
        cell = tuple(o * s + k * dilation - p for o, k, s, p in zip(position, offset, strides, before, strict=True))
        if not all(0 <= n < size for n, size in zip(cell, x.shape[1:], strict=False)):
            continue
        for group in range(groups):
            ins = slice(group * inputs, (group + 1) * inputs)
            outs = slice(group * outputs, (group + 1) * outputs)
            upstream = g[(slice(None), *position, outs)]
            of_x[(slice(None), *cell, ins)] += upstream @ w[(*offset, slice(None), outs)].T
            of_w[(*offset, slice(None), outs)] += x[(slice(None), *cell, ins)].T @ upstream
    return of_x, of_w


@pytest.mark.parametrize("values", ["finite", "infinite"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_gradients_of_convolutions(backend: str, case: str, dtype: str, values: str) -> None:
    if dtype not in resolve(backend).capabilities.precisions:
        pytest.skip(f"{backend} has no {dtype}")
    shape, window, channels, settings = CASES[case]
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal((*window, shape[-1] // settings.get("groups", 1), channels)).astype(dtype)
    image = rng.standard_normal(shape).astype(dtype)
    if values == "infinite":
        kernel[tuple(n - 1 for n in window)][0, 1] = np.inf
        kernel[(0,) * len(window)][1, 2] = -np.inf
        image[0, 0, ..., 0] = np.inf
    x = oc.param("x", image, batch=[shape[0]], output=list(shape[1:]))
    w = oc.param("w", kernel, output=list(kernel.shape))
    y = CONVOLUTIONS[len(window)](x, w, **settings)
    upstream = rng.standard_normal(y.dims).astype(dtype)
    g = oc.placeholder("g", batch=[shape[0]], output=list(y.dims[1:]), dtype=dtype)
    loss = (y * g).sum()
    ctx = oc.Context(backend)
    ctx[g] = upstream
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=[x.grad, w.grad])()
    with np.errstate(invalid="ignore"):
        of_x, of_w = gradients(image, kernel, upstream, **settings)
    tolerance = 2e-4 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(np.asarray(ctx[x.grad]), of_x, tolerance, tolerance)
    np.testing.assert_allclose(np.asarray(ctx[w.grad]), of_w, tolerance, tolerance)
