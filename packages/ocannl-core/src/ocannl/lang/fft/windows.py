"""Windows of spectral analysis, and the short-time Fourier transform.

Source: Harris 1978.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ocannl.base.config import PRECISION
from ocannl.base.errors import CodeError
from ocannl.ir.precision import precision
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed, tensor
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.fft.applied_transforms import transform_frames
from ocannl.lang.fft.row_transforms import Frames
from ocannl.lang.ops.concat import concat
from ocannl.lang.ops.einsum import einsum

MAX_CELLS = 2**24  # of a window; NumPy computes all of them


def _define_window(name: str, formula: Callable[..., Any], doc: str) -> Callable[..., Tensor]:
    def window(n: int, *, periodic: bool = True, dtype: object = None, label: str | None = None) -> Tensor:
        return _window(name, formula, n, periodic, dtype, label)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"""{doc} of `n` cells, as constant data.

        oc.fft.{name}(8)

    A periodic window is one period of the window function, as suits Fourier transforms; otherwise it is symmetric.

    Shapes: `=> n`.
    Grad:   none.
    Raises: CodeError unless `n` is an integer from 1 to 2**24.
    """
    return window


def kaiser(
    n: int, beta: float = 12.0, *, periodic: bool = True, dtype: object = None, label: str | None = None
) -> Tensor:
    """The Kaiser window of `n` cells, as constant data; `beta` is the trade-off of width and side lobes.

        oc.fft.kaiser(8, 14.0)

    A periodic window is one period of the window function, as suits Fourier transforms; otherwise it is symmetric.

    Shapes: `=> n`.
    Grad:   none.
    Raises: CodeError unless `n` is an integer from 1 to 2**24 and `beta` a number.
    """
    if is_bool(beta) or not isinstance(beta, int | float | np.number):
        raise CodeError(f"oc.fft.kaiser: `beta` must be a number, not {beta!r}"[:200])
    return _window("kaiser", lambda size: np.kaiser(size, float(beta)), n, periodic, dtype, label)


def _window(name: str, formula: Any, n: object, periodic: bool, dtype: object, label: str | None) -> Tensor:
    if is_bool(n) or not isinstance(n, int | np.integer) or not 1 <= n <= MAX_CELLS:
        raise CodeError(f"oc.fft.{name}: the number of cells must be an integer from 1 to 2**24, not {n!r}"[:200])
    cells = formula(int(n) + 1)[:-1] if periodic and n > 1 else formula(int(n))
    kind = precision(PRECISION.get() if dtype is None else dtype)
    return tensor(cells.astype(kind.numpy), label=label or name)


hann = _define_window("hann", np.hanning, "The Hann window")
hamming = _define_window("hamming", np.hamming, "The Hamming window")
blackman = _define_window("blackman", np.blackman, "The Blackman window")


@composite
def stft(x: object, n: int, *, hop: int | None = None, window: object = None) -> Tensor:
    """The short-time Fourier transform: `rfft` of frames of `n` cells along the last output axis, times a window.

        oc.fft.stft(x, 256, hop=64)

    Frame `f` starts at cell `f * hop`; frames lie inside the axis, which is not padded, and whose last cells may be in
    no frame. By default, `hop` is `n // 4` and the window is `oc.fft.hann(n)`. The call infers the size of the axis.

    Shapes: `..b..|..o..,t => ..b..|..o..,f,n//2+1,2` with `f = (t - n) // hop + 1`; window `n`.
    Grad:   the derivative.
    Raises: CodeError unless `n` and `hop` are positive integers; ShapeError.
    """
    step = hop if hop is not None else max(int(n) // 4, 1) if isinstance(n, int | np.integer) else 1
    for name, number in (("n", n), ("hop", step)):
        if is_bool(number) or not isinstance(number, int | np.integer) or number < 1:
            raise CodeError(f"oc.fft.stft: `{name}` must be a positive integer, not {number!r}"[:200])
    weights = hann(n) if window is None else embed(window)
    signal = embed(x)
    size = signal.dims[-1] if signal.dims else 0
    used = size - (size - n) % step
    if n <= size != used:
        signal = concat("...|..o.., a^b => ...|..o.., a", signal, a=int(used))
    frames = einsum("...|..o.., hop*f<+k; k => ...|..o.., f, k", signal, weights, k=int(n), hop=int(step))
    is_stored = not (signal.is_merged or weights.is_merged)
    source = Frames(frames.node, signal.node, weights.node, int(step)) if is_stored else None
    return transform_frames(frames, "...|..o.., k => ...|..o..", source)
