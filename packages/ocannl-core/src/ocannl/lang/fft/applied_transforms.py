"""Applications of Fourier transforms: as host calls, and as compiled code where rows are short and many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.infer.logic import einsum
from ocannl.infer.spec import ShapeSpec, Spec
from ocannl.ir.host_call import DeferredArray
from ocannl.ir.ops import ADD, Domain
from ocannl.lang.core.host_calls import host_call
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.fft.blocked_transforms import Norm, inverse_real_transform, library, real_transform
from ocannl.lang.fft.row_transforms import Frames, RowTransforms, TransformKind
from ocannl.lang.fft.transform_axes import PAIR, TransformAxes, complex_array, pair_array, transform_axes
from ocannl.lang.linalg.arrays import Array, in_lapack_type

Result = Array | DeferredArray
ADJOINT_NORM: dict[str, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def transform_frames(frames: Tensor, spec: str, source: Frames | None) -> Tensor:
    """The transform of the frames of a signal. If it is compiled, it reads the signal itself."""
    return transform_real("rfft", 1, frames, spec, "backward", None, source)


def transform_real(
    name: str, number: int, x: object, spec: str | None, norm: Norm, label: str | None, frames: Frames | None = None
) -> Tensor:
    check_norm(name, norm)
    axes = transform_axes(x, spec, name, number, is_complex=False)
    n, frequency = axes.size(axes.names[-1]), f"{axes.names[-1]}'"

    def forward(x: Array) -> Result:
        if ends_in_memory_order(axes, x.ndim, x):
            return real_transform(x, axes.transformed, norm)
        return pair_array(library().rfftn(x, axes=axes.transformed, norm=norm), axes.pair_position)

    def backward(g: Array) -> Result:
        if ends_in_memory_order(axes, g.ndim - 1, g):
            factors = multiplicities(n, 0.5)
            return inverse_real_transform(g, axes.transformed, n, ADJOINT_NORM[norm], factors)
        *leading, last = axes.transformed
        spectrum = complex_array(g, axes.pair_position) * along_axis(last, g.ndim - 1, multiplicities(n, 0.5))
        spectrum = library().ifftn(spectrum, axes=leading, norm=ADJOINT_NORM[norm])
        return np.asarray(library().irfft(spectrum, n, last, ADJOINT_NORM[norm]))

    sizes = {PAIR.name: 2, frequency: n // 2 + 1}
    rows = TransformedRows(axes, TransformKind.RFFT, norm, frames=frames)
    return apply_transform(
        name, axes, axes.result(is_complex=True, last=frequency), sizes, forward, backward, label, rows
    )


def apply_transform(
    name: str,
    axes: TransformAxes,
    result: ShapeSpec,
    sizes: dict[str, int],
    forward: Callable[[Array], Result],
    backward: Callable[[Array], Result],
    label: str | None,
    rows: TransformedRows,
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
class TransformedRows:
    """The transform of one axis, as one of rows if it is the last one; `size` is its length in the result, if that is
    not the length in the operand."""

    axes: TransformAxes
    kind: TransformKind
    norm: Norm
    size: int | None = None
    frames: Frames | None = None

    def transforms(self) -> RowTransforms | None:
        axes, count = self.axes, len(self.axes.x.dims) - (self.kind is not TransformKind.RFFT)
        if axes.pair_position != count or axes.transformed != (count - 1,):
            return None
        length = axes.size(axes.names[-1]) if self.size is None else self.size
        unscaled = "forward" if self.kind.is_inverse else "backward"
        scale = 1.0 if self.norm == unscaled else length**-0.5 if self.norm == "ortho" else 1 / length
        return RowTransforms(self.kind, length, scale, self.frames)


def ends_in_memory_order(axes: TransformAxes, count: int, array: Array) -> bool:
    """Whether the last of the axes to transform is the last of `count` axes, and is followed by that of pairs."""
    return array.size > 0 and axes.pair_position == count and axes.transformed[-1] == count - 1


def multiplicities(n: int, inner: float) -> Array:
    """A factor for each frequency of `n` real numbers: `inner` for those that stand for two, conjugate numbers."""
    factors = np.full(n // 2 + 1, inner, np.float32)
    factors[0] = 1
    if n % 2 == 0:
        factors[-1] = 1
    return factors


def along_axis(axis: int, count: int, factors: Array) -> Array:
    """The factors along one of `count` axes."""
    return factors.reshape([-1 if n == axis else 1 for n in range(count)])


def check_norm(name: str, norm: object) -> None:
    if norm not in ADJOINT_NORM:
        raise CodeError(f"oc.fft.{name}: `norm` must be 'backward', 'ortho' or 'forward', not {norm!r}"[:200])
