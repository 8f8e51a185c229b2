"""Discrete Fourier transforms of one and two axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.logic import einsum
from ocannl.infer.spec import ShapeSpec, Spec
from ocannl.ir.host_call import DeferredArray
from ocannl.ir.ops import ADD, Domain
from ocannl.lang.core.host_calls import host_call
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.fft.blocked_transforms import (
    Norm,
    complex_transform,
    inverse_real_transform,
    library,
    real_transform,
)
from ocannl.lang.fft.row_transforms import Frames, RowTransforms, TransformKind
from ocannl.lang.fft.transform_axes import PAIR, TransformAxes, complex_array, pair_array, transform_axes
from ocannl.lang.linalg.arrays import Array, in_lapack_type

Result = Array | DeferredArray
ADJOINT_NORM: dict[str, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
AXES = {1: "the last output axis", 2: "the last two output axes"}


def _define_complex(name: str, number: int, function: str, adjoint: str, doc: str) -> Callable[..., Tensor]:
    def transform(x: object, spec: str | None = None, *, norm: Norm = "backward", label: str | None = None) -> Tensor:
        _check_norm(name, norm)
        axes = transform_axes(x, spec, name, number, is_complex=True)

        def forward(pairs: Array) -> Result:
            return _on_pairs(axes, function, pairs, norm)

        def backward(g: Array) -> Result:
            return _on_pairs(axes, adjoint, g, ADJOINT_NORM[norm])

        sizes = {PAIR.name: 2, **({axes.pair: 2} if axes.pair else {})}
        rows = _TransformedRows(axes, TransformKind.FFT, function == "ifftn", norm)
        return _apply(name, axes, axes.result(is_complex=True), sizes, forward, backward, label, rows)

    return _documented(
        transform, name, number, doc, "`..b..|..i..->..o..,n,2 => ..b..|..i..->..o..,n,2`", ",p => ...|c,p"
    )


def _define_real(name: str, number: int, doc: str) -> Callable[..., Tensor]:
    def transform(x: object, spec: str | None = None, *, norm: Norm = "backward", label: str | None = None) -> Tensor:
        return _transform_real(name, number, x, spec, norm, label)

    return _documented(
        transform, name, number, doc, "`..b..|..i..->..o..,n => ..b..|..i..->..o..,n//2+1,2`", " => ...|c"
    )


def transform_frames(frames: Tensor, spec: str, source: Frames | None) -> Tensor:
    """The transform of the frames of a signal. If it is compiled, it reads the signal itself."""
    return _transform_real("rfft", 1, frames, spec, "backward", None, source)


def _transform_real(
    name: str, number: int, x: object, spec: str | None, norm: Norm, label: str | None, frames: Frames | None = None
) -> Tensor:
    _check_norm(name, norm)
    axes = transform_axes(x, spec, name, number, is_complex=False)
    n, frequency = axes.size(axes.names[-1]), f"{axes.names[-1]}'"

    def forward(x: Array) -> Result:
        if _ends_in_memory_order(axes, x.ndim, x):
            return real_transform(x, axes.transformed, norm)
        return pair_array(library().rfftn(x, axes=axes.transformed, norm=norm), axes.pair_position)

    def backward(g: Array) -> Result:
        if _ends_in_memory_order(axes, g.ndim - 1, g):
            factors = _multiplicities(n, 0.5)
            return inverse_real_transform(g, axes.transformed, n, ADJOINT_NORM[norm], factors)
        *leading, last = axes.transformed
        spectrum = complex_array(g, axes.pair_position) * _along(last, g.ndim - 1, _multiplicities(n, 0.5))
        spectrum = library().ifftn(spectrum, axes=leading, norm=ADJOINT_NORM[norm])
        return np.asarray(library().irfft(spectrum, n, last, ADJOINT_NORM[norm]))

    sizes = {PAIR.name: 2, frequency: n // 2 + 1}
    rows = _TransformedRows(axes, TransformKind.RFFT, False, norm, frames=frames)
    return _apply(name, axes, axes.result(is_complex=True, last=frequency), sizes, forward, backward, label, rows)


def _define_inverse_real(name: str, number: int, doc: str) -> Callable[..., Tensor]:
    def transform(
        x: object, spec: str | None = None, *, n: int | None = None, norm: Norm = "backward", label: str | None = None
    ) -> Tensor:
        _check_norm(name, norm)
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
            if _ends_in_memory_order(axes, pairs.ndim - 1, pairs):
                return inverse_real_transform(pairs, axes.transformed, size, norm)
            *leading, last = axes.transformed
            spectrum = library().ifftn(complex_array(pairs, axes.pair_position), axes=leading, norm=norm)
            return np.asarray(library().irfft(spectrum, size, last, norm))

        def backward(g: Array) -> Result:
            if _ends_in_memory_order(axes, g.ndim, g):
                return real_transform(g, axes.transformed, ADJOINT_NORM[norm], _multiplicities(size, 2))
            *leading, last = axes.transformed
            spectrum = library().rfft(g, axis=last, norm=ADJOINT_NORM[norm])
            spectrum = spectrum * _along(last, g.ndim, _multiplicities(size, 2))
            spectrum = library().fftn(spectrum, axes=leading, norm=ADJOINT_NORM[norm])
            return pair_array(spectrum, axes.pair_position)

        sizes = {time: size, **({axes.pair: 2} if axes.pair else {})}
        rows = _TransformedRows(axes, TransformKind.IRFFT, True, norm, size)
        return _apply(name, axes, axes.result(is_complex=False, last=time), sizes, forward, backward, label, rows)

    return _documented(
        transform, name, number, doc, "`..b..|..i..->..o..,n//2+1,2 => ..b..|..i..->..o..,n`", ",p => ...|c,p"
    )


def _apply(
    name: str,
    axes: TransformAxes,
    result: ShapeSpec,
    sizes: dict[str, int],
    forward: Callable[[Array], Result],
    backward: Callable[[Array], Result],
    label: str | None,
    rows: _TransformedRows,
) -> Tensor:
    spec = Spec((axes.shape,), result)

    def compute(s: Slots) -> None:
        result = host_call(in_lapack_type(forward), s.operands[0], name=name)
        result.call.compiled = rows.transforms()
        s.result()[...] = result

    def differentiate(s: Slots) -> None:
        gradient = host_call(in_lapack_type(backward), s.gradient(), name=f"{name} gradient")
        s.operand_gradient(1).write(ADD, False, gradient)

    used = {label: size for label, size in sizes.items() if label in spec.labels()}
    result_type = ResultType(domain=Domain.FLOAT)
    operation = Operation(name, einsum(spec), compute, differentiate, result_type=result_type, sizes=used)
    return apply(operation, [axes.x], label=label)


@dataclass(frozen=True, slots=True)
class _TransformedRows:
    """The transform of one axis, as one of rows if it is the last one; `size` is its length in the result, if that is
    not the length in the operand."""

    axes: TransformAxes
    kind: TransformKind
    is_inverse: bool
    norm: Norm
    size: int | None = None
    frames: Frames | None = None

    def transforms(self) -> RowTransforms | None:
        axes, count = self.axes, len(self.axes.x.dims) - (self.kind is not TransformKind.RFFT)
        if axes.pair_position != count or axes.transformed != (count - 1,):
            return None
        length = axes.size(axes.names[-1]) if self.size is None else self.size
        unscaled = "forward" if self.is_inverse else "backward"
        scale = 1.0 if self.norm == unscaled else length**-0.5 if self.norm == "ortho" else 1 / length
        return RowTransforms(self.kind, self.is_inverse, length, scale, self.frames)


def _ends_in_memory_order(axes: TransformAxes, count: int, array: Array) -> bool:
    """Whether the last of the axes to transform is the last of `count` axes, and is followed by that of pairs."""
    return array.size > 0 and axes.pair_position == count and axes.transformed[-1] == count - 1


def _on_pairs(axes: TransformAxes, function: str, pairs: Array, norm: Norm) -> Result:
    if pairs.size > 0 and axes.pair_position == pairs.ndim - 1:
        return complex_transform(function, pairs, axes.transformed, norm)
    numbers = complex_array(pairs, axes.pair_position)
    return pair_array(getattr(library(), function)(numbers, axes=axes.transformed, norm=norm), axes.pair_position)


def _multiplicities(n: int, inner: float) -> Array:
    """A factor for each frequency of `n` real numbers: `inner` for those that stand for two, conjugate numbers."""
    factors = np.full(n // 2 + 1, inner, np.float32)
    factors[0] = 1
    if n % 2 == 0:
        factors[-1] = 1
    return factors


def _along(axis: int, count: int, factors: Array) -> Array:
    """The factors along one of `count` axes."""
    return factors.reshape([-1 if n == axis else 1 for n in range(count)])


def _check_norm(name: str, norm: object) -> None:
    if norm not in ADJOINT_NORM:
        raise CodeError(f"oc.fft.{name}: `norm` must be 'backward', 'ortho' or 'forward', not {norm!r}"[:200])


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
