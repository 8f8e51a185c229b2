"""Convolutional classifiers of images without shortcuts."""

from __future__ import annotations

import numpy as np

import ocannl as oc

from .layers import F, conv, dense, he, image, t_conv, t_dense
from .network import ids, network, normal
from .twin import torch

# LeNet-5: LeCun, Bottou, Bengio and Haffner 1998, section II.B; the connections of layer C3 are those of its table I.
C3_ROWS = (
    "X...XXX..XXXX.XX", "XX...XXX..XXXX.X", "XXX...XXX..X.XXX", ".XXX..XXXX..X.XX", "..XXX..XXXX.XX.X",
    "...XXX..XXXX.XXX",
)  # fmt: skip
C3_TABLE = np.array([[mark == "X" for mark in row] for row in C3_ROWS], "float32")


@oc.op
def squash(x):
    return 1.7159 * oc.tanh(2 / 3 * x)


@oc.op
def subsampling(x):
    """The sum of each 2x2 window times a coefficient plus a bias, both of the channel."""
    coefficient = oc.param(oc.uniform(0.2, 0.3), o=[x.dims[-1]])
    bias = oc.param(o=[x.dims[-1]])
    return squash(coefficient * x.sum("...|(h p),(w q),c => ...|h,w,c", p=2, q=2) + bias)


@network(seconds=20, learning_rate=2e-4, x=normal(32, 32, 32, 1), y=ids(10, 32))
def lenet_5():
    """The loss is the penalty of the correct class plus that of the others (equation 9 of the paper, j = 0.1)."""

    @oc.op
    def model(x):
        c1 = squash(conv(x, channels=6, window=5))
        s2 = subsampling(c1)
        kernel = oc.param(he(100), o=[5, 5, 6, 16])
        bias = oc.param(o=[16])
        c3 = squash(oc.conv2d(s2, kernel * C3_TABLE) + bias)
        c5 = squash(conv(subsampling(c3), channels=120, window=5))
        f6 = squash(dense(c5, outputs=84))
        centers = oc.param(oc.uniform(-1.0, 1.0), o=[10, 84])
        return oc.einsum("...|f; kf => ...|kf", f6, centers, combine="sub")

    def loss(x, y):
        penalty = (model(x) ** 2).sum("...|kf => ...|k")
        return (oc.pick(penalty, y) + oc.log(np.exp(-0.1) + oc.exp(-penalty).sum("...|k => ...|"))).mean()

    def reference(w, x, y):
        w = w("model")
        def t_squash(x):
            return 1.7159 * torch.tanh(2 / 3 * x)

        def t_subsampling(x, w):
            x = 4 * F.avg_pool2d(x, 2)
            return t_squash(w["coefficient"][:, None, None] * x + w["bias"][:, None, None])

        x = t_squash(t_conv(image(x), w("conv")))
        x = t_subsampling(x, w("subsampling"))
        kernel = w["kernel"] * torch.tensor(C3_TABLE)
        x = t_squash(F.conv2d(x, kernel.permute(3, 2, 0, 1)) + w["bias"][:, None, None])
        x = t_squash(t_conv(t_subsampling(x, w("subsampling")), w("conv")))
        x = t_squash(t_dense(x.flatten(1), w("dense")))
        penalty = ((x[:, None] - w["centers"]) ** 2).sum(2)
        chosen = penalty.gather(1, y[:, None])[:, 0]
        return (chosen + torch.log(np.exp(-0.1) + torch.exp(-penalty).sum(1))).mean()

    return loss, reference
