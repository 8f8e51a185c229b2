"""Sentences and documents."""

from __future__ import annotations

import numpy as np

import ocannl as oc

from .layers import F, dense, t_dense
from .network import ids, network
from .twin import torch

VECTORS = np.random.default_rng(3).uniform(-0.25, 0.25, (18765, 300)).astype("float32")


@network(seconds=100, learning_rate=0.05, x=ids(18765, 50, 56), y=ids(2, 50))
def text_cnn():
    """Windows of 3, 4 and 5 words over two channels of word vectors, one of them fixed (Kim 2014, CNN-multichannel)."""

    def loss(x, y):
        table = oc.param("table", VECTORS)
        features = []
        for width in 3, 4, 5:
            kernel = oc.param(f"kernel_{width}", oc.normal(std=0.02), o=[width, 300, 100])
            bias = oc.param(f"bias_{width}", o=[100])
            words = (channel.take(oc.einsum("b,t| => b|t", x)) for channel in (table, oc.tensor(VECTORS)))
            maps = sum(oc.conv1d(channel, kernel) for channel in words)
            features.append(oc.relu(maps + bias).max("...|t,c => ...|c"))
        joint = oc.concat("...|a; ...|b; ...|c => ...|a^b^c", *features)
        return oc.cross_entropy(dense(joint, outputs=2), y).mean()

    def reference(w, x, y):
        words = w["table"][x] + torch.tensor(VECTORS)[x]
        features = []
        for width in 3, 4, 5:
            kernel = w[f"kernel_{width}"].permute(2, 1, 0)
            maps = F.conv1d(words.transpose(1, 2), kernel) + w[f"bias_{width}"][:, None]
            features.append(F.relu(maps).amax(2))
        return F.cross_entropy(t_dense(torch.cat(features, 1), w("dense")), y)

    return loss, reference
