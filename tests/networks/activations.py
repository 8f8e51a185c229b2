"""What is done to each cell, or to each row of channels."""

from __future__ import annotations

from .builder import Builder
from .dense import channel_parameter
from .program import Value

CELLS = (
    ("oc.relu({x})", "relu({x})"),
    ("oc.relu({x})", "relu({x})"),
    ("oc.gelu({x})", "gelu({x})"),
    ("oc.silu({x})", "F.silu({x})"),
    ("oc.tanh({x})", "torch.tanh({x})"),
    ("oc.sigmoid({x})", "torch.sigmoid({x})"),
    ("oc.softplus({x})", "F.softplus({x})"),
    ("oc.elu({x})", "F.elu({x})"),
    ("oc.leaky_relu({x}, slope=0.1)", "leaky({x}, 0.1)"),
    ("oc.sat01({x})", "sat01({x})"),
    ("oc.abs({x})", "absolute({x})"),
    ("oc.sin({x})", "torch.sin({x})"),
    ("{x} * oc.tanh(oc.softplus({x}))", "F.mish({x})"),
    ("{x} / (1 + oc.abs({x}))", "{x} / (1 + absolute({x}))"),
    ("oc.exp(-({x} * {x}))", "torch.exp(-({x} * {x}))"),
    ("oc.recip_sqrt(1 + {x} ** 2)", "torch.rsqrt(1 + {x} ** 2)"),
    ("oc.log(1 + {x} * {x})", "torch.log(1 + {x} * {x})"),
    ("oc.where({x} > 0, {x}, 0.2 * {x})", "leaky({x}, 0.2)"),
    ("oc.maximum({x}, 0.1 * {x})", "leaky({x}, 0.1)"),
    ("{x} * oc.stop_gradient(oc.sigmoid({x}))", "{x} * torch.sigmoid({x}).detach()"),
)


def activation(net: Builder, x: Value) -> Value:
    text, torch_code = net.choices.pick(CELLS)
    return net.let("h", text.format(x=x.name), torch_code.format(x=x.name), x.form, x.dims, like=x)


def softmax(net: Builder, x: Value) -> Value:
    """Over channels, or over places."""
    name = net.choices.pick(("softmax", "log_softmax"))
    over = net.choices.pick(x.axes)
    if x.form == "vector" and net.choices.chance(50):
        text = f"oc.{name}({x.name})"
    else:
        rows = net.rows(x)
        kept = ", ".join("0" if a == over else a for a in x.axes)
        text = f'oc.{name}({x.name}, "{rows}|{", ".join(x.axes)} => {rows}|{kept}")'
    return net.let("h", text, f"{x.name}.{name}({x.positions(over)[0]})", x.form, x.dims, like=x)


def gated(net: Builder, x: Value) -> Value | None:
    """Half of the channels opens or shuts the other half."""
    if x.axes[-1] != "c" or x.channels % 2:
        return None
    rows, spaces, half = net.rows(x), "".join(f"{a}, " for a in x.axes[:-1]), x.channels // 2
    act, act_torch = net.choices.pick((("sigmoid", "torch.sigmoid"), ("gelu", "gelu"), ("silu", "F.silu")))
    split: tuple[str, ...]
    halves: tuple[str, ...]
    if net.choices.chance(50):
        split = (f'oc.concat("{rows}|{spaces}c^r => {rows}|{spaces}c", {x.name}, c={half})',
                 f'oc.concat("{rows}|{spaces}r^c => {rows}|{spaces}c", {x.name}, c={half})')  # fmt: skip
        halves = (f"{x.name}[..., :{half}]", f"{x.name}[..., {half}:]")
    else:
        axis = -1 - len(x.dims)
        two = net.let("z", f'oc.einsum("{rows}|{spaces}(g c) => {rows}|g, {spaces}c", {x.name}, g=2)',
                      f"{x.name}.unflatten(-1, (2, {half})).movedim(-2, {axis})", "gates",
                      (2, *x.dims[:-1], half), like=x).name  # fmt: skip
        split = tuple(f'oc.einsum("...|{n}, {spaces}c => ...|{spaces}c", {two})' for n in (0, 1))
        halves = tuple(f"{two}.select({axis}, {n})" for n in (0, 1))
    dims = x.with_channels(half)
    a = net.let("z", split[0], halves[0], x.form, dims, like=x)
    b = net.let("z", split[1], halves[1], x.form, dims, like=x)
    return net.let("h", f"{a.name} * oc.{act}({b.name})", f"{a.name} * {act_torch}({b.name})", x.form, dims, like=x)


def scaled(net: Builder, x: Value) -> Value:
    """By a number that is learned, or by one for each channel."""
    if net.choices.chance(40):
        a = net.parameter("a", [], scale=0.2, mean=1.0)
        return net.let("h", f"{a} * {x.name}", f"{a} * {x.name}", x.form, x.dims, like=x)
    a, torch_code = channel_parameter(net, x, "a", 0.3, 1.0)
    return net.let("h", f"{x.name} * {a}", f"{x.name} * {torch_code}", x.form, x.dims, like=x)


def rectified_by_slopes(net: Builder, x: Value) -> Value:
    """Slopes below zero are learned: He et al. 2015."""
    a, torch_code = channel_parameter(net, x, "a", 0.2, 0.2)
    text = f"oc.relu({x.name}) - {a} * oc.relu(-{x.name})"
    return net.let("h", text, f"relu({x.name}) - {torch_code} * relu(-{x.name})", x.form, x.dims, like=x)


def maxout(net: Builder, x: Value) -> Value | None:
    """The largest of a few channels: Goodfellow et al. 2013."""
    if x.axes[-1] != "c" or x.channels < 2:
        return None
    pieces, rows = net.divisor(x.channels, 4), net.rows(x)
    spaces = "".join(f"{a}, " for a in x.axes[:-1])
    text = f'{x.name}.max("{rows}|{spaces}(c k) => {rows}|{spaces}c", k={pieces})'
    torch_code = f"greatest({x.name}.unflatten(-1, (-1, {pieces})), (-1,))"
    return net.let("h", text, torch_code, x.form, x.with_channels(x.channels // pieces), like=x)
