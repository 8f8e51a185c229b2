"""Heads and losses: what a value is compared with, and what is added to that."""

from __future__ import annotations

from .activations import activation
from .builder import Builder
from .dense import biased, linear
from .norms import cosine
from .pooling import attention_pool, last_step, pool_extents
from .program import Value
from .shapes import as_steps, flattened

Term = tuple[str, str]  # in both languages


def head(net: Builder, x: Value) -> Term:
    """A loss of one value."""
    if x.form != "vector" and net.choices.chance(60):
        kinds = (pool_extents, flattened, last_step, attention_pool)
        x = next((v for v in (choice(net, x) for choice in net.choices.pick((kinds, kinds[2:] + kinds[:2]))) if v), x)
    elif x.form == "sequence":
        x = as_steps(net, x) or x
    elif x.form == "image" and net.choices.chance(50):
        spec = "b|h, w, c => b, h, w|c"
        view = f"{x.name}.view_as({x.name})"
        x = net.let("h", f'oc.einsum("{spec}", {x.name})', view, "vector", x.dims[2:], batch=x.shape[:3])
    if x.form == "vector":
        kinds = ((classes, 5), (distribution, 1), (distance, 3), (contrast, 1), (hinge, 1))
        return net.choices.weighted(kinds)(net, x)
    return distance(net, x)


def closed(net: Builder, text: str, torch_code: str, shape: tuple[int, ...]) -> Term:
    """The mean or the sum of the loss of each cell."""
    if net.choices.chance(75):
        return f"({text}).mean()", f"({torch_code}).mean()"
    cells = 1
    for n in shape:
        cells *= n
    return f"({text}).sum() / {cells}", f"({torch_code}).sum() / {cells}"


def classes(net: Builder, x: Value) -> Term:
    """Cross entropy with the ids of classes; the table of an embedding may be the last layer once more."""
    tables = [leaf for leaf in net.leaves if leaf.name.startswith("table") and leaf.dims[1] == x.channels]
    if tables and net.choices.chance(60):
        table, width = tables[0].name, tables[0].dims[0]
        rows = net.rows(x)
        text = f'oc.einsum("{rows}|c; v, c => {rows}|v", {x.name}, {table})'
        logits = net.let("l", text, f"{x.name} @ {table}.T", "vector", (width,), work=x.cells * width, like=x)
    else:
        width = net.size(max(2, min(1025, net.work_left // max(1, 2 * x.cells))), 2)
        logits = biased(net, linear(net, x, width))
    ids = net.data("ids", x.batch, len(x.batch), classes=width)
    torch_code = f"entropy({logits.name}, {ids})"
    if net.choices.chance(70):
        return closed(net, f"oc.cross_entropy({logits.name}, {ids})", torch_code, x.batch)
    return closed(net, f"-oc.pick(oc.log_softmax({logits.name}), {ids})", torch_code, x.batch)


def distribution(net: Builder, x: Value) -> Term:
    """Cross entropy with a distribution."""
    target = net.data("target", x.shape, len(x.batch))
    text = f"oc.cross_entropy({x.name}, oc.softmax({target}))"
    torch_code = f"-({target}.softmax(-1) * {x.name}.log_softmax(-1)).sum(-1)"
    return closed(net, text, torch_code, x.batch)


def distance(net: Builder, x: Value) -> Term:
    """Squares, absolute values, or squares near zero and absolute values far from it (Huber 1964)."""
    target = net.data("target", x.shape, len(x.batch))
    off = net.let("d", f"{x.name} - {target}", f"{x.name} - {target}", x.form, x.dims, like=x)
    d = off.name
    kinds = (
        (f"{d} ** 2", f"{d} ** 2"), (f"{d} * {d}", f"{d} * {d}"), (f"oc.abs({d})", f"absolute({d})"),
        (f"oc.where(oc.abs({d}) < 1, 0.5 * {d} * {d}, oc.abs({d}) - 0.5)",
         f"F.huber_loss({d}, torch.zeros_like({d}), reduction='none')"),
        (f"oc.sqrt({d} * {d} + 0.01)", f"torch.sqrt({d} ** 2 + 0.01)"),
    )  # fmt: skip
    return closed(net, *net.choices.pick(kinds), x.shape)


def contrast(net: Builder, x: Value) -> Term:
    """Each of the batch finds itself among all: similarities of all pairs."""
    if len(x.batch) > 1 or x.batch[0] > 512:
        return distance(net, x)
    x = cosine(net, x) or x
    projected = biased(net, linear(net, x, x.channels))
    text = f'oc.einsum("b|c; a|c => b|a", {x.name}, {projected.name})'
    n = x.batch[0]
    torch_code = f"{x.name} @ {projected.name}.T"
    pairs = net.let("s", text, torch_code, "vector", (n,), work=n * x.cells, like=x)
    ids = f"pairs_{pairs.name}"
    net.constant(ids, f'oc.tensor(np.arange({n}, dtype="int32"), batch_axes=1)', f"torch.arange({n})")
    return closed(net, f"oc.cross_entropy({pairs.name}, {ids})", f"entropy({pairs.name}, {ids})", x.batch)


def hinge(net: Builder, x: Value) -> Term:
    sign = net.data("sign", x.shape, len(x.batch))
    inner = activation(net, x) if net.choices.chance(30) else x
    text = f"oc.maximum(0.0, 1 - {inner.name} * {sign})"
    return closed(net, text, f"relu(1 - {inner.name} * {sign})", x.shape)


def mean_square(x: Value) -> Term:
    return f"({x.name} ** 2).mean()", f"({x.name} ** 2).mean()"


def penalty(net: Builder, names: list[str]) -> Term:
    """A small multiple of squares or absolute values, of a parameter or of what one of the last statements makes."""
    values = [v.name for v in net.values[-10:]]
    name = net.choices.pick(values if values and net.choices.chance(30) else names)
    factor = net.choices.pick((0.01, 0.1, 0.001))
    choice = net.choices.integer(3)
    if choice == 0:
        return f"{factor} * ({name} ** 2).sum()", f"{factor} * ({name} ** 2).sum()"
    if choice == 1:
        return f"{factor} * ({name} * {name}).mean()", f"{factor} * ({name} * {name}).mean()"
    return f"{factor} * oc.abs({name}).sum()", f"{factor} * absolute({name}).sum()"
