"""Layers of sequences beside those of PyTorch."""

from __future__ import annotations

from math import ceil

import numpy as np
from torch_layer import Layer, torch
from torch_sequences import (
    BERT,
    GPT,
    Attention,
    BalancedExperts,
    Experts,
    LlamaLayer,
    Rows,
    SwiGLU,
    Unpacked,
    ViT,
    causal,
    llama,
    turned,
)

import ocannl as oc
from ocannl import nn

t, F = torch.nn, torch.nn.functional

SEQUENCES = (2, 5, 8), (1, 3, 4)  # batch, steps, features
MEMORY = 4  # steps


def memory(width, batch):
    return np.random.default_rng(3).normal(size=(batch, MEMORY, width))


def initial_state(width, number, part, batch):
    return np.random.default_rng((number, part)).normal(size=(batch, width))


def lengths(batch, steps):
    return np.arange(steps, steps - batch, -1)


# --- applications to one operand -------------------------------------------------------------------------------------


@oc.op
def cross(x, *, layer):
    return layer(x, oc.tensor(memory(x.dims[-1], x.dims[0]), batch_axes=2).astype(x.dtype))


@oc.op
def balanced(x, *, layer):
    y, scores = layer(x)
    return y + nn.load_balancing_loss(scores)


@oc.op
def padded(x, *, layer):
    return layer(x, None, nn.padding_mask(oc.tensor(lengths(*x.dims[:2]), batch_axes=1), x.dims[1]))


@oc.op
def of_lengths(x, *, layer):
    return layer(x, oc.tensor(lengths(*x.dims[:2]), batch_axes=1))


@oc.op
def from_state(x, *, cell, count):
    state = tuple(
        oc.tensor(memory(6, n + 1)[0, :1].repeat(x.dims[0], 0), batch_axes=1).astype(x.dtype) for n in range(count)
    )
    after = cell(state if count > 1 else state[0], x)
    return after[1] if count > 1 else after


@oc.op
def carried(x, *, layer, directions, parts, layers=1, several=False):
    """Results and last states of a recurrent layer, `b, k|width`, from initial states."""
    start = [
        tuple(oc.tensor(initial_state(6, n, part, x.dims[0]), batch_axes=1).astype(x.dtype) for part in range(parts))
        for n in range(layers * directions)
    ]
    start = start if parts > 1 else [state[0] for state in start]
    sizes = oc.tensor(lengths(*x.dims[:2]), batch_axes=1) if several else None
    y, states = layer(x, sizes, start)
    y = oc.einsum("b, t|(d w) => b, (t d)|w", y, d=directions)
    columns = states if parts == 1 else [state[part] for part in range(parts) for state in states]
    for column in columns:
        y = oc.concat("b, t|w; b, k|w => b, t^k|w", y, oc.einsum("b|w => b, 0|w", column))
    return y


@oc.op
def texts(ids):
    net = nn.bert(width=6, layers=2, heads=2, inner=10, vocabulary=11, length=8, label="bert")
    return net(ids, oc.ne(ids, 0))


@oc.op
def sinusoids(x):
    return x + nn.sinusoids(nn.positions_of(x), width=x.dims[-1]).astype(x.dtype)


@oc.op
def rotary(x, *, interleaved):
    heads = oc.einsum("...|(h d) => ...|h, d", x, h=2)
    return oc.einsum("...|h, d => ...|(h d)", nn.rotary(heads, interleaved=interleaved))


@oc.op
def alone(x, *, function):
    return function(x)


# --- the same in PyTorch ----------------------------------------------------------------------------------------------


def mha(sizes, heads=2):
    return t.MultiheadAttention(sizes[-1], heads, batch_first=True)


def attended(mask=None):
    """The call of `torch.nn.MultiheadAttention` within a sequence, with what a query does not see."""
    return lambda module, x: module(x, x, x, attn_mask=None if mask is None else mask(x), need_weights=False)[0]


def hidden(keep):
    return lambda x: ~keep(x.shape[1])


def near(count):
    return (torch.arange(count)[:, None] - torch.arange(count)) < 2


def distances(x):
    count = x.shape[1]
    apart = (torch.arange(count)[:, None] - torch.arange(count)).abs()
    slopes = torch.tensor([2.0**-4, 2.0**-8], dtype=x.dtype)
    return (-slopes[:, None, None] * apart).repeat(len(x), 1, 1).masked_fill(~causal(count), -torch.inf)


def memory_of(x):
    return torch.tensor(memory(x.shape[-1], len(x)), dtype=x.dtype)


def padding_of(x):
    return torch.arange(x.shape[1]) >= torch.tensor(lengths(*x.shape[:2]))[:, None]


def packed(module, x):
    packed_input = t.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths(*x.shape[:2])), batch_first=True)
    return t.utils.rnn.pad_packed_sequence(module(packed_input)[0], batch_first=True, total_length=x.shape[1])[0]


def continued(parts, layers=1, several=False):
    """The call of `carried`."""

    def call(module, x):
        directions = 2 if module.bidirectional else 1
        start = [
            torch.tensor(
                np.stack([initial_state(6, n, part, len(x)) for n in range(layers * directions)]), dtype=x.dtype
            )
            for part in range(parts)
        ]
        sizes = torch.tensor(lengths(*x.shape[:2]))
        given = t.utils.rnn.pack_padded_sequence(x, sizes, batch_first=True) if several else x
        y, states = module(given, tuple(start) if parts > 1 else start[0])
        if several:
            y = t.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0]
        states = states if parts > 1 else (states,)
        return torch.cat(
            [y.unflatten(-1, (directions, -1)).flatten(1, 2), *(state.movedim(0, 1) for state in states)], 1
        )

    return call


def state_of(x, n):
    return torch.tensor(memory(6, n + 1)[0, :1].repeat(len(x), 0), dtype=x.dtype)


def waves(x):
    p = torch.arange(x.shape[1])[:, None] / 10000.0 ** (
        torch.arange(0, x.shape[2], 2, dtype=torch.float64) / x.shape[2]
    )
    return x + torch.stack([p.sin(), p.cos()], -1).flatten(1).to(x.dtype)


def halves(x, interleaved=False):
    heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
    if interleaved:
        heads = turned(heads.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)).unflatten(-1, (2, -1))
        return heads.transpose(-1, -2).flatten(-2).transpose(1, 2).flatten(2)
    return turned(heads).transpose(1, 2).flatten(2)


class Function(t.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def first(module, x):
    return module(x)[0]


def encoder_layer(sizes, **settings):
    return t.TransformerEncoderLayer(sizes[-1], 2, 12, 0.0, batch_first=True, **settings)


def decoder_layer(sizes, **settings):
    return t.TransformerDecoderLayer(sizes[-1], 2, 12, 0.0, batch_first=True, **settings)


def decoded(module, x):
    return module(x, memory_of(x), tgt_mask=~causal(x.shape[1]))


def transformed(module, x):
    return module(memory_of(x), x, tgt_mask=~causal(x.shape[1]))


@oc.op
def to_memory(x, *, layers):
    source = oc.tensor(memory(x.dims[-1], x.dims[0]), batch_axes=2).astype(x.dtype)
    return nn.transformer(source, x, layers=layers, heads=2, inner=12)


def row(name, ours, theirs, sizes=SEQUENCES, **settings):
    return Layer(name, ours, theirs, sizes, **{"batch": 2, **settings})


ROWS = (
    row("attention", lambda: nn.attention(heads=2), lambda s: Unpacked(mha(s), attended())),
    row("attention, causal", lambda: nn.attention(heads=2, causal=True),
        lambda s: Unpacked(mha(s), attended(hidden(causal)))),
    row("attention in a window", lambda: nn.attention(heads=2, causal=True, window=2),
        lambda s: Unpacked(mha(s), attended(hidden(lambda n: near(n) & causal(n))))),
    row("attention with ALiBi", lambda: nn.attention(heads=2, causal=True, use_alibi=True),
        lambda s: Unpacked(mha(s), attended(distances))),
    row("attention to a memory", lambda: cross(layer=nn.attention(heads=2, label="attention")),
        lambda s: Unpacked(mha(s), lambda m, x: m(x, memory_of(x), memory_of(x), need_weights=False)[0])),
    row("attention with padding", lambda: padded(layer=nn.attention(heads=2, label="attention")),
        lambda s: Unpacked(mha(s), lambda m, x: m(x, x, x, key_padding_mask=padding_of(x), need_weights=False)[0])),
    row("attention with shared keys", lambda: nn.attention(heads=4, kv_heads=2, bias=False, rotary_base=10000.0),
        lambda s: Attention(s[-1], 4, 2, bias=False, rotate=turned), ((2, 5, 8), (1, 3, 16))),
    row("position_embedding", lambda: nn.position_embedding(count=7), lambda s: Rows(7, s[-1])),
    row("sinusoids", lambda: sinusoids(), lambda _: Function(waves)),
    row("rotary", lambda: rotary(interleaved=False), lambda _: Function(halves)),
    row("rotary of neighbours", lambda: rotary(interleaved=True), lambda _: Function(lambda x: halves(x, True))),
    row("feed_forward", lambda: nn.feed_forward(inner=6),
        lambda s: t.Sequential(t.Linear(s[-1], 6), t.ReLU(), t.Linear(6, s[-1]))),
    row("swiglu", lambda: nn.swiglu(inner=6), lambda s: SwiGLU(s[-1], 6)),
    row("experts", lambda: nn.experts(count=4, inner=6), lambda s: Experts(s[-1], 4, 6, 2)),
    row("experts with room for all", lambda: nn.experts(count=4, inner=6, capacity_factor=2.0),
        lambda s: Experts(s[-1], 4, 6, 2)),
    row("experts with room for some", lambda: nn.experts(count=4, inner=6, capacity_factor=0.7),
        lambda s: Experts(s[-1], 4, 6, 2, lambda cells: ceil(0.7 * 2 * cells / 4))),
    row("load_balancing_loss", lambda: balanced(layer=nn.experts(count=4, inner=6, return_scores=True)),
        lambda s: BalancedExperts(s[-1], 4, 6, 2)),
    row("encoder_layer", lambda: nn.encoder_layer(heads=2, inner=12), lambda s: Unpacked(encoder_layer(s))),
    row("encoder_layer, pre-norm", lambda: nn.encoder_layer(heads=2, inner=12, pre_norm=True, activation=oc.gelu),
        lambda s: Unpacked(encoder_layer(s, norm_first=True, activation=t.GELU("tanh"))), rate=0.01),
    row("encoder", lambda: nn.encoder(layers=2, heads=2, inner=12, final_norm=True),
        lambda s: Unpacked(t.TransformerEncoder(encoder_layer(s), 2, t.LayerNorm(s[-1])))),
    row("decoder_layer", lambda: cross(layer=nn.decoder_layer(heads=2, inner=12, label="layer")),
        lambda s: Unpacked(decoder_layer(s), decoded)),
    row("decoder", lambda: cross(layer=nn.decoder(layers=2, heads=2, inner=12, pre_norm=True, label="decoder")),
        lambda s: Unpacked(t.TransformerDecoder(decoder_layer(s, norm_first=True), 2, t.LayerNorm(s[-1])), decoded)),
    row("transformer", lambda: to_memory(layers=1),
        lambda s: Unpacked(t.Transformer(s[-1], 2, 1, 1, 12, 0.0, batch_first=True), transformed)),
    row("gpt", lambda: nn.gpt(vocabulary=11, length=8, width=6, layers=2, heads=2), lambda _: GPT(11, 8, 6, 2, 2),
        ((2, 5), (1, 8)), ids=11),
    row("llama", lambda: nn.llama(vocabulary=11, width=8, layers=2, heads=2, kv_heads=1, inner=10, window=3),
        lambda _: llama(11, 8, 2, heads=2, kv_heads=1, inner=10, window=3), ((2, 5), (1, 8)), ids=11),
    row("llama_layer", lambda: nn.llama_layer(heads=2, kv_heads=1, inner=10, window=2),
        lambda s: LlamaLayer(s[-1], heads=2, kv_heads=1, inner=10, window=2)),
    row("bert", lambda: texts(), lambda _: BERT(11, 8, 6, 2, 2, 10), ((2, 5), (1, 8)), ids=11),
    row("vit", lambda: nn.vit(patch=2, width=6, layers=2, heads=2, inner=10, classes=3),
        lambda s: ViT(s, 2, 6, 2, 2, 10, 3), ((2, 4, 6, 3), (1, 2, 2, 1)), batch=1),
    row("rnn_cell", lambda: from_state(cell=nn.rnn_cell(width=6, label="cell"), count=1),
        lambda s: Unpacked(t.RNNCell(s[-1], 6), lambda m, x: m(x, state_of(x, 0))), ((3, 4), (1, 2)), batch=1),
    row("gru_cell", lambda: from_state(cell=nn.gru_cell(width=6, label="cell"), count=1),
        lambda s: Unpacked(t.GRUCell(s[-1], 6), lambda m, x: m(x, state_of(x, 0))), ((3, 4), (1, 2)), batch=1),
    row("lstm_cell", lambda: from_state(cell=nn.lstm_cell(width=6, label="cell"), count=2),
        lambda s: Unpacked(t.LSTMCell(s[-1], 6), lambda m, x: m(x, (state_of(x, 0), state_of(x, 1)))[1]),
        ((3, 4), (1, 2)), batch=1),
    row("rnn", lambda: nn.rnn(width=6, activation=oc.relu),
        lambda s: Unpacked(t.RNN(s[-1], 6, nonlinearity="relu", batch_first=True), first)),
    row("gru of several lengths", lambda: of_lengths(layer=nn.gru(width=3, layers=2, bidirectional=True, label="gru")),
        lambda s: Unpacked(t.GRU(s[-1], 3, 2, batch_first=True, bidirectional=True), packed)),
    row("lstm", lambda: nn.lstm(width=6), lambda s: Unpacked(t.LSTM(s[-1], 6, batch_first=True), first)),
    row("lstm of several lengths",
        lambda: of_lengths(layer=nn.lstm(width=3, layers=2, bidirectional=True, label="lstm")),
        lambda s: Unpacked(t.LSTM(s[-1], 3, 2, batch_first=True, bidirectional=True), packed)),
    row("rnn with states", lambda: carried(layer=nn.rnn(width=6, return_states=True), directions=1, parts=1),
        lambda s: Unpacked(t.RNN(s[-1], 6, batch_first=True), continued(1))),
    row("gru with states",
        lambda: carried(layer=nn.gru(width=6, layers=2, bidirectional=True, return_states=True), directions=2, parts=1,
                        layers=2),
        lambda s: Unpacked(t.GRU(s[-1], 6, 2, batch_first=True, bidirectional=True), continued(1, 2))),
    row("lstm with states", lambda: carried(layer=nn.lstm(width=6, layers=2, return_states=True), directions=1, parts=2,
                                            layers=2),
        lambda s: Unpacked(t.LSTM(s[-1], 6, 2, batch_first=True), continued(2, 2))),
    row("lstm with states of several lengths",
        lambda: carried(layer=nn.lstm(width=6, bidirectional=True, return_states=True), directions=2, parts=2,
                        several=True),
        lambda s: Unpacked(t.LSTM(s[-1], 6, batch_first=True, bidirectional=True), continued(2, several=True))),
)  # fmt: skip
