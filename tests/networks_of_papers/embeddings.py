"""Networks whose parameters are mostly tables of vectors."""

from __future__ import annotations

import numpy as np

import ocannl as oc

from .layers import F, dense, t_dense
from .network import bits, ids, network, uniform
from .twin import torch


@network(seconds=60, learning_rate=0.5, center=ids(30000, 256), context=ids(30000, 256), negative=ids(30000, 256, 5))
def word2vec():
    """Skip-gram with five negative samples for each pair (Mikolov et al. 2013), 300 dimensions, 30000 words."""

    def loss(center, context, negative):
        vectors = oc.param("vectors", oc.normal(std=0.1), o=[30000, 300])
        outputs = oc.param("outputs", oc.normal(std=0.1), o=[30000, 300])
        v = vectors.take(center)
        positive = oc.einsum("b|d; b|d => b|", v, outputs.take(context))
        sampled = oc.einsum("b|d; b,k|d => b,k|", v, outputs.take(negative))
        return oc.softplus(-positive).mean() + oc.softplus(sampled).sum("b,k| => b|").mean()

    def reference(w, center, context, negative):
        v, u, n = w["vectors"][center], w["outputs"][context], w["outputs"][negative]
        positive, sampled = (v * u).sum(1), torch.einsum("bd,bkd->bk", v, n)
        return -F.logsigmoid(positive).mean() - F.logsigmoid(-sampled).sum(1).mean()

    return loss, reference


# DLRM: Naumov et al. 2019, as for the Criteo Kaggle data, whose tables are cut to 2000 rows.
ROWS = [1460, 583, 2000, 2000, 305, 24, 2000, 633, 3, 2000, 2000, 2000, 2000, 26, 2000, 2000, 10, 2000, 2000, 4, 2000]
ROWS += [18, 15, 2000, 105, 2000]
PAIRS = np.array([27 * i + j for i in range(27) for j in range(i)], "int32")


@oc.op
def relu_mlp(x, *, widths):
    for width in widths:
        x = oc.relu(dense(x, outputs=width))
    return x


def t_relu_mlp(x, w, depth):
    for _ in range(depth):
        x = F.relu(t_dense(x, w("dense")))
    return x


@network(seconds=21, learning_rate=0.02, x=uniform(128, 13, high=5.0), category=ids(2**20, 128, 26), y=bits(128))
def dlrm():
    """Vectors of 26 categories and of the numbers, the dot products of all pairs, and a network on top."""

    def loss(x, category, y):
        numbers = relu_mlp(oc.log1p(x), widths=[512, 256, 64, 16], label="bottom")
        vectors = [numbers]
        for n, rows in enumerate(ROWS):
            table = oc.param(f"table_{n}", oc.normal(std=0.3), o=[rows, 16])
            vectors.append(table.take(oc.einsum(f"b,{n}| => b|", category) % rows))
        stacked = oc.stack(vectors)
        products = oc.einsum("...|id; ...|jd => ...|ij", stacked, stacked)
        pairs = oc.einsum("...|i,j => ...|(i j)", products).take(PAIRS)
        joint = oc.concat("...|d; ...|p => ...|d^p", numbers, pairs)
        score = oc.einsum("b|0 => b|", dense(relu_mlp(joint, widths=[512, 256], label="top"), outputs=1))
        return (oc.softplus(score) - y * score).mean()

    def reference(w, x, category, y):
        numbers = t_relu_mlp(torch.log1p(x), w("bottom"), 4)
        vectors = [numbers, *(w[f"table_{n}"][category[:, n] % rows] for n, rows in enumerate(ROWS))]
        stacked = torch.stack(vectors, 1)
        products = stacked @ stacked.transpose(1, 2)
        i, j = torch.tril_indices(27, 27, -1)
        joint = torch.cat([numbers, products[:, i, j]], 1)
        score = t_dense(t_relu_mlp(joint, w("top"), 2), w("dense"))[:, 0]
        return F.binary_cross_entropy_with_logits(score, y)

    return loss, reference


@network(seconds=30, learning_rate=0.05, x=ids(10000, 256, 39), y=bits(256))
def deep_fm():
    """DeepFM (Guo et al. 2017): a factorization machine of 39 fields beside a network on the same vectors."""

    def loss(x, y):
        linear = oc.param("linear", oc.normal(std=0.1), o=[10000])
        vectors = oc.param("vectors", oc.normal(std=0.1), o=[10000, 10]).take(x)
        total = vectors.sum("b,f|d => b|d")
        pairs = 0.5 * (total**2 - (vectors**2).sum("b,f|d => b|d")).sum("b|d => b|")
        deep = dense(relu_mlp(oc.einsum("b,f|d => b|(f d)", vectors), widths=[400] * 3), outputs=1)
        score = linear.take(x).sum("b,f| => b|") + pairs + oc.einsum("b|0 => b|", deep)
        return (oc.softplus(score) - y * score).mean()

    def reference(w, x, y):
        vectors = w["vectors"][x]
        pairs = 0.5 * (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(1)
        deep = t_dense(t_relu_mlp(vectors.flatten(1), w("relu_mlp"), 3), w("dense"))[:, 0]
        return F.binary_cross_entropy_with_logits(w["linear"][x].sum(1) + pairs + deep, y)

    return loss, reference
