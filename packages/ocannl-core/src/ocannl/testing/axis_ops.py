"""Random operations along an axis, on matrices, windows and tables, with their NumPy semantics."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

import numpy as np

from ocannl.testing.layout_ops import AxisPosition, LayoutOp, at, random_position, spec_text
from ocannl.testing.numpy_semantics import MARGIN, above, away, dims_of
from ocannl.testing.random_einsums import Array, Rows

Along = Callable[[Array, int], Array]


def _exp_shares(x: Array, axis: int) -> Array:
    e = np.exp(x)
    return np.asarray(e / e.sum(axis, keepdims=True))


def _log_sum(x: Array, axis: int) -> Array:
    return np.asarray(np.log(np.exp(x).sum(axis)))


SHAPE_PRESERVING: dict[str, Along] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "flip": np.flip,
    "softmax": _exp_shares,
    "log_softmax": lambda x, axis: x - np.expand_dims(_log_sum(x, axis), axis),
}
"""Operations whose result has the axis; the following ones reduce it."""

REDUCED: dict[str, tuple[Along, Callable[[Array, int], bool]]] = {
    "{}.mean({})": (np.mean, lambda x, axis: True),
    "{}.var({})": (np.var, lambda x, axis: True),
    "{}.var({}, sample=True)": (lambda x, axis: np.var(x, axis, ddof=1), lambda x, axis: True),
    "{}.std({})": (np.std, lambda x, axis: above(np.var(x, axis), MARGIN)),
    "{}.prod({})": (np.prod, lambda x, axis: away(x, 0)),
    "{}.norm({})": (lambda x, axis: np.linalg.norm(x, axis=axis), lambda x, axis: above(np.sum(x * x, axis), 0.1)),
    "oc.norm({}, {}, ord=1)": (lambda x, axis: np.abs(x).sum(axis), lambda x, axis: away(x, 0)),
    "oc.logsumexp({}, {})": (_log_sum, lambda x, axis: True),
}
EXTREMES = ("cummax", "cummin")


def _spec(rows: Rows, position: AxisPosition) -> str:
    return f'"{spec_text(rows, position, "t")} => {spec_text(rows, position, "")}"'


def _lines(position: AxisPosition) -> Callable[[Array], Array]:
    return lambda x: np.moveaxis(x, position.axis, -1).reshape(-1, position.size)


def scan(random: Random, rows: Rows) -> LayoutOp | None:
    position = random_position(random, rows, 2)
    if position is None:
        return None
    name = random.choice([*SHAPE_PRESERVING])
    compute = SHAPE_PRESERVING[name]
    candidates = _lines(position) if name in EXTREMES else None
    text = f"oc.{name}({{}}, {_spec(rows, position)})"
    return LayoutOp(text, rows, lambda x: compute(x, position.axis), candidates=candidates)


def rolled(random: Random, rows: Rows) -> LayoutOp | None:
    position = random_position(random, rows, 2)
    if position is None:
        return None
    by = random.choice((-1, 1, 2, 5))
    return LayoutOp(f"oc.roll({{}}, {by}, {_spec(rows, position)})", rows, lambda x: np.roll(x, by, position.axis))


def reduced(random: Random, rows: Rows) -> LayoutOp | None:
    position = random_position(random, rows, 2)
    if position is None:
        return None
    text = random.choice([*REDUCED])
    compute, fits = REDUCED[text]
    written = text.format("({})" if text.startswith("{") else "{}", _spec(rows, position))
    axis = position.axis
    return LayoutOp(written, at(rows, position), lambda x: compute(x, axis), fits=lambda x: fits(x, axis))


def triangle(random: Random, rows: Rows) -> LayoutOp | None:
    if rows[1] or len(rows[2]) != 2 or min(rows[2]) < 2:
        return None
    name, k = random.choice(("triu", "tril")), random.choice((-1, 0, 1))
    return LayoutOp(f"oc.{name}({{}}, {k})", rows, lambda x: getattr(np, name)(x, k))


def diagonal(random: Random, rows: Rows) -> LayoutOp | None:
    """The diagonal of a matrix, its sum, or the matrix of a diagonal."""
    batch, _, output = rows
    if rows[1] or min(output, default=0) < 2:
        return None
    if len(output) == 1:
        return LayoutOp("oc.diag({})", (batch, (), output * 2), lambda x: x[..., None] * np.eye(output[0]))
    if len(output) > 2 or output[0] != output[1]:
        return None
    if random.random() < 0.5:
        return LayoutOp("oc.trace({})", (batch, (), ()), lambda x: np.trace(x, axis1=-2, axis2=-1))
    return LayoutOp("oc.diagonal({})", (batch, (), output[:1]), lambda x: np.diagonal(x, axis1=-2, axis2=-1))


def windows(random: Random, rows: Rows) -> LayoutOp | None:
    """A convolution or pooling of one dimension, of the leading output axis."""
    batch, input, output = rows
    if input or len(output) != 2 or min(output) < 2:
        return None
    size, stride = random.choice(((1, 1), (2, 1), (2, 2), (3, 1)))
    if size > output[0] or (output[0] - size) % stride:
        return None
    axis, count = len(batch), (output[0] - size) // stride + 1

    def taps(x: Array) -> Array:
        """The values of each window, along a last axis."""
        return np.stack([np.moveaxis(x, axis, -1)[..., stride * n : stride * n + size] for n in range(count)], axis)

    new_rows = (batch, (), (count, output[1]))
    kind = random.choice(("max_pool1d", "avg_pool1d", "conv1d"))
    if kind == "conv1d":
        kernel = ((), (), (size, output[1], 2))
        text = f"oc.conv1d({{}}, {{}}, stride={stride})"
        wide = (batch, (), (count, 2))
        return LayoutOp(text, wide, lambda x, k: np.einsum("...oct,tcd->...od", taps(x), k), (kernel,))
    text = f"oc.{kind}({{}}, {size}, {stride})"
    if kind == "avg_pool1d":
        return LayoutOp(text, new_rows, lambda x: taps(x).mean(-1))
    return LayoutOp(text, new_rows, lambda x: taps(x).max(-1), candidates=lambda x: taps(x).reshape(-1, size))


AXIS_OPS: tuple[Callable[[Random, Rows], LayoutOp | None], ...] = (
    scan, scan, scan, rolled, reduced, reduced, triangle, diagonal, windows,
)  # fmt: skip


# --- tables ----------------------------------------------------------------------------------------------------------


def taken(random: Random, rows: Rows) -> LayoutOp | None:
    """Rows of a table by index; an index out of bounds gives zeros."""
    batch, input, output = rows
    if batch or input or not output or output[0] < 2:
        return None
    ids = np.array([random.randrange(-1, output[0] + 1) for _ in range(random.choice((1, 2, 3)))])

    def compute(x: Array) -> Array:
        inside = (ids >= 0) & (ids < output[0])
        return np.where(inside.reshape(-1, *[1] * (x.ndim - 1)), x[np.clip(ids, 0, output[0] - 1)], 0)

    return LayoutOp(f"oc.take({{}}, np.array({ids.tolist()}))", ((), (), (len(ids), *output[1:])), compute)


def picked(random: Random, rows: Rows) -> LayoutOp | None:
    batch, input, output = rows
    if input or len(output) != 1 or output[0] < 2 or 0 in batch:
        return None
    flat = [random.randrange(output[0]) for _ in range(prod(batch))]
    ids = np.array(flat).reshape(batch)
    text = f"oc.pick({{}}, oc.tensor(np.array({flat}).reshape({batch}), batch_axes={len(batch)}))"
    return LayoutOp(text, (batch, (), ()), lambda x: np.take_along_axis(x, ids[..., None], -1)[..., 0])


def marked(random: Random, rows: Rows) -> LayoutOp | None:
    """Keeps one cell of the last axis and zeroes the others."""
    if rows[1] or not rows[2] or rows[2][-1] < 2:
        return None
    size = rows[2][-1]
    chosen = random.randrange(size)
    text = f"({{}}) * oc.one_hot(np.array({chosen}), {size}, dtype=kind)"
    return LayoutOp(text, rows, lambda x: x * (np.arange(dims_of(rows)[-1]) == chosen))


TABLES: tuple[Callable[[Random, Rows], LayoutOp | None], ...] = (taken, picked, marked)
