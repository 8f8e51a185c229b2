"""Normalization layers."""

from __future__ import annotations

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer


@layer
def layer_norm(
    x: Tensor, *, axes: int | None = None, eps: float = 1e-5, affine: bool = True, bias: bool = True
) -> Tensor:
    """`gain * (x - mean) / sqrt(var + eps) + b`, with moments over the last `axes` output axes, by default over all.

    Shapes: those of `x`; `gain` and `b` have the normalized axes. Without `affine` there are none.
    Init:   `gain` 1, `b` 0.
    Source: Ba, Kiros, Hinton 2016.
    """
    y = standardized(x, _mean_over(axes), eps)
    return _scaled(y, axes, bias) if affine else y


@layer
def rms_norm(x: Tensor, *, axes: int | None = None, eps: float = 1e-6, affine: bool = True) -> Tensor:
    """`gain * x / sqrt(mean(x**2) + eps)`, with a mean over the last `axes` output axes, by default over all.

    Shapes: those of `x`; `gain` has the normalized axes. Without `affine` there is none.
    Init:   `gain` 1.
    Source: Zhang, Sennrich 2019.
    """
    y = x * oc.recip_sqrt((x * x).mean(_mean_over(axes)) + eps)
    return _scaled(y, axes, bias=False) if affine else y


def standardized(x: Tensor, spec: str, eps: float) -> Tensor:
    """`(x - mean) / sqrt(var + eps)`, where `spec` leaves axes of size 1 instead of those that are reduced."""
    return (x - x.mean(spec)) * oc.recip_sqrt(x.var(spec) + eps)


def _mean_over(axes: int | None) -> str:
    """The spec of a mean over the last output axes, which remain with size 1; over all of them if `axes` is None."""
    if axes is None:
        return "...|..n.. => ...|"
    return f"...|..a.., {_names(axes)} => ...|..a.., {', '.join('0' * axes)}"


def _scaled(y: Tensor, axes: int | None, bias: bool) -> Tensor:
    """`gain * y + b`, with parameters of the last output axes, or of all of them."""
    row = "..n.." if axes is None else f"..a.., {_names(axes)}"
    spec = f"...|{row}; {row.removeprefix('..a.., ')} => ...|{row}"
    y = oc.einsum(spec, y, oc.param("gain", 1.0))
    return oc.einsum(spec, y, oc.param("b", 0.0), combine="add") if bias else y


def _names(axes: int) -> str:
    return ", ".join(f"n{number}" for number in range(axes))
