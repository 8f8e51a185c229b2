"""Fourier transforms. Complex numbers are pairs along the last axis, as in ONNX."""

from __future__ import annotations

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import along, concatenated, moved, padded, reshaped, sliced
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value

REAL, COMPLEX = 1, 2  # sizes of the last axis


def transform(x: oc.Tensor, length: int, *, inverse: bool = False, onesided: bool = False) -> oc.Tensor:
    """The transform along the axis before the last, of `length` numbers; the last axis has size 1 or 2."""
    axis = len(x.dims) - 2
    if inverse and onesided:
        x = _resized(_as_pairs(x), axis, length // 2 + 1)
        y = oc.fft.irfft(x, n=length)
        return reshaped(y, (*y.dims, REAL))
    x = _resized(x, axis, length)
    if inverse:
        return oc.fft.ifft(_as_pairs(x))
    if x.dims[-1] == REAL:
        half = oc.fft.rfft(reshaped(x, x.dims[:-1]))
        return half if onesided else concatenated([half, _conjugates(half, axis, length)], axis)
    y = oc.fft.fft(x)
    return sliced(y, axis, 0, length // 2 + 1) if onesided else y


def _conjugates(half: oc.Tensor, axis: int, length: int) -> oc.Tensor:
    """The other half of the transform of real numbers."""
    mirrored = oc.flip(sliced(half, axis, 1, (length + 1) // 2), along(axis + 2, axis))
    return mirrored * oc.tensor(np.array([1, -1], half.dtype.numpy))


def _as_pairs(x: oc.Tensor) -> oc.Tensor:
    return x if x.dims[-1] == COMPLEX else padded(x, len(x.dims) - 1, 0, 1)


def _resized(x: oc.Tensor, axis: int, size: int) -> oc.Tensor:
    x = sliced(x, axis, 0, min(size, x.dims[axis]))
    return padded(x, axis, 0, size - x.dims[axis])


@operator(
    "DFT",
    spelling="oc.fft.fft, ifft, rfft or irfft",
    restrictions=("the length and the axis have to be constant",),
)
def dft(call: NodeCall) -> Value:
    x, rank = call.tensor(0), len(call.shape(0))
    call.require(rank >= 2 and x.dims[-1] in (REAL, COMPLEX), f"numbers of {x.dims[-1:]} parts")
    if call.version < 20:
        axis = call.attribute("axis", 1)
    else:
        axis = int(call.constant(2).reshape(-1)[0]) if call.has(2) else -2
    axis = call.position(axis, rank)
    call.require(axis < rank - 1, "a transform along the last axis, whose cells are the parts of a number")
    inverse, onesided = bool(call.attribute("inverse", 0)), bool(call.attribute("onesided", 0))
    if call.has(1):
        length = int(call.constant(1).reshape(-1)[0])
    else:
        length = 2 * (x.dims[axis] - 1) if inverse and onesided else x.dims[axis]
    call.require(length > 0, f"a transform of {length} numbers")
    y = transform(moved(x, axis, rank - 2), length, inverse=inverse, onesided=onesided)
    return moved(y, rank - 2, axis)


@operator("STFT", spelling="oc.fft.rfft of windows", restrictions=("sizes of steps and frames have to be constant",))
def stft(call: NodeCall) -> Value:
    x, step = call.tensor(0), int(call.constant(1).reshape(-1)[0])
    call.require(len(x.dims) == 3, f"a signal of shape {x.dims}")
    window = call.optional(2)
    size = int(call.constant(3).reshape(-1)[0]) if call.has(3) else window.dims[0] if window is not None else 0
    call.require(0 < size <= x.dims[1] and step > 0, f"frames of {size} numbers at steps of {step} of {x.dims[1]}")
    call.require(window is None or window.dims == (size,), "a window that does not fit the frames")
    frames = 1 + (x.dims[1] - size) // step
    covered = sliced(x, 1, 0, (frames - 1) * step + size)
    parts = oc.einsum(f"b,{step}*f<+n,c => b,f,n,c", covered, n=size)
    if window is not None:
        parts = parts * reshaped(window, (size, 1))
    return transform(parts, size, onesided=bool(call.attribute("onesided", 1)))
