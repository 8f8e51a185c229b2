"""Attention: averages of values, weighted by the softmax of products of queries and keys."""

from __future__ import annotations

import math
from typing import Any

from ocannl.base.errors import DataError, ShapeError
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_number, python_number
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.index_tensors import iota
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.sampling import dropout
from ocannl.lang.ops.softmax import softmax


@composite
def scaled_dot_product_attention(
    q: object,
    k: object,
    v: object,
    mask: object = None,
    *,
    bias: object = None,
    causal: bool = False,
    scale: float | None = None,
    rate: float = 0.0,
) -> Tensor:
    """`softmax(scale * q @ k.T + bias) @ v` for each head, over the positions `s` of keys that a query `t` may see.

        y = oc.scaled_dot_product_attention(q, k, v, causal=True)

    A query sees the keys where `mask` is not 0, and if `causal` those at `s <= t`. `mask` and `bias` broadcast to the
    scores, `..b..|h, t, s`. `scale` is `1 / sqrt(d)` by default. With fewer heads `g` of keys and values, consecutive
    heads of queries share one (grouped-query attention). `rate` is that of dropout on the weights.

    Shapes: `..b.., t|h,d; ..b.., s|g,d; ..b.., s|g,e => ..b.., t|h,e`.
    Grad:   the derivatives of the formula.
    NaN:    where a query sees no key.
    Raises: ShapeError unless the heads of keys divide those of queries; DataError for a scale that is no number.
    Source: Vaswani et al. 2017; Ainslie et al. 2023.
    """
    q, k, v = embed(q), embed(k), embed(v)
    heads, size = _heads(q)
    groups, _ = _heads(k)
    if heads % groups:
        raise ShapeError(
            f"`{q.label}` has {heads} heads, and `{k.label}` has {groups}: the heads of keys and values divide those "
            "of queries"
        )
    if scale is not None and not is_number(scale):
        raise DataError(f"`scale` of oc.scaled_dot_product_attention is a number, not {scale!r}"[:200])
    factor = size**-0.5 if scale is None else python_number(scale)
    h, g = ("h", "h") if heads == groups else ("(g r)", "g")
    sizes: dict[str, Any] = {} if heads == groups else {"r": heads // groups}
    scores = einsum(f"..., t|{h}, d; ..., s|{g}, d => ...|{h}, t, s", q, k, **sizes) * factor
    if bias is not None:
        scores = scores + embed(bias)
    if causal:
        past = einsum("t; s => t, s", iota(_positions(q)), iota(_positions(k)), combine="ge")
        scores = PRIMITIVES["where"](past, scores, -math.inf)
    if mask is not None:
        scores = PRIMITIVES["where"](embed(mask), scores, -math.inf)
    weights = softmax(scores, "...|h, t, s => ...|h, t")
    weights = dropout(weights, rate) if rate else weights
    return einsum(f"...|{h}, t, s; ..., s|{g}, e => ..., t|{h}, e", weights, v, **sizes)


def _heads(t: Tensor) -> tuple[int, int]:
    """The number of heads, and the size of one. Raises: ShapeError unless these are the output axes."""
    output = t.shape.output
    if len(output) != 2 or not t.shape.batch or t.shape.input:
        raise ShapeError(
            f"`{t.label}` is {t.shape}: attention takes queries, keys and values of the shape `..b.., t|heads, size`; "
            'oc.einsum("...|(h d) => ...|h,d", x, h=heads) divides features among heads'
        )
    heads, size = t.dims[-2:]
    return heads, size


def _positions(t: Tensor) -> int:
    return t.dims[-3]


REGISTRY.update(scaled_dot_product_attention=scaled_dot_product_attention)
