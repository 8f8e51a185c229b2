"""Graphs and sets of points."""

from __future__ import annotations

import numpy as np

import ocannl as oc

from .layers import F, dense, t_dense
from .network import Input, ids, network, normal
from .twin import torch

NODES = 1024


def links(count, probability):
    """A random symmetric relation with loops."""

    def draw(rng):
        near = rng.uniform(size=(count, count)) < probability
        return (near | near.T | np.eye(count, dtype=bool)).astype("float32")

    return Input(draw, 1)


@network(
    seconds=75, learning_rate=0.05, x=normal(NODES, 1433, std=0.1), adjacency=links(NODES, 0.002), y=ids(7, NODES)
)
def gat():
    """The graph attention network of Velickovic et al. 2018 for Cora, on 1024 nodes: eight heads of eight, then one."""

    @oc.op
    def layer(x, adjacency, *, heads, features):
        w = oc.param(oc.xavier(), o=[heads, features])
        source, target = (oc.param(name, oc.normal(std=0.3), o=[heads, features]) for name in ("source", "target"))
        h = w @ x
        of_source = oc.einsum("n|hf; hf => n|h", h, source)
        of_target = oc.einsum("m|hf; hf => m|h", h, target)
        scores = oc.leaky_relu(oc.einsum("n|h; m|h => n|hm", of_source, of_target, combine="add"), slope=0.2)
        scores = oc.where(oc.einsum("n|m => n|0m", adjacency) > 0, scores, -np.inf)
        return oc.einsum("n|hm; m|hf => n|hf", oc.softmax(scores, "...|hm => ...|h"), h)

    def loss(x, adjacency, y):
        h = oc.elu(oc.einsum("n|hf => n|(hf)", layer(x, adjacency, heads=8, features=8)))
        return oc.cross_entropy(oc.einsum("n|0f => n|f", layer(h, adjacency, heads=1, features=7)), y).mean()

    def reference(w, x, adjacency, y):
        def t_layer(x, w):
            h = torch.einsum("nc,hfc->nhf", x, w["w"])
            of_source, of_target = (h * w["source"]).sum(2), (h * w["target"]).sum(2)
            scores = F.leaky_relu(of_source[:, None] + of_target[None], 0.2)
            scores = scores.masked_fill(adjacency[..., None] == 0, -torch.inf)
            return torch.einsum("nmh,mhf->nhf", scores.softmax(1), h)

        h = F.elu(t_layer(x, w("layer")).flatten(1))
        return F.cross_entropy(t_layer(h, w("layer"))[:, 0], y)

    return loss, reference


@oc.op
def batch_norm(x):
    """Over all but the last axis."""
    gain = oc.param(oc.uniform(0.5, 1.5), o=[x.dims[-1]])
    bias = oc.param(o=[x.dims[-1]])
    centered = x - x.mean("...|c => c")
    return gain * centered * oc.recip_sqrt((centered**2).mean("...|c => c") + 1e-5) + bias


def t_batch_norm(x, w):
    return F.batch_norm(x.flatten(0, -2), None, None, w["gain"], w["bias"], training=True).view(x.shape)


def clouds(count, points):
    """Ellipsoids of several sizes and places: normalization over alike examples would magnify rounding errors."""

    def draw(rng):
        size, center = rng.uniform(0.1, 1, (count, 1, 3)), rng.normal(size=(count, 1, 3))
        return (size * rng.normal(size=(count, points, 3)) + center).astype("float32")

    return Input(draw, 2)


@network(seconds=110, learning_rate=0.001, x=clouds(8, 1024), y=ids(40, 8))
def point_net():
    """The classifier of Qi et al. 2017 for ModelNet40: 1024 points, both alignment networks, without dropout."""

    @oc.op
    def layers(x, *, widths):
        for n, width in enumerate(widths):
            w = oc.param(f"w_{n}", oc.kaiming(), o=[width])
            x = oc.relu(batch_norm(w @ x))
        return x

    @oc.op
    def alignment(x, *, size):
        h = layers(x, widths=[64, 128, 1024]).max("bn|c => b|c")
        w = oc.param(oc.normal(std=0.001), o=[size, size])
        return w @ layers(h, widths=[512, 256]) + np.eye(size, dtype="float32")

    def loss(x, y):
        x = oc.einsum("bn|i; b|ij => bn|j", x, alignment(x, size=3))
        x = layers(x, widths=[64, 64])
        a = alignment(x, size=64)
        x = layers(oc.einsum("bn|i; b|ij => bn|j", x, a), widths=[64, 128, 1024])
        scores = dense(layers(x.max("bn|c => b|c"), widths=[512, 256]), outputs=40)
        apart = oc.einsum("b|ij; b|kj => b|ik", a, a) - np.eye(64, dtype="float32")
        return oc.cross_entropy(scores, y).mean() + 0.001 * (apart**2).sum("b|ij => b|").mean()

    def reference(w, x, y):
        def t_layers(x, w, depth):
            for n in range(depth):
                x = F.relu(t_batch_norm(x @ w[f"w_{n}"].T, w("batch_norm")))
            return x

        def t_alignment(x, w, size):
            h = t_layers(x, w("layers"), 3).amax(1)
            return torch.einsum("ijf,bf->bij", w["w"], t_layers(h, w("layers"), 2)) + torch.eye(size)

        x = x @ t_alignment(x, w("alignment"), 3)
        x = t_layers(x, w("layers"), 2)
        a = t_alignment(x, w("alignment"), 64)
        x = t_layers(x @ a, w("layers"), 3)
        scores = t_dense(t_layers(x.amax(1), w("layers"), 2), w("dense"))
        apart = a @ a.transpose(1, 2) - torch.eye(64)
        return F.cross_entropy(scores, y) + 0.001 * (apart**2).sum((1, 2)).mean()

    return loss, reference
