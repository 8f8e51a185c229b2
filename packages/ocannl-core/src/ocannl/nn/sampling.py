"""The choice of the next token, from logits."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def next_tokens(
    logits: Array,
    rng: np.random.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Array:
    """One token for each row of logits: the likeliest at temperature 0, else drawn by `softmax(logits / temperature)`.

    `top_k` leaves the k likeliest tokens; `top_p` the likeliest tokens that together have at least this probability
    (nucleus sampling, Holtzman et al. 2020).
    """
    if temperature == 0:
        return np.asarray(logits.argmax(-1))
    order = np.argsort(-logits, -1, kind="stable")[:, : top_k or None]
    p = softmax(np.take_along_axis(logits, order, -1).astype("float64") / temperature)
    if top_p is not None:
        p[:, 1:] *= (p.cumsum(-1) < top_p)[:, :-1]  # the likeliest is always left
        p /= p.sum(-1, keepdims=True)
    drawn = (p.cumsum(-1) < rng.random((len(p), 1))).sum(-1)
    return np.asarray(np.take_along_axis(order, np.minimum(drawn, p.shape[-1] - 1)[:, None], -1)[:, 0])


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def log_softmax(x: Array) -> Array:
    shifted = x - x.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))
