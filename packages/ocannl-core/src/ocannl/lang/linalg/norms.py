"""Norms of matrices."""

from __future__ import annotations

from math import inf
from typing import Literal

from ocannl.base.errors import CodeError
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.linalg.decompositions import svdvals
from ocannl.lang.linalg.matrices import form_of
from ocannl.lang.ops.einsum import einsum

ORDERS = ("fro", "nuc", 1, -1, 2, -2, inf, -inf)


@composite
def norm(a: object, ord: Literal["fro", "nuc"] | float = "fro") -> Tensor:
    """The norm of a matrix. `oc.norm` is the norm of a vector.

        oc.linalg.norm(a, 2)

    `"fro"` is the root of the sum of squares, `"nuc"` the sum of the singular values, 2 and -2 the largest and smallest
    singular value, 1 and -1 the largest and smallest sum of absolute values in a column, `inf` and `-inf` those in a
    row.

    Shapes: `..b..|n->m => ..b..|`, or from `|m,n`.
    Grad:   that of the definition; of a maximum, split equally among the points that attain it.
    Raises: CodeError for other orders; ShapeError.
    """
    if isinstance(ord, bool) or ord not in ORDERS:
        raise CodeError(f"the order of a matrix norm must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {ord!r}")
    a = embed(a)
    form = form_of(a).spec("i", "j")
    if ord == "fro":
        frobenius: Tensor = REGISTRY["norm"](a, f"{form} => ...|")
        return frobenius
    if ord == "nuc" or ord in (2, -2):
        return einsum("...|k => ...|", svdvals(a), reduce={"nuc": "add", 2: "max", -2: "min"}[ord])
    kept = "j" if ord in (1, -1) else "i"
    sums = einsum(f"{form} => ...|{kept}", REGISTRY["abs"](a))
    return einsum(f"...|{kept} => ...|", sums, reduce="max" if ord > 0 else "min")
