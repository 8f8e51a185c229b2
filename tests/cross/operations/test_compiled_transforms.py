"""Fourier transforms of many short rows, which compiled code computes, beside NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.assign import host_calls, nodes
from ocannl.ir.sequential_form import sequential_form
from ocannl.lang.fft import row_transforms
from ocannl.lang.fft.blocked_transforms import library
from ocannl.lang.fft.row_transforms import LANES, MAX_LENGTH, MIN_LENGTH, MIN_ROWS

FFT = oc.fft
RNG = np.random.default_rng(31)
NORMS = "backward", "ortho", "forward"
NAMES = "rfft", "irfft", "fft", "ifft"
LENGTHS = [2**n for n in range(4, 11)]


@pytest.fixture(autouse=True)
def transforms_of_few_cells(monkeypatch):
    """Few rows are compiled as well."""
    monkeypatch.setattr(row_transforms, "MIN_CELLS", 0)


def complex_numbers(pairs):
    return pairs[..., 0] + 1j * pairs[..., 1]


def as_pairs(numbers):
    return np.stack([numbers.real, numbers.imag], -1)


def operand(name, rows, n, kind="float64"):
    shape = {"rfft": (n,), "irfft": (n // 2 + 1, 2)}.get(name, (n, 2))
    return RNG.normal(size=(*rows, *shape)).astype(kind)


def expected(name, array, norm="backward", fft=np.fft):
    function = getattr(fft, name)
    result = function(array if name == "rfft" else complex_numbers(array), norm=norm)
    return result if name == "irfft" else as_pairs(result)


def transform(name, array, norm="backward"):
    return getattr(FFT, name)(oc.tensor(array, batch_axes=array.ndim - (1 if name == "rfft" else 2)), norm=norm)


def relative_error(result, exact):
    return np.linalg.norm(result - exact) / np.linalg.norm(exact)


def is_compiled(code):
    return not any(host_calls(sequential_form(code.elaborate().comp)))


def test_lengths():
    assert (LENGTHS[0], LENGTHS[-1]) == (MIN_LENGTH, MAX_LENGTH)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", LENGTHS)
def test_accuracy(n, name):
    ctx = oc.Context("llvm")
    array = operand(name, (MIN_ROWS,), n)
    result = transform(name, array)
    assert is_compiled(result.forward)
    assert relative_error(result.numpy(ctx), expected(name, array)) < 1e-15 * np.log2(n)
    rounded = array.astype("float32")
    exact = expected(name, rounded.astype("float64"))
    ours = relative_error(transform(name, rounded).numpy(ctx), exact)
    assert ours < 2 * relative_error(expected(name, rounded, fft=library()), exact)


@pytest.mark.parametrize("rows", [(47,), (2, 50), (2, 150, 3), (19, 33)])
@pytest.mark.parametrize("name", NAMES)
def test_rows(ctx, name, rows):
    """Rows that fill no strip, and several axes of rows."""
    norm = NORMS[len(rows) % 3]
    array = operand(name, rows, 16)
    result = transform(name, array, norm)
    assert is_compiled(result.forward)
    np.testing.assert_allclose(result.numpy(ctx), expected(name, array, norm), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [(47,), (19, 33), (8, 997), (400,)])
def test_rows_on_several_threads(rows):
    """Threads share the strips, those of the last rows as well; the results do not depend on how many there are."""
    array = operand("rfft", rows, 64)
    one, several = (transform("rfft", array).numpy(oc.Context("llvm", threads=threads)) for threads in (1, 3))
    np.testing.assert_array_equal(several, one)
    np.testing.assert_allclose(one, expected("rfft", array), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [MIN_ROWS, MIN_ROWS + 1, 8 * LANES + 1])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", NAMES)
def test_norms(name, norm, rows):
    ctx = oc.Context("llvm")
    array = operand(name, (rows,), 32)
    result = transform(name, array, norm).numpy(ctx)
    np.testing.assert_allclose(result, expected(name, array, norm), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_rows_do_not_mix(name):
    ctx = oc.Context("llvm")
    array = operand(name, (40,), 32)
    clean = transform(name, array).numpy(ctx)
    array[5], array[38].flat[3] = np.nan, np.inf
    result = transform(name, array).numpy(ctx)
    finite = np.delete(np.arange(40), [5, 38])
    np.testing.assert_array_equal(result[finite], clean[finite])
    assert np.isnan(result[5][..., :1]).all()
    assert not np.isfinite(result[38]).all()


@pytest.mark.parametrize(
    ("name", "shape"),
    [("rfft", (64, 48)), ("rfft", (31, 64)), ("rfft", (64, 8)), ("rfft", (64, 2048)), ("fft", (24, 1, 64, 2))],
)
def test_other_sizes_are_host_calls(name, shape):
    assert not is_compiled(transform(name, np.zeros(shape, "float32")).forward)


def test_transforms_of_few_cells_are_a_host_call(monkeypatch):
    monkeypatch.undo()
    assert not is_compiled(transform("rfft", np.zeros((32, 16), "float32")).forward)


def test_other_axes_are_host_calls():
    array = np.zeros((64, 64), "float32")
    assert not is_compiled(FFT.rfft(array, "t,c => c").forward)
    assert not is_compiled(FFT.rfft2(array).forward)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_frames(ctx, kind):
    """The frames of a short-time transform are not stored."""
    array, window = RNG.normal(size=(3, 700)).astype(kind), RNG.uniform(size=64).astype(kind)
    result = FFT.stft(oc.tensor(array, batch_axes=1), 64, hop=15, window=oc.tensor(window))
    frames = np.lib.stride_tricks.sliding_window_view(array, 64, axis=1)[:, ::15] * window
    tolerance = 1e-12 if kind == "float64" else 1e-5
    np.testing.assert_allclose(result.numpy(ctx), as_pairs(np.fft.rfft(frames)), rtol=tolerance, atol=10 * tolerance)
    assert is_compiled(result.forward)
    frames_node = next(host_calls(result.forward.elaborate().comp)).inputs[0]
    code = result.forward.elaborate().comp
    assert frames_node not in nodes(sequential_form(code))
    assert frames_node in nodes(sequential_form(code, {frames_node}))


def test_frames_of_other_types(ctx):
    """A signal of another type than the frames is converted in them."""
    array = RNG.normal(size=600).astype("float32")
    result = FFT.stft(array, 16, window=FFT.hann(16, dtype="float64"))
    frames = np.lib.stride_tricks.sliding_window_view(array.astype("float64"), 16)[::4]
    window = FFT.hann(16, dtype="float64").numpy()
    np.testing.assert_allclose(result.numpy(ctx), as_pairs(np.fft.rfft(frames * window)), rtol=1e-12, atol=1e-12)


def test_gradients(ctx):
    torch = pytest.importorskip("torch")
    array, window = RNG.normal(size=(2, 300)), np.hanning(16)
    x, w = oc.param("x", array), oc.param("w", window)
    loss = (FFT.stft(x, 16, window=w) ** 2).sum()
    ctx.init(loss)
    ctx.compile(train.grad_update(loss))()
    signal, weights = (torch.tensor(a, requires_grad=True) for a in (array, window))
    spectrum = torch.stft(signal, 16, 4, window=weights, center=False, return_complex=True)
    (torch.view_as_real(spectrum) ** 2).sum().backward()
    np.testing.assert_allclose(ctx[x.grad], signal.grad.numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ctx[w.grad], weights.grad.numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_threads_give_equal_bits(name):
    array = operand(name, (3000,), 64, "float32")
    results = [transform(name, array).numpy(oc.Context("llvm", threads=threads)) for threads in (1, 2, 4)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_code_before_reads_the_previous_result():
    ctx = oc.Context("llvm")
    x = oc.placeholder("x", o=[MIN_ROWS, 16])
    y, z = FFT.rfft(x), oc.placeholder("z", o=[MIN_ROWS, 9, 2])
    with oc.cd("previous") as previous:
        z["=:"] = y
    array = operand("rfft", (MIN_ROWS,), 16, "float32")
    ctx[x] = array
    ctx.compile(y.forward)()
    ctx[x] = 2 * array
    ctx.compile(oc.seq(previous, y.forward), keep=[y, z])()
    np.testing.assert_allclose(ctx[z], expected("rfft", array), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ctx[y], 2 * ctx[z], rtol=1e-6)
