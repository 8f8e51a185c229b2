"""NumPy semantics of shapes and operations: shapes have three rows, each of which is broadcast separately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ocannl.testing.random_einsums import MEMORY, Array, Rows

SCALAR: Rows = ((), (), ())
MARGIN = 0.03  # distance of values from discontinuities of a function or its derivative


def dims_of(rows: Rows) -> tuple[int, ...]:
    return tuple(size for n in MEMORY for size in rows[n])


def joined(*shapes: Rows) -> Rows:
    """The broadcast of the shapes, row by row; raises `ValueError` if there is none."""
    batch, input, output = (np.broadcast_shapes(*(s[n] for s in shapes)) for n in range(3))
    return batch, input, output


def stretched(array: Array, rows: Rows, to: Rows) -> Array:
    """Reshapes an array of these rows, inserting an axis for each axis of `to` that it lacks."""
    return array.reshape([n for k in MEMORY for n in (1,) * (len(to[k]) - len(rows[k])) + rows[k]])


def matmul(x: Array, x_rows: Rows, y: Array, y_rows: Rows) -> Array:
    """`x @ y`: contracts the input row of `x` with the output row of `y`, which is broadcast to it."""
    middle = x_rows[1]
    batch = np.broadcast_shapes(x_rows[0], y_rows[0])
    x = stretched(x, x_rows, (batch, middle, x_rows[2]))
    y = stretched(y, y_rows, (batch, y_rows[1], middle))
    nb = len(batch)
    x = np.broadcast_to(x, batch + x_rows[2] + middle).reshape(*batch, prod(x_rows[2]), prod(middle))
    y = np.broadcast_to(y, batch + middle + y_rows[1]).reshape(*batch, prod(middle), prod(y_rows[1]))
    return np.asarray(np.matmul(x, y).reshape(x.shape[:nb] + x_rows[2] + y_rows[1]))


# --- operations ------------------------------------------------------------------------------------------------------


def away(x: Array, *points: float) -> bool:
    return all(bool(np.all(np.abs(x - p) > MARGIN)) for p in points)


def above(x: Array, low: float) -> bool:
    return bool(np.all(x > low))


def within(x: Array, high: float) -> bool:
    return bool(np.all(np.abs(x) < high))


@dataclass(frozen=True)
class Row:
    """An operation: its text, its function, and where it is smooth."""

    text: str
    compute: Callable[..., Any]
    fits: Callable[..., bool] = lambda *xs: True
    gives_gradient: bool = True
    tested: int = 0  # number of leading operands that are only compared, and receive no gradient


def _tanh_gelu(x: Array) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _on_integers(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda x, y: ufunc(x.astype(np.int64), y.astype(np.int64)).astype(np.float64)


UNARY = (
    Row("-{}", np.negative),
    Row("oc.neg({})", np.negative),
    Row("+{}", np.positive),
    Row("abs({})", np.abs, lambda x: away(x, 0)),
    Row("{}.abs()", np.abs, lambda x: away(x, 0)),
    Row("oc.relu({})", lambda x: np.maximum(x, 0), lambda x: away(x, 0)),
    Row("{}.sat01()", lambda x: np.clip(x, 0, 1), lambda x: away(x, 0, 1)),
    Row("oc.exp({})", np.exp, lambda x: within(x, 2.5)),
    Row("{}.exp2()", np.exp2, lambda x: within(x, 3)),
    Row("oc.log({})", np.log, lambda x: above(x, 0.25)),
    Row("oc.log2({})", np.log2, lambda x: above(x, 0.25)),
    Row("oc.sin({})", np.sin),
    Row("{}.cos()", np.cos),
    Row("oc.tanh({})", np.tanh),
    Row("oc.sqrt({})", np.sqrt, lambda x: above(x, 0.15)),
    Row("oc.recip({})", np.reciprocal, lambda x: within(1 / x, 4)),
    Row("{}.recip_sqrt()", lambda x: 1 / np.sqrt(x), lambda x: above(x, 0.2)),
    Row("oc.sigmoid({})", _sigmoid),
    Row("{}.silu()", lambda x: x * _sigmoid(x)),
    Row("oc.gelu({})", _tanh_gelu, lambda x: within(x, 8)),
    Row("oc.expm1({})", np.expm1, lambda x: within(x, 2.5)),
    Row("oc.log1p({})", np.log1p, lambda x: above(x, -0.7)),
    Row("oc.softplus({})", lambda x: np.logaddexp(x, 0)),
    Row("oc.leaky_relu({})", lambda x: np.where(x > 0, x, 0.01 * x), lambda x: away(x, 0)),
    Row("oc.elu({}, alpha=0.5)", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), lambda x: away(x, 0)),
    Row("oc.clip({}, -0.5, 1)", lambda x: np.clip(x, -0.5, 1), lambda x: away(x, -0.5, 1)),
    Row("oc.sign({})", np.sign, lambda x: away(x, 0), gives_gradient=False),
    Row("oc.floor({})", np.floor, lambda x: away(x, *range(-20, 21)), gives_gradient=False),
    Row("oc.ceil({})", np.ceil, lambda x: away(x, *range(-20, 21)), gives_gradient=False),
    Row("({}).round()", np.round, lambda x: away(x, *np.arange(-20.5, 21)), gives_gradient=False),
    Row("oc.trunc({})", np.trunc, lambda x: away(x, *range(-20, 21)), gives_gradient=False),
    Row("oc.not_({})", lambda x: (x == 0) * 1.0, lambda x: away(x, 0), gives_gradient=False),
    Row("oc.id({})", lambda x: x),
    Row("~{}", lambda x: (x == 0) * 1.0, lambda x: away(x, 0), gives_gradient=False),
)

BINARY = (
    Row("{} + {}", np.add),
    Row("{} + {}", np.add),
    Row("{} - {}", np.subtract),
    Row("{} * {}", np.multiply),
    Row("{} * {}", np.multiply),
    Row("oc.mul({}, {})", np.multiply),
    Row("{} / {}", np.divide, lambda x, y: within(1 / y, 4)),
    Row("{} ** {}", np.power, lambda x, y: above(x, 0.25) and within(y, 3)),
    Row("{} % {}", np.mod, lambda x, y: above(y, 0.4) and away(np.mod(x, y), 0) and above(y - np.mod(x, y), MARGIN)),
    Row("oc.maximum({}, {})", np.maximum, lambda x, y: away(x - y, 0)),
    Row("oc.minimum({}, {})", np.minimum, lambda x, y: away(x - y, 0)),
    Row("oc.logaddexp({}, {})", np.logaddexp),
    Row("oc.relu_gate({}, {})", lambda x, y: np.where(x > 0, y, 0), lambda x, y: away(x, 0)),
    Row("oc.sat01_gate({}, {})", lambda x, y: np.where((x > 0) & (x < 1), y, 0), lambda x, y: away(x, 0, 1)),
    Row("oc.fst({}, {})", lambda x, y: x + 0 * y),
    Row("oc.snd({}, {})", lambda x, y: 0 * x + y),
    Row("({} < {})", lambda x, y: (x < y) * 1.0, lambda x, y: away(x - y, 0), gives_gradient=False),
    Row("({} >= {})", lambda x, y: (x >= y) * 1.0, lambda x, y: away(x - y, 0), gives_gradient=False),
    Row("({} <= {})", lambda x, y: (x <= y) * 1.0, lambda x, y: away(x - y, 0), gives_gradient=False),
    Row("({} > {})", lambda x, y: (x > y) * 1.0, lambda x, y: away(x - y, 0), gives_gradient=False),
    Row("oc.ne({}, {})", lambda x, y: (x != y) * 1.0, lambda x, y: away(x - y, 0), gives_gradient=False),
    Row("({} & {})", lambda x, y: ((x != 0) & (y != 0)) * 1.0, lambda x, y: away(x, 0) and away(y, 0), False),
)

INTEGERS = (
    Row("{} + {}", np.add),
    Row("{} - {}", np.subtract),
    Row("{} * {}", np.multiply),
    Row("{} % {}", np.mod, lambda x, y: bool(np.all(y != 0))),
    Row("oc.maximum({}, {})", np.maximum),
    Row("oc.minimum({}, {})", np.minimum),
    Row("oc.eq({}, {})", lambda x, y: (x == y) * 1.0),
    Row("oc.ne({}, {})", lambda x, y: (x != y) * 1.0),
    Row("({} < {})", lambda x, y: (x < y) * 1.0),
    Row("({} <= {})", lambda x, y: (x <= y) * 1.0),
    Row("({} > {})", lambda x, y: (x > y) * 1.0),
    Row("({} >= {})", lambda x, y: (x >= y) * 1.0),
    Row("({} & {})", lambda x, y: ((x != 0) & (y != 0)) * 1.0),
    Row("({} | {})", lambda x, y: ((x != 0) | (y != 0)) * 1.0),
    Row("oc.bitwise_and({}, {})", _on_integers(np.bitwise_and)),
    Row("oc.bitwise_or({}, {})", _on_integers(np.bitwise_or)),
    Row("oc.bitwise_xor({}, {})", _on_integers(np.bitwise_xor)),
    Row("oc.left_shift({}, {})", _on_integers(np.left_shift), lambda x, y: bool(np.all((y >= 0) & (y < 8)))),
    Row("oc.right_shift({}, {})", _on_integers(np.right_shift), lambda x, y: bool(np.all((y >= 0) & (y < 8)))),
)

NUMBERS = (
    Row("{} + 1", lambda x: x + 1),
    Row("2 * {}", lambda x: 2 * x),
    Row("{} * -0.75", lambda x: x * -0.75),
    Row("1.5 - {}", lambda x: 1.5 - x),
    Row("{} / 3", lambda x: x / 3),
    Row("1 / {}", lambda x: 1 / x, lambda x: within(1 / x, 4)),
    Row("{} ** 2", lambda x: x**2),
    Row("{} ** 3", lambda x: x**3, lambda x: within(x, 2)),
    Row("{} ** 0.5", np.sqrt, lambda x: above(x, 0.15)),
    Row("2 ** {}", lambda x: 2.0**x, lambda x: within(x, 3)),
    Row("{} % 1.25", lambda x: np.mod(x, 1.25), lambda x: away(np.mod(x, 1.25), 0, 1.25)),
    Row("oc.maximum({}, 0.5)", lambda x: np.maximum(x, 0.5), lambda x: away(x, 0.5)),
    Row("np.float64(0.5) * {}", lambda x: 0.5 * x),
)

TERNARY = (
    Row("oc.where({}, {}, {})", lambda c, x, y: np.where(c != 0, x, y), lambda c, x, y: away(c, 0)),
    Row("oc.where({} > 0, {}, {})", lambda c, x, y: np.where(c > 0, x, y), lambda c, x, y: away(c, 0), tested=1),
    Row("oc.fma({}, {}, {})", lambda x, y, z: x * y + z),
)

TOTALS = (
    Row(".sum()", np.sum),
    Row(".mean()", np.mean, lambda x: x.size > 0),
    Row(".var()", np.var, lambda x: x.size > 0),
    Row(".std()", np.std, lambda x: x.size > 1 and bool(np.var(x) > MARGIN)),
    Row(".prod()", np.prod, lambda x: x.size < 9 and away(x, 0)),
    Row(".max()", np.max, lambda x: x.size > 0),
    Row(".min()", np.min, lambda x: x.size > 0),
)
