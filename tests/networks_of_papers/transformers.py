"""Transformers."""

from __future__ import annotations

import numpy as np

import ocannl as oc

from .layers import F, dense, layer_norm, t_dense, t_layer_norm
from .network import Input, ids, network
from .twin import torch

WIDTH, HEADS, INNER, VOCABULARY = 512, 8, 2048, 37000
SMOOTHING = 0.1


def positions(length):
    angles = np.arange(length)[:, None] / 10000.0 ** (2 * np.arange(WIDTH // 2) / WIDTH)
    return np.stack([np.sin(angles), np.cos(angles)], 2).reshape(length, WIDTH).astype("float32")


@oc.op
def attention(x, y, *, mask):
    """Of places `s` of `x` to places `t` of `y`."""
    width = WIDTH // HEADS
    q, k, v = (oc.param(name, oc.xavier(), o=[HEADS, width]) for name in "qkv")
    out = oc.param(oc.xavier(), o=[WIDTH])
    scores = oc.einsum("b,s|h,d; b,t|h,d => b,s|h,t", q @ x, k @ y) / width**0.5
    weights = oc.softmax(oc.where(mask, scores, -np.inf), "...|ht => ...|h")
    return out @ oc.einsum("b,s|h,t; b,t|h,d => b,s|h,d", weights, v @ y)


@oc.op
def feed_forward(x):
    return dense(oc.relu(dense(x, outputs=INNER)), outputs=WIDTH)


@oc.op
def encoder_layer(x, *, mask):
    x = layer_norm(x + attention(x, x, mask=mask))
    return layer_norm(x + feed_forward(x))


@oc.op
def decoder_layer(x, memory, *, past, mask):
    x = layer_norm(x + attention(x, x, mask=past))
    x = layer_norm(x + attention(x, memory, mask=mask))
    return layer_norm(x + feed_forward(x))


def t_attention(x, y, w, mask):
    q, k, v = (torch.einsum("hdi,bsi->bhsd", w[name], z) for name, z in (("q", x), ("k", y), ("v", y)))
    seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return torch.einsum("bhsd,ohd->bso", seen, w["out"])


def t_feed_forward(x, w):
    return t_dense(F.relu(t_dense(x, w("dense"))), w("dense"))


@network(
    seconds=171, learning_rate=0.05, x=ids(VOCABULARY, 2, 24), y=ids(VOCABULARY, 2, 21),
    length=Input(lambda rng: np.array([24, 17], "int32"), 1),
)  # fmt: skip
def transformer():
    """The base model of Vaswani et al. 2017 with two layers each instead of six: one table for words of both languages
    and for the output, sinusoids, norms after the sums, smoothed labels, sources of several lengths."""

    def loss(x, y, length):
        table = oc.param(oc.normal(std=WIDTH**-0.5), o=[VOCABULARY, WIDTH])
        mask = oc.einsum("b|; t => b0|0t", length, oc.iota(24), combine="gt")
        past = oc.einsum("s; t => s|0t", oc.iota(20), oc.iota(20), combine="ge")
        h = table.take(x) * WIDTH**0.5 + oc.tensor(positions(24), batch_axes=1)
        for _ in range(2):
            h = encoder_layer(h, mask=mask)
        memory, shifted = h, oc.concat("b,t^1| => b,t|", y)
        h = table.take(shifted) * WIDTH**0.5 + oc.tensor(positions(20), batch_axes=1)
        for _ in range(2):
            h = decoder_layer(h, memory, past=past, mask=mask)
        scores = oc.log_softmax(oc.einsum("b,t|d; v,d => b,t|v", h, table))
        wanted = oc.concat("b,1^t| => b,t|", y)
        return -((1 - SMOOTHING) * oc.pick(scores, wanted).mean() + SMOOTHING * scores.mean())

    def reference(w, x, y, length):
        mask = (torch.arange(24) < length[:, None])[:, None, None]
        past = torch.ones(20, 20).tril().bool()
        h = w["table"][x] * WIDTH**0.5 + torch.tensor(positions(24))
        for _ in range(2):
            layer = w("encoder_layer")
            h = t_layer_norm(h + t_attention(h, h, layer("attention"), mask), layer("layer_norm"))
            h = t_layer_norm(h + t_feed_forward(h, layer("feed_forward")), layer("layer_norm"))
        memory, h = h, w["table"][y[:, :-1]] * WIDTH**0.5 + torch.tensor(positions(20))
        for _ in range(2):
            layer = w("decoder_layer")
            h = t_layer_norm(h + t_attention(h, h, layer("attention"), past), layer("layer_norm"))
            h = t_layer_norm(h + t_attention(h, memory, layer("attention"), mask), layer("layer_norm"))
            h = t_layer_norm(h + t_feed_forward(h, layer("feed_forward")), layer("layer_norm"))
        scores = (h @ w["table"].T).flatten(0, 1)
        return F.cross_entropy(scores, y[:, 1:].flatten(), label_smoothing=SMOOTHING)

    return loss, reference
