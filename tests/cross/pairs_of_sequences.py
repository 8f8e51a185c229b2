"""Networks of sequences, in `ocannl.nn` and in PyTorch."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from network_pair import Pair, torch
from torch_sequences import Unpacked

import ocannl as oc
from ocannl import nn

t = torch.nn
SOURCES = np.random.default_rng(5).integers(0, 11, (2, 4))

# --- a classifier by the last state of a GRU -------------------------------------------------------------------------


@oc.op
def gru_classifier(x):
    _, (h,) = nn.gru(x, width=6, return_states=True)
    return nn.linear(h, width=3)


class GRUClassifier(t.Module):
    def __init__(self, width):
        super().__init__()
        self.gru = t.GRU(width, 6, batch_first=True)
        self.head = t.Linear(6, 3)

    def forward(self, x):
        _, h = self.gru(x)
        return self.head(h[-1])


# --- a tagger by a bidirectional LSTM (Huang et al. 2015) ------------------------------------------------------------


@oc.op
def tagger(ids):
    x = nn.embedding(ids, count=11, width=6)
    return nn.linear(nn.lstm(x, width=4, layers=2, bidirectional=True), width=5)


class Tagger(t.Module):
    def __init__(self):
        super().__init__()
        self.table = t.Embedding(11, 6)
        self.lstm = t.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.head = t.Linear(8, 5)

    def forward(self, ids):
        y, _ = self.lstm(self.table(ids))
        return self.head(y)


# --- a transformer of source and target, with one table (Vaswani et al. 2017) ----------------------------------------


@oc.op
def translator(target, source):
    embed = nn.embedding(count=11, width=8, label="table")
    position = nn.position_embedding(count=8, label="position")
    x = nn.transformer(position(embed(source)), position(embed(target)), layers=1, heads=2, inner=12)
    return oc.einsum("...|c; v, c => ...|v", x, embed.params["table"])


class Translator(t.Module):
    def __init__(self):
        super().__init__()
        self.table = t.Embedding(11, 8)
        self.position = t.Embedding(8, 8)
        self.transformer = t.Transformer(8, 2, 1, 1, 12, 0.0, batch_first=True)

    def embed(self, ids):
        return self.table(ids) + self.position(torch.arange(ids.shape[1]))

    def forward(self, target, source):
        mask = t.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.float64)
        x = self.transformer(self.embed(source), self.embed(target), tgt_mask=mask)
        return x @ self.table.weight.T


# --- a decoder-only transformer (Radford et al. 2019) ----------------------------------------------------------------


@oc.op
def gpt(ids):
    x = nn.position_embedding(nn.embedding(ids, count=11, width=8), count=6)
    x = nn.encoder(x, layers=2, heads=2, inner=32, pre_norm=True, causal=True, activation=oc.gelu)
    return nn.linear(x, width=11, bias=False)


class GPT(t.Module):
    def __init__(self):
        super().__init__()
        self.table = t.Embedding(11, 8)
        self.position = t.Embedding(6, 8)
        gelu = t.GELU("tanh")
        layer = t.TransformerEncoderLayer(8, 2, 32, 0.0, gelu, batch_first=True, norm_first=True)
        self.layers = t.TransformerEncoder(layer, 2, t.LayerNorm(8), enable_nested_tensor=False)
        self.head = t.Linear(8, 11, bias=False)

    def forward(self, ids):
        steps = ids.shape[1]
        mask = t.Transformer.generate_square_subsequent_mask(steps, dtype=torch.float64)
        x = self.table(ids) + self.position(torch.arange(steps))
        return self.head(self.layers(x, mask))


# --- a vision transformer (Dosovitskiy et al. 2021) ------------------------------------------------------------------


@oc.op
def vision_transformer(x):
    token = oc.einsum("d => b0|d", oc.param("token", oc.normal(std=0.02), o=[8]), b=x.dims[0])
    h = oc.concat("b,m|d; b,n|d => b,m^n|d", token, nn.patchify(x, window=2, width=8))
    h = nn.position_embedding(h, count=10)
    h = nn.encoder(h, layers=2, heads=2, inner=16, pre_norm=True, activation=oc.gelu)
    return nn.linear(oc.einsum("b0|d => b|d", h), width=10)


class VisionTransformer(t.Module):
    def __init__(self, channels):
        super().__init__()
        self.token = t.Parameter(0.02 * torch.randn(8))
        self.patches = t.Conv2d(channels, 8, 2, 2)
        self.position = t.Embedding(10, 8)
        gelu = t.GELU("tanh")
        layer = t.TransformerEncoderLayer(8, 2, 16, 0.0, gelu, batch_first=True, norm_first=True)
        self.layers = t.TransformerEncoder(layer, 2, t.LayerNorm(8), enable_nested_tensor=False)
        self.head = t.Linear(8, 10)

    def forward(self, x):
        h = self.patches(x.movedim(-1, 1)).flatten(2).transpose(1, 2)
        h = torch.cat([self.token.expand(len(x), 1, -1), h], 1) + self.position.weight
        return self.head(self.layers(h)[:, 0])


# --- a classifier of the mean of a padded sequence, as BERT's (Devlin et al. 2019) -----------------------------------


@oc.op
def text_classifier(ids, *, padding=0):
    shown = oc.ne(ids, padding)
    x = nn.position_embedding(nn.embedding(ids, count=11, width=8), count=6)
    x = nn.encoder(x, oc.einsum("b, s| => b|0, 0, s", shown), layers=2, heads=2, inner=16)
    counts = shown.sum("b, s| => b|")
    return nn.linear(oc.einsum("b, s|c; b, s| => b|c", x, shown.astype(x.dtype)) / counts, width=3)


class TextClassifier(t.Module):
    def __init__(self, padding=0):
        super().__init__()
        self.padding = padding
        self.table = t.Embedding(11, 8)
        self.position = t.Embedding(6, 8)
        layer = t.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.layers = t.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = t.Linear(8, 3)

    def forward(self, ids):
        hidden = ids == self.padding
        x = self.table(ids) + self.position(torch.arange(ids.shape[1]))
        x = self.layers(x, src_key_padding_mask=hidden)
        shown = (~hidden)[..., None]
        return self.head((x * shown).sum(1) / shown.sum(1))


# --- convolutions over words (Kim 2014) ------------------------------------------------------------------------------


@oc.op
def text_cnn(ids):
    x = oc.einsum("b, t|c => b|t, c", nn.embedding(ids, count=11, width=6))
    parts = [nn.global_max_pool(oc.tanh(nn.conv1d(x, channels=3, window=window))) for window in (2, 3)]
    return nn.linear(oc.concat("...|a; ...|b => ...|a^b", *parts), width=3)


class TextCNN(t.Module):
    def __init__(self):
        super().__init__()
        self.table = t.Embedding(11, 6)
        self.convs = t.ModuleList(t.Conv1d(6, 3, window) for window in (2, 3))
        self.head = t.Linear(6, 3)

    def forward(self, ids):
        x = self.table(ids).transpose(1, 2)
        parts = [torch.tanh(conv(x)).amax(2) for conv in self.convs]
        return self.head(torch.cat(parts, 1))


# --- WaveNet (van den Oord et al. 2016) ------------------------------------------------------------------------------


@oc.op
def wave_net(x, *, channels=4, layers=3):
    x, skips = nn.conv1d(x, channels=channels, window=1), 0.0
    for n in range(layers):
        of_past = {"channels": channels, "window": 2, "dilation": 2**n, "padding": ((2**n, 0),)}
        h = oc.tanh(nn.conv1d(x, **of_past)) * oc.sigmoid(nn.conv1d(x, **of_past))
        x, skips = x + nn.conv1d(h, channels=channels, window=1), skips + nn.conv1d(h, channels=channels, window=1)
    return nn.conv1d(oc.silu(x + skips), channels=5, window=1)


class WaveNetLayer(t.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.dilation = dilation
        self.filter = t.Conv1d(channels, channels, 2, dilation=dilation)
        self.gate = t.Conv1d(channels, channels, 2, dilation=dilation)
        self.residual = t.Conv1d(channels, channels, 1)
        self.skip = t.Conv1d(channels, channels, 1)

    def forward(self, x):
        past = F.pad(x, (self.dilation, 0))
        h = torch.tanh(self.filter(past)) * torch.sigmoid(self.gate(past))
        return x + self.residual(h), self.skip(h)


class WaveNet(t.Module):
    def __init__(self, before, channels=4, layers=3):
        super().__init__()
        self.first = t.Conv1d(before, channels, 1)
        self.layers = t.ModuleList(WaveNetLayer(channels, 2**n) for n in range(layers))
        self.last = t.Conv1d(channels, 5, 1)

    def forward(self, x):
        x, skips = self.first(x), 0.0
        for layer in self.layers:
            x, skip = layer(x)
            skips = skips + skip
        return self.last(F.silu(x + skips))


# --- a language model of causal convolutions with gates (Dauphin et al. 2017) ----------------------------------------


@oc.op
def gated_network(ids):
    x = oc.einsum("b, t|c => b|t, c", nn.embedding(ids, count=11, width=6))
    for _ in range(2):
        h = nn.conv1d(x, channels=12, window=3, padding=((2, 0),))
        x = x + oc.glu(h, "...|t, c => ...|t")
    return nn.conv1d(x, channels=11, window=1)


class GatedNetwork(t.Module):
    def __init__(self):
        super().__init__()
        self.table = t.Embedding(11, 6)
        self.convs = t.ModuleList(t.Conv1d(6, 12, 3) for _ in range(2))
        self.head = t.Conv1d(6, 11, 1)

    def forward(self, ids):
        x = self.table(ids).transpose(1, 2)
        for conv in self.convs:
            x = x + F.glu(conv(F.pad(x, (2, 0))), dim=1)
        return self.head(x).transpose(1, 2)


class Steps(t.Module):
    """A module of sequences with channels first, for operands with channels last."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x.transpose(1, 2)).transpose(1, 2)


def translated(module, ids):
    return module(ids, torch.tensor(SOURCES))


@oc.op
def of_sources(ids):
    return translator(ids, oc.tensor(SOURCES, batch_axes=2), label="translator")


PAIRS = (
    Pair("GRU", (gru_classifier,), (GRUClassifier,), gru_classifier, lambda s: Unpacked(GRUClassifier(s[-1])),
         (2, 5, 4), batch=2, more=-1),
    Pair("tagger", (tagger,), (Tagger,), tagger, lambda _: Unpacked(Tagger()), (2, 5), ids=11, batch=2),
    Pair("translator", (translator,), (Translator,), of_sources, lambda _: Unpacked(Translator(), translated), (2, 5),
         ids=11, batch=2),
    Pair("GPT", (gpt,), (GPT,), gpt, lambda _: Unpacked(GPT()), (2, 5), ids=11, batch=2),
    Pair("ViT", (vision_transformer,), (VisionTransformer,), vision_transformer,
         lambda s: Unpacked(VisionTransformer(s[-1])), (2, 6, 6, 3)),
    Pair("text classifier", (text_classifier,), (TextClassifier,), text_classifier,
         lambda _: Unpacked(TextClassifier()), (2, 5), ids=11, batch=2, more=-1),
    Pair("text CNN", (text_cnn,), (TextCNN,), text_cnn, lambda _: TextCNN(), (2, 5), ids=11, batch=2, more=-1),
    Pair("WaveNet", (wave_net,), (WaveNetLayer, WaveNet), wave_net, lambda s: Steps(WaveNet(s[-1])), (2, 9, 3)),
    Pair("gated convolutions", (gated_network,), (GatedNetwork,), gated_network, lambda _: GatedNetwork(), (2, 5),
         ids=11, batch=2, more=-1),
)  # fmt: skip
