"""Products of vectors and matrices beside contractions: the cross product, and the Kronecker product."""

from __future__ import annotations

from string import ascii_letters

from ocannl.base.errors import ShapeError
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.indexed_rows import OUTPUT, axis_count
from ocannl.lang.ops.rotations import roll

_LAST_AXIS = "..b..|..i..->..r.., n => ..b..|..i..->..r.."


@composite
def cross(x: object, y: object) -> Tensor:
    """The cross product of vectors of three components, along the last output axis.

    Shapes: `...|...->..r.., 3; ...|...->..r.., 3 => ...|...->..r.., 3`, every row broadcasting.
    Grad:   to `x` `cross(y, g)`; to `y` `cross(g, x)`.
    Raises: ShapeError.
    """
    first, second = embed(x), embed(y)

    def rotated(t: Tensor, shift: int) -> Tensor:
        return roll(t, shift, _LAST_AXIS, n=3)

    return rotated(first, -1) * rotated(second, -2) - rotated(first, -2) * rotated(second, -1)


@composite
def kron(x: object, y: object) -> Tensor:
    """The Kronecker product: each cell of `x` times all of `y`, along equally many output axes, whose sizes multiply.

    Shapes: `..b..|i,j; ..b..|k,l => ..b..|(i k),(j l)`, and so for any number of axes.
    Grad:   to each operand, the sums of the products of `g` and the other operand.
    Raises: ShapeError, also for an unknown or different number of output axes.
    """
    first, second = embed(x), embed(y)
    rank, other_rank = axis_count(first, OUTPUT), axis_count(second, OUTPUT)
    if rank is None or rank != other_rank:
        axes = [f"`{t.label}` has {'an unknown number' if n is None else n}"
                for t, n in ((first, rank), (second, other_rank))]  # fmt: skip
        raise ShapeError(f"oc.kron takes equally many output axes, but {axes[0]} and {axes[1]}")
    names = [(ascii_letters[n], ascii_letters[26 + n]) for n in range(rank)]
    left, right = (",".join(pair[side] for pair in names) for side in range(2))
    merged = ",".join(f"({a} {b})" for a, b in names)
    return einsum(f"...|{left}; ...|{right} => ...|{merged}", first, second)


REGISTRY.update(cross=cross, kron=kron)
