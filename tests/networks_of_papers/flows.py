"""Invertible networks."""

from __future__ import annotations

import numpy as np

import ocannl as oc

from .layers import F, image
from .network import network, normal
from .twin import torch

CHECKERBOARD = (np.indices((32, 32)).sum(0) % 2).astype("float32")[..., None]


@oc.op
def weight_normalized(x, *, channels, window=3):
    direction = oc.param(oc.normal(std=0.05), o=[window, window, x.dims[-1], channels])
    gain, bias = oc.param(oc.uniform(0.5, 1.0), o=[channels]), oc.param(oc.normal(std=0.1), o=[channels])
    return gain * oc.conv2d(x, direction / direction.norm("h,w,i,o => o"), padding="same") + bias


@oc.op
def residual_network(x, *, features, channels):
    x = weight_normalized(x, channels=features)
    for _ in range(2):
        h = weight_normalized(oc.relu(x), channels=features)
        x = x + weight_normalized(oc.relu(h), channels=features)
    return weight_normalized(oc.relu(x), channels=channels, window=1)


@oc.op
def scale_and_shift(x, *, features, channels):
    """What a coupling computes from the part that it leaves alone."""
    h = residual_network(x, features=features, channels=2 * channels)
    scale = oc.param(oc.uniform(0.5, 1.0), o=[channels])
    s = scale * oc.tanh(oc.concat("...|h,w,s^t => ...|h,w,s", h, s=channels))
    return s, oc.concat("...|h,w,s^t => ...|h,w,t", h, t=channels)


@network(seconds=202, learning_rate=0.01, x=normal(2, 32, 32, 3))
def real_nvp():
    """RealNVP for CIFAR-10 (Dinh, Sohl-Dickstein and Bengio 2017): ten couplings on two scales, each with two residual
    blocks of the eight, without batch normalization."""

    @oc.op
    def checkerboard(x, *, features, parity):
        size = x.dims[1]
        mask = abs(parity - CHECKERBOARD[:size, :size])
        s, t = scale_and_shift(mask * x, features=features, channels=x.dims[-1])
        s = (1 - mask) * s
        return mask * x + (1 - mask) * (x * oc.exp(s) + t), s.sum("...|h,w,c => ...|")

    @oc.op
    def channelwise(x, *, features, parity):
        a, b = halves(x)
        fixed, moved = (b, a) if parity else (a, b)
        s, t = scale_and_shift(fixed, features=features, channels=moved.dims[-1])
        moved = moved * oc.exp(s) + t
        a, b = (moved, fixed) if parity else (fixed, moved)
        return oc.concat("...|h,w,a; ...|h,w,b => ...|h,w,a^b", a, b), s.sum("...|h,w,c => ...|")

    def halves(x):
        half = x.dims[-1] // 2
        first = oc.concat("...|h,w,a^b => ...|h,w,a", x, a=half)
        return first, oc.concat("...|h,w,a^b => ...|h,w,b", x, a=half)

    def loss(x):
        total = 0.0
        for coupling, features, parity in LAYERS:
            if coupling == "split":
                x, z = halves(x)
                total = total - 0.5 * (z**2).sum("...|h,w,c => ...|")
            elif coupling == "squeeze":
                x = oc.einsum("...|(h p),(w q),c => ...|h,w,(c p q)", x, p=2, q=2)
            else:
                apply = checkerboard if coupling == "checkerboard" else channelwise
                x, log_determinant = apply(x, features=features, parity=parity)
                total = total + log_determinant
        return (0.5 * (x**2).sum("...|h,w,c => ...|") - total).mean() / 3072

    def reference(w, x):
        def t_weight_normalized(x, w):
            kernel = torch.nn.functional.normalize(w["direction"].flatten(0, 2), dim=0).view(w["direction"].shape)
            bias = w["bias"][:, None, None]
            kernel = (w["gain"] * kernel).permute(3, 2, 0, 1)
            return F.conv2d(x, kernel, padding=kernel.shape[-1] // 2) + bias

        def t_scale_and_shift(x, w):
            net = w("residual_network")
            x = t_weight_normalized(x, net("weight_normalized"))
            for _ in range(2):
                h = t_weight_normalized(F.relu(x), net("weight_normalized"))
                x = x + t_weight_normalized(F.relu(h), net("weight_normalized"))
            s, t = t_weight_normalized(F.relu(x), net("weight_normalized")).chunk(2, 1)
            return w["scale"][:, None, None] * torch.tanh(s), t

        x, total = image(x), 0.0
        for coupling, _, parity in LAYERS:
            if coupling == "split":
                x, z = x.chunk(2, 1)
                total = total - 0.5 * (z**2).sum((1, 2, 3))
            elif coupling == "squeeze":
                x = F.pixel_unshuffle(x, 2)
            elif coupling == "checkerboard":
                size = x.shape[-1]
                mask = (torch.tensor(CHECKERBOARD[:size, :size, 0]) - parity).abs()
                s, t = t_scale_and_shift(mask * x, w("checkerboard")("scale_and_shift"))
                x = torch.where(mask > 0, x, x * torch.exp(s) + t)
                total = total + ((1 - mask) * s).sum((1, 2, 3))
            else:
                a, b = x.chunk(2, 1)
                fixed, moved = (b, a) if parity else (a, b)
                s, t = t_scale_and_shift(fixed, w("channelwise")("scale_and_shift"))
                moved = moved * torch.exp(s) + t
                x = torch.cat([moved, fixed] if parity else [fixed, moved], 1)
                total = total + s.sum((1, 2, 3))
        return (0.5 * (x**2).sum((1, 2, 3)) - total).mean() / 3072

    return loss, reference


LAYERS = [
    *(("checkerboard", 64, n % 2) for n in range(3)),
    ("squeeze", 0, 0),
    *(("channelwise", 128, n % 2) for n in range(3)),
    ("split", 0, 0),
    *(("checkerboard", 128, n % 2) for n in range(4)),
]
