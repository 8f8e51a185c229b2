"""Networks that are rendered."""

from __future__ import annotations

import numpy as np

import ocannl as oc

from .layers import F, dense, t_dense
from .network import Input, network, normal, uniform
from .twin import torch

RAYS, SAMPLES = 32, 64
FAR = 1e10  # the length of the last interval of a ray


def depths(*dims):
    return Input(lambda rng: np.sort(rng.uniform(0, 1, dims), axis=1).astype("float32"), 2)


def directions(count):
    """Unit vectors."""

    def draw(rng):
        v = rng.normal(size=(count, 3))
        return (v / np.linalg.norm(v, axis=1, keepdims=True)).astype("float32")

    return Input(draw, 1)


def encoding(x, levels):
    """Sines and cosines of the coordinates times powers of two."""
    angles = oc.einsum("...|c; l => ...|(l c)", x, oc.tensor(np.pi * 2.0 ** np.arange(levels), dtype="float32"))
    return oc.concat("...|a; ...|b => ...|a^b", oc.sin(angles), oc.cos(angles))


def t_encoding(x, levels):
    angles = (np.pi * 2.0 ** torch.arange(levels).to(x.dtype)[:, None] * x[..., None, :]).flatten(-2)
    return torch.cat([torch.sin(angles), torch.cos(angles)], -1)


@network(
    seconds=95, learning_rate=0.05, origin=normal(RAYS, 3, std=0.1), direction=directions(RAYS),
    depth=depths(RAYS, SAMPLES), color=uniform(RAYS, 3),
)  # fmt: skip
def nerf():
    """The network and the volume rendering of NeRF (Mildenhall et al. 2020): eight layers of 256 units, one skip."""

    @oc.op
    def radiance(x, direction):
        points = encoding(x, 10)
        h = points
        for n in range(8):
            h = oc.relu(dense(h, outputs=256))
            if n == 4:
                h = oc.concat("...|a; ...|b => ...|a^b", points, h)
        density = oc.relu(oc.einsum("...|0 => ...|", dense(h, outputs=1, label="density")))
        feature = dense(h, outputs=256)
        seen = oc.einsum("r|d => r,s|d", encoding(direction, 4), s=SAMPLES)
        h = oc.relu(dense(oc.concat("...|a; ...|b => ...|a^b", feature, seen), outputs=128))
        return density, oc.sigmoid(dense(h, outputs=3))

    def loss(origin, direction, depth, color):
        points = oc.einsum("r|c => r0|c", origin) + oc.einsum("rs|; r|c => rs|c", depth, direction)
        density, colors = radiance(points, direction)
        density, depth = oc.einsum("rs| => r|s", density), oc.einsum("rs| => r|s", depth)
        following = oc.concat("r|1^s; r|e => r|s^e", depth, oc.full(FAR, b=[RAYS], o=[1]))
        optical = density * (following - depth)
        before = oc.concat("r|s^1 => r|1^s", optical).cumsum()
        weights = oc.exp(-before) * (1 - oc.exp(-optical))
        return ((oc.einsum("r|s; rs|c => r|c", weights, colors) - color) ** 2).mean()

    def reference(w, origin, direction, depth, color):
        w = w("radiance")
        points = t_encoding(origin[:, None] + depth[..., None] * direction[:, None], 10)
        h = points
        for n in range(8):
            h = F.relu(t_dense(h, w("dense")))
            if n == 4:
                h = torch.cat([points, h], -1)
        density = F.relu(t_dense(h, w("density")))[..., 0]
        seen = t_encoding(direction, 4)[:, None].expand(-1, SAMPLES, -1)
        h = F.relu(t_dense(torch.cat([t_dense(h, w("dense")), seen], -1), w("dense")))
        colors = torch.sigmoid(t_dense(h, w("dense")))
        optical = density * torch.cat([depth[:, 1:] - depth[:, :-1], FAR - depth[:, -1:]], 1)
        alpha = 1 - torch.exp(-optical)
        transmittance = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
        return F.mse_loss(torch.einsum("rs,rsc->rc", transmittance * alpha, colors), color)

    return loss, reference
