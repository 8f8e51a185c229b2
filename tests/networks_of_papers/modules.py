"""Modules of later convolutional and attention networks, with a stem and a head: channels that are split, shuffled and
gated, windows of attention, nested skip connections, forecasts of residuals."""

from __future__ import annotations

import numpy as np

import ocannl as oc

from .layers import (
    F,
    bare_conv,
    batch_norm,
    conv,
    dense,
    image,
    layer_norm,
    pooled,
    t_bare_conv,
    t_batch_norm,
    t_conv,
    t_dense,
    t_layer_norm,
)
from .network import ids, network, normal, uniform
from .twin import torch


@network(seconds=30, learning_rate=0.01, x=normal(2, 95, 95, 3), y=ids(100, 2))
def squeeze_net():
    """SqueezeNet 1.1 (Iandola et al. 2016) for 100 classes, in images of 95x95."""
    widths = ((16, 64), (16, 64)), ((32, 128), (32, 128)), ((48, 192), (48, 192), (64, 256), (64, 256))

    @oc.op
    def fire(x, *, inner, channels):
        s = oc.relu(conv(x, channels=inner, window=1))
        a = oc.relu(conv(s, channels=channels, window=1))
        b = oc.relu(conv(s, channels=channels, window=3, padding="same"))
        return oc.concat("...|h,w,a; ...|h,w,b => ...|h,w,a^b", a, b)

    def loss(x, y):
        h = oc.relu(conv(x, channels=64, window=3, stride=2))
        for group in widths:
            h = oc.max_pool2d(h, 3, stride=2)
            for inner, channels in group:
                h = fire(h, inner=inner, channels=channels)
        return oc.cross_entropy(pooled(conv(h, channels=100, window=1)), y).mean()

    def reference(w, x, y):
        h = F.relu(t_conv(image(x), w("conv"), stride=2))
        for group in widths:
            h = F.max_pool2d(h, 3, 2)
            for _ in group:
                fire = w("fire")
                s = F.relu(t_conv(h, fire("conv")))
                a = F.relu(t_conv(s, fire("conv")))
                h = torch.cat([a, F.relu(t_conv(s, fire("conv"), padding=1))], 1)
        return F.cross_entropy(t_conv(h, w("conv")).mean((2, 3)), y)

    return loss, reference


@network(seconds=30, learning_rate=0.01, x=normal(4, 28, 28, 116), y=ids(100, 4))
def shuffle_net():
    """Three units of a stage of ShuffleNet V2 (Ma et al. 2018): one half of the channels passes, then all are mixed."""

    @oc.op
    def unit(x):
        half = x.dims[-1] // 2
        same = oc.concat(f"...|h,w,a^{half} => ...|h,w,a", x)
        h = oc.concat(f"...|h,w,{half}^a => ...|h,w,a", x)
        h = oc.relu(batch_norm(bare_conv(h, channels=half, window=1)))
        h = batch_norm(bare_conv(h, channels=half, window=3, groups=half))
        h = oc.relu(batch_norm(bare_conv(h, channels=half, window=1)))
        h = oc.concat("...|h,w,a; ...|h,w,b => ...|h,w,a^b", same, h)
        return oc.einsum("...|h,w,(g c) => ...|h,w,(c g)", h, g=2)

    def loss(x, y):
        for _ in range(3):
            x = unit(x)
        return oc.cross_entropy(dense(pooled(x), outputs=100), y).mean()

    def reference(w, x, y):
        h = image(x)
        for _ in range(3):
            unit = w("unit")
            same, h = h.chunk(2, 1)
            h = F.relu(t_batch_norm(t_bare_conv(h, unit("bare_conv")), unit("batch_norm")))
            h = t_batch_norm(t_bare_conv(h, unit("bare_conv"), padding=1, groups=58), unit("batch_norm"))
            h = F.relu(t_batch_norm(t_bare_conv(h, unit("bare_conv")), unit("batch_norm")))
            h = torch.stack([same, h], 2).flatten(1, 2)
        return F.cross_entropy(t_dense(h.mean((2, 3)), w("dense")), y)

    return loss, reference


@network(seconds=20, learning_rate=0.01, x=normal(2, 14, 14, 192), y=ids(100, 2))
def conv_next():
    """Two blocks of a stage of ConvNeXt-T (Liu et al. 2022): windows of 7x7, norms of channels, scaled branches."""

    @oc.op
    def block(x):
        h = layer_norm(conv(x, channels=192, window=7, groups=192, padding="same"))
        scale = oc.param(oc.uniform(0.5, 1.0), o=[192])
        h = dense(oc.gelu(dense(oc.einsum("b|h,w,c => b,h,w|c", h), outputs=768)), outputs=192)
        return x + scale * oc.einsum("b,h,w|c => b|h,w,c", h)

    def loss(x, y):
        return oc.cross_entropy(dense(layer_norm(pooled(block(block(x)))), outputs=100), y).mean()

    def reference(w, x, y):
        for _ in range(2):
            block = w("block")
            h = t_conv(image(x), block("conv"), padding=3, groups=192).permute(0, 2, 3, 1)
            h = t_dense(t_layer_norm(h, block("layer_norm")), block("dense"))
            x = x + block["scale"] * t_dense(F.gelu(h, approximate="tanh"), block("dense"))
        return F.cross_entropy(t_dense(t_layer_norm(x.mean((1, 2)), w("layer_norm")), w("dense")), y)

    return loss, reference


@network(seconds=20, learning_rate=0.01, x=normal(2, 28, 28, 64), y=ids(100, 2))
def block_attention():
    """Two residual blocks with CBAM (Woo et al. 2018): gates of channels, and of positions by one map of gates."""

    @oc.op
    def gated(x):
        h = oc.silu(conv(x, channels=64, window=3, padding="same"))
        inner = oc.op(lambda v: dense(oc.relu(dense(v, outputs=4)), outputs=64))(label="inner")
        h = h * oc.sigmoid(inner(h.mean("...|h,w,c => ...|c")) + inner(h.max("...|h,w,c => ...|c")))
        maps = h.mean("...|h,w,c => ...|h,w,0"), h.max("...|h,w,c => ...|h,w,0")
        maps = oc.concat("...|h,w,a; ...|h,w,b => ...|h,w,a^b", *maps)
        return x + h * oc.sigmoid(conv(maps, channels=1, window=7, padding="same", label="positions"))

    def loss(x, y):
        return oc.cross_entropy(dense(pooled(gated(gated(x))), outputs=100), y).mean()

    def reference(w, x, y):
        def gate(v, w):
            return t_dense(F.relu(t_dense(v, w("dense"))), w("dense"))

        x = image(x)
        for _ in range(2):
            gated = w("gated")
            h = F.silu(t_conv(x, gated("conv"), padding=1))
            channels = gate(h.mean((2, 3)), gated.block("inner")) + gate(h.amax((2, 3)), gated.block("inner"))
            h = h * F.sigmoid(channels)[:, :, None, None]
            maps = torch.cat([h.mean(1, keepdim=True), h.amax(1, keepdim=True)], 1)
            x = x + h * F.sigmoid(t_conv(maps, gated("positions"), padding=3))
        return F.cross_entropy(t_dense(x.mean((2, 3)), w("dense")), y)

    return loss, reference


@network(seconds=20, learning_rate=0.01, x=normal(1, 64, 64, 1), y=uniform(1, 64, 64, 1))
def u_net_plus_plus():
    """UNet++ of three levels (Zhou et al. 2018) for one grey picture, with 16, 32 and 64 channels."""

    @oc.op
    def node(*xs, channels):
        letters = "abcd"[: len(xs)]
        joined = xs[0]
        if len(xs) > 1:
            spec = "; ".join(f"...|h,w,{a}" for a in letters) + f" => ...|h,w,{'^'.join(letters)}"
            joined = oc.concat(spec, *xs)
        return oc.silu(conv(joined, channels=channels, window=3, padding="same"))

    def up(x):
        return oc.einsum("...|h,w,c => ...|(h p),(w q),c", x, p=2, q=2)

    def loss(x, y):
        x00 = node(x, channels=16)
        x10 = node(oc.avg_pool2d(x00, 2), channels=32)
        x20 = node(oc.avg_pool2d(x10, 2), channels=64)
        x01 = node(x00, up(x10), channels=16)
        x11 = node(x10, up(x20), channels=32)
        x02 = node(x00, x01, up(x11), channels=16)
        first = oc.sigmoid(conv(x01, channels=1, window=1))
        return ((first + oc.sigmoid(conv(x02, channels=1, window=1)) - y) ** 2).mean()

    def reference(w, x, y):
        def node(*xs):
            return F.silu(t_conv(torch.cat(xs, 1), w("node")("conv"), padding=1))

        def up(x):
            return F.interpolate(x, scale_factor=2)

        x00 = node(image(x))
        x10 = node(F.avg_pool2d(x00, 2))
        x20 = node(F.avg_pool2d(x10, 2))
        x01 = node(x00, up(x10))
        x11 = node(x10, up(x20))
        x02 = node(x00, x01, up(x11))
        return ((F.sigmoid(t_conv(x01, w("conv"))) + F.sigmoid(t_conv(x02, w("conv"))) - image(y)) ** 2).mean()

    return loss, reference


def fourier(size):
    angles = 2 * np.pi * np.outer(np.arange(size), np.arange(size)) / size
    return (np.cos(angles) / size**0.5).astype("float32"), (np.sin(angles) / size**0.5).astype("float32")


@network(seconds=20, learning_rate=0.02, x=ids(1000, 2, 128), y=ids(20, 2))
def f_net():
    """Two layers of FNet (Lee-Thorp et al. 2021): 128 tokens of 256 channels are mixed by Fourier transforms."""
    tokens, channels = fourier(128), fourier(256)

    @oc.op
    def layer(x):
        parts = [oc.einsum("i,j; b,j|d; d,e => b,i|e", a, x, b) for a, b in zip(tokens, channels, strict=True)]
        x = layer_norm(x + parts[0] - parts[1])
        return layer_norm(x + dense(oc.gelu(dense(x, outputs=1024)), outputs=256))

    def loss(x, y):
        table = oc.param(oc.normal(), o=[1000, 256])
        h = layer(layer(table.take(x)))
        return oc.cross_entropy(dense(oc.tanh(oc.einsum("b,0|d => b|d", h)), outputs=20), y).mean()

    def reference(w, x, y):
        h = w["table"][x]
        for _ in range(2):
            layer = w("layer")
            mixed = torch.fft.fft2(h, norm="ortho").real
            h = t_layer_norm(h + mixed, layer("layer_norm"))
            inner = F.gelu(t_dense(h, layer("dense")), approximate="tanh")
            h = t_layer_norm(h + t_dense(inner, layer("dense")), layer("layer_norm"))
        return F.cross_entropy(t_dense(torch.tanh(h[:, 0]), w("dense")), y)

    return loss, reference


@network(seconds=20, learning_rate=1e-3, x=normal(1, 28, 28, 96), y=ids(100, 1))
def swin():
    """Two blocks of Swin-T (Liu et al. 2021): attention of three heads in windows of 7x7, the second time shifted."""

    @oc.op
    def attention(x):
        """Of each window with itself; `x` is batch, row and column of windows | position, channel."""
        x = oc.einsum("b,y,x|s,c => b,y,x,s|c", x)
        q, k, v = (oc.einsum("b,y,x,s|(m d) => b,y,x|m,s,d", dense(x, outputs=96), m=3) for _ in range(3))
        nearness = oc.param(oc.normal(), o=[3, 49, 49])
        scores = oc.einsum("...|m,s,d; ...|m,t,d => ...|m,s,t", q, k) / 32**0.5 + nearness
        h = oc.einsum("...|m,s,t; ...|m,t,d => ...|m,s,d", oc.softmax(scores, "...|m,s,t => ...|m,s"), v)
        return oc.einsum("b,y,x,s|c => b,y,x|s,c", dense(oc.einsum("b,y,x|m,s,d => b,y,x,s|(m d)", h), outputs=96))

    @oc.op
    def block(x, *, shift):
        h = layer_norm(x)
        if shift:
            h = oc.roll(h, -shift, "b|h,w,c => b|w,c")
            h = oc.roll(h, -shift, "b|h,w,c => b|h,c")
        h = attention(oc.einsum("b|(y p),(x q),c => b,y,x|(p q),c", h, p=7, q=7))
        h = oc.einsum("b,y,x|(p q),c => b|(y p),(x q),c", h, p=7)
        if shift:
            h = oc.roll(h, shift, "b|h,w,c => b|w,c")
            h = oc.roll(h, shift, "b|h,w,c => b|h,c")
        x = x + h
        h = oc.einsum("b|h,w,c => b,h,w|c", layer_norm(x))
        return x + oc.einsum("b,h,w|c => b|h,w,c", dense(oc.gelu(dense(h, outputs=384)), outputs=96))

    def loss(x, y):
        return oc.cross_entropy(dense(pooled(block(block(x, shift=0), shift=3)), outputs=100), y).mean()

    def reference(w, x, y):
        for shift in 0, 3:
            block = w("block")
            h = torch.roll(t_layer_norm(x, block("layer_norm")), (-shift, -shift), (1, 2))
            h = h.reshape(-1, 4, 7, 4, 7, 96).transpose(2, 3).reshape(-1, 4, 4, 49, 96)
            inner = block("attention")
            q, k, v = (t_dense(h, inner("dense")).unflatten(-1, (3, 32)).transpose(-2, -3) for _ in range(3))
            scores = q @ k.transpose(-1, -2) / 32**0.5 + inner["nearness"]
            h = t_dense((scores.softmax(-1) @ v).transpose(-2, -3).flatten(-2), inner("dense"))
            h = h.reshape(-1, 4, 4, 7, 7, 96).transpose(2, 3).reshape(-1, 28, 28, 96)
            x = x + torch.roll(h, (shift, shift), (1, 2))
            h = F.gelu(t_dense(t_layer_norm(x, block("layer_norm")), block("dense")), approximate="tanh")
            x = x + t_dense(h, block("dense"))
        return F.cross_entropy(t_dense(x.mean((1, 2)), w("dense")), y)

    return loss, reference


@network(seconds=20, learning_rate=1e-4, x=normal(256, 70), y=normal(256, 14))
def n_beats():
    """Four generic blocks of N-BEATS (Oreshkin et al. 2020): each explains what the earlier blocks left."""

    @oc.op
    def block(x):
        h = x
        for _ in range(4):
            h = oc.relu(dense(h, outputs=256))
        return dense(dense(h, outputs=32), outputs=70), dense(dense(h, outputs=32), outputs=14)

    def loss(x, y):
        forecast = 0.0
        for _ in range(4):
            past, following = block(x)
            x, forecast = x - past, forecast + following
        return ((forecast - y) ** 2).mean()

    def reference(w, x, y):
        forecast = 0.0
        for _ in range(4):
            block, h = w("block"), x
            for _ in range(4):
                h = F.relu(t_dense(h, block("dense")))
            past = t_dense(t_dense(h, block("dense")), block("dense"))
            x, forecast = x - past, forecast + t_dense(t_dense(h, block("dense")), block("dense"))
        return ((forecast - y) ** 2).mean()

    return loss, reference


@network(seconds=15, learning_rate=0.01, x=normal(512, 1), y=normal(512, 1))
def mixture_density():
    """A mixture density network (Bishop 1994) of one variable: eight Gaussians from a hidden layer of 128 units."""

    def loss(x, y):
        h = oc.tanh(dense(x, outputs=128))
        logits, means, log_std = (dense(h, outputs=8) for _ in range(3))
        scores = oc.log_softmax(logits) - 0.5 * ((y - means) * oc.exp(-log_std)) ** 2 - log_std
        return -oc.logsumexp(scores).mean()

    def reference(w, x, y):
        h = torch.tanh(t_dense(x, w("dense")))
        logits, means, log_std = (t_dense(h, w("dense")) for _ in range(3))
        scores = logits.log_softmax(-1) - 0.5 * ((y - means) * torch.exp(-log_std)) ** 2 - log_std
        return -scores.logsumexp(-1).mean()

    return loss, reference


@network(seconds=20, learning_rate=0.01, x=normal(2, 28, 28, 64), y=ids(100, 2))
def res2_net():
    """Two modules of Res2Net (Gao et al. 2019): four groups of channels, each convolved with the result before it."""

    @oc.op
    def module(x):
        h = oc.silu(batch_norm(bare_conv(x, channels=64, window=1)))
        groups = [oc.concat(f"...|h,w,{16 * n}^c^{48 - 16 * n} => ...|h,w,c", h, c=16) for n in range(4)]
        for n in 1, 2, 3:
            before = groups[n] if n == 1 else groups[n] + groups[n - 1]
            groups[n] = oc.silu(batch_norm(bare_conv(before, channels=16, window=3)))
        h = oc.concat("...|h,w,a; ...|h,w,b; ...|h,w,c; ...|h,w,d => ...|h,w,a^b^c^d", *groups)
        return x + batch_norm(bare_conv(h, channels=64, window=1))

    def loss(x, y):
        return oc.cross_entropy(dense(pooled(module(module(x))), outputs=100), y).mean()

    def reference(w, x, y):
        x = image(x)
        for _ in range(2):
            module = w("module")
            h = F.silu(t_batch_norm(t_bare_conv(x, module("bare_conv")), module("batch_norm")))
            groups = list(h.chunk(4, 1))
            for n in 1, 2, 3:
                before = groups[n] if n == 1 else groups[n] + groups[n - 1]
                before = t_bare_conv(before, module("bare_conv"), padding=1)
                groups[n] = F.silu(t_batch_norm(before, module("batch_norm")))
            x = x + t_batch_norm(t_bare_conv(torch.cat(groups, 1), module("bare_conv")), module("batch_norm"))
        return F.cross_entropy(t_dense(x.mean((2, 3)), w("dense")), y)

    return loss, reference
