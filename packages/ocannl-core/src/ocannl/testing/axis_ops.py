"""Random operations along an axis, on matrices, windows and tables, each with its meaning in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

import numpy as np

from ocannl.testing.layout_ops import Move, Place, at, some_place, spelled
from ocannl.testing.numpy_semantics import MARGIN, above, away, dims_of
from ocannl.testing.random_einsums import Array, Rows

Along = Callable[[Array, int], Array]


def _exp_shares(x: Array, axis: int) -> Array:
    e = np.exp(x)
    return np.asarray(e / e.sum(axis, keepdims=True))


def _log_sum(x: Array, axis: int) -> Array:
    return np.asarray(np.log(np.exp(x).sum(axis)))


KEPT: dict[str, Along] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "flip": np.flip,
    "softmax": _exp_shares,
    "log_softmax": lambda x, axis: x - np.expand_dims(_log_sum(x, axis), axis),
}
"""Operations that give what has the axis, too; of the next ones it is taken away."""

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


def _spec(rows: Rows, place: Place) -> str:
    return f'"{spelled(rows, place, "t")} => {spelled(rows, place, "")}"'


def _lines(place: Place) -> Callable[[Array], Array]:
    return lambda x: np.moveaxis(x, place.axis, -1).reshape(-1, place.size)


def walked(random: Random, rows: Rows) -> Move | None:
    place = some_place(random, rows, 2)
    if place is None:
        return None
    name = random.choice([*KEPT])
    compute = KEPT[name]
    candidates = _lines(place) if name in EXTREMES else None
    text = f"oc.{name}({{}}, {_spec(rows, place)})"
    return Move(text, rows, lambda x: compute(x, place.axis), candidates=candidates)


def rolled(random: Random, rows: Rows) -> Move | None:
    place = some_place(random, rows, 2)
    if place is None:
        return None
    by = random.choice((-1, 1, 2, 5))
    return Move(f"oc.roll({{}}, {by}, {_spec(rows, place)})", rows, lambda x: np.roll(x, by, place.axis))


def reduced(random: Random, rows: Rows) -> Move | None:
    place = some_place(random, rows, 2)
    if place is None:
        return None
    text = random.choice([*REDUCED])
    compute, fits = REDUCED[text]
    written = text.format("({})" if text.startswith("{") else "{}", _spec(rows, place))
    return Move(written, at(rows, place), lambda x: compute(x, place.axis), fits=lambda x: fits(x, place.axis))


def triangle(random: Random, rows: Rows) -> Move | None:
    if rows[1] or len(rows[2]) != 2 or min(rows[2]) < 2:
        return None
    name, k = random.choice(("triu", "tril")), random.choice((-1, 0, 1))
    return Move(f"oc.{name}({{}}, {k})", rows, lambda x: getattr(np, name)(x, k))


def diagonal(random: Random, rows: Rows) -> Move | None:
    """The diagonal of a matrix, its sum, or the matrix of a diagonal."""
    batch, _, output = rows
    if rows[1] or min(output, default=0) < 2:
        return None
    if len(output) == 1:
        return Move("oc.diag({})", (batch, (), output * 2), lambda x: x[..., None] * np.eye(output[0]))
    if len(output) > 2 or output[0] != output[1]:
        return None
    if random.random() < 0.5:
        return Move("oc.trace({})", (batch, (), ()), lambda x: np.trace(x, axis1=-2, axis2=-1))
    return Move("oc.diagonal({})", (batch, (), output[:1]), lambda x: np.diagonal(x, axis1=-2, axis2=-1))


def windows(random: Random, rows: Rows) -> Move | None:
    """A convolution or pooling of one dimension, of the leading output axis."""
    batch, input, output = rows
    if input or len(output) != 2 or min(output) < 2:
        return None
    size, stride = random.choice(((1, 1), (2, 1), (2, 2), (3, 1)))
    if size > output[0] or (output[0] - size) % stride:
        return None
    axis, count = len(batch), (output[0] - size) // stride + 1

    def taps(x: Array) -> Array:
        """Those of each window, last."""
        return np.stack([np.moveaxis(x, axis, -1)[..., stride * n : stride * n + size] for n in range(count)], axis)

    made = (batch, (), (count, output[1]))
    kind = random.choice(("max_pool1d", "avg_pool1d", "conv1d"))
    if kind == "conv1d":
        kernel = ((), (), (size, output[1], 2))
        text = f"oc.conv1d({{}}, {{}}, stride={stride})"
        wide = (batch, (), (count, 2))
        return Move(text, wide, lambda x, k: np.einsum("...oct,tcd->...od", taps(x), k), (kernel,))
    text = f"oc.{kind}({{}}, {size}, {stride})"
    if kind == "avg_pool1d":
        return Move(text, made, lambda x: taps(x).mean(-1))
    return Move(text, made, lambda x: taps(x).max(-1), candidates=lambda x: taps(x).reshape(-1, size))


WALKS: tuple[Callable[[Random, Rows], Move | None], ...] = (
    walked, walked, walked, rolled, reduced, reduced, triangle, diagonal, windows,
)  # fmt: skip


# --- tables ----------------------------------------------------------------------------------------------------------


def taken(random: Random, rows: Rows) -> Move | None:
    """Cells at integers, of a table whose axes are known; one that is outside gives zeros."""
    batch, input, output = rows
    if batch or input or not output or output[0] < 2:
        return None
    ids = np.array([random.randrange(-1, output[0] + 1) for _ in range(random.choice((1, 2, 3)))])

    def compute(x: Array) -> Array:
        inside = (ids >= 0) & (ids < output[0])
        return np.where(inside.reshape(-1, *[1] * (x.ndim - 1)), x[np.clip(ids, 0, output[0] - 1)], 0)

    return Move(f"oc.take({{}}, np.array({ids.tolist()}))", ((), (), (len(ids), *output[1:])), compute)


def picked(random: Random, rows: Rows) -> Move | None:
    batch, input, output = rows
    if input or len(output) != 1 or output[0] < 2 or 0 in batch:
        return None
    flat = [random.randrange(output[0]) for _ in range(prod(batch))]
    ids = np.array(flat).reshape(batch)
    text = f"oc.pick({{}}, oc.tensor(np.array({flat}).reshape({batch}), batch_axes={len(batch)}))"
    return Move(text, (batch, (), ()), lambda x: np.take_along_axis(x, ids[..., None], -1)[..., 0])


def marked(random: Random, rows: Rows) -> Move | None:
    """One of the cells of the last axis, and zeros beside it."""
    if rows[1] or not rows[2] or rows[2][-1] < 2:
        return None
    size = rows[2][-1]
    chosen = random.randrange(size)
    text = f"({{}}) * oc.one_hot(np.array({chosen}), {size}, dtype=kind)"
    return Move(text, rows, lambda x: x * (np.arange(dims_of(rows)[-1]) == chosen))


TABLES: tuple[Callable[[Random, Rows], Move | None], ...] = (taken, picked, marked)
