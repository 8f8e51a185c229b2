"""Convolutions, plain, strided, dilated, grouped and transposed, by function and by spec."""

from __future__ import annotations

from math import prod

from .builder import Builder
from .dense import biased
from .program import Value

KERNELS = (1, 3, 3, 3, 2, 5, 7, 4)


Walk = tuple[int, int, int]  # the kernel, stride and dilation of one axis


def windowed(net: Builder, size: int, kernels: tuple[int, ...], strides: tuple[int, ...]) -> Walk | None:
    """A kernel, stride and dilation with which windows lie inside and reach the end of an axis."""
    fitting = [
        (kernel, stride, gap)
        for kernel in kernels
        for stride in strides
        for gap in ((1, 2) if kernel > 1 and stride == 1 else (1,))
        if (span := 1 + (kernel - 1) * gap) <= size and (size - span) % stride == 0
    ]
    return net.choices.pick(fitting) if fitting else None


def conv(net: Builder, x: Value) -> Value | None:
    """A convolution in time or space: by the function, or for planes by the spec that it stands for."""
    if x.form == "vector":
        return None
    padding = net.choices.pick(("same", "same", "none"))
    chosen = [chosen_axis(net, n, padding) for n in x.extents]
    if None in chosen:
        return None
    walks = [walk for walk in chosen if walk is not None]
    kernel, stride, dilation = zip(*walks, strict=True)
    groups = net.choices.weighted(((1, 5), (x.channels, 2), (net.divisor(x.channels), 1)))
    taps = prod(kernel) * (x.channels // groups)
    affordable = max(1, net.work_left // max(1, 2 * x.cells // x.channels * taps))
    width = min(net.width(x), affordable)
    width = max(1, width // groups) * groups
    sizes = tuple(after(n, *walk, padding) for n, walk in zip(x.extents, walks, strict=True))
    result = convolved(net, x, kernel, stride, dilation, padding, groups, width, sizes)
    return biased(net, result) if net.choices.chance(30) else result


def chosen_axis(net: Builder, n: int, padding: str) -> Walk | None:
    if padding == "none":
        return windowed(net, n, KERNELS, (1, 2, 3))
    stride = net.choices.pick([s for s in (1, 1, 1, 2, 3) if n % s == 0])
    return net.choices.pick(KERNELS), stride, net.choices.pick((1, 1, 2)) if stride == 1 else 1


def after(n: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    return n // stride if padding == "same" else (n - 1 - (kernel - 1) * dilation) // stride + 1


def convolved(
    net: Builder, x: Value, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], padding: str,
    groups: int, width: int, sizes: tuple[int, ...],
) -> Value:  # fmt: skip
    inner = x.channels // groups
    dims = [*kernel, inner, width]
    role = "kernel" if groups == 1 else f"kernel of {groups} groups"
    k = net.parameter("k", dims, scale=(prod(kernel) * inner) ** -0.5, role=role)
    work = x.cells // x.channels // prod(x.extents) * prod(sizes) * width * prod(kernel) * inner
    if x.form == "planes":
        return by_spec(net, x, k, stride, dilation, padding, groups, (width, *sizes), work)
    settings = f"stride={list(stride)}, dilation={list(dilation)}, padding='{padding}', groups={groups}"
    text = f"oc.conv{len(kernel)}d({x.name}, {k}, {settings})"
    torch_code = f"conv({x.name}, {k}, {settings})"
    return net.let("h", text, torch_code, x.form, (*sizes, width), work=work, like=x)


def by_spec(
    net: Builder, x: Value, k: str, stride: tuple[int, ...], dilation: tuple[int, ...], padding: str, groups: int,
    dims: tuple[int, ...], work: int,
) -> Value:  # fmt: skip
    mark = "=" if padding == "same" else "<"
    spaces = ", ".join(f"{s}*o{a}{mark}+{d}*k{a}" for a, s, d in zip("hw", stride, dilation, strict=True))
    inner, outer, names = ("i", "o", "") if groups == 1 else ("(g i)", "(g o)", f", g={groups}")
    rows = net.rows(x)
    spec = f"{rows}|{inner}, {spaces}; kh, kw, i, {outer} => {rows}|{outer}, oh, ow"
    settings = f"stride={list(stride)}, dilation={list(dilation)}, padding='{padding}', groups={groups}"
    torch_code = f"conv({x.name}.movedim(-3, -1), {k}, {settings}).movedim(-1, -3)"
    return net.let("h", f'oc.einsum("{spec}", {x.name}, {k}{names})', torch_code, x.form, dims, work=work, like=x)


def conv_transpose(net: Builder, x: Value) -> Value | None:
    """The way up: each cell becomes a window."""
    if x.form not in ("sequence", "image"):
        return None
    kernel = tuple(net.choices.pick((2, 3, 1)) for _ in x.extents)
    stride = tuple(net.choices.pick((1, 2)) for _ in x.extents)
    sizes = tuple((n - 1) * s + k for n, s, k in zip(x.extents, stride, kernel, strict=True))
    if max(sizes) > 96 and x.form == "image":
        return None
    width = min(net.width(x), max(1, net.work_left // max(1, 2 * x.cells * prod(kernel))))
    k = net.parameter("k", [*kernel, x.channels, width], scale=(prod(kernel) * x.channels) ** -0.5)
    work = x.cells * width * prod(kernel)
    text = f"oc.conv_transpose{len(kernel)}d({x.name}, {k}, stride={list(stride)})"
    torch_code = f"conv_transpose({x.name}, {k}, {list(stride)})"
    return net.let("h", text, torch_code, x.form, (*sizes, width), work=work, like=x)


def separable(net: Builder, x: Value) -> Value | None:
    """A convolution of each channel by itself: windows and the kernel have the channel in common."""
    if x.form not in ("planes", "image"):
        return None
    kernel = net.choices.pick((3, 5, 2))
    rows, windows = net.rows(x), "oh=+kh, ow=+kw"
    k = net.parameter("k", [kernel, kernel, x.channels], scale=1 / kernel)
    first, last = (f"c, {windows}", "c, oh, ow") if x.form == "planes" else (f"{windows}, c", "oh, ow, c")
    spec = f"{rows}|{first}; kh, kw, c => {rows}|{last}"
    moved, back = (".movedim(-3, -1)", ".movedim(-1, -3)") if x.form == "planes" else ("", "")
    settings = f"[1, 1], [1, 1], 'same', {x.channels}"
    torch_code = f"conv({x.name}{moved}, {k}.unsqueeze(2), {settings}){back}"
    text = f'oc.einsum("{spec}", {x.name}, {k})'
    return net.let("h", text, torch_code, x.form, x.dims, work=x.cells * kernel**2, like=x)
