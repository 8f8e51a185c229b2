"""Complex numbers as pairs: their parts, and arithmetic."""

from __future__ import annotations

from ocannl.infer.logic import pointwise
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.concat import concat
from ocannl.lang.ops.einsum import einsum

ROW = "...|...->..o.."
_LEFT = contraction("left", pointwise(2), lambda x, y: x, None)
_RIGHT = contraction("right", pointwise(2), lambda x, y: y, None)


@composite
def pair(real: object, imaginary: object = 0.0) -> Tensor:
    """The complex numbers with these real and imaginary parts: pairs along a new last output axis.

        oc.fft.pair(x)

    Shapes: `..b..|..i..->..o..; ..b..|..i..->..o.. => ..b..|..i..->..o..,2`, broadcasting.
    Grad:   to each part that of its cells.
    Raises: ShapeError.
    """
    operands = embed(real), embed(imaginary)
    parts = [einsum(f"{ROW} => {ROW}, 0", apply(side, operands)) for side in (_LEFT, _RIGHT)]
    return concat(f"{ROW}, a; {ROW}, b => {ROW}, a^b", *parts)


@composite
def real(z: object) -> Tensor:
    """The real parts of complex numbers.

        oc.fft.real(z)

    Shapes: `..b..|..i..->..o..,2 => ..b..|..i..->..o..`.
    Grad:   to the real parts.
    Raises: ShapeError.
    """
    return einsum(f"{ROW}, 0 => {ROW}", concat(f"{ROW}, a^1 => {ROW}, a", z, a=1))


@composite
def imag(z: object) -> Tensor:
    """The imaginary parts of complex numbers.

        oc.fft.imag(z)

    Shapes: `..b..|..i..->..o..,2 => ..b..|..i..->..o..`.
    Grad:   to the imaginary parts.
    Raises: ShapeError.
    """
    return einsum(f"{ROW}, 0 => {ROW}", concat(f"{ROW}, 1^a => {ROW}, a", z, a=1))


@composite
def conj(z: object) -> Tensor:
    """The conjugates of complex numbers.

        oc.fft.conj(z)

    Shapes: those of `z`.
    Grad:   the conjugates of `g`.
    Raises: ShapeError.
    """
    z = embed(z)
    return pair(real(z), -imag(z))


@composite
def multiply(z: object, w: object) -> Tensor:
    """The products of complex numbers.

        oc.fft.multiply(z, w)

    Shapes: `..b..|..i..->..o..,2` for both, broadcasting.
    Grad:   to `z` the product of `g` and the conjugate of `w`, to `w` that of `g` and the conjugate of `z`.
    Raises: ShapeError.
    """
    z, w = embed(z), embed(w)
    a, b, c, d = real(z), imag(z), real(w), imag(w)
    return pair(a * c - b * d, a * d + b * c)


@composite
def magnitude(z: object) -> Tensor:
    """The absolute values of complex numbers.

        oc.fft.magnitude(z)

    Shapes: `..b..|..i..->..o..,2 => ..b..|..i..->..o..`.
    Grad:   `g * z / magnitude(z)`, and 0 where `z` is 0.
    Raises: ShapeError.
    """
    norm: Tensor = REGISTRY["norm"](z, f"{ROW}, p => {ROW}", p=2)
    return norm
