"""Programs in which reductions and their readers are fused into one nest, compared with NumPy."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import train


def same_convolution(x, kernel):
    """Zero-padded convolution of images `[batch, height, width, channel]`."""
    high, wide = x.shape[1:3]
    taps = [(i, j) for i in range(kernel.shape[0]) for j in range(kernel.shape[1])]
    padded = np.pad(x, ((0, 0), *((size // 2, size // 2) for size in kernel.shape[:2]), (0, 0)))
    return sum(padded[:, i : i + high, j : j + wide] @ kernel[i, j] for i, j in taps)


def test_statistics_of_a_batch_between_convolutions(native):
    """The variance uses the mean of all rows, even if both sums are fused into one loop."""
    numbers = np.random.default_rng(0)
    images, weights = numbers.normal(size=(64, 8, 8, 32)), numbers.normal(size=(3, 3, 32, 32)) / 17
    x, kernel = oc.placeholder("x", b=[64], o=[8, 8, 32]), oc.param("kernel", weights)
    h = oc.conv2d(x, kernel, padding="same")
    h = oc.conv2d(oc.relu(h - h.mean("...|h,w,c => c")), kernel, padding="same")
    y = ((h - h.mean("...|h,w,c => c")) ** 2).mean("...|h,w,c => c")
    with oc.Context(native.name, threads=2) as context:
        context.init(y)
        context[x] = images.astype(np.float32)
        context.compile(y.forward)()
        got = context[y]
    hidden = same_convolution(images, weights)
    hidden = same_convolution(np.maximum(hidden - hidden.mean((0, 1, 2)), 0), weights)
    np.testing.assert_allclose(got, hidden.var((0, 1, 2)), rtol=1e-4)


def test_gradients_read_complete_totals(native):
    """The gradient of a maximum is propagated to the largest cell."""
    size, numbers = 600, np.random.default_rng(4)
    start = numbers.normal(size=(size, size)).astype(np.float32)
    p = oc.param("p", start, b=[size], o=[size], i=[])
    largest, rounded = p.max(), p.round()
    concatenated = oc.concat("a,|u; a,|w => a,|u^w", rounded, oc.concat("a,|17^z^9 => a,|z", rounded))
    loss = (largest * largest).sum() + concatenated.sum()
    with oc.Context(native.name, threads=2) as context:
        context.init(loss)
        context.compile(train.grad_update(loss), keep=[concatenated, p.grad])()
        got, gradient = context[loss], context[p.grad]
    expected = start.astype(np.float64)
    np.testing.assert_allclose(
        got, expected.max() ** 2 + expected.round().sum() + expected.round()[:, 17:-9].sum(), atol=0.5
    )
    np.testing.assert_allclose(gradient, np.where(expected == expected.max(), 2 * expected.max(), 0), rtol=1e-5)


@pytest.mark.parametrize("size", [17, 127])
def test_merged_axes_and_fused_outer_loops(native, size):
    x = oc.tensor(np.ones((2, 7, size, 48), np.float32))
    padded = oc.concat("a, b, c, z, => a, b, c, 3^z^2,", x)
    first_term = oc.concat("1^z, b, c, d, => z, b, c, d,", oc.flip(padded, "abcd => acd"))
    second_term = oc.einsum("a, b, c, d, => (a c), (b d),", padded)
    loss = first_term.sum() + (second_term * second_term).sum()
    with oc.Context(native.name, threads=2) as context:
        context.compile(loss.forward, keep=[first_term, second_term])()
        assert context[loss] == 7 * size * 48 + 2 * 7 * size * 48
        assert np.array_equal(context[second_term][0], np.tile(np.pad(np.ones(48), (3, 2)), 7))
