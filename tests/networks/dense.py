"""Linear maps of channels."""

from __future__ import annotations

from .builder import Builder
from .program import Value

WIDE = (512, 640, 1000, 1024, 1536, 2048)


def dense(net: Builder, x: Value, width: int | None = None, role: str = "w") -> Value:
    """A linear map of the channels of each cell, with a bias or without."""
    if width is None:
        width = net.width(x, 4096 if x.form == "vector" else 512)
        if net.choices.chance(15):
            width = net.choices.pick([n for n in WIDE if n * x.cells <= net.work_left // 4] or [width])
    result = linear(net, x, width, role)
    return biased(net, result) if net.choices.chance(60) else result


def linear(net: Builder, x: Value, width: int, role: str = "w") -> Value:
    work, dims = x.cells * width, x.with_channels(width)
    if x.form == "vector" and net.choices.chance(60):
        w = net.parameter("w", [width], [x.channels], is_inferred=net.choices.chance(40), role=f"{role} @")
        return net.let("h", f"{w} @ {x.name}", f"{x.name} @ {w}.T", x.form, dims, work=work, like=x)
    rows, spaces = net.rows(x), ", ".join(x.axes)
    result = spaces.replace("c", "o")
    scale = x.channels**-0.5
    if net.choices.chance(50):
        w = net.parameter("w", [x.channels, width], scale=scale, role=role)
        spec, kernel = f"{rows}|{spaces}; c, o => {rows}|{result}", w
    else:
        w = net.parameter("w", [width, x.channels], scale=scale, role=role)
        spec, kernel = f"{rows}|{spaces}; o, c => {rows}|{result}", f"{w}.T"
    text = f'oc.einsum("{spec}", {x.name}, {w})'
    last = x.positions("c")[0]
    product = f"{x.name} @ {kernel}", f"({x.name}.movedim({last}, -1) @ {kernel}).movedim(-1, {last})"
    torch_code = product[last != -1]
    return net.let("h", text, torch_code, x.form, dims, work=work, like=x)


def biased(net: Builder, x: Value) -> Value:
    is_inferred = x.form == "vector" and net.choices.chance(40)
    b, torch_code = channel_parameter(net, x, "b", 0.1, 0.0, is_inferred=is_inferred)
    return net.let("h", f"{x.name} + {b}", f"{x.name} + {torch_code}", x.form, x.dims, like=x)


def channel_parameter(
    net: Builder, x: Value, stem: str, scale: float, mean: float, *, is_inferred: bool = False
) -> tuple[str, str]:
    """A parameter for each channel, as an operand beside `x` in both languages."""
    last = x.axes[-1] == "c"
    dims = [x.channels] if last else [x.channels, *(1 for _ in x.extents)]
    name = net.parameter(stem, dims, scale=scale, mean=mean, is_inferred=is_inferred)
    return name, name


def low_rank(net: Builder, x: Value) -> Value | None:
    """Two linear maps with few channels between."""
    if x.form != "vector":
        return None
    rank = net.size(min(x.channels, 64))
    return dense(net, linear(net, x, rank))


def mixed_places(net: Builder, x: Value) -> Value | None:
    """A linear map along time or along one axis in space, as in mixers of tokens."""
    if x.form == "vector":
        return None
    axis = net.choices.pick([a for a in x.axes if a != "c"])
    n = x.dims[x.axes.index(axis)]
    w = net.parameter("w", [n, n], scale=n**-0.5, role="mix")
    rows = net.rows(x)
    result = ", ".join("o" if a == axis else a for a in x.axes)
    position = x.positions(axis)[0]
    text = f'oc.einsum("{rows}|{", ".join(x.axes)}; o, {axis} => {rows}|{result}", {x.name}, {w})'
    torch_code = f"({x.name}.movedim({position}, -1) @ {w}.T).movedim(-1, {position})"
    return net.let("h", text, torch_code, x.form, x.dims, work=x.cells * n, like=x)


def contracted(net: Builder, x: Value) -> Value | None:
    """All output axes at once, by a parameter with as many input axes."""
    if x.form == "vector":
        return None
    width = net.size(max(1, min(256, net.work_left // x.cells, 1_000_000 // max(1, x.cells // x.shape[0]))))
    w = net.parameter("w", [width], x.dims, is_inferred=net.choices.chance(40))
    flat = f"{x.name}.flatten(-{len(x.dims)}) @ {w}.flatten(1).T"
    return net.let("h", f"{w} @ {x.name}", flat, "vector", (width,), work=x.cells * width, like=x)


def bilinear(net: Builder, x: Value) -> Value | None:
    """A quadratic form of two maps of a vector: three operands of one einsum."""
    if x.form != "vector" or x.channels > 48:
        return None
    y = linear(net, x, net.size(24))
    width = net.size(24)
    w = net.parameter("w", [x.channels, y.channels, width], scale=(x.channels * y.channels) ** -0.5)
    rows = net.rows(x)
    text = f'oc.einsum("{rows}|i; {rows}|j; i, j, o => {rows}|o", {x.name}, {y.name}, {w})'
    torch_code = f"torch.einsum('...i,...j,ijo->...o', {x.name}, {y.name}, {w})"
    work = x.cells * y.channels * width
    return net.let("h", text, torch_code, "vector", (width,), work=work, like=x)
