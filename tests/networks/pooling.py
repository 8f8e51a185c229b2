"""Pooling: of windows, of all places, and of the last step."""

from __future__ import annotations

from .builder import Builder
from .convolutions import after, chosen_axis
from .program import Value

WINDOWS = (2, 2), (3, 2), (3, 3), (3, 1), (2, 1), (5, 3), (1, 1)  # and strides


def pool(net: Builder, x: Value) -> Value | None:
    """The largest or the mean of each window."""
    if x.form not in ("sequence", "image"):
        return None
    padding = net.choices.pick(("none", "same"))
    chosen = [window(net, n, padding) for n in x.extents]
    if None in chosen:
        return None
    kernel, stride = zip(*(c for c in chosen if c is not None), strict=True)
    sizes = tuple(after(n, k, s, 1, padding) for n, k, s in zip(x.extents, kernel, stride, strict=True))
    name = net.choices.pick(("max", "avg"))
    settings = f"{list(kernel)}, {list(stride)}, padding='{padding}'"
    text = f"oc.{name}_pool{len(kernel)}d({x.name}, {settings})"
    return net.let("h", text, f"{name}_pool({x.name}, {settings})", x.form, (*sizes, x.channels), like=x)


def window(net: Builder, n: int, padding: str) -> tuple[int, int] | None:
    if padding == "same":
        axis = chosen_axis(net, n, "same")
        return None if axis is None else axis[:2]
    fitting = [(k, s) for k, s in WINDOWS if k <= n and (n - k) % s == 0]
    return net.choices.pick(fitting) if fitting else None


def pool_blocks(net: Builder, x: Value) -> Value | None:
    """The largest or the mean of blocks that axes are split into."""
    if x.form == "vector":
        return None
    blocks = [net.divisor(n, 4) for n in x.extents]
    names = [a for a in x.axes if a != "c"]
    split = {a: f"({a} {a}2)" for a in names}
    rows, kind = net.rows(x), net.choices.pick(("mean", "max", "sum"))
    sizes = ", ".join(f"{a}2={n}" for a, n in zip(names, blocks, strict=True))
    spec = f"{rows}|{', '.join(split.get(a, a) for a in x.axes)} => {rows}|{', '.join(x.axes)}"
    unflattened, split_axes = x.name, []
    for a, n in zip(reversed(names), reversed(blocks), strict=True):
        axis = x.positions(a)[0]  # later axes have been split already
        axis -= len(split_axes) if axis + 1 < 0 else 0
        unflattened, split_axes = f"{unflattened}.unflatten({axis}, (-1, {n}))", [*split_axes, axis]
    dims = dict(zip(names, (n // b for n, b in zip(x.extents, blocks, strict=True)), strict=True))
    after_split = tuple(dims.get(a, x.channels) for a in x.axes)
    over = block_axes(x, names)
    torch_code = f"greatest({unflattened}, {over})" if kind == "max" else f"{unflattened}.{kind}({over})"
    return net.let("h", f'{x.name}.{kind}("{spec}", {sizes})', torch_code, x.form, after_split, like=x)


def block_axes(x: Value, names: list[str]) -> tuple[int, ...]:
    """Where the axes inside blocks are, after each of `names` has become two."""
    order = [part for a in x.axes for part in ((a, f"{a}2") if a in names else (a,))]
    return tuple(order.index(f"{a}2") - len(order) for a in names)


def pool_extents(net: Builder, x: Value) -> Value | None:
    """All places together: a vector."""
    if x.form == "vector":
        return None
    kind = net.choices.weighted((("mean", 5), ("max", 2), ("sum", 1)))
    rows, over = net.rows(x), x.positions("thw")
    text = f'{x.name}.{kind}("{rows}|{", ".join(x.axes)} => {rows}|c")'
    torch_code = f"greatest({x.name}, {over})" if kind == "max" else f"{x.name}.{kind}({over})"
    return net.let("h", text, torch_code, "vector", (x.channels,), like=x)


def pool_time(net: Builder, x: Value) -> Value | None:
    """The second batch axis: `b, t | c` becomes `b | c`."""
    if len(x.batch) != 2 or x.form != "vector":
        return None
    kind = net.choices.pick(("mean", "max"))
    torch_code = f"greatest({x.name}, (1,))" if kind == "max" else f"{x.name}.mean(1)"
    return net.let("h", f'{x.name}.{kind}("b, t|c => b|c")', torch_code, "vector", x.dims)


def last_step(net: Builder, x: Value) -> Value | None:
    if x.form != "sequence":
        return None
    at = net.choices.pick((x.dims[0] - 1, 0))
    rows = net.rows(x)
    text = f'oc.einsum("{rows}|{at}, c => {rows}|c", {x.name})'
    return net.let("h", text, f"{x.name}[:, {at}]", "vector", (x.channels,), like=x)


def attention_pool(net: Builder, x: Value) -> Value | None:
    """The mean of all steps, weighted by a softmax of scores."""
    if x.form != "sequence":
        return None
    rows = net.rows(x)
    w = net.parameter("w", [x.channels], scale=x.channels**-0.5)
    text = f'oc.einsum("{rows}|t, c; c => {rows}|t", {x.name}, {w})'
    scores = net.let("s", text, f"{x.name} @ {w}", "scores", x.dims[:1], work=x.cells, like=x)
    shares = net.let("p", f"oc.softmax({scores.name})", f"{scores.name}.softmax(-1)", "scores", x.dims[:1], like=x)
    text = f'oc.einsum("{rows}|t; {rows}|t, c => {rows}|c", {shares.name}, {x.name})'
    torch_code = f"torch.einsum('...t,...tc->...c', {shares.name}, {x.name})"
    return net.let("h", text, torch_code, "vector", (x.channels,), work=x.cells, like=x)
