"""Capsules."""

from __future__ import annotations

import ocannl as oc

from .layers import F, conv, dense, image, t_conv, t_dense
from .network import ids, network, uniform
from .twin import torch


@oc.op
def squash(s):
    """A vector of the same direction, of a length below 1."""
    square = (s**2).sum("...|..n..,d => ...|..n..,0")
    return s * oc.sqrt(square + 1e-9) / (1 + square)


@network(seconds=100, learning_rate=0.01, x=uniform(8, 28, 28, 1), y=ids(10, 8))
def capsule_network():
    """CapsNet for MNIST (Sabour, Frosst and Hinton 2017): three rounds of routing, margin loss and reconstruction."""

    def routed(votes):
        logits = oc.full(0.0, b=[votes.dims[0]], o=[1152, 10])
        for n in range(3):
            shares = oc.softmax(logits, "...|n,k => ...|n")
            v = squash(oc.einsum("...|n,k; ...|n,k,e => ...|k,e", shares, votes))
            if n < 2:
                logits = logits + oc.einsum("...|n,k,e; ...|k,e => ...|n,k", votes, v)
        return v

    def loss(x, y):
        h = oc.relu(conv(x, channels=256, window=9))
        h = conv(oc.concat("...|h^1,w^1,c => ...|h,w,c", h), channels=256, window=9, stride=2)
        primary = squash(oc.einsum("...|h,w,(c d) => ...|(h w c),d", h, d=8))
        w = oc.param(oc.normal(std=0.1), o=[1152, 10, 16, 8])
        capsules = routed(oc.einsum("...|n,d; n,k,e,d => ...|n,k,e", primary, w))
        length = oc.sqrt((capsules**2).sum("...|k,e => ...|k") + 1e-9)
        chosen = oc.one_hot(y, 10)
        margins = chosen * oc.relu(0.9 - length) ** 2 + 0.5 * (1 - chosen) * oc.relu(length - 0.1) ** 2
        h = oc.einsum("...|k; ...|k,e => ...|k,e", chosen, capsules)
        h = oc.relu(dense(oc.relu(dense(h, outputs=512)), outputs=1024))
        wrong = oc.sigmoid(dense(h, outputs=784)) - oc.einsum("...|h,w,0 => ...|(h w)", x)
        return (margins.sum("b|k => b|") + 0.0005 * (wrong**2).sum("b|p => b|")).mean()

    def reference(w, x, y):
        def t_squash(s):
            square = (s**2).sum(-1, keepdim=True)
            return s * torch.sqrt(square + 1e-9) / (1 + square)

        h = F.relu(t_conv(image(x), w("conv")))
        h = t_conv(h, w("conv"), stride=2).permute(0, 2, 3, 1)
        votes = torch.einsum("bnd,nked->bnke", t_squash(h.reshape(-1, 1152, 8)), w["w"])
        logits = votes.new_zeros(votes.shape[:3])
        for _ in range(3):
            v = t_squash(torch.einsum("bnk,bnke->bke", logits.softmax(2), votes))
            logits = logits + torch.einsum("bnke,bke->bnk", votes, v)
        length = torch.sqrt((v**2).sum(2) + 1e-9)
        chosen = F.one_hot(y, 10)
        margins = chosen * F.relu(0.9 - length) ** 2 + 0.5 * (1 - chosen) * F.relu(length - 0.1) ** 2
        h = F.relu(t_dense((chosen[..., None] * v).flatten(1), w("dense")))
        h = torch.sigmoid(t_dense(F.relu(t_dense(h, w("dense"))), w("dense")))
        return (margins.sum(1) + 0.0005 * ((h - x.flatten(1)) ** 2).sum(1)).mean()

    return loss, reference
