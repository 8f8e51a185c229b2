"""Layers of `ocannl.nn` beside those of PyTorch."""

from __future__ import annotations

from torch_layer import Layer, torch

import ocannl as oc
from ocannl import nn

t = torch.nn

ROWS = (
    Layer("linear", lambda: nn.linear(width=5), lambda sizes: t.Linear(sizes[-1], 5), ((3, 4), (7, 1))),
    Layer("linear without bias", lambda: nn.linear(width=3, bias=False), lambda sizes: t.Linear(sizes[-1], 3, False),
          ((2, 3, 4), (1, 5, 2)), batch=2),
    Layer("mlp", lambda: nn.mlp(widths=[8, 6, 3]),
          lambda sizes: t.Sequential(t.Linear(sizes[-1], 8), t.ReLU(), t.Linear(8, 6), t.ReLU(), t.Linear(6, 3)),
          ((5, 4), (2, 9))),
    Layer("mlp with tanh", lambda: nn.mlp(widths=(7, 2), activation=oc.tanh),
          lambda sizes: t.Sequential(t.Linear(sizes[-1], 7), t.Tanh(), t.Linear(7, 2)), ((5, 4), (2, 9))),
    Layer("embedding", lambda: nn.embedding(count=11, width=3), lambda _: t.Embedding(11, 3), ((4, 5), (2, 7)),
          ids=11, batch=2),
    Layer("layer_norm", lambda: nn.layer_norm(), lambda sizes: t.LayerNorm(sizes[1:]), ((4, 6), (3, 2, 5))),
    Layer("layer_norm of the last axis", lambda: nn.layer_norm(axes=1, eps=1e-3),
          lambda sizes: t.LayerNorm(sizes[-1], eps=1e-3), ((2, 4, 6), (3, 2, 2, 5))),
    Layer("layer_norm without bias", lambda: nn.layer_norm(bias=False),
          lambda sizes: t.LayerNorm(sizes[-1], bias=False), ((4, 6), (2, 9))),
    Layer("layer_norm without parameters", lambda: nn.layer_norm(affine=False),
          lambda sizes: t.LayerNorm(sizes[-1], elementwise_affine=False), ((4, 6), (2, 9))),
    Layer("rms_norm", lambda: nn.rms_norm(), lambda sizes: t.RMSNorm(sizes[1:], eps=1e-6), ((4, 6), (3, 2, 5))),
    Layer("rms_norm of the last axis", lambda: nn.rms_norm(axes=1, eps=1e-2),
          lambda sizes: t.RMSNorm(sizes[-1], eps=1e-2), ((2, 4, 6), (3, 2, 2, 5))),
)  # fmt: skip
