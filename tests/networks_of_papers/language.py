"""Language models and translation."""

from __future__ import annotations

import ocannl as oc

from .layers import F, dense, t_dense
from .network import ids, network, normal
from .twin import torch

STEPS, VOCABULARY_SIZE = 20, 10000  # of the Penn Treebank


@oc.op
def lstm_cell(x, h, c):
    w, u = (oc.param(name, oc.uniform(-0.1, 0.1), o=[4, h.dims[-1]]) for name in "wu")
    b = oc.param(oc.uniform(-0.1, 0.1), o=[4, h.dims[-1]])
    gates = w @ x + u @ h + b
    i, f, o, g = (oc.einsum(f"...|{n}h => ...|h", gates) for n in range(4))
    c = oc.sigmoid(f) * c + oc.sigmoid(i) * oc.tanh(g)
    return oc.sigmoid(o) * oc.tanh(c), c


@network(
    seconds=137, learning_rate=1.0, x=ids(VOCABULARY_SIZE, STEPS + 1, 20), h=normal(2, 20, 200, batch_axes=2, std=0.3),
    c=normal(2, 20, 200, batch_axes=2, std=0.5),
)  # fmt: skip
def lstm():
    """The small language model of Zaremba, Sutskever and Vinyals 2014: two layers of 200 units, unrolled over 20 words,
    from the states that the minibatch before left."""

    def loss(x, h, c):
        table = oc.param(oc.uniform(-0.1, 0.1), o=[VOCABULARY_SIZE, 200])
        layers = [lstm_cell(label="lower"), lstm_cell(label="upper")]
        softmax = dense(outputs=VOCABULARY_SIZE, label="softmax")
        states = [(h[n], c[n]) for n in range(2)]
        total = oc.tensor(0.0)
        for t in range(STEPS):
            seen = table.take(x[t])
            for n, layer in enumerate(layers):
                states[n] = layer(seen, *states[n])
                seen = states[n][0]
            total = total + oc.cross_entropy(softmax(seen), x[t + 1]).mean()
        return total / STEPS

    def reference(w, x, h, c):
        def weights(w):
            order = [0, 1, 3, 2]  # PyTorch has the candidate before the output gate
            return [w[name][order].flatten(0, 1) for name in "wub"]

        lstm = torch.nn.LSTM(200, 200, 2).to(h.dtype)
        names = ("weight_ih", "weight_hh", "bias_ih")
        values = {f"{k}_l{n}": v for n, layer in enumerate(("lower", "upper"))
                  for k, v in zip(names, weights(w.block(layer)), strict=True)}  # fmt: skip
        values |= {f"bias_hh_l{n}": h.new_zeros(800) for n in range(2)}
        out, _ = torch.func.functional_call(lstm, values, (w["table"][x[:-1]], (h, c)))
        return F.cross_entropy(t_dense(out, w.block("softmax")).flatten(0, 1), x[1:].flatten())

    return loss, reference


# RNNsearch: Bahdanau, Cho and Bengio 2015, with 8000 of the 30000 words of each language.
SOURCE, TARGET, LEXICON, UNITS, EMBEDDED = 8, 8, 8000, 1000, 620


def he(fan_in):
    return oc.normal(std=fan_in**-0.5)


@oc.op
def gru_cell(x, h):
    """`x` is what the cell reads, maybe of several parts."""
    w, u = oc.param(he(x.dims[-1]), o=[3, UNITS]), oc.param(he(UNITS), o=[2, UNITS])
    candidate = oc.param(he(UNITS), o=[UNITS])
    inputs, kept = w @ x + oc.param("b", oc.normal(std=0.1), o=[3, UNITS]), u @ h
    reset, update = (
        oc.sigmoid(oc.einsum(f"...|{n}h => ...|h", inputs) + oc.einsum(f"...|{n}h => ...|h", kept)) for n in range(2)
    )
    new = oc.tanh(oc.einsum("...|2h => ...|h", inputs) + candidate @ (reset * h))
    return (1 - update) * h + update * new


def t_gru_cell(x, h, w):
    inputs = torch.einsum("ghi,bi->gbh", w["w"], x) + w["b"][:, None]
    kept = torch.einsum("ghi,bi->gbh", w["u"], h)
    reset, update = torch.sigmoid(inputs[0] + kept[0]), torch.sigmoid(inputs[1] + kept[1])
    return (1 - update) * h + update * torch.tanh(inputs[2] + (reset * h) @ w["candidate"].T)


@network(seconds=234, learning_rate=0.05, x=ids(LEXICON, SOURCE, 4), y=ids(LEXICON, TARGET + 1, 4))
def rnn_search():
    """A bidirectional encoder, a decoder that attends to it, and a maxout layer, unrolled over eight words each."""

    @oc.op
    def aligned(s, annotations, keys):
        """The annotations, weighted by how well they fit the state."""
        v = oc.param(he(UNITS), o=[UNITS])
        query = oc.param("query", he(UNITS), o=[UNITS]) @ s
        scores = oc.einsum("t,b|d; d => b|t", oc.tanh(keys + query), v)
        return oc.einsum("b|t; t,b|d => b|d", oc.softmax(scores), annotations)

    def loss(x, y):
        source, target = (oc.param(name, oc.normal(std=0.3), o=[LEXICON, EMBEDDED]) for name in ("source", "target"))
        zeros = oc.full(0.0, b=[4], o=[UNITS])
        forward, backward = gru_cell(label="forward"), gru_cell(label="backward")
        ahead, behind = [zeros], [zeros]
        for t in range(SOURCE):
            ahead.append(forward(source.take(x[t]), ahead[-1]))
            behind.append(backward(source.take(x[SOURCE - 1 - t]), behind[-1]))
        pairs = zip(ahead[1:], reversed(behind[1:]), strict=True)
        joined = [oc.concat("b|f; b|g => b|f^g", f, g) for f, g in pairs]
        annotations = oc.stack(joined, axis="batch")
        keys = oc.param("keys", he(2 * UNITS), o=[UNITS]) @ annotations
        s = oc.tanh(dense(behind[-1], outputs=UNITS, label="initial"))
        attend, cell = aligned(label="attend"), gru_cell(label="decoder")
        hidden, readout = dense(outputs=1000, label="hidden"), dense(outputs=LEXICON, label="readout")
        total = oc.tensor(0.0)
        for t in range(TARGET):
            word = target.take(y[t])
            seen = oc.concat("b|e; b|c => b|e^c", word, attend(s, annotations, keys))
            s = cell(seen, s)
            maxout = hidden(oc.concat("b|s; b|c => b|s^c", s, seen)).max("b|(u p) => b|u", p=2)
            total = total + oc.cross_entropy(readout(maxout), y[t + 1]).mean()
        return total / TARGET

    def reference(w, x, y):
        source, target = w["source"][x], w["target"][y]
        zeros = source.new_zeros(4, UNITS)
        ahead, behind = [zeros], [zeros]
        for t in range(SOURCE):
            ahead.append(t_gru_cell(source[t], ahead[-1], w.block("forward")))
            behind.append(t_gru_cell(source[-1 - t], behind[-1], w.block("backward")))
        annotations = torch.cat([torch.stack(ahead[1:]), torch.stack(behind[:0:-1])], 2)
        keys = annotations @ w["keys"].T
        s, attend, total = torch.tanh(t_dense(behind[-1], w("initial"))), w.block("attend"), 0.0
        for t in range(TARGET):
            scores = torch.tanh(keys + s @ attend["query"].T) @ attend["v"]
            context = (scores.softmax(0)[..., None] * annotations).sum(0)
            seen = torch.cat([target[t], context], 1)
            s = t_gru_cell(seen, s, w.block("decoder"))
            maxout = t_dense(torch.cat([s, seen], 1), w.block("hidden")).view(4, 500, 2).amax(2)
            total = total + F.cross_entropy(t_dense(maxout, w.block("readout")), y[t + 1])
        return total / TARGET

    return loss, reference
