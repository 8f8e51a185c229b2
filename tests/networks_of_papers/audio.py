"""Sound."""

from __future__ import annotations

import ocannl as oc

from .layers import F, he
from .network import ids, network, normal

LENGTH = 2048


@oc.op
def causal(x, *, channels, dilation):
    """A convolution of each sample with the one `dilation` before it."""
    kernel = oc.param(he(2 * x.dims[-1]), o=[2, x.dims[-1], channels])
    return oc.conv1d(oc.concat(f"...|t,c => ...|{dilation}^t,c", x), kernel, dilation=dilation)


def t_causal(x, w, dilation):
    return F.conv1d(F.pad(x, (dilation, 0)), w["kernel"].permute(2, 1, 0), dilation=dilation)


@network(seconds=160, learning_rate=0.02, x=ids(256, 1, LENGTH + 1, batch_axes=1))
def wavenet():
    """One stack of WaveNet (van den Oord et al. 2016): dilations 1 to 512, 64 channels, 256 skip channels."""

    @oc.op
    def point(x, *, channels):
        w = oc.param(he(x.dims[-1]), o=[x.dims[-1], channels])
        return oc.einsum("...|t,c; c,d => ...|t,d", x, w)

    @oc.op
    def layer(x, *, dilation):
        gate = oc.sigmoid(causal(x, channels=64, dilation=dilation, label="gate"))
        h = oc.tanh(causal(x, channels=64, dilation=dilation, label="filter")) * gate
        return x + point(h, channels=64), point(h, channels=256, label="skip")

    def loss(x):
        table = oc.param(oc.normal(), o=[256, 64])
        h = causal(table.take(oc.concat("...|t^1 => ...|t", x)), channels=64, dilation=1)
        total = 0.0
        for n in range(10):
            h, skip = layer(h, dilation=2**n)
            total = total + skip
        scores = point(oc.relu(point(oc.relu(total), channels=256)), channels=256)
        following = oc.concat("b|1^t => b,t|", x)
        return oc.cross_entropy(oc.einsum("b|t,c => b,t|c", scores), following).mean()

    def reference(w, x):
        def t_point(x, w):
            return F.conv1d(x, w["w"].T[..., None])

        h = t_causal(w["table"][x[:, :-1]].transpose(1, 2), w("causal"), 1)
        total = 0.0
        for n in range(10):
            layer = w("layer")
            gate = F.sigmoid(t_causal(h, layer("gate"), 2**n))
            z = F.tanh(t_causal(h, layer("filter"), 2**n)) * gate
            h, total = h + t_point(z, layer("point")), total + t_point(z, layer("skip"))
        scores = t_point(F.relu(t_point(F.relu(total), w("point"))), w("point"))
        return F.cross_entropy(scores, x[:, 1:])

    return loss, reference


@network(seconds=250, learning_rate=2e-4, x=normal(4, 400, 2), y=normal(4))
def temporal_convolutions():
    """A TCN for the adding problem (Bai, Kolter and Koltun 2018): weights with separate norms, windows of 8 samples."""

    @oc.op
    def normed(x, *, dilation):
        v = oc.param(he(8 * x.dims[-1]), o=[8, x.dims[-1], 30])
        gain = oc.param(oc.uniform(0.5, 1.5), o=[30])
        bias = oc.param(o=[30])
        kernel = gain * v / oc.sqrt((v**2).sum("k,c,d => d"))
        return oc.relu(oc.conv1d(oc.concat(f"...|t,c => ...|{7 * dilation}^t,c", x), kernel, dilation=dilation) + bias)

    def loss(x, y):
        h = x
        for n in range(5):
            skip = h if n else oc.einsum("...|t,c; c,d => ...|t,d", h, oc.param("widen", he(2), o=[2, 30]))
            h = oc.relu(skip + normed(normed(h, dilation=2**n), dilation=2**n))
        last = oc.concat("...|399^t,c => ...|t,c", h)
        return ((oc.einsum("...|0,c; c => ...|", last, oc.param("head", he(30), o=[30])) - y) ** 2).mean()

    def reference(w, x, y):
        def t_normed(h, w, dilation):
            v = w["v"].permute(2, 1, 0)
            kernel = w["gain"][:, None, None] * v / v.flatten(1).norm(dim=1)[:, None, None]
            return F.relu(F.conv1d(F.pad(h, (7 * dilation, 0)), kernel, w["bias"], dilation=dilation))

        h = x.transpose(1, 2)
        for n in range(5):
            skip = h if n else F.conv1d(h, w["widen"].T[..., None])
            h = F.relu(skip + t_normed(t_normed(h, w("normed"), 2**n), w("normed"), 2**n))
        return ((h[..., -1] @ w["head"] - y) ** 2).mean()

    return loss, reference
