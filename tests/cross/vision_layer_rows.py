"""Layers of images, and networks of `ocannl.nn`, beside those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch_layer import ChannelsLast, Layer, Sizes, torch

import ocannl as oc
from ocannl import nn
from ocannl.nn.models.resnet import bottleneck_block

t = torch.nn


def last(make: Callable[[int], Any]) -> Callable[[Sizes], Any]:
    """A module of images with channels first, for operands with channels last."""
    return lambda sizes: ChannelsLast(make(sizes[-1]))


class Parts(t.Module):  # type: ignore[misc]
    """A module of a function over parts, which are registered in the given order."""

    def __init__(self, function: Callable[..., Any], *parts: Any) -> None:
        super().__init__()
        self.parts, self.function = t.ModuleList(parts), function

    def forward(self, *operands: Any) -> Any:
        return self.function(*operands, *self.parts)


def normed_conv(before: int, after: int, window: int, stride: int = 1) -> Any:
    return t.Sequential(t.Conv2d(before, after, window, stride, window // 2, bias=False), t.BatchNorm2d(after))


def squeeze_excite(c: int) -> Any:
    def gated(x: Any, squeeze: Any, excite: Any) -> Any:
        return x * torch.sigmoid(excite(torch.relu(squeeze(x.mean((2, 3))))))[:, :, None, None]

    return Parts(gated, t.Linear(c, 2), t.Linear(2, c))


def lenet(sizes: Sizes) -> Any:
    _, h, w, c = sizes
    return ChannelsLast(t.Sequential(
        t.Conv2d(c, 6, 5, padding=2), t.Tanh(), t.AvgPool2d(2), t.Conv2d(6, 16, 5), t.Tanh(), t.AvgPool2d(2),
        t.Flatten(), t.Linear(16 * (h // 4 - 2) * (w // 4 - 2), 120), t.Tanh(), t.Linear(120, 84), t.Tanh(),
        t.Linear(84, 10),
    ))  # fmt: skip


def vgg(c: int, stages: Sequence[int], norm: bool) -> Any:
    parts: list[Any] = []
    for count, channels in zip(stages, (3, 4, 5, 6, 6), strict=True):
        for _ in range(count):
            parts += [t.Conv2d(c, channels, 3, padding=1), *([t.BatchNorm2d(channels)] if norm else []), t.ReLU()]
            c = channels
        parts.append(t.MaxPool2d(2))
    dense = [t.Linear(6 * 49, 8), t.ReLU(), t.Linear(8, 8), t.ReLU(), t.Linear(8, 3)]
    return t.Sequential(*parts, t.AdaptiveAvgPool2d(7), t.Flatten(), *dense)


def residual_block(before: int, channels: int, stride: int, is_bottleneck: bool) -> Any:
    after = 4 * channels if is_bottleneck else channels
    if is_bottleneck:
        convs = [normed_conv(before, channels, 1), t.ReLU(), normed_conv(channels, channels, 3, stride), t.ReLU(),
                 normed_conv(channels, after, 1)]  # fmt: skip
    else:
        convs = [normed_conv(before, channels, 3, stride), t.ReLU(), normed_conv(channels, channels, 3)]
    shortcut = t.Identity() if before == after and stride == 1 else normed_conv(before, after, 1, stride)
    return Parts(lambda x, block, short: torch.relu(block(x) + short(x)), t.Sequential(*convs), shortcut)


def resnet(c: int, stages: Sequence[int], is_bottleneck: bool) -> Any:
    parts: list[Any] = [normed_conv(c, 4, 7, 2), t.ReLU(), t.MaxPool2d(3, 2, 1)]
    before = 4
    for stage, count in enumerate(stages):
        for n in range(count):
            channels = 4 << stage
            parts.append(residual_block(before, channels, 2 if n == 0 and stage else 1, is_bottleneck))
            before = 4 * channels if is_bottleneck else channels
    return t.Sequential(*parts, t.AdaptiveAvgPool2d(1), t.Flatten(), t.Linear(before, 5))


def double_conv(before: int, after: int, norm: bool) -> Any:
    parts: list[Any] = []
    for c in (before, after):
        parts += [t.Conv2d(c, after, 3, padding=1, bias=not norm), *([t.BatchNorm2d(after)] if norm else []), t.ReLU()]
    return t.Sequential(*parts)


def unet(c: int, widths: Sequence[int], norm: bool) -> Any:
    depth = len(widths)
    down = [double_conv(before, after, norm) for before, after in zip((c, *widths), widths, strict=False)]
    up = [part for level in reversed(range(depth - 1)) for part in (
        t.ConvTranspose2d(widths[level + 1], widths[level], 2, 2), double_conv(2 * widths[level], widths[level], norm)
    )]  # fmt: skip

    def forward(x: Any, *parts: Any) -> Any:
        levels = []
        for level in range(depth):
            x = parts[level](torch.max_pool2d(x, 2) if level else x)
            levels.append(x)
        for n, level in enumerate(reversed(range(depth - 1))):
            raised = parts[depth + 2 * n](x)
            x = parts[depth + 2 * n + 1](torch.cat([levels[level], raised], 1))
        return parts[-1](x)

    return Parts(forward, *down, *up, t.Conv2d(widths[0], 2, 1))


def vae(c: int) -> Any:
    def forward(x: Any, encoder: Any, decoder: Any, mean: Any, log_var: Any) -> Any:
        h = encoder(x)
        return torch.cat([decoder(mean(h) + torch.exp(0.5 * log_var(h)) * 0.5), mean(h), log_var(h)], 1)

    decoder = t.Sequential(t.Linear(2, 5), t.ReLU(), t.Linear(5, c))
    return Parts(forward, t.Linear(c, 6), decoder, t.Linear(6, 2), t.Linear(6, 2))


def our_vae() -> oc.Block:
    @oc.op
    def network(x: oc.Tensor) -> oc.Tensor:
        noise = oc.full(0.5)
        encoder, decoder = nn.linear(width=6), nn.mlp(widths=[5, x.dims[-1]])
        parts = nn.vae(x, noise, latent=2, encoder=encoder, decoder=decoder)
        return oc.concat("...|a; ...|b; ...|c => ...|a^b^c", *parts)

    return network(label="network")  # type: ignore[no-any-return]


IMAGES = ((2, 5, 6, 3), (3, 8, 7, 2))
PAIRS = ((2, 5, 6, 4), (3, 8, 7, 2))
ROWS = (
    Layer("conv1d", lambda: nn.conv1d(channels=4, window=3), last(lambda c: t.Conv1d(c, 4, 3)), ((2, 9, 3), (1, 6, 1))),
    Layer("conv1d with a stride", lambda: nn.conv1d(channels=4, window=3, stride=2, padding=2, dilation=2, bias=False),
          last(lambda c: t.Conv1d(c, 4, 3, 2, 2, 2, bias=False)), ((2, 9, 3), (1, 8, 2))),
    Layer("conv2d", lambda: nn.conv2d(channels=4, window=3, padding=1), last(lambda c: t.Conv2d(c, 4, 3, padding=1)),
          IMAGES),
    Layer("conv2d in groups", lambda: nn.conv2d(channels=6, window=(3, 2), stride=(2, 1), groups=2),
          last(lambda c: t.Conv2d(c, 6, (3, 2), (2, 1), groups=2)), PAIRS),
    Layer("conv3d", lambda: nn.conv3d(channels=3, window=2, stride=2, padding=1),
          last(lambda c: t.Conv3d(c, 3, 2, 2, 1)), ((2, 4, 3, 5, 2), (1, 3, 3, 2, 1))),
    Layer("conv_transpose1d", lambda: nn.conv_transpose1d(channels=4, window=3, stride=2, padding=1, output_padding=1),
          last(lambda c: t.ConvTranspose1d(c, 4, 3, 2, 1, 1)), ((2, 5, 3), (1, 3, 1))),
    Layer("conv_transpose2d", lambda: nn.conv_transpose2d(channels=4, window=2, stride=2),
          last(lambda c: t.ConvTranspose2d(c, 4, 2, 2)), ((2, 3, 4, 3), (1, 2, 5, 2))),
    Layer("conv_transpose3d", lambda: nn.conv_transpose3d(channels=2, window=3, stride=2, padding=1),
          last(lambda c: t.ConvTranspose3d(c, 2, 3, 2, 1)), ((1, 2, 3, 2, 3), (1, 2, 2, 2, 1))),
    Layer("depthwise_conv1d", lambda: nn.depthwise_conv1d(window=3, padding=1),
          last(lambda c: t.Conv1d(c, c, 3, padding=1, groups=c)), ((2, 9, 3), (1, 6, 2))),
    Layer("depthwise_conv2d", lambda: nn.depthwise_conv2d(window=3, multiplier=2, stride=2, padding=1),
          last(lambda c: t.Conv2d(c, 2 * c, 3, 2, 1, groups=c)), IMAGES),
    Layer("depthwise_conv3d", lambda: nn.depthwise_conv3d(window=2), last(lambda c: t.Conv3d(c, c, 2, groups=c)),
          ((2, 4, 3, 5, 2), (1, 3, 3, 2, 3))),
    Layer("batch_norm", lambda: nn.batch_norm(), lambda sizes: t.BatchNorm1d(sizes[-1]), ((6, 3), (9, 4))),
    Layer("batch_norm of images", lambda: nn.batch_norm(momentum=0.3, eps=1e-3),
          last(lambda c: t.BatchNorm2d(c, momentum=0.3, eps=1e-3)), IMAGES),
    Layer("batch_norm without parameters", lambda: nn.batch_norm(affine=False),
          last(lambda c: t.BatchNorm2d(c, affine=False)), IMAGES),
    Layer("group_norm", lambda: nn.group_norm(groups=2), last(lambda c: t.GroupNorm(2, c)), PAIRS),
    Layer("instance_norm", lambda: nn.instance_norm(), last(lambda c: t.InstanceNorm2d(c)), IMAGES),
    Layer("instance_norm with parameters", lambda: nn.instance_norm(affine=True),
          last(lambda c: t.InstanceNorm2d(c, affine=True)), IMAGES),
    Layer("global_avg_pool", lambda: nn.global_avg_pool(label="pool"),
          last(lambda c: t.Sequential(t.AdaptiveAvgPool2d(1), t.Flatten())), IMAGES),
    Layer("global_max_pool", lambda: nn.global_max_pool(label="pool"),
          last(lambda c: t.Sequential(t.AdaptiveMaxPool2d(1), t.Flatten())), IMAGES),
    Layer("residual", lambda: nn.residual(function=nn.linear(width=3), shortcut=nn.linear(width=3, bias=False)),
          lambda sizes: Parts(lambda x, f, g: f(x) + g(x), t.Linear(sizes[-1], 3), t.Linear(sizes[-1], 3, False)),
          ((4, 5), (2, 3))),
    Layer("squeeze_excite", lambda: nn.squeeze_excite(width=2), last(squeeze_excite), PAIRS),
    Layer("patchify", lambda: nn.patchify(window=(2, 3), width=5),
          lambda sizes: Parts(lambda x, conv: conv(x.movedim(-1, 1)).flatten(2).movedim(1, 2),
                              t.Conv2d(sizes[-1], 5, (2, 3), (2, 3))), ((2, 4, 6, 3), (1, 2, 9, 2)), more=1),
    Layer("lenet", lambda: nn.lenet(), lenet, ((4, 28, 28, 1), (2, 16, 20, 2)), rate=0.01),
    Layer("vgg", lambda: nn.vgg(layers=11, classes=3, channels=(3, 4, 5, 6, 6), width=8, rate=0.0),
          last(lambda c: vgg(c, (1, 1, 2, 2, 2), False)), ((2, 32, 32, 3), (1, 48, 32, 1)), rate=0.001),
    Layer("vgg with norm", lambda: nn.vgg(layers=13, classes=3, channels=(3, 4, 5, 6, 6), width=8, rate=0.0, norm=True),
          last(lambda c: vgg(c, (2, 2, 2, 2, 2), True)), ((4, 32, 32, 3), (3, 48, 32, 1)), rate=0.001),
    Layer("resnet", lambda: nn.resnet(classes=5, width=4), last(lambda c: resnet(c, (2, 2, 2, 2), False)),
          ((4, 33, 40, 3), (3, 64, 32, 1)), rate=0.001),
    Layer("bottleneck_block", lambda: bottleneck_block(channels=2, stride=2, project=True),
          last(lambda c: residual_block(c, 2, 2, True)), IMAGES),
    Layer("unet", lambda: nn.unet(classes=2, widths=[4, 8, 16]), last(lambda c: unet(c, (4, 8, 16), False)),
          ((2, 8, 12, 3), (1, 16, 8, 1)), rate=0.01),
    Layer("unet with norm", lambda: nn.unet(classes=2, widths=[4, 8], norm=True), last(lambda c: unet(c, (4, 8), True)),
          ((2, 8, 12, 3), (1, 16, 8, 1)), rate=0.01),
    Layer("vae", our_vae, lambda sizes: vae(sizes[-1]), ((4, 7), (3, 3))),
)  # fmt: skip
