"""Deep convolutional classifiers of 224x224 images: shortcuts, branches, depthwise convolutions."""

from __future__ import annotations

import ocannl as oc

from .layers import F, bare_conv, batch_norm, conv, dense, image, pooled, t_bare_conv, t_batch_norm, t_conv, t_dense
from .network import ids, network, normal
from .twin import torch


@network(seconds=145, learning_rate=0.01, x=normal(2, 224, 224, 3), y=ids(1000, 2))
def resnet_18():
    """The network of 18 layers of He et al. 2016."""

    @oc.op
    def block(x, *, channels, stride):
        h = oc.relu(batch_norm(bare_conv(x, channels=channels, window=3, stride=stride)))
        h = batch_norm(bare_conv(h, channels=channels, window=3))
        if stride > 1:
            x = batch_norm(bare_conv(x, channels=channels, window=1, stride=stride))
        return oc.relu(x + h)

    def loss(x, y):
        h = oc.relu(batch_norm(bare_conv(x, channels=64, window=7, stride=2)))
        h = oc.max_pool2d(h, 3, stride=2, padding="same")
        for channels in 64, 128, 256, 512:
            h = block(h, channels=channels, stride=1 if channels == 64 else 2)
            h = block(h, channels=channels, stride=1)
        return oc.cross_entropy(dense(pooled(h), outputs=1000), y).mean()

    def reference(w, x, y):
        def t_block(x, w, stride):
            h = F.relu(t_batch_norm(t_bare_conv(x, w("bare_conv"), stride=stride, padding=1), w("batch_norm")))
            h = t_batch_norm(t_bare_conv(h, w("bare_conv"), padding=1), w("batch_norm"))
            if stride > 1:
                x = t_batch_norm(t_bare_conv(x, w("bare_conv"), stride=stride), w("batch_norm"))
            return F.relu(x + h)

        h = F.relu(t_batch_norm(t_bare_conv(image(x), w("bare_conv"), stride=2, padding=3), w("batch_norm")))
        h = F.max_pool2d(h, 3, 2, 1)
        for stride in 1, 1, 2, 1, 2, 1, 2, 1:
            h = t_block(h, w("block"), stride)
        return F.cross_entropy(t_dense(h.mean((2, 3)), w("dense")), y)

    return loss, reference


def local_response_norm(x):
    """Each channel divided by what its five neighbors sum up to (Krizhevsky, Sutskever and Hinton 2012)."""
    return x / (2 + 1e-4 * (x**2).sum("...|h,w,c=+n => ...|h,w,c", n=5)) ** 0.75


def t_local_response_norm(x):
    return F.local_response_norm(x, 5, alpha=5e-4, beta=0.75, k=2)


INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64), "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128), "5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128),
}  # fmt: skip


@network(seconds=222, learning_rate=0.0005, x=normal(1, 224, 224, 3), y=ids(1000, 1))
def googlenet():
    """Inception v1 of Szegedy et al. 2015, with both auxiliary classifiers and without dropout."""

    @oc.op
    def same_conv(x, *, channels, window, stride=1):
        return oc.relu(conv(x, channels=channels, window=window, stride=stride, padding="same"))

    @oc.op
    def inception(x, *, channels):
        single, three_reduced, three, five_reduced, five, pool = channels
        a = same_conv(x, channels=single, window=1)
        b = same_conv(same_conv(x, channels=three_reduced, window=1), channels=three, window=3)
        c = same_conv(same_conv(x, channels=five_reduced, window=1), channels=five, window=5)
        d = same_conv(oc.max_pool2d(x, 3, stride=1, padding="same"), channels=pool, window=1)
        return oc.concat("...|h,w,a; ...|h,w,b; ...|h,w,c; ...|h,w,d => ...|h,w,a^b^c^d", a, b, c, d)

    @oc.op
    def auxiliary(x):
        h = same_conv(oc.avg_pool2d(x, 5, stride=3), channels=128, window=1)
        return dense(oc.relu(dense(h, outputs=1024)), outputs=1000)

    def loss(x, y):
        h = same_conv(x, channels=64, window=7, stride=2)
        h = local_response_norm(oc.max_pool2d(h, 3, stride=2, padding="same"))
        h = same_conv(same_conv(h, channels=64, window=1), channels=192, window=3)
        h = oc.max_pool2d(local_response_norm(h), 3, stride=2, padding="same")
        scores = []
        for name, channels in INCEPTIONS.items():
            if name in ("4a", "5a"):
                h = oc.max_pool2d(h, 3, stride=2, padding="same")
            h = inception(h, channels=channels)
            if name in ("4a", "4d"):
                scores.append(auxiliary(h))
        total = oc.cross_entropy(dense(pooled(h), outputs=1000), y)
        return (total + 0.3 * sum(oc.cross_entropy(s, y) for s in scores)).mean()

    def reference(w, x, y):
        def t_same_conv(x, w, stride=1):
            padding = w.block("conv").block("bare_conv")["kernel"].shape[0] // 2
            return F.relu(t_conv(x, w("conv"), stride=stride, padding=padding))

        def t_inception(x, w):
            a = t_same_conv(x, w("same_conv"))
            b = t_same_conv(t_same_conv(x, w("same_conv")), w("same_conv"))
            c = t_same_conv(t_same_conv(x, w("same_conv")), w("same_conv"))
            d = t_same_conv(F.max_pool2d(x, 3, 1, 1), w("same_conv"))
            return torch.cat([a, b, c, d], 1)

        def t_auxiliary(x, w):
            h = t_same_conv(F.avg_pool2d(x, 5, 3), w("same_conv")).permute(0, 2, 3, 1).flatten(1)
            return t_dense(F.relu(t_dense(h, w("dense"))), w("dense"))

        h = t_local_response_norm(F.max_pool2d(t_same_conv(image(x), w("same_conv"), 2), 3, 2, 1))
        h = t_same_conv(t_same_conv(h, w("same_conv")), w("same_conv"))
        h = F.max_pool2d(t_local_response_norm(h), 3, 2, 1)
        total = 0.0
        for name in INCEPTIONS:
            if name in ("4a", "5a"):
                h = F.max_pool2d(h, 3, 2, 1)
            h = t_inception(h, w("inception"))
            if name in ("4a", "4d"):
                total = total + 0.3 * F.cross_entropy(t_auxiliary(h, w("auxiliary")), y)
        return total + F.cross_entropy(t_dense(h.mean((2, 3)), w("dense")), y)

    return loss, reference


# EfficientNet-B0: Tan and Le 2019, table 1; expansion, channels, blocks, stride and window of each stage.
STAGES = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5)]
STAGES += [(6, 320, 1, 1, 3)]


@network(seconds=1800, learning_rate=0.01, x=normal(2, 224, 224, 3), y=ids(1000, 2))
def efficientnet_b0():
    """Inverted residuals with depthwise convolutions, squeeze and excitation, and SiLU."""

    @oc.op
    def norm_conv(x, *, channels, window=1, stride=1, groups=1):
        return batch_norm(bare_conv(x, channels=channels, window=window, stride=stride, groups=groups))

    @oc.op
    def excited(x, *, inner):
        gate = dense(oc.silu(dense(pooled(x), outputs=inner)), outputs=x.dims[-1])
        return x * oc.einsum("...|c => ...|00c", oc.sigmoid(gate))

    @oc.op
    def block(x, *, expansion, channels, stride, window):
        before, inner = x.dims[-1], expansion * x.dims[-1]
        h = oc.silu(norm_conv(x, channels=inner)) if expansion > 1 else x
        h = oc.silu(norm_conv(h, channels=inner, window=window, stride=stride, groups=inner))
        h = norm_conv(excited(h, inner=before // 4), channels=channels)
        return x + h if stride == 1 and channels == before else h

    def loss(x, y):
        h = oc.silu(norm_conv(x, channels=32, window=3, stride=2))
        for expansion, channels, count, stride, window in STAGES:
            for n in range(count):
                step = stride if n == 0 else 1
                h = block(h, expansion=expansion, channels=channels, stride=step, window=window)
        h = oc.silu(norm_conv(h, channels=1280))
        return oc.cross_entropy(dense(pooled(h), outputs=1000), y).mean()

    def reference(w, x, y):
        def t_norm_conv(x, w, window=1, **settings):
            h = t_bare_conv(x, w("bare_conv"), padding=window // 2, **settings)
            return t_batch_norm(h, w("batch_norm"))

        def t_excited(x, w):
            gate = t_dense(F.silu(t_dense(x.mean((2, 3)), w("dense"))), w("dense"))
            return x * torch.sigmoid(gate)[:, :, None, None]

        def t_block(x, w, expansion, channels, stride, window):
            h = F.silu(t_norm_conv(x, w("norm_conv"))) if expansion > 1 else x
            h = F.silu(t_norm_conv(h, w("norm_conv"), window, stride=stride, groups=h.shape[1]))
            h = t_norm_conv(t_excited(h, w("excited")), w("norm_conv"))
            return x + h if stride == 1 and channels == x.shape[1] else h

        h = F.silu(t_norm_conv(image(x), w("norm_conv"), 3, stride=2))
        for expansion, channels, count, stride, window in STAGES:
            for n in range(count):
                h = t_block(h, w("block"), expansion, channels, stride if n == 0 else 1, window)
        h = F.silu(t_norm_conv(h, w("norm_conv")))
        return F.cross_entropy(t_dense(h.mean((2, 3)), w("dense")), y)

    return loss, reference


@network(seconds=193, learning_rate=0.01, x=normal(2, 227, 227, 3), y=ids(1000, 2))
def alexnet():
    """The network of Krizhevsky, Sutskever and Hinton 2012 with its two groups, without dropout."""

    @oc.op
    def group_conv(x, *, channels, window):
        return oc.relu(conv(x, channels=channels, window=window, groups=2, padding="same"))

    def loss(x, y):
        h = oc.relu(conv(x, channels=96, window=11, stride=4))
        h = group_conv(oc.max_pool2d(local_response_norm(h), 3, stride=2), channels=256, window=5)
        h = oc.max_pool2d(local_response_norm(h), 3, stride=2)
        h = oc.relu(conv(h, channels=384, window=3, padding="same"))
        h = group_conv(group_conv(h, channels=384, window=3), channels=256, window=3)
        h = oc.relu(dense(oc.max_pool2d(h, 3, stride=2), outputs=4096))
        h = oc.relu(dense(h, outputs=4096))
        return oc.cross_entropy(dense(h, outputs=1000), y).mean()

    def reference(w, x, y):
        def t_group_conv(x, w, padding):
            return F.relu(t_conv(x, w("conv"), groups=2, padding=padding))

        h = F.relu(t_conv(image(x), w("conv"), stride=4))
        h = t_group_conv(F.max_pool2d(t_local_response_norm(h), 3, 2), w("group_conv"), 2)
        h = F.max_pool2d(t_local_response_norm(h), 3, 2)
        h = F.relu(t_conv(h, w("conv"), padding=1))
        h = t_group_conv(t_group_conv(h, w("group_conv"), 1), w("group_conv"), 1)
        h = F.relu(t_dense(F.max_pool2d(h, 3, 2).permute(0, 2, 3, 1).flatten(1), w("dense")))
        h = F.relu(t_dense(h, w("dense")))
        return F.cross_entropy(t_dense(h, w("dense")), y)

    return loss, reference
