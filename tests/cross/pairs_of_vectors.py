"""Networks of vectors, sets and graphs, in `ocannl.nn` and in PyTorch."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from network_pair import Pair, torch

import ocannl as oc
from ocannl import nn

t = torch.nn

# --- a mixture of experts, of which the best one counts (Shazeer et al. 2017; Fedus et al. 2022) ---------------------


@oc.op
def switch(x, *, experts=3, inner=6):
    wide = oc.param(oc.xavier(), o=[experts, inner])
    back = oc.param(oc.xavier(), i=[inner], o=[experts, x.dims[-1]])
    scores = nn.linear(x, width=experts, bias=False)
    gates = oc.softmax(scores) * oc.one_hot(oc.argmax(scores), experts)
    return x + oc.einsum("...|e; ...|e, h; h -> e, o => ...|o", gates, oc.gelu(wide @ x), back)


class Switch(t.Module):
    def __init__(self, width, experts=3, inner=6):
        super().__init__()
        self.wide = t.Parameter(torch.randn(experts, inner, width) / width**0.5)
        self.back = t.Parameter(torch.randn(experts, width, inner) / inner**0.5)
        self.router = t.Linear(width, experts, bias=False)

    def forward(self, x):
        scores = self.router(x)
        gates = scores.softmax(1) * F.one_hot(scores.argmax(1), scores.shape[1])
        h = F.gelu(torch.einsum("bi,ehi->beh", x, self.wide), approximate="tanh")
        return x + torch.einsum("be,beh,eoh->bo", gates, h, self.back)


# --- graph convolutions (Kipf, Welling 2017) -------------------------------------------------------------------------


@oc.op
def graph_convolution(x, *, links):
    h = oc.relu(nn.linear(oc.einsum("n|m; m|f => n|f", links, x), width=5))
    return nn.linear(oc.einsum("n|m; m|f => n|f", links, h), width=3)


class GraphConvolution(t.Module):
    def __init__(self, width, links):
        super().__init__()
        self.links = links
        self.layer1 = t.Linear(width, 5)
        self.layer2 = t.Linear(5, 3)

    def forward(self, x):
        h = F.relu(self.layer1(self.links @ x))
        return self.layer2(self.links @ h)


# --- graph attention (Velickovic et al. 2018) ------------------------------------------------------------------------


@oc.op
def graph_attention(x, *, links, width=4):
    h = nn.linear(x, width=width, bias=False)
    source, target = nn.linear(h, width=1, bias=False), nn.linear(h, width=1, bias=False)
    scores = oc.leaky_relu(oc.einsum("n|0; m|0 => n|m", source, target, combine="add"), slope=0.2)
    weights = oc.softmax(oc.where(links > 0, scores, -np.inf))
    return oc.elu(oc.einsum("n|m; m|f => n|f", weights, h))


class GraphAttention(t.Module):
    def __init__(self, before, links, width=4):
        super().__init__()
        self.links = links
        self.dense = t.Linear(before, width, bias=False)
        self.source = t.Linear(width, 1, bias=False)
        self.target = t.Linear(width, 1, bias=False)

    def forward(self, x):
        h = self.dense(x)
        scores = F.leaky_relu(self.source(h) + self.target(h).T, 0.2)
        weights = scores.masked_fill(self.links == 0, -torch.inf).softmax(1)
        return F.elu(weights @ h)


# --- a neural ODE by Euler's method (Chen et al. 2018) ---------------------------------------------------------------


@oc.op
def neural_ode(x, *, steps=5):
    field = nn.mlp(widths=[6, x.dims[-1]], activation=oc.tanh, label="field")
    for _ in range(steps):
        x = x + field(x) / steps
    return x


class NeuralODE(t.Module):
    def __init__(self, width, steps=5):
        super().__init__()
        self.steps = steps
        self.field = t.Sequential(t.Linear(width, 6), t.Tanh(), t.Linear(6, width))

    def forward(self, x):
        for _ in range(self.steps):
            x = x + self.field(x) / self.steps
        return x


# --- a tensor network: a row contracted with three cores --------------------------------------------------------------


@oc.op
def tensor_network(x, *, rank=3, outputs=4):
    left = oc.param(oc.normal(), o=[x.dims[-1], rank])
    core = oc.param(oc.normal(), o=[x.dims[-1], rank, rank])
    right = oc.param(oc.normal(), o=[rank, outputs])
    return oc.einsum("b|i; ir; b|j; jrs; so => b|o", x, left, x, core, right)


class TensorNetwork(t.Module):
    def __init__(self, width, rank=3, outputs=4):
        super().__init__()
        self.left = t.Parameter(torch.randn(width, rank))
        self.core = t.Parameter(torch.randn(width, rank, rank))
        self.right = t.Parameter(torch.randn(rank, outputs))

    def forward(self, x):
        return torch.einsum("bi,ir,bj,jrs,so->bo", x, self.left, x, self.core, self.right)


# --- Deep Sets (Zaheer et al. 2017) ----------------------------------------------------------------------------------


@oc.op
def deep_sets(x):
    h = oc.relu(nn.mlp(x, widths=[6, 6], label="element"))
    return nn.mlp(h.sum("b, n|h => b|h"), widths=[5, 3], label="total")


class DeepSets(t.Module):
    def __init__(self, width):
        super().__init__()
        self.element = t.Sequential(t.Linear(width, 6), t.ReLU(), t.Linear(6, 6), t.ReLU())
        self.total = t.Sequential(t.Linear(6, 5), t.ReLU(), t.Linear(5, 3))

    def forward(self, x):
        return self.total(self.element(x).sum(1))


# --- a factorization machine with a deep part (Guo et al. 2017) ------------------------------------------------------


@oc.op
def deep_fm(ids, *, count=11, width=4):
    linear = nn.embedding(ids, count=count, width=1).sum("b, f|0 => b|")
    v = nn.embedding(ids, count=count, width=width)
    pairs = (v.sum("b, f|c => b|c") ** 2 - (v**2).sum("b, f|c => b|c")).sum("b|c => b|") / 2
    deep = nn.mlp(oc.einsum("b, f|c => b|(f c)", v), widths=[5, 1])
    return oc.einsum("b|0 => b|", deep) + linear + pairs


class DeepFM(t.Module):
    def __init__(self, fields, count=11, width=4):
        super().__init__()
        self.linear = t.Embedding(count, 1)
        self.table = t.Embedding(count, width)
        self.deep = t.Sequential(t.Linear(fields * width, 5), t.ReLU(), t.Linear(5, 1))

    def forward(self, ids):
        linear = self.linear(ids).sum((1, 2))
        v = self.table(ids)
        pairs = (v.sum(1) ** 2 - (v**2).sum(1)).sum(1) / 2
        return self.deep(v.flatten(1))[:, 0] + linear + pairs


# --- MLP-Mixer (Tolstikhin et al. 2021) ------------------------------------------------------------------------------


@oc.op
def mixer_layer(x, *, inner):
    steps = x.dims[-2]
    across = oc.einsum("b, t|c => b, c|t", nn.layer_norm(x))
    across = nn.mlp(across, widths=[inner, steps], activation=oc.gelu)
    x = x + oc.einsum("b, c|t => b, t|c", across)
    return x + nn.mlp(nn.layer_norm(x), widths=[inner, x.dims[-1]], activation=oc.gelu)


@oc.op
def mixer(x, *, width=6, layers=2):
    x = nn.patchify(x, window=2, width=width)
    for _ in range(layers):
        x = mixer_layer(x, inner=8)
    return nn.linear(nn.layer_norm(x).mean("b, t|c => b|c"), width=10)


class MixerLayer(t.Module):
    def __init__(self, steps, width, inner):
        super().__init__()
        gelu = t.GELU("tanh")
        self.norm1 = t.LayerNorm(width)
        self.across = t.Sequential(t.Linear(steps, inner), gelu, t.Linear(inner, steps))
        self.norm2 = t.LayerNorm(width)
        self.within = t.Sequential(t.Linear(width, inner), gelu, t.Linear(inner, width))

    def forward(self, x):
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norm2(x))


class Mixer(t.Module):
    def __init__(self, sizes, width=6, layers=2):
        super().__init__()
        _, h, w, channels = sizes
        self.patches = t.Conv2d(channels, width, 2, 2)
        self.layers = t.Sequential(*(MixerLayer(h * w // 4, width, 8) for _ in range(layers)))
        self.norm = t.LayerNorm(width)
        self.head = t.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x.movedim(-1, 1)).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layers(x)).mean(1))


# --- networks of highways (Srivastava et al. 2015) -------------------------------------------------------------------


@oc.op
def highway(x, *, layers=3):
    for _ in range(layers):
        gate = oc.sigmoid(nn.linear(x, width=x.dims[-1]))
        x = gate * oc.tanh(nn.linear(x, width=x.dims[-1])) + (1 - gate) * x
    return x


class HighwayLayer(t.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = t.Linear(width, width)
        self.dense = t.Linear(width, width)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        return gate * torch.tanh(self.dense(x)) + (1 - gate) * x


class Highway(t.Sequential):
    def __init__(self, width, layers=3):
        super().__init__(*(HighwayLayer(width) for _ in range(layers)))


LINKS = (np.random.default_rng(6).uniform(size=(6, 6)) < 0.5) | np.eye(6, dtype=bool)


PAIRS = (
    Pair("switch", (switch,), (Switch,), switch, lambda s: Switch(s[-1]), (5, 4)),
    Pair("graph convolution", (graph_convolution,), (GraphConvolution,),
         lambda: graph_convolution(links=oc.tensor(LINKS / 6.0, batch_axes=1)),
         lambda s: GraphConvolution(s[-1], torch.tensor(LINKS / 6.0)), (6, 4)),
    Pair("graph attention", (graph_attention,), (GraphAttention,),
         lambda: graph_attention(links=oc.tensor(LINKS.astype("int32"), batch_axes=1)),
         lambda s: GraphAttention(s[-1], torch.tensor(LINKS)), (6, 4)),
    Pair("neural ODE", (neural_ode,), (NeuralODE,), neural_ode, lambda s: NeuralODE(s[-1]), (5, 3)),
    Pair("tensor network", (tensor_network,), (TensorNetwork,), tensor_network, lambda s: TensorNetwork(s[-1]), (5, 4),
         rate=1e-3),
    Pair("Deep Sets", (deep_sets,), (DeepSets,), deep_sets, lambda s: DeepSets(s[-1]), (3, 5, 4), batch=2, more=-1),
    Pair("DeepFM", (deep_fm,), (DeepFM,), deep_fm, lambda s: DeepFM(s[-1]), (4, 3), ids=11, batch=2, more=-1),
    Pair("MLP-Mixer", (mixer_layer, mixer), (MixerLayer, Mixer), mixer, Mixer, (2, 4, 6, 3)),
    Pair("highway", (highway,), (HighwayLayer, Highway), highway, lambda s: Highway(s[-1]), (5, 4)),
)  # fmt: skip
