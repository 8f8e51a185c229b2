"""Mixtures of experts."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

from ocannl.base.errors import ArgumentError
from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.lang.dtypes import int32
from ocannl.nn.layer import layer
from ocannl.nn.operand_axes import feature_count


@layer
def experts(
    x: Tensor, *, count: int, inner: int, top_k: int = 2, capacity_factor: float | None = None,
    return_scores: bool = False, init: object = None,
) -> Any:  # fmt: skip
    """The sum of the results of `top_k` of `count` SwiGLU networks, chosen and weighted for each cell by a router.

    The router is a dense layer without a bias, `router`; the weights are the softmax of the `top_k` largest of its
    results. By default all experts are computed, and the results of the others are multiplied by 0. With a
    `capacity_factor` each expert computes only the cells that chose it, at most `capacity_factor` times their average
    number, rounded up. Beyond it cells are dropped, the first choices of all cells last: their result lacks this
    expert. With `return_scores` the results of the router are returned as well, for `nn.load_balancing_loss`.

    Shapes: `...|c => ...|c`; scores are `...|count`; `gate` and `up` are `c -> count, inner`, and `down` is
            `inner -> count, c`.
    Init:   by `init`, `oc.xavier()` by default.
    Source: Shazeer et al. 2017; Lepikhin et al. 2021 (GShard); Jiang et al. 2024 (Mixtral).
    """
    first = oc.xavier() if init is None else init
    router = oc.param(first, o=[count])
    gate = oc.param(first, o=[count, inner])
    up = oc.param(first, o=[count, inner])
    down = oc.param(first, o=[count, feature_count(x, "experts")], i=[inner])
    scores = router @ x
    best_scores, best = oc.topk(scores, top_k)
    if capacity_factor is not None:
        sizes: dict[str, Any] = {f"b{n}": size for n, size in enumerate(x.dims[: len(x.shape.batch)])}
        cells = prod(sizes.values())
        capacity = min(ceil(capacity_factor * top_k * cells / count), cells)
        batch, merged = ", ".join(sizes), f"({' '.join(sizes)})" if len(sizes) > 1 else next(iter(sizes), "0")
        cell, weights, choices = (oc.einsum(f"{batch}|c => {merged}|c,", t) for t in (x, oc.softmax(best_scores), best))
        y = _dispatched(cell, weights, choices, gate, up, down, count, capacity)
        y = oc.einsum(f"{merged}|c => {batch}|c,", y, **(sizes if len(sizes) > 1 else {}))
    else:
        weights = oc.softmax(oc.where(_is_chosen(best, count), scores, -float("inf")))
        hidden = oc.silu(gate @ x) * (up @ x)
        y = oc.einsum("...|e; ...|e, i; i -> e, c => ...|c", weights, hidden, down)
    return (y, scores) if return_scores else y


def load_balancing_loss(scores: Tensor, *, top_k: int = 2) -> Tensor:
    """A loss that has a router choose all experts equally often.

    It is the number of experts times the sum over experts of two factors: the share of cells that choose the expert,
    and its mean probability, by the softmax of the scores, through which gradients flow. It is `top_k` for equal
    choices and at most `count`, and is added to the loss of the task with a weight of about 0.01.

    Shapes: scores of the router, `...|count => 0`, as by `nn.experts(return_scores=True)`.
    Raises: ArgumentError if `top_k` exceeds the number of experts; ShapeError unless scores have one output axis.
    Source: Fedus et al. 2022 (Switch Transformers); Jiang et al. 2024 (Mixtral).
    """
    count = feature_count(scores, "load_balancing_loss")
    if top_k > count:
        raise ArgumentError(f"nn.load_balancing_loss: `top_k` is {top_k}, and the router chooses among {count}")
    _, best = oc.topk(scores, top_k)
    shares = _is_chosen(best, count).astype(scores.dtype).mean("...|e => e")
    return count * (shares * oc.softmax(scores).mean("...|e => e")).sum()


def _is_chosen(best: Tensor, count: int) -> Tensor:
    """Shapes: numbers of experts, `...|k => ...|count`."""
    return oc.einsum("...|k; e => ...|k, e", best, oc.iota(count), combine="eq").max("...|k, e => ...|e")


def _dispatched(
    x: Tensor, weights: Tensor, best: Tensor, gate: Tensor, up: Tensor, down: Tensor, count: int, capacity: int
) -> Tensor:
    """The weighted sums of the results of the best of `count` experts, each of which has `capacity` slots for cells.

    Shapes: `n|c; n|k; n|k => n|c`.
    """
    cells, top_k = best.dims
    choices = oc.einsum("n|k => (k n)", best)  # first choices first
    is_chosen = oc.einsum("p; e => p, e", choices, oc.iota(count), combine="eq").astype(int32)
    ordinal = (is_chosen * oc.cumsum(is_chosen, "p, e => e")).sum("p, e => p")  # among those of the expert, from 1
    slots = oc.where(ordinal <= capacity, choices * capacity + (ordinal - 1), -1)
    numbers = oc.einsum("n => (k n)", oc.iota(cells) + 1, k=top_k)
    cell_of_slot = oc.segment_sum(numbers, slots, count * capacity) - 1  # -1 for empty slots, whose rows are 0
    rows = oc.einsum("n|c => n, c", x).take(oc.einsum("(e s) => e, s|", cell_of_slot, e=count))
    hidden = oc.silu(oc.einsum("e, s|c; c -> e, i => e, s|i", rows, gate))
    hidden = hidden * oc.einsum("e, s|c; c -> e, i => e, s|i", rows, up)
    results = oc.einsum("e, s|i; i -> e, c => (e s), c", hidden, down)
    chosen = results.take(oc.einsum("(k n) => n|k", slots, k=top_k))
    return oc.einsum("n|k; n|k, c => n|c", weights, chosen)
