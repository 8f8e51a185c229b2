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


@layer
def batch_norm(x: Tensor, *, momentum: float = 0.1, eps: float = 1e-5, affine: bool = True) -> Tensor:
    """`gain * (x - mean) / sqrt(var + eps) + b` for each channel, with moments over the batch and the spatial axes.

    In inference the moments are running averages, the states `mean` and `var`, which training updates:
    `(1 - momentum) * average + momentum * moment`, of the unbiased variance.

    Shapes: `...|..s.., c`; parameters and states are `c`. Without `affine` there are no parameters.
    Init:   `gain` 1, `b` 0, `mean` 0, `var` 1.
    Source: Ioffe, Szegedy 2015.
    """
    running_mean, running_var = oc.state("mean", 0.0), oc.state("var", 1.0)
    mean, var = running_mean, running_var
    if oc.is_training():
        spec, batch, cells = "..batch..|..s.., c => c", oc.Dim("batch"), oc.Dim("cells")
        mean, var = x.mean(spec, batch=batch, s=cells), x.var(spec)
        count = batch * cells
        running_mean[...] = (1 - momentum) * running_mean + momentum * mean
        running_var[...] = (1 - momentum) * running_var + momentum * count / (count - 1) * var
    of_channels = "...|..s.., c; c => ...|..s.., c"
    y = oc.einsum(of_channels, oc.einsum(of_channels, x, mean, combine="sub"), oc.recip_sqrt(var + eps))
    return _scaled(y, 1, bias=True) if affine else y


@layer
def group_norm(x: Tensor, *, groups: int, eps: float = 1e-5, affine: bool = True) -> Tensor:
    """`gain * (x - mean) / sqrt(var + eps) + b`, with the moments of each group of channels over the spatial axes.

    Shapes: `...|..s.., c`, where `c` is a multiple of `groups`; `gain` and `b` are `c`.
    Init:   `gain` 1, `b` 0.
    Source: Wu, He 2018.
    """
    moments, spread = "...|..s.., (g c) => ...|g", "...|..s.., (g c); ...|g => ...|..s.., (g c)"
    centered = oc.einsum(spread, x, x.mean(moments, g=groups), combine="sub", g=groups)
    y = oc.einsum(spread, centered, oc.recip_sqrt(x.var(moments, g=groups) + eps), g=groups)
    return _scaled(y, 1, bias=True) if affine else y


@layer
def instance_norm(x: Tensor, *, eps: float = 1e-5, affine: bool = False) -> Tensor:
    """`(x - mean) / sqrt(var + eps)`, with the moments of each channel over the spatial axes; with `affine`, times
    `gain` plus `b`.

    Shapes: `...|..s.., c`; `gain` and `b` are `c`.
    Init:   `gain` 1, `b` 0.
    Source: Ulyanov, Vedaldi, Lempitsky 2016.
    """
    y = standardized(x, "...|..s.., c => ...|c", eps)
    return _scaled(y, 1, bias=True) if affine else y


def standardized(x: Tensor, spec: str, eps: float) -> Tensor:
    """`(x - mean) / sqrt(var + eps)`, with the moments by `spec`, whose result must broadcast to `x`."""
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
