"""Sound."""

from __future__ import annotations

import ocannl as oc

from .layers import F, he
from .network import ids, network

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
