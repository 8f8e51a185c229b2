"""Networks that attend to a memory: of sentences, of latent vectors, of sums."""

from __future__ import annotations

import numpy as np

import ocannl as oc

from .layers import F, dense, layer_norm, t_dense, t_layer_norm
from .network import ids, network, normal
from .twin import torch

SENTENCES, WORDS, EMBEDDING, HOPS = 50, 7, 20, 3


def position_encoding():
    j, k = np.arange(1, WORDS + 1)[:, None] / WORDS, np.arange(1, EMBEDDING + 1) / EMBEDDING
    return ((1 - j) - k * (1 - 2 * j)).astype("float32")


@network(
    seconds=30, learning_rate=0.05, story=ids(177, 32, SENTENCES, WORDS), question=ids(177, 32, WORDS), y=ids(177, 32)
)
def end_to_end_memory():
    """MemN2N for bAbI (Sukhbaatar et al. 2015): three hops, adjacent tables shared, position and time encoding."""

    def loss(story, question, y):
        code = oc.tensor(position_encoding())
        tables = [oc.param(f"table{n}", oc.normal(std=0.1), o=[177, EMBEDDING]) for n in range(HOPS + 1)]
        times = [oc.param(f"time{n}", oc.normal(std=0.1), o=[SENTENCES, EMBEDDING]) for n in range(HOPS + 1)]

        def sentences(n):
            return oc.einsum("b,n,j|d; j,d => b|n,d", tables[n].take(story), code) + times[n]

        u = oc.einsum("b,j|d; j,d => b|d", tables[0].take(question), code)
        for n in range(HOPS):
            weights = oc.softmax(oc.einsum("...|d; ...|n,d => ...|n", u, sentences(n)))
            u = u + oc.einsum("...|n; ...|n,d => ...|d", weights, sentences(n + 1))
        return oc.cross_entropy(oc.einsum("...|d; v,d => ...|v", u, tables[HOPS]), y).mean()

    def reference(w, story, question, y):
        code = torch.tensor(position_encoding()).to(w["table0"].dtype)

        def sentences(n):
            return (w[f"table{n}"][story] * code).sum(2) + w[f"time{n}"]

        u = (w["table0"][question] * code).sum(1)
        for n in range(HOPS):
            weights = torch.einsum("bd,bnd->bn", u, sentences(n)).softmax(1)
            u = u + torch.einsum("bn,bnd->bd", weights, sentences(n + 1))
        return F.cross_entropy(u @ w[f"table{HOPS}"].T, y)

    return loss, reference


@oc.op
def attention(x, y, *, heads, width):
    """Of places `s` of `x` to places `t` of `y`."""
    q, k, v = (oc.param(name, oc.xavier(), o=[heads, width // heads]) for name in "qkv")
    out = oc.param(oc.xavier(), o=[x.dims[-1]])
    scores = oc.einsum("...,s|h,d; ...,t|h,d => ...,s|h,t", q @ x, k @ y) / (width // heads) ** 0.5
    weights = oc.softmax(scores, "...|h,t => ...|h")
    return out @ oc.einsum("...,s|h,t; ...,t|h,d => ...,s|h,d", weights, v @ y)


def t_attention(x, y, w):
    q, k, v = (torch.einsum("hdi,bsi->bhsd", w[name], z) for name, z in (("q", x), ("k", y), ("v", y)))
    return torch.einsum("bhsd,ohd->bso", F.scaled_dot_product_attention(q, k, v), w["out"])


@network(seconds=190, learning_rate=0.02, x=normal(2, 1024, 64, batch_axes=2), y=ids(10, 2))
def perceiver():
    """A Perceiver (Jaegle et al. 2021): 128 latent vectors attend to 1024 inputs twice, by the same weights."""

    @oc.op
    def latent_block(z, x):
        z = z + attention(layer_norm(z), layer_norm(x), heads=1, width=64, label="cross")
        z = z + dense(oc.gelu(dense(layer_norm(z), outputs=512), approximate="none"), outputs=256)
        h = layer_norm(z)
        z = z + attention(h, h, heads=8, width=256, label="inner")
        return z + dense(oc.gelu(dense(layer_norm(z), outputs=512), approximate="none"), outputs=256)

    def loss(x, y):
        latents = oc.param(oc.normal(std=0.5), o=[128, 256])
        block = latent_block(label="latent_block")
        z = oc.einsum("t,c => b,t|c", latents, b=2)
        for _ in range(2):
            z = block(z, x)
        return oc.cross_entropy(dense(layer_norm(z.mean("b,t|c => b|c")), outputs=10), y).mean()

    def reference(w, x, y):
        def t_block(z, w):
            z = z + t_attention(t_layer_norm(z, w("layer_norm")), t_layer_norm(x, w("layer_norm")), w("cross"))
            h = t_layer_norm(z, w("layer_norm"))
            z = z + t_dense(F.gelu(t_dense(h, w("dense"))), w("dense"))
            h = t_layer_norm(z, w("layer_norm"))
            z = z + t_attention(h, h, w("inner"))
            h = t_layer_norm(z, w("layer_norm"))
            return z + t_dense(F.gelu(t_dense(h, w("dense"))), w("dense"))

        z = w["latents"].expand(2, -1, -1)
        for _ in range(2):
            z = t_block(z, w.block("latent_block"))
        return F.cross_entropy(t_dense(t_layer_norm(z.mean(1), w("layer_norm")), w("dense")), y)

    return loss, reference


@network(seconds=160, learning_rate=0.02, x=ids(256, 2, 129, batch_axes=1))
def linear_transformer():
    """Causal linear attention (Katharopoulos et al. 2020): sums over the past of outer products of keys and values."""

    @oc.op
    def linear_attention(x):
        q, k, v = (oc.param(name, oc.xavier(), o=[8, 32]) for name in "qkv")
        out = oc.param(oc.xavier(), o=[256])
        queries, keys = 1 + oc.elu(q @ x), 1 + oc.elu(k @ x)
        products = oc.einsum("b,t|h,d; b,t|h,e => b|h,d,e,t", keys, v @ x)
        sums = oc.cumsum(products, "...|h,d,e,t => ...|h,d,e")
        totals = oc.cumsum(oc.einsum("b,t|h,d => b|h,d,t", keys), "...|h,d,t => ...|h,d")
        above = oc.einsum("b,t|h,d; b|h,d,e,t => b,t|h,e", queries, sums)
        below = oc.einsum("b,t|h,d; b|h,d,t => b,t|h,0", queries, totals)
        return out @ (above / below)

    def loss(x):
        table = oc.param(oc.normal(), o=[256, 256])
        h = table.take(oc.concat("...|t^1 => ...,t|", x))
        for _ in range(2):
            h = layer_norm(h + linear_attention(h))
            h = layer_norm(h + dense(oc.relu(dense(h, outputs=1024)), outputs=256))
        return oc.cross_entropy(dense(h, outputs=256), oc.concat("b|1^t => b,t|", x)).mean()

    def reference(w, x):
        h = w["table"][x[:, :-1]]
        for _ in range(2):
            a = w("linear_attention")
            q, k, v = (torch.einsum("hdi,bti->bthd", a[name], h) for name in "qkv")
            q, k = 1 + F.elu(q), 1 + F.elu(k)
            sums = torch.einsum("bthd,bthe->bthde", k, v).cumsum(1)
            below = torch.einsum("bthd,bthd->bth", q, k.cumsum(1))[..., None]
            mixed = torch.einsum("bthd,bthde->bthe", q, sums) / below
            h = t_layer_norm(h + torch.einsum("bthe,ohe->bto", mixed, a["out"]), w("layer_norm"))
            h = t_layer_norm(h + t_dense(F.relu(t_dense(h, w("dense"))), w("dense")), w("layer_norm"))
        return F.cross_entropy(t_dense(h, w("dense")).transpose(1, 2), x[:, 1:])

    return loss, reference
