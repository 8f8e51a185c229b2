"""Attention with parameters."""

from __future__ import annotations

from ocannl.base.errors import ArgumentError
from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.cache import CacheView
from ocannl.nn.layer import layer
from ocannl.nn.masks import causal_mask, window_mask
from ocannl.nn.operand_axes import check_sequence
from ocannl.nn.positions import alibi, positions_of, rotary


@layer
def attention(
    x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None, cache: CacheView | None = None, *,
    heads: int, kv_heads: int | None = None, size: int | None = None, causal: bool = False, window: int | None = None,
    rotary_base: float | None = None, interleaved: bool = False, use_alibi: bool = False, bias: bool = True,
    rate: float = 0.0, init: object = None,
) -> Tensor:  # fmt: skip
    """Multi-head attention of `x` to itself, or to `memory` (cross attention).

    Queries see the keys where `mask` is not 0; if `causal`, no later ones, and with `window` only that many. There are
    `kv_heads` heads of keys and values, by default `heads`; fewer are shared by consecutive heads of queries, and 1 is
    multi-query attention. The `size` of a head is the width of `x` divided by `heads` by default. `rotary_base` turns
    queries and keys by their positions, `use_alibi` adds a bias of the distance, and `rate` is that of dropout on the
    weights. With a `cache`, `x` continues the sequence of a decoder, and the keys and values of `memory` are computed
    once.

    Shapes: `..b.., t|c; ..b.., s|c' => ..b.., t|c`; the mask broadcasts to `..b..|heads, t, s`; `w_q` is
            `c -> heads * size`, `w_k` and `w_v` are `c' -> kv_heads * size`, and `w_o` is `heads * size -> c`.
    Init:   `w_q`, `w_k`, `w_v`, `w_o` by `init`, `oc.xavier()` by default; `b_q`, `b_k`, `b_v`, `b_o` 0.
    Raises: ArgumentError if `heads` does not divide the width of `x`, without `size`.
    Source: Vaswani et al. 2017; Shazeer 2019; Ainslie et al. 2023; Beltagy, Peters, Cohan 2020.
    """
    for t in (x,) if memory is None else (x, memory):
        check_sequence(t, "attention")
    width = x.dims[-1]
    if size is None and width % heads:
        operand = f"the width of `{x.label}`, {width}"
        raise ArgumentError(f"nn.attention: `heads` is {heads}, which does not divide {operand}; give `size=`")
    kv_heads, size = kv_heads or heads, size or width // heads
    source = x if memory is None else memory

    def projected(t: Tensor, name: str, units: int) -> Tensor:
        w = oc.param(f"w_{name}", oc.xavier() if init is None else init, o=[units])
        return w @ t + oc.param(f"b_{name}", 0.0, o=[units]) if bias else w @ t

    q, k, v = (
        oc.einsum("...|(h d) => ...|h, d", projected(t, name, count * size), h=count)
        for t, name, count in ((x, "q", heads), (source, "k", kv_heads), (source, "v", kv_heads))
    )
    query_positions = positions_of(x) if cache is None else cache.query_positions
    key_positions = query_positions if memory is None else positions_of(memory)
    if rotary_base is not None:
        q = rotary(q, query_positions, base=rotary_base, interleaved=interleaved)
        k = rotary(k, key_positions, base=rotary_base, interleaved=interleaved)
    if cache is not None and memory is not None:
        k, v = cache.of_memory(k, v)
    elif cache is not None:
        k, v, mask = cache.extended(k, v)
        key_positions = cache.key_positions
    shown = [] if mask is None else [mask]
    shown += [causal_mask(query_positions, key_positions)] if causal and (cache is None or memory is not None) else []
    shown += [window_mask(query_positions, key_positions, width=window)] if window is not None else []
    together = shown[0] if shown else None
    for other in shown[1:]:
        together = together & other
    bias_of_scores = alibi(heads, query_positions, key_positions) if use_alibi else None
    y = oc.scaled_dot_product_attention(q, k, v, together, bias=bias_of_scores, rate=rate)
    return projected(oc.einsum("...|h, d => ...|(h d)", y), "o", width)
