"""Fourier transforms beside NumPy and PyTorch: values, gradients, axes by specs, windows and refusals."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.base import row_blocks
from ocannl.lang.fft.transform_axes import complex_array

FFT = oc.fft
RNG = np.random.default_rng(23)
RANDOM_SHAPES = int(os.environ.get("OCANNL_TEST_OPERANDS", "3"))
TOLERANCE = {"float32": 1e-5, "float64": 1e-11}
NORMS = "backward", "ortho", "forward"
COMPLEX = "fft", "ifft", "fft2", "ifft2"


def numbers(pairs):
    return pairs[..., 0] + 1j * pairs[..., 1]


def pairs(numbers):
    return np.stack([numbers.real, numbers.imag], -1)


def torch_transform(torch, name, x, norm, n=None):
    """The transform by PyTorch, of pairs where it is complex, with its gradient."""
    function = getattr(torch.fft, name)
    if name in COMPLEX:
        return torch.view_as_real(function(torch.view_as_complex(x), norm=norm))
    if name.startswith("r"):
        return torch.view_as_real(function(x, norm=norm))
    size = n if name == "irfft" else (x.shape[-3], n)
    return function(torch.view_as_complex(x), size, norm=norm)


def operand(name, n):
    if name in COMPLEX:
        return RNG.normal(size=(2, 3, n, 2))
    return RNG.normal(size=(2, 3, n) if name.startswith("r") else (2, 3, n // 2 + 1, 2))


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("name", [*COMPLEX, "rfft", "rfft2", "irfft", "irfft2"])
def test_values_and_gradients_are_those_of_torch(ctx, name, n):
    torch = pytest.importorskip("torch")
    array = operand(name, n)
    for kind, norm in zip(("float32", "float64", "float64"), NORMS, strict=True):
        settings = {"n": n} if name.startswith("ir") else {}
        x = oc.param("x", array.astype(kind))
        y = getattr(FFT, name)(x, norm=norm, **settings)
        weights = np.cos(np.arange(np.prod(y.dims, dtype=int))).reshape(y.dims)
        loss = (y * oc.tensor(weights.astype(kind))).sum()
        ctx.init(loss)
        ctx.compile(train.grad_update(loss), keep=y)()
        theirs = torch.tensor(array, dtype=torch.float64, requires_grad=True)
        expected = torch_transform(torch, name, theirs, norm, n)
        (expected * torch.tensor(weights)).sum().backward()
        assert y.dtype.name == kind
        tolerance = {"rtol": TOLERANCE[kind], "atol": 10 * TOLERANCE[kind]}
        np.testing.assert_allclose(ctx[y], expected.detach().numpy(), **tolerance)
        np.testing.assert_allclose(ctx[x.grad], theirs.grad.numpy(), **tolerance)


def test_without_scipy(ctx, monkeypatch):
    x = RNG.normal(size=(4, 6))
    transforms = [lambda: FFT.rfft2(x), lambda: FFT.irfft(FFT.rfft(x)), lambda: FFT.ifft2(FFT.pair(x))]
    results = [transform().numpy(ctx) for transform in transforms]
    monkeypatch.setitem(sys.modules, "scipy.fft", None)
    for result, transform in zip(results, transforms, strict=True):
        np.testing.assert_allclose(transform().numpy(ctx), result, atol=1e-12)


@pytest.mark.parametrize("seed", range(RANDOM_SHAPES))
def test_axes_by_specs(ctx, seed):
    """The transformed axis may be in each row of the operand."""
    rng = np.random.default_rng(seed)
    dims = tuple(int(n) for n in rng.integers(1, 7, 3))
    array = rng.normal(size=dims)
    x = oc.tensor(array, batch_axes=1, input_axes=1)  # b|i->o, in memory order b, o, i
    specs = {  # of the transform, and of its inverse
        0: ("b|i->o => |i->o", "b|i->o,p => |i->o,p"),
        1: ("b|i->o => b|i->", "b|i->o,p => b|i->p"),
        2: ("b|i->o => b|->o", "b|i->o,p => b|->o,p"),
    }
    for axis, (forward, inverse) in specs.items():
        spectrum = FFT.rfft(x, forward)
        expected = np.moveaxis(pairs(np.fft.rfft(array, axis=axis)), -1, 2)  # pairs are the last output axis
        np.testing.assert_allclose(spectrum.numpy(ctx), expected, atol=1e-12)
        np.testing.assert_allclose(FFT.irfft(spectrum, inverse, n=dims[axis]).numpy(ctx), array, atol=1e-12)
    oc.testing.gradcheck(lambda t: FFT.rfft(t, "a,b => b"), array[0])


def test_blocks_of_rows(ctx, monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK_CELLS", 20)
    array = RNG.normal(size=(3, 5, 8))
    np.testing.assert_allclose(FFT.rfft2(array).numpy(ctx), pairs(np.fft.rfft2(array)), atol=1e-12)
    np.testing.assert_allclose(FFT.irfft2(FFT.rfft2(array)).numpy(ctx), array, atol=1e-12)
    oc.testing.gradcheck(lambda t: FFT.rfft2(t), array)
    oc.testing.gradcheck(lambda t: FFT.irfft2(FFT.pair(t, 0.5 * t), n=9), array[..., :5])


def test_strides_of_complex_arrays_are_multiples_of_their_size():
    for order in "CF":
        for shape in ((5, 2, 1), (1, 2, 4, 1)):
            numbers = complex_array(np.ones(shape, order=order), 1)
            assert numbers.shape == (shape[0], *shape[2:])
            assert all(stride % numbers.itemsize == 0 for stride in numbers.strides)


def test_a_transform_along_two_axes_by_a_spec(ctx):
    array = RNG.normal(size=(3, 2, 4, 5))
    x = oc.tensor(array, batch_axes=1)
    result = FFT.rfft2(x, "...|h,c,w => ...|c")
    np.testing.assert_allclose(result.numpy(ctx), pairs(np.fft.rfft2(array, axes=(1, 3))), atol=1e-12)


def test_convolution_by_products_of_spectra(ctx):
    x, kernel = RNG.normal(size=(2, 8)), RNG.normal(size=8)
    spectrum = FFT.multiply(FFT.rfft(oc.tensor(x, batch_axes=1)), FFT.rfft(oc.tensor(kernel)))
    expected = np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(kernel))
    np.testing.assert_allclose(FFT.irfft(spectrum).numpy(ctx), expected, atol=1e-12)


def test_parts_of_complex_numbers(ctx):
    z = RNG.normal(size=(3, 4, 2))
    t = oc.tensor(z, batch_axes=1)
    np.testing.assert_array_equal(FFT.real(t).numpy(ctx), z[..., 0])
    np.testing.assert_array_equal(FFT.imag(t).numpy(ctx), z[..., 1])
    np.testing.assert_array_equal(FFT.conj(t).numpy(ctx), z * [1, -1])
    np.testing.assert_allclose(FFT.magnitude(t).numpy(ctx), np.abs(numbers(z)))
    np.testing.assert_array_equal(FFT.pair(FFT.real(t), FFT.imag(t)).numpy(ctx), z)
    np.testing.assert_array_equal(FFT.pair(oc.tensor([np.inf, 1.0])).numpy(ctx), [[np.inf, 0], [1, 0]])
    oc.testing.gradcheck(FFT.pair, z[..., 0], z[0, :, 1])
    oc.testing.gradcheck(FFT.multiply, z[0], z[1])


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("n", [1, 2, 7, 8])
@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "kaiser"])
def test_windows_are_those_of_torch(name, n, periodic):
    torch = pytest.importorskip("torch")
    expected = getattr(torch, f"{name}_window")(n, periodic=periodic, dtype=torch.float64)
    window = getattr(FFT, name)(n, periodic=periodic, dtype="float64")
    np.testing.assert_allclose(window.numpy(), expected.numpy(), atol=1e-7)
    assert getattr(FFT, name)(n).dtype is oc.float32


@pytest.mark.parametrize(("n", "hop"), [(8, 3), (8, 5), (4, None), (5, 5), (20, 1)])
def test_short_time_transforms_are_those_of_torch(ctx, n, hop):
    torch = pytest.importorskip("torch")
    array = RNG.normal(size=(2, 20))
    window = torch.hann_window(n, dtype=torch.float64)
    expected = torch.stft(
        torch.tensor(array), n, hop or n // 4, window=window, center=False, return_complex=True, onesided=True
    )
    result = FFT.stft(oc.tensor(array, batch_axes=1), n, hop=hop, window=FFT.hann(n, dtype="float64"))
    expected = torch.view_as_real(expected.transpose(-1, -2).resolve_conj().contiguous())
    np.testing.assert_allclose(result.numpy(ctx), expected.numpy(), atol=1e-6)
    oc.testing.gradcheck(lambda x: FFT.stft(x, n, hop=hop), array[0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: FFT.rfft(np.ones(3), norm="none"), oc.CodeError, "`norm` must be 'backward', 'ortho' or 'forward'"),
        (lambda: FFT.fft(np.ones(3)), oc.ShapeError, "has at least 2 axes, but the output row of `data` is 3"),
        (lambda: FFT.fft(np.ones((3, 3))), oc.ShapeError, "2"),
        (lambda: FFT.fft(np.ones((3, 2)), "t,p => t"), oc.CodeError, "the last output axis of a complex tensor"),
        (lambda: FFT.rfft(np.ones((3, 2)), "s,t => "), oc.CodeError, "oc.fft.rfft transforms one axis"),
        (lambda: FFT.rfft2(np.ones((3, 2)), "s,t => s"), oc.CodeError, "oc.fft.rfft2 transforms 2 axes"),
        (lambda: FFT.irfft(np.ones((3, 2)), n=6), oc.ShapeError, "3 frequencies are the transform of 4 or 5 numbers"),
        (lambda: FFT.irfft(np.ones((3, 2)), n=0), oc.CodeError, "must be a positive integer, not 0"),
        (lambda: FFT.rfft(2.5), oc.ShapeError, "the output row of `2.5` has 0 axes, but"),
        (lambda: FFT.rfft2(np.ones(3)), oc.ShapeError, "the output row of `data` has 1 axes, but"),
        (lambda: FFT.hann(0), oc.CodeError, "the number of cells must be an integer from 1 to 2\\*\\*24, not 0"),
        (lambda: FFT.blackman(2**31), oc.CodeError, "from 1 to 2\\*\\*24, not 2147483648"),
        (lambda: FFT.kaiser(3, "x"), oc.CodeError, "`beta` must be a number, not 'x'"),
        (lambda: FFT.stft(np.ones(8), 4, hop=0), oc.CodeError, "`hop` must be a positive integer, not 0"),
        (lambda: FFT.stft(np.ones(8), 9), oc.ShapeError, "the window is longer than the axis"),
        (lambda: FFT.real(np.ones(3)), oc.ShapeError, "3"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
