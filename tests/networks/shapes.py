"""Axes that are merged, split, moved, cut, repeated or turned round."""

from __future__ import annotations

from .builder import Builder
from .program import Value


def flattened(net: Builder, x: Value) -> Value | None:
    """All axes into channels."""
    if x.form == "vector":
        return None
    rows = net.rows(x)
    width = x.cells // x.shape[0] // (x.shape[1] if len(x.batch) > 1 else 1)
    if width > 4096:
        return None
    text = f'oc.einsum("{rows}|{", ".join(x.axes)} => {rows}|({" ".join(x.axes)})", {x.name})'
    return net.let("h", text, f"{x.name}.flatten(-{len(x.dims)})", "vector", (width,), like=x)


def patches(net: Builder, x: Value) -> Value | None:
    """An image as a sequence of its blocks; blocks of one cell are plain places."""
    if x.form != "image":
        return None
    a, b = net.divisor(x.dims[0], 8), net.divisor(x.dims[1], 8)
    h, w, rows = x.dims[0] // a, x.dims[1] // b, net.rows(x)
    text = f'oc.einsum("{rows}|(h p), (w q), c => {rows}|(h w), (p q c)", {x.name}, p={a}, q={b})'
    blocks = f"{x.name}.reshape(-1, {h}, {a}, {w}, {b}, {x.channels})"
    torch_code = f"{blocks}.permute(0, 1, 3, 2, 4, 5).flatten(3).flatten(1, 2)"
    return net.let("h", text, torch_code, "sequence", (h * w, a * b * x.channels), like=x)


def as_image(net: Builder, x: Value) -> Value | None:
    """A sequence laid out in rows."""
    if x.form != "sequence":
        return None
    rows, h = net.rows(x), net.divisor(x.dims[0])
    if x.dims[0] // h > 64 or h > 64:
        return None
    text = f'oc.einsum("{rows}|(h w), c => {rows}|h, w, c", {x.name}, h={h})'
    dims = (h, x.dims[0] // h, x.channels)
    return net.let("h", text, f"{x.name}.unflatten(1, {dims[:2]})", "image", dims, like=x)


def as_sequence(net: Builder, x: Value) -> Value | None:
    """Steps of a vector, steps in the batch row as an axis of the output row, or places of planes."""
    rows = net.rows(x)
    if x.form == "planes":
        dims = (x.dims[1] * x.dims[2], x.channels)
        text = f'oc.einsum("{rows}|c, h, w => {rows}|(h w), c", {x.name})'
        return net.let("h", text, f"{x.name}.flatten(-2).movedim(-2, -1)", "sequence", dims, like=x)
    if x.form != "vector":
        return None
    if len(x.batch) == 2:
        dims = (x.batch[1], x.channels)
        text, view = f'oc.einsum("b, t|c => b|t, c", {x.name})', f"{x.name}.view_as({x.name})"
        return net.let("h", text, view, "sequence", dims, batch=x.batch[:1])
    steps = net.divisor(x.channels, 512)
    text = f'oc.einsum("{rows}|(t c) => {rows}|t, c", {x.name}, t={steps})'
    dims = (steps, x.channels // steps)
    return net.let("h", text, f"{x.name}.unflatten(-1, {dims})", "sequence", dims, like=x)


def as_steps(net: Builder, x: Value) -> Value | None:
    """Time becomes a batch axis."""
    if x.form != "sequence":
        return None
    text = f'oc.einsum("b|t, c => b, t|c", {x.name})'
    return net.let("h", text, f"{x.name}.view_as({x.name})", "vector", x.dims[1:], batch=(*x.batch, x.dims[0]))


def transposed(net: Builder, x: Value) -> Value | None:
    """Channels first, or last; a sequence with time and channels exchanged."""
    rows = net.rows(x)
    if x.form == "image":
        text, dims = f'oc.einsum("{rows}|h, w, c => {rows}|c, h, w", {x.name})', (x.dims[2], *x.dims[:2])
        return net.let("h", text, f"{x.name}.movedim(-1, -3)", "planes", dims, like=x)
    if x.form == "planes":
        text, dims = f'oc.einsum("{rows}|c, h, w => {rows}|h, w, c", {x.name})', (*x.dims[1:], x.dims[0])
        return net.let("h", text, f"{x.name}.movedim(-3, -1)", "image", dims, like=x)
    if x.form == "sequence" and max(x.dims) <= 512:
        text = f'oc.einsum("{rows}|t, c => {rows}|c, t", {x.name})'
        return net.let("h", text, f"{x.name}.movedim(-1, -2)", "sequence", x.dims[::-1], like=x)
    return None


def cut(net: Builder, x: Value) -> Value | None:
    """The first or the last part of one axis."""
    axis = net.choices.pick(x.axes)
    n, at = x.dims[x.axes.index(axis)], x.positions(axis)[0]
    if n < 2:
        return None
    size, rows = net.size(n - 1), net.rows(x)
    names, dims = ", ".join(x.axes), tuple(size if a == axis else d for a, d in zip(x.axes, x.dims, strict=True))
    is_first = net.choices.chance(50)
    parts = f"{axis}^r" if is_first else f"r^{axis}"
    spec = f"{rows}|{', '.join(parts if a == axis else a for a in x.axes)} => {rows}|{names}"
    torch_code = f"{x.name}.narrow({at}, {0 if is_first else n - size}, {size})"
    return net.let("h", f'oc.concat("{spec}", {x.name}, {axis}={size})', torch_code, x.form, dims, like=x)


def extended(net: Builder, x: Value) -> Value | None:
    """Zeros before or after one axis in time or space."""
    if x.form == "vector":
        return None
    axis = net.choices.pick([a for a in x.axes if a != "c"])
    count, is_first, rows = net.choices.pick((1, 2, 3)), net.choices.chance(50), net.rows(x)
    names = ", ".join(x.axes)
    parts = f"{count}^{axis}" if is_first else f"{axis}^{count}"
    spec = f"{rows}|{names} => {rows}|{', '.join(parts if a == axis else a for a in x.axes)}"
    dims = tuple(d + count if a == axis else d for a, d in zip(x.axes, x.dims, strict=True))
    behind = -1 - x.positions(axis)[0]
    around = [0] * (2 * behind) + ([count, 0] if is_first else [0, count])
    return net.let("h", f'oc.concat("{spec}", {x.name})', f"F.pad({x.name}, {around})", x.form, dims, like=x)


def repeated(net: Builder, x: Value) -> Value | None:
    """Each place several times: nearest-neighbour upsampling."""
    if x.form not in ("image", "sequence") or max(x.extents) > 32:
        return None
    names, factor, rows = [a for a in x.axes if a != "c"], net.choices.pick((2, 3)), net.rows(x)
    merged = ", ".join(f"({a} {a}2)" for a in names)
    sizes = ", ".join(f"{a}2={factor}" for a in names)
    text = f'oc.einsum("{rows}|{", ".join(names)}, c => {rows}|{merged}, c", {x.name}, {sizes})'
    torch_code = x.name + "".join(f".repeat_interleave({factor}, {x.positions(a)[0]})" for a in names)
    return net.let("h", text, torch_code, x.form, (*(factor * n for n in x.extents), x.channels), like=x)


def shuffled(net: Builder, x: Value) -> Value | None:
    """Channels become places: sub-pixel upsampling."""
    if x.form != "image" or x.channels % 4 or max(x.extents) > 32:
        return None
    h, w, c = x.dims
    text = f'oc.einsum("...|h, w, (p q c) => ...|(h p), (w q), c", {x.name}, p=2, q=2)'
    split = f"{x.name}.reshape(-1, {h}, {w}, 2, 2, {c // 4}).permute(0, 1, 3, 2, 4, 5)"
    torch_code = f"{split}.reshape(-1, {2 * h}, {2 * w}, {c // 4})"
    return net.let("h", text, torch_code, "image", (2 * h, 2 * w, c // 4), like=x)


def flipped(net: Builder, x: Value) -> Value | None:
    """Back to front along one axis, or moved round."""
    axis, rows = net.choices.pick(x.axes), net.rows(x)
    kept = ", ".join("0" if a == axis else a for a in x.axes)
    spec, at = f"{rows}|{', '.join(x.axes)} => {rows}|{kept}", x.positions(axis)[0]
    if net.choices.chance(50):
        return net.let("h", f'oc.flip({x.name}, "{spec}")', f"{x.name}.flip({at})", x.form, x.dims, like=x)
    by = net.choices.pick((1, 2, -1))
    return net.let("h", f'oc.roll({x.name}, {by}, "{spec}")', f"{x.name}.roll({by}, {at})", x.form, x.dims, like=x)


def running_sum(net: Builder, x: Value) -> Value | None:
    if x.form != "sequence":
        return None
    text = f'oc.cumsum({x.name}, "...|t, c => ...|0, c") / {x.dims[0]}'
    return net.let("h", text, f"{x.name}.cumsum(-2) / {x.dims[0]}", x.form, x.dims, work=x.cells * x.dims[0], like=x)
