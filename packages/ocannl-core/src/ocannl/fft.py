"""Discrete Fourier transforms with gradients, windows, and complex numbers: `oc.fft.rfft(x)`.

There are no complex types: a complex number is a pair of its real and imaginary part along the last output axis, of
size 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any as _Any

from ocannl.base import spelling as _spelling
from ocannl.base.traceback_filtering import public as _public
from ocannl.lang.declare.builtin_declarations import attach_to_namespace as _attach
from ocannl.lang.fft import pairs as _pairs
from ocannl.lang.fft import transforms as _transforms
from ocannl.lang.fft import windows as _windows

blackman = _public(_windows.blackman)
conj = _public(_pairs.conj)
fft = _public(_transforms.fft)
fft2 = _public(_transforms.fft2)
hamming = _public(_windows.hamming)
hann = _public(_windows.hann)
ifft = _public(_transforms.ifft)
ifft2 = _public(_transforms.ifft2)
imag = _public(_pairs.imag)
irfft = _public(_transforms.irfft)
irfft2 = _public(_transforms.irfft2)
kaiser = _public(_windows.kaiser)
magnitude = _public(_pairs.magnitude)
multiply = _public(_pairs.multiply)
pair = _public(_pairs.pair)
real = _public(_pairs.real)
rfft = _public(_transforms.rfft)
rfft2 = _public(_transforms.rfft2)
stft = _public(_windows.stft)

__all__ = [
    "blackman", "conj", "fft", "fft2", "hamming", "hann", "ifft", "ifft2", "imag", "irfft", "irfft2", "kaiser",
    "magnitude", "multiply", "pair", "real", "rfft", "rfft2", "stft",
]  # fmt: skip

_attach("fft", {name: globals()[name] for name in __all__})

if not TYPE_CHECKING:

    @_public
    def __getattr__(name: str) -> _Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'ocannl.fft' has no attribute {name!r}")
        raise _spelling.unknown_name("oc.fft", name, lambda: __all__, _spelling.FFT)
