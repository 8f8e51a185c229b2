"""Discrete Fourier transforms of one and two axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.fft.applied_transforms import (
    ADJOINT_NORM,
    Result,
    TransformedRows,
    along_axis,
    apply_transform,
    check_norm,
    ends_in_memory_order,
    multiplicities,
    transform_real,
)
from ocannl.lang.fft.blocked_transforms import (
    Norm,
    complex_transform,
    inverse_real_transform,
    library,
    real_transform,
)
from ocannl.lang.fft.row_transforms import TransformKind
from ocannl.lang.fft.transform_axes import PAIR, TransformAxes, complex_array, pair_array, transform_axes
from ocannl.lang.linalg.arrays import Array

AXES = {1: "the last output axis", 2: "the last two output axes"}


def _define_complex(name: str, number: int, function: str, adjoint: str, doc: str) -> Callable[..., Tensor]:
    def transform(x: object, spec: str | None = None, *, norm: Norm = "backward", label: str | None = None) -> Tensor:
        check_norm(name, norm)
        axes = transform_axes(x, spec, name, number, is_complex=True)

        def forward(pairs: Array) -> Result:
            return _on_pairs(axes, function, pairs, norm)

        def backward(g: Array) -> Result:
            return _on_pairs(axes, adjoint, g, ADJOINT_NORM[norm])

        sizes = {PAIR.name: 2, **({axes.pair: 2} if axes.pair else {})}
        rows = TransformedRows(axes, TransformKind.IFFT if function == "ifftn" else TransformKind.FFT, norm)
        return apply_transform(name, axes, axes.result(is_complex=True), sizes, forward, backward, label, rows)

    return _documented(
        transform, name, number, doc, "`..b..|..i..->..o..,n,2 => ..b..|..i..->..o..,n,2`", ",p => ...|c,p"
    )


def _define_real(name: str, number: int, doc: str) -> Callable[..., Tensor]:
    def transform(x: object, spec: str | None = None, *, norm: Norm = "backward", label: str | None = None) -> Tensor:
        return transform_real(name, number, x, spec, norm, label)

    return _documented(
        transform, name, number, doc, "`..b..|..i..->..o..,n => ..b..|..i..->..o..,n//2+1,2`", " => ...|c"
    )


def _define_inverse_real(name: str, number: int, doc: str) -> Callable[..., Tensor]:
    def transform(
        x: object, spec: str | None = None, *, n: int | None = None, norm: Norm = "backward", label: str | None = None
    ) -> Tensor:
        check_norm(name, norm)
        axes = transform_axes(x, spec, name, number, is_complex=True)
        frequencies, time = axes.size(axes.names[-1]), f"{axes.names[-1]}'"
        if n is not None and (is_bool(n) or not isinstance(n, int | np.integer) or n < 1):
            raise CodeError(f"oc.fft.{name}: the size `n` of the result must be a positive integer, not {n!r}")
        size = 2 * (frequencies - 1) if n is None else int(n)
        if size < 1 or size // 2 + 1 != frequencies:
            raise ShapeError(
                f"oc.fft.{name} of `{axes.x.label}`: {frequencies} frequencies are the transform of "
                f"{max(2 * frequencies - 2, 1)} or {2 * frequencies - 1} numbers, not of {size}"
            )

        def forward(pairs: Array) -> Result:
            if ends_in_memory_order(axes, pairs.ndim - 1, pairs):
                return inverse_real_transform(pairs, axes.transformed, size, norm)
            *leading, last = axes.transformed
            spectrum = library().ifftn(complex_array(pairs, axes.pair_position), axes=leading, norm=norm)
            return np.asarray(library().irfft(spectrum, size, last, norm))

        def backward(g: Array) -> Result:
            if ends_in_memory_order(axes, g.ndim, g):
                return real_transform(g, axes.transformed, ADJOINT_NORM[norm], multiplicities(size, 2))
            *leading, last = axes.transformed
            spectrum = library().rfft(g, axis=last, norm=ADJOINT_NORM[norm])
            spectrum = spectrum * along_axis(last, g.ndim, multiplicities(size, 2))
            spectrum = library().fftn(spectrum, axes=leading, norm=ADJOINT_NORM[norm])
            return pair_array(spectrum, axes.pair_position)

        sizes = {time: size, **({axes.pair: 2} if axes.pair else {})}
        rows = TransformedRows(axes, TransformKind.IRFFT, norm, size)
        return apply_transform(
            name, axes, axes.result(is_complex=False, last=time), sizes, forward, backward, label, rows
        )

    return _documented(
        transform, name, number, doc, "`..b..|..i..->..o..,n//2+1,2 => ..b..|..i..->..o..,n`", ",p => ...|c,p"
    )


def _on_pairs(axes: TransformAxes, function: str, pairs: Array, norm: Norm) -> Result:
    if pairs.size > 0 and axes.pair_position == pairs.ndim - 1:
        return complex_transform(function, pairs, axes.transformed, norm)
    numbers = complex_array(pairs, axes.pair_position)
    return pair_array(getattr(library(), function)(numbers, axes=axes.transformed, norm=norm), axes.pair_position)


def _documented(
    transform: Callable[..., Tensor], name: str, number: int, doc: str, shapes: str, rest: str
) -> Callable[..., Tensor]:
    removed = "t" if number == 1 else "t,s"
    if number == 2:
        shapes = shapes.replace("..o..,n", "..o..,m,n")
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"""{doc}, along {AXES[number]} or the axes that the spec removes.

        oc.fft.{name}(x, "...|{removed},c{rest}")

    Complex numbers are pairs of the real and imaginary part, along the last output axis.

    Shapes: {shapes}.
    Grad:   the adjoint transform of `g`.
    Raises: CodeError for wrong specs and norms; ShapeError.
    """
    return transform


fft = _define_complex("fft", 1, "fftn", "ifftn", "The discrete Fourier transform of complex numbers")
ifft = _define_complex("ifft", 1, "ifftn", "fftn", "The inverse discrete Fourier transform")
fft2 = _define_complex("fft2", 2, "fftn", "ifftn", "The two-dimensional Fourier transform of complex numbers")
ifft2 = _define_complex("ifft2", 2, "ifftn", "fftn", "The inverse two-dimensional Fourier transform")
rfft = _define_real("rfft", 1, "The Fourier transform of real numbers, for frequencies that are not negative")
rfft2 = _define_real("rfft2", 2, "The two-dimensional Fourier transform of real numbers, without redundant frequencies")
irfft = _define_inverse_real("irfft", 1, "The inverse of `rfft`, with `n` results, by default an even number")
irfft2 = _define_inverse_real("irfft2", 2, "The inverse of `rfft2`, with `n` columns, by default an even number")
