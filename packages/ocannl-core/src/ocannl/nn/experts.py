"""Mixtures of experts."""

from __future__ import annotations

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer


@layer
def experts(x: Tensor, *, count: int, inner: int, top_k: int = 2, init: object = None) -> Tensor:
    """The sum of the results of `top_k` of `count` SwiGLU networks, chosen and weighted for each cell by a router.

    The router is a dense layer without a bias, `router`; the weights are the softmax of the `top_k` largest of its
    results. All experts are computed, and the results of the others are multiplied by 0.

    Shapes: `...|c => ...|c`; `gate` and `up` are `c -> count, inner`, and `down` is `inner -> count, c`.
    Init:   by `init`, `oc.xavier()` by default.
    Source: Shazeer et al. 2017; Jiang et al. 2024 (Mixtral).
    """
    first = oc.xavier() if init is None else init
    router = oc.param(first, o=[count])
    scores = router @ x
    _, best = oc.topk(scores, top_k)
    chosen = oc.einsum("...|k; e => ...|k, e", best, oc.iota(count), combine="eq").max("...|k, e => ...|e")
    weights = oc.softmax(oc.where(chosen, scores, -float("inf")))
    gate = oc.param(first, o=[count, inner])
    up = oc.param(first, o=[count, inner])
    hidden = oc.silu(gate @ x) * (up @ x)
    down = oc.param(first, o=[count, x.dims[-1]], i=[inner])
    return oc.einsum("...|e; ...|e, i; i -> e, c => ...|c", weights, hidden, down)
