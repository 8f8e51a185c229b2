"""Norms: over the batch, over channels, over places, over groups of channels."""

from __future__ import annotations

from .builder import Builder, axes
from .dense import channel_parameter
from .program import Value

EPS = 1e-5


def batch_norm(net: Builder, x: Value) -> Value:
    return normed(net, x, "bthw")


def layer_norm(net: Builder, x: Value) -> Value:
    return normed(net, x, "c")


def whole_norm(net: Builder, x: Value) -> Value | None:
    """Over all output axes."""
    return normed(net, x, "cthw") if x.extents else None


def instance_norm(net: Builder, x: Value) -> Value | None:
    return normed(net, x, "thw") if x.extents else None


def normed(net: Builder, x: Value, over: str) -> Value:
    """`x` minus its mean over some axes, divided by its standard deviation, then scaled and moved by channel."""
    if net.choices.chance(20):
        x = centered(net, x, over)
        spread = statistic(net, x, f"({x.name} * {x.name}).mean", f"({x.name} ** 2).mean(", over)
    else:
        middle = statistic(net, x, f"{x.name}.mean", f"{x.name}.mean(", over)
        choice = net.choices.integer(2)
        if choice == 0:
            off = difference(net, x, middle)
            spread = statistic(net, off, f"({off.name} ** 2).mean", f"({off.name} ** 2).mean(", over)
            x = off
        else:
            spread = statistic(net, x, f"{x.name}.var", f"variance({x.name}, ", over)
            x = difference(net, x, middle)
    divided = f"{x.name} * oc.recip_sqrt({spread.name} + {EPS})"
    if net.choices.chance(50):
        divided = f"{x.name} / oc.sqrt({spread.name} + {EPS})"
    return affine(net, x, divided, f"{x.name} / torch.sqrt({spread.name} + {EPS})")


def centered(net: Builder, x: Value, over: str) -> Value:
    middle = statistic(net, x, f"{x.name}.mean", f"{x.name}.mean(", over)
    return difference(net, x, middle)


def difference(net: Builder, x: Value, y: Value) -> Value:
    return net.let("d", f"{x.name} - {y.name}", f"{x.name} - {y.name}", x.form, x.dims, like=x)


def statistic(net: Builder, x: Value, call: str, torch_code: str, over: str) -> Value:
    """One number for each cell of the axes that are not in `over`; axes that are stay as ones where others follow."""
    batch, kept_batch = axes(x), "" if "b" in over else axes(x)
    if "b" not in over and net.choices.chance(50):
        batch = kept_batch = "..."
    kept = ["0" if axis in over else axis for axis in x.axes]
    dims = [1 if axis in over else n for axis, n in zip(x.axes, x.dims, strict=True)]
    spec = f"{batch}|{', '.join(x.axes)} => {kept_batch}|{', '.join(kept)}"
    text = f"{torch_code}{x.positions(over)}, keepdim=True)"
    text = f"{text}.reshape({dims})" if "b" in over else text
    return net.let("m", f'{call}("{spec}")', text, x.form, tuple(dims), batch=() if "b" in over else x.batch)


def affine(net: Builder, x: Value, text: str, torch_code: str) -> Value:
    choice = net.choices.integer(3)
    if choice == 0:
        return net.let("h", text, torch_code, x.form, x.dims, like=x)
    g, g_torch = channel_parameter(net, x, "g", 0.2, 1.0)
    text, torch_code = f"{text} * {g}", f"{torch_code} * {g_torch}"
    if choice == 2:
        b, b_torch = channel_parameter(net, x, "b", 0.1, 0.0)
        text, torch_code = f"{text} + {b}", f"{torch_code} + {b_torch}"
    return net.let("h", text, torch_code, x.form, x.dims, like=x)


def rms_norm(net: Builder, x: Value) -> Value:
    spread = statistic(net, x, f"({x.name} * {x.name}).mean", f"({x.name} ** 2).mean(", "c")
    divided = f"{x.name} * oc.recip_sqrt({spread.name} + {EPS})"
    return affine(net, x, divided, f"{x.name} * torch.rsqrt({spread.name} + {EPS})")


def group_norm(net: Builder, x: Value) -> Value | None:
    """Over places and the channels of a group, which are split off and merged again."""
    if x.axes[-1] != "c" or x.channels < 2:
        return None
    groups = net.divisor(x.channels)
    rows, inner = net.rows(x), x.channels // groups
    spaces = "".join(f"{a}, " for a in x.axes[:-1])
    dims = (*x.dims[:-1], groups, inner)
    split = f'oc.einsum("{rows}|{spaces}(g c) => {rows}|{spaces}g, c", {x.name}, g={groups})'
    parts = net.let("p", split, f"{x.name}.unflatten(-1, ({groups}, {inner}))", "grouped", dims, like=x)
    over = tuple(n for n in range(-len(dims), 0) if n != -2)
    zeros = "".join("0, " for _ in x.axes[:-1])
    dims_kept = (*(1 for _ in x.axes[:-1]), groups, 1)
    spec = f"{rows}|{spaces}g, c => {rows}|{zeros}g, 0"
    p = parts.name
    mean = net.let("m", f'{p}.mean("{spec}")', f"{p}.mean({over}, keepdim=True)", "grouped", dims_kept, like=x)
    off = net.let("d", f"{p} - {mean.name}", f"{p} - {mean.name}", "grouped", dims, like=x)
    d = off.name
    var = net.let(
        "m", f'({d} * {d}).mean("{spec}")', f"({d} ** 2).mean({over}, keepdim=True)", "grouped", dims_kept, like=x
    )
    text = f"{d} * oc.recip_sqrt({var.name} + {EPS})"
    torch_code = f"{d} * torch.rsqrt({var.name} + {EPS})"
    scaled = net.let("p", text, torch_code, "grouped", dims, like=x)
    merged = f'oc.einsum("{rows}|{spaces}g, c => {rows}|{spaces}(g c)", {scaled.name})'
    return affine(net, x, merged, f"{scaled.name}.flatten(-2)")


def cosine(net: Builder, x: Value) -> Value | None:
    """Rows of length 1."""
    if x.form != "vector":
        return None
    length = statistic(net, x, f"({x.name} * {x.name}).sum", f"({x.name} ** 2).sum(", "c")
    text = f"{x.name} / oc.sqrt({length.name} + 0.01)"
    return net.let("h", text, f"{x.name} / torch.sqrt({length.name} + 0.01)", x.form, x.dims, like=x)
