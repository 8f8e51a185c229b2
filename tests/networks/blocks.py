"""Blocks: several layers with paths around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .activations import activation, gated
from .attention import attention
from .builder import Builder, TooLarge, axes
from .convolutions import conv, conv_transpose, convolved
from .dense import biased, dense, linear
from .norms import batch_norm, layer_norm, rms_norm
from .pooling import pool_extents
from .program import Value
from .shapes import repeated

T = TypeVar("T")
Body = Callable[[Builder, Value], Value]
MAX_DEPTH = 3


def residual(net: Builder, x: Value, body: Body) -> Value | None:
    """`x` plus layers of it: the two are made to fit by a linear map where they do not."""
    y = body(net, x)
    return None if y.name == x.name else joined_by_sum(net, x, y)


def joined_by_sum(net: Builder, x: Value, y: Value) -> Value | None:
    x, y = same_extents(net, x, y)
    if x.form != y.form or x.batch != y.batch or x.extents != y.extents:
        return None
    if x.channels != y.channels:
        x = linear(net, x, y.channels)
    order = (y, x) if net.choices.chance(50) else (x, y)
    text = f"{order[0].name} + {order[1].name}"
    if net.choices.chance(20):
        text = f"({text}) * {net.choices.pick((0.5, 0.70710678))}"
    return net.let("h", text, text, y.form, y.dims, like=y)


def same_extents(net: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """A shortcut around a stride is a convolution of one cell with that stride."""
    strided = x.form == y.form and len(x.extents) == len(y.extents) and x.extents != y.extents and x.form != "vector"
    if not strided or any(n % m for n, m in zip(x.extents, y.extents, strict=True)):
        return x, y
    stride = tuple(n // m for n, m in zip(x.extents, y.extents, strict=True))
    ones = (1,) * len(stride)
    return convolved(net, x, ones, stride, ones, "same", 1, y.channels, y.extents), y


def resnet(net: Builder, x: Value) -> Value | None:
    """Convolution, norm, activation, convolution, norm, shortcut, activation: He et al. 2016."""
    if x.form == "vector":
        return None
    norm = net.choices.pick((batch_norm, batch_norm, layer_norm))
    y: Value | None = x
    for n in range(net.choices.pick((2, 1, 3))):
        y = conv(net, y) if y is not None else None
        if y is None:
            return None
        y = norm(net, y)
        y = activation(net, y) if n == 0 or net.choices.chance(50) else y
    added = joined_by_sum(net, x, y)
    return None if added is None else activation(net, added)


def squeezed(net: Builder, x: Value) -> Value | None:
    """Channels are weighted by what the means over all places give: Hu et al. 2018."""
    if x.form not in ("image", "sequence"):
        return None
    mean = pool_extents(net, x)
    if mean is None:
        return None
    inner = activation(net, dense(net, mean, max(1, x.channels // net.choices.pick((2, 4, 1)))))
    gate = biased(net, linear(net, inner, x.channels))
    rows, zeros = net.rows(x), "".join("0, " for _ in x.extents)
    shown = f'oc.einsum("{rows}|c => {rows}|{zeros}c", oc.sigmoid({gate.name}))'
    torch_code = f"torch.sigmoid({gate.name})" + "".join(".unsqueeze(1)" for _ in x.extents)
    return net.let("h", f"{x.name} * {shown}", f"{x.name} * {torch_code}", x.form, x.dims, like=x)


def densely(net: Builder, x: Value, body: Body) -> Value | None:
    """Channels of several layers, each of which sees all before: Huang et al. 2017."""
    y: Value | None = x
    for _ in range(net.choices.pick((1, 2, 3))):
        new = body(net, y) if y is not None else None
        y = joined_by_channels(net, [y, new]) if y is not None and new is not None else None
    return y


def joined_by_channels(net: Builder, parts: list[Value]) -> Value | None:
    x = parts[0]
    if any((v.form, v.batch, v.extents) != (x.form, x.batch, x.extents) for v in parts) or len(parts) > 4:
        return None
    if len({v.name for v in parts}) < len(parts):
        return None
    rows, letters = net.rows(x), "pqrs"[: len(parts)]
    specs = "; ".join(f"{rows}|{', '.join(letter if a == 'c' else a for a in x.axes)}" for letter in letters)
    result = f"{rows}|{', '.join('^'.join(letters) if a == 'c' else a for a in x.axes)}"
    names, channels = ", ".join(v.name for v in parts), sum(v.channels for v in parts)
    text = f'oc.concat("{specs} => {result}", {names})'
    torch_code = f"torch.cat([{names}], {x.positions('c')[0]})"
    return net.let("h", text, torch_code, x.form, x.with_channels(channels), like=x)


def branches(net: Builder, x: Value, body: Body) -> Value | None:
    """Several paths side by side: Szegedy et al. 2015."""
    parts = [body(net, x) for _ in range(net.choices.pick((2, 3)))]
    if net.choices.chance(30):
        branch: Value | None = parts[0]
        for part in parts[1:]:
            branch = joined_by_sum(net, branch, part) if branch is not None else None
        return branch
    return joined_by_channels(net, parts)


def down_and_up(net: Builder, x: Value, body: Body) -> Value | None:
    """A path through fewer places, and the shortcut beside it: Ronneberger et al. 2015."""
    if x.form not in ("image", "sequence") or any(n % 2 for n in x.extents):
        return None
    space = len(x.extents)
    if net.choices.chance(50):
        text = f"oc.max_pool{space}d({x.name}, 2)"
        small = net.let("h", text, f"max_pool({x.name}, {[2] * space}, {[2] * space})", x.form,
                        (*(n // 2 for n in x.extents), x.channels), like=x)  # fmt: skip
    else:
        twos, ones = (2,) * space, (1,) * space
        small = convolved(net, x, twos, twos, ones, "none", 1, net.width(x), tuple(n // 2 for n in x.extents))
    inner = body(net, small)
    if inner.form != x.form or inner.extents != small.extents:
        inner = small
    rows, names = net.rows(x), [a for a in x.axes if a != "c"]
    if net.choices.chance(50):
        k = net.parameter("k", [*(2 for _ in names), inner.channels, x.channels], scale=inner.channels**-0.5)
        text = f"oc.conv_transpose{space}d({inner.name}, {k}, stride=2)"
        torch_code = f"conv_transpose({inner.name}, {k}, {[2] * space})"
        up = net.let("h", text, torch_code, x.form, x.dims, work=x.cells * inner.channels, like=x)
    else:
        merged = ", ".join(f"({a} {a}2)" for a in names)
        sizes = ", ".join(f"{a}2=2" for a in names)
        text = f'oc.einsum("{rows}|{", ".join(names)}, c => {rows}|{merged}, c", {inner.name}, {sizes})'
        torch_code = inner.name + "".join(f".repeat_interleave(2, {x.positions(a)[0]})" for a in names)
        up = net.let("h", text, torch_code, x.form, (*x.extents, inner.channels), like=x)
    if net.choices.chance(50):
        return joined_by_channels(net, [x, up])
    return joined_by_sum(net, up, x)


def transformer(net: Builder, x: Value) -> Value | None:
    """Attention and a map of each step, with shortcuts and norms before: Vaswani et al. 2017."""
    if x.form != "sequence":
        return None
    norm = net.choices.pick((layer_norm, rms_norm))
    mixed = attention(net, norm(net, x))
    added = joined_by_sum(net, x, mixed) if mixed is not None else None
    if added is None:
        return None
    inner = dense(net, norm(net, added), min(net.choices.pick((2, 4, 1)) * added.channels, 1024))
    inner = gated(net, inner) or activation(net, inner) if net.choices.chance(30) else activation(net, inner)
    return joined_by_sum(net, added, biased(net, linear(net, inner, added.channels)))


def modulated(net: Builder, x: Value) -> Value | None:
    """Channels of an image or a sequence scaled and moved by a vector: Perez et al. 2018."""
    vectors = [v for v in net.values if v.form == "vector" and v.batch == x.batch]
    if x.form not in ("image", "sequence") or not vectors:
        return None
    v = net.choices.pick(vectors[-5:])
    gain, shift = linear(net, v, x.channels), linear(net, v, x.channels)
    rows, zeros = net.rows(x), "".join("0, " for _ in x.extents)
    spec, ones = f"{rows}|c => {rows}|{zeros}c", "".join(".unsqueeze(1)" for _ in x.extents)
    text = f'{x.name} * (1 + oc.einsum("{spec}", {gain.name})) + oc.einsum("{spec}", {shift.name})'
    torch_code = f"{x.name} * (1 + {gain.name}{ones}) + {shift.name}{ones}"
    return net.let("h", text, torch_code, x.form, x.dims, like=x)


def experts(net: Builder, x: Value) -> Value | None:
    """Maps weighted by a softmax: one parameter holds all of them."""
    if x.form != "vector":
        return None
    count, width, batch = net.choices.pick((2, 3, 4, 8)), net.size(min(64, net.width(x))), axes(x)
    gate = linear(net, x, count)
    w = net.parameter("w", [count, x.channels, width], scale=x.channels**-0.5)
    spec = f"{batch}|e; {batch}|c; e, c, o => {batch}|o"
    shares = net.let("p", f"oc.softmax({gate.name})", f"{gate.name}.softmax(-1)", "vector", gate.dims, like=x)
    torch_code = f"torch.einsum('...e,...c,eco->...o', {shares.name}, {x.name}, {w})"
    if net.choices.chance(50):
        text = f'oc.einsum("{spec}", {shares.name}, {x.name}, {w})'
    else:
        outputs = net.let("z", f'oc.einsum("{batch}|c; e, c, o => {batch}|e, o", {x.name}, {w})',
                       f"torch.einsum('...c,eco->...eo', {x.name}, {w})", "experts", (count, width),
                       work=x.cells * count * width, like=x)  # fmt: skip
        text = f'oc.einsum("{batch}|e; {batch}|e, o => {batch}|o", {shares.name}, {outputs.name})'
        torch_code = f"torch.einsum('...e,...eo->...o', {shares.name}, {outputs.name})"
    return net.let("h", text, torch_code, "vector", (width,), work=x.cells * count * width, like=x)


def highway(net: Builder, x: Value, body: Body) -> Value | None:
    """A gate that is learned chooses between `x` and layers of it: Srivastava et al. 2015."""
    y = body(net, x)
    if y.name == x.name or (y.form, y.shape) != (x.form, x.shape):
        return None
    g = biased(net, linear(net, x, x.channels))
    text = f"oc.sigmoid({g.name}) * {y.name} + (1 - oc.sigmoid({g.name})) * {x.name}"
    return net.let("h", text, text.replace("oc.", "torch."), x.form, x.dims, like=x)


def upscaled(net: Builder, x: Value) -> Value | None:
    return conv_transpose(net, x) if net.choices.chance(50) else repeated(net, x)


def tried(net: Builder, layer: Callable[[], T | None]) -> T | None:
    """What the layer makes, or nothing of it where it does not fit or costs too much."""
    before = net.snapshot()
    net.depth += 1
    try:
        result = layer()
    except TooLarge:
        result = None
    finally:
        net.depth -= 1
    if result is None:
        net.restore(before)
    return result
