"""Contrastive learning."""

from __future__ import annotations

import numpy as np

import ocannl as oc

from .layers import F, dense, t_dense
from .network import network, normal
from .twin import torch

PAIRS, TEMPERATURE = 64, 0.1


@network(seconds=30, learning_rate=0.05, first=normal(PAIRS, 512), second=normal(PAIRS, 512))
def sim_clr():
    """The head and the loss of SimCLR (Chen et al. 2020): cosine similarities of two views, across the batch."""

    @oc.op
    def project(x):
        z = dense(oc.relu(dense(x, outputs=512)), outputs=128)
        return z / oc.sqrt((z**2).sum("...|d => ...|0"))

    def loss(first, second):
        head = project(label="project")
        z = oc.concat("a|d; b|d => a^b|d", head(first), head(second))
        scores = oc.einsum("i|d; j|d => i|j", z, z) / TEMPERATURE
        others = oc.tensor(1 - np.eye(2 * PAIRS, dtype="float32"), batch_axes=1)
        partners = oc.tensor(np.roll(np.arange(2 * PAIRS, dtype="int32"), PAIRS), batch_axes=1)
        return oc.cross_entropy(oc.where(others, scores, -1e9), partners).mean()

    def reference(w, first, second):
        head = w.block("project")
        layers = head("dense"), head("dense")
        z = torch.cat([t_dense(F.relu(t_dense(x, layers[0])), layers[1]) for x in (first, second)])
        z = z / z.norm(dim=1, keepdim=True)
        scores = (z @ z.T / TEMPERATURE).masked_fill(torch.eye(2 * PAIRS, dtype=torch.bool), -1e9)
        return F.cross_entropy(scores, torch.arange(2 * PAIRS).roll(PAIRS))

    return loss, reference
