"""Networks of images, in `ocannl.nn` and in PyTorch."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from network_pair import Pair, images, torch

import ocannl as oc
from ocannl import nn

t = torch.nn

# --- a bottleneck of ResNet (He et al. 2016) -------------------------------------------------------------------------


@oc.op
def normed_conv(x, *, channels, window, stride=1):
    return nn.batch_norm(nn.conv2d(x, channels=channels, window=window, stride=stride, padding="same", bias=False))


@oc.op
def bottleneck(x, *, inner, channels, stride):
    h = oc.silu(normed_conv(x, channels=inner, window=1))
    h = oc.silu(normed_conv(h, channels=inner, window=3, stride=stride))
    h = normed_conv(h, channels=channels, window=1)
    h = oc.silu(h + normed_conv(x, channels=channels, window=1, stride=stride))
    return nn.linear(nn.global_avg_pool(h), width=10)


class NormedConv(t.Sequential):
    def __init__(self, before, channels, window, stride=1):
        conv = t.Conv2d(before, channels, window, stride, padding=window // 2, bias=False)
        super().__init__(conv, t.BatchNorm2d(channels))


class Bottleneck(t.Module):
    def __init__(self, before, inner, channels, stride):
        super().__init__()
        self.conv1 = NormedConv(before, inner, 1)
        self.conv2 = NormedConv(inner, inner, 3, stride)
        self.conv3 = NormedConv(inner, channels, 1)
        self.shortcut = NormedConv(before, channels, 1, stride)
        self.head = t.Linear(channels, 10)

    def forward(self, x):
        h = F.silu(self.conv1(x))
        h = F.silu(self.conv2(h))
        h = F.silu(self.conv3(h) + self.shortcut(x))
        return self.head(h.mean((2, 3)))


# --- U-Net (Ronneberger et al. 2015) ---------------------------------------------------------------------------------


@oc.op
def twice(x, *, channels):
    for _ in range(2):
        x = oc.silu(normed_conv(x, channels=channels, window=3))
    return x


@oc.op
def u_net(x):
    fine = twice(x, channels=4)
    middle = twice(oc.max_pool2d(fine, 2), channels=8)
    h = nn.conv_transpose2d(twice(oc.max_pool2d(middle, 2), channels=16), channels=8, window=2, stride=2)
    h = twice(oc.concat("...|h,w,a; ...|h,w,b => ...|h,w,a^b", middle, h), channels=8)
    h = nn.conv_transpose2d(h, channels=4, window=2, stride=2)
    h = twice(oc.concat("...|h,w,a; ...|h,w,b => ...|h,w,a^b", fine, h), channels=4)
    return nn.conv2d(h, channels=2, window=1)


class Twice(t.Sequential):
    def __init__(self, before, channels):
        super().__init__(NormedConv(before, channels, 3), t.SiLU(), NormedConv(channels, channels, 3), t.SiLU())


class UNet(t.Module):
    def __init__(self, channels):
        super().__init__()
        self.down1 = Twice(channels, 4)
        self.down2 = Twice(4, 8)
        self.bottom = Twice(8, 16)
        self.up2 = t.ConvTranspose2d(16, 8, 2, 2)
        self.merge2 = Twice(16, 8)
        self.up1 = t.ConvTranspose2d(8, 4, 2, 2)
        self.merge1 = Twice(8, 4)
        self.head = t.Conv2d(4, 2, 1)

    def forward(self, x):
        fine = self.down1(x)
        middle = self.down2(F.max_pool2d(fine, 2))
        h = self.up2(self.bottom(F.max_pool2d(middle, 2)))
        h = self.merge2(torch.cat([middle, h], 1))
        h = self.merge1(torch.cat([fine, self.up1(h)], 1))
        return self.head(h)


# --- DenseNet (Huang et al. 2017) ------------------------------------------------------------------------------------


@oc.op
def dense_net(x, *, layers=4, growth=4):
    for _ in range(layers):
        new = nn.conv2d(oc.silu(nn.batch_norm(x)), channels=growth, window=3, padding=1, bias=False)
        x = oc.concat("...|h,w,a; ...|h,w,b => ...|h,w,a^b", x, new)
    return nn.linear(nn.global_avg_pool(oc.silu(nn.batch_norm(x))), width=10)


class DenseNet(t.Module):
    def __init__(self, channels, layers=4, growth=4):
        super().__init__()
        self.layers = t.ModuleList()
        for n in range(layers):
            before = channels + n * growth
            conv = t.Conv2d(before, growth, 3, padding=1, bias=False)
            self.layers.append(t.Sequential(t.BatchNorm2d(before), t.SiLU(), conv))
        after = channels + layers * growth
        self.norm = t.BatchNorm2d(after)
        self.head = t.Linear(after, 10)

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.head(F.silu(self.norm(x)).mean((2, 3)))


# --- ConvNeXt (Liu et al. 2022) --------------------------------------------------------------------------------------


@oc.op
def conv_next_block(x):
    channels = x.dims[-1]
    scale = oc.param(1e-6, o=[channels])
    h = nn.layer_norm(nn.depthwise_conv2d(x, window=7, padding=3), axes=1)
    h = oc.gelu(nn.conv2d(h, channels=4 * channels, window=1))
    return x + scale * nn.conv2d(h, channels=channels, window=1)


@oc.op
def conv_next(x):
    return conv_next_block(conv_next_block(x))


class ConvNeXtBlock(t.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = t.Parameter(1e-6 * torch.ones(channels))
        self.depthwise = t.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = t.LayerNorm(channels)
        self.inner = t.Conv2d(channels, 4 * channels, 1)
        self.outer = t.Conv2d(4 * channels, channels, 1)

    def forward(self, x):
        h = self.norm(self.depthwise(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        h = self.outer(F.gelu(self.inner(h), approximate="tanh"))
        return x + self.scale[:, None, None] * h


class ConvNeXt(t.Sequential):
    def __init__(self, channels):
        super().__init__(ConvNeXtBlock(channels), ConvNeXtBlock(channels))


# --- a residual block of a diffusion model (Ho et al. 2020) ----------------------------------------------------------


@oc.op
def diffusion_block(x, *, time, channels=8):
    emb = nn.mlp(nn.sinusoids(time, width=16), widths=[8, 8], activation=oc.silu)
    h = nn.conv2d(oc.silu(nn.group_norm(x, groups=2)), channels=channels, window=3, padding=1)
    h = h + oc.einsum("...|c => ...|00c", nn.linear(oc.silu(emb), width=channels))
    h = nn.conv2d(oc.silu(nn.group_norm(h, groups=2)), channels=channels, window=3, padding=1)
    return h + nn.conv2d(x, channels=channels, window=1)


class DiffusionBlock(t.Module):
    def __init__(self, before, time, channels=8):
        super().__init__()
        self.time = time
        self.embed = t.Sequential(t.Linear(16, 8), t.SiLU(), t.Linear(8, 8))
        self.norm1 = t.GroupNorm(2, before)
        self.conv1 = t.Conv2d(before, channels, 3, padding=1)
        self.shift = t.Linear(8, channels)
        self.norm2 = t.GroupNorm(2, channels)
        self.conv2 = t.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = t.Conv2d(before, channels, 1)

    def forward(self, x):
        angles = self.time[:, None] * 10000.0 ** (-torch.arange(0, 16, 2).double() / 16)
        emb = self.embed(torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(x.dtype))
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.shift(F.silu(emb))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.shortcut(x)


# --- LeNet-5 (LeCun et al. 1998) -------------------------------------------------------------------------------------


@oc.op
def lenet(x):
    x = oc.max_pool2d(oc.relu(nn.conv2d(x, channels=6, window=5, padding=2)), 2)
    x = oc.max_pool2d(oc.relu(nn.conv2d(x, channels=16, window=5)), 2)
    return nn.mlp(x, widths=[24, 16, 10])


class LeNet(t.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = t.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = t.Conv2d(6, 16, 5)
        self.dense = t.Sequential(t.Linear(64, 24), t.ReLU(), t.Linear(24, 16), t.ReLU(), t.Linear(16, 10))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.dense(x.flatten(1))


# --- VGG with batch norm (Simonyan, Zisserman 2015) ------------------------------------------------------------------


@oc.op
def vgg(x):
    for channels in (4, 6, 8):
        for _ in range(2):
            x = oc.relu(nn.batch_norm(nn.conv2d(x, channels=channels, window=3, padding=1)))
        x = oc.max_pool2d(x, 2)
    return nn.mlp(x, widths=[16, 10])


class VGG(t.Sequential):
    def __init__(self, before):
        parts = []
        for channels in (4, 6, 8):
            for _ in range(2):
                parts += [t.Conv2d(before, channels, 3, padding=1), t.BatchNorm2d(channels), t.ReLU()]
                before = channels
            parts.append(t.MaxPool2d(2))
        super().__init__(*parts, t.Flatten(), t.Linear(8, 16), t.ReLU(), t.Linear(16, 10))


# --- an inverted residual of MobileNetV2, with squeeze and excitation (Sandler et al. 2018; Howard et al. 2019) ------


@oc.op
def mobile_net(x, *, expand=4):
    channels = x.dims[-1]
    h = oc.hard_swish(normed_conv(x, channels=expand * channels, window=1))
    h = oc.hard_swish(nn.batch_norm(nn.depthwise_conv2d(h, window=3, padding=1, bias=False)))
    return x + normed_conv(nn.squeeze_excite(h, width=2), channels=channels, window=1)


class SqueezeExcite(t.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.dense = t.Sequential(t.Linear(channels, width), t.ReLU(), t.Linear(width, channels), t.Sigmoid())

    def forward(self, x):
        return x * self.dense(x.mean((2, 3)))[:, :, None, None]


class MobileNet(t.Module):
    def __init__(self, channels, expand=4):
        super().__init__()
        inner = expand * channels
        self.expand = NormedConv(channels, inner, 1)
        self.depthwise = t.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False)
        self.norm = t.BatchNorm2d(inner)
        self.gate = SqueezeExcite(inner, 2)
        self.project = NormedConv(inner, channels, 1)

    def forward(self, x):
        h = F.hardswish(self.expand(x))
        h = F.hardswish(self.norm(self.depthwise(h)))
        return x + self.project(self.gate(h))


# --- an Inception module (Szegedy et al. 2015) -----------------------------------------------------------------------


@oc.op
def inception(x):
    a = oc.silu(nn.conv2d(x, channels=3, window=1))
    b = oc.silu(nn.conv2d(oc.silu(nn.conv2d(x, channels=2, window=1)), channels=4, window=3, padding=1))
    c = oc.silu(nn.conv2d(oc.max_pool2d(x, 3, 1, padding=1), channels=2, window=1))
    return oc.concat("...|h,w,a; ...|h,w,b; ...|h,w,c => ...|h,w,a^b^c", a, b, c)


class Inception(t.Module):
    def __init__(self, channels):
        super().__init__()
        self.single = t.Conv2d(channels, 3, 1)
        self.reduce = t.Conv2d(channels, 2, 1)
        self.conv = t.Conv2d(2, 4, 3, padding=1)
        self.project = t.Conv2d(channels, 2, 1)

    def forward(self, x):
        a = F.silu(self.single(x))
        b = F.silu(self.conv(F.silu(self.reduce(x))))
        c = F.silu(self.project(F.max_pool2d(x, 3, 1, padding=1)))
        return torch.cat([a, b, c], 1)


# --- super-resolution by sub-pixel convolution (Shi et al. 2016) -----------------------------------------------------


@oc.op
def super_resolution(x, *, scale=2):
    h = oc.tanh(nn.conv2d(oc.tanh(nn.conv2d(x, channels=8, window=5, padding=2)), channels=6, window=3, padding=1))
    return oc.pixel_shuffle(nn.conv2d(h, channels=scale**2, window=3, padding=1), scale)


class SuperResolution(t.Sequential):
    def __init__(self, channels, scale=2):
        super().__init__(
            t.Conv2d(channels, 8, 5, padding=2),
            t.Tanh(),
            t.Conv2d(8, 6, 3, padding=1),
            t.Tanh(),
            t.Conv2d(6, scale**2, 3, padding=1),
            t.PixelShuffle(scale),
        )


# --- a convolutional autoencoder -------------------------------------------------------------------------------------


@oc.op
def autoencoder(x):
    h = oc.silu(nn.conv2d(x, channels=4, window=3, stride=2, padding=1))
    h = oc.silu(nn.conv2d(h, channels=8, window=3, stride=2, padding=1))
    h = oc.silu(nn.conv_transpose2d(h, channels=4, window=2, stride=2))
    return oc.sigmoid(nn.conv_transpose2d(h, channels=x.dims[-1], window=2, stride=2))


class Autoencoder(t.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = t.Conv2d(channels, 4, 3, 2, padding=1)
        self.conv2 = t.Conv2d(4, 8, 3, 2, padding=1)
        self.up1 = t.ConvTranspose2d(8, 4, 2, 2)
        self.up2 = t.ConvTranspose2d(4, channels, 2, 2)

    def forward(self, x):
        h = F.silu(self.conv2(F.silu(self.conv1(x))))
        return torch.sigmoid(self.up2(F.silu(self.up1(h))))


TIMES = [3.0, 500.0]

PAIRS = (
    Pair("ResNet bottleneck", (normed_conv, bottleneck), (NormedConv, Bottleneck),
         lambda: bottleneck(inner=3, channels=6, stride=2), images(lambda c: Bottleneck(c, 3, 6, 2)), (2, 6, 6, 4)),
    Pair("U-Net", (twice, u_net), (Twice, UNet), u_net, images(UNet), (2, 8, 8, 3)),
    Pair("DenseNet", (dense_net,), (DenseNet,), dense_net, images(DenseNet), (2, 5, 5, 3)),
    Pair("ConvNeXt", (conv_next_block, conv_next), (ConvNeXtBlock, ConvNeXt), conv_next, images(ConvNeXt),
         (2, 8, 8, 4)),
    Pair("diffusion block", (diffusion_block,), (DiffusionBlock,),
         lambda: diffusion_block(time=oc.tensor(np.array(TIMES), batch_axes=1)),
         images(lambda c: DiffusionBlock(c, torch.tensor(TIMES, dtype=torch.float64))), (2, 6, 6, 4)),
    Pair("LeNet", (lenet,), (LeNet,), lenet, images(LeNet), (2, 16, 16, 1)),
    Pair("VGG", (vgg,), (VGG,), vgg, images(VGG), (2, 8, 8, 3)),
    Pair("MobileNet", (mobile_net,), (SqueezeExcite, MobileNet), mobile_net, images(MobileNet), (2, 5, 5, 3)),
    Pair("Inception", (inception,), (Inception,), inception, images(Inception), (2, 5, 5, 3)),
    Pair("super-resolution", (super_resolution,), (SuperResolution,), super_resolution, images(SuperResolution),
         (2, 4, 4, 1)),
    Pair("autoencoder", (autoencoder,), (Autoencoder,), autoencoder, images(Autoencoder), (2, 8, 8, 1)),
)  # fmt: skip
