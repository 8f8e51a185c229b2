"""Operations: how they are written, the shape of their result, and its value in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ones import spec_semantics
from ones.rows import (
    MEMORY,
    Axis,
    Refused,
    Rows,
    broadcast_shapes,
    contract,
    dims,
    sizes,
    transpose,
)
from ones.spec_semantics import Array
from ones.specs import Name, RowSpec, Shape, Spec, shape_of

Shapes = Sequence[Rows]
Arrays = Sequence[Array]


@dataclass(frozen=True)
class Operation:
    """`text` has a place for each operand; `smooth` if it has a derivative wherever values differ."""

    name: str
    text: str
    shape: Callable[[Shapes], Rows]
    value: Callable[[Shapes, Arrays], Array]
    smooth: bool = True


# --- cell by cell ---

UNARY: dict[str, Callable[[Array], Array]] = {
    "-{0}": np.negative, "{0} * 2.0": lambda x: 2 * x, "1.0 + {0}": lambda x: 1 + x, "oc.tanh({0})": np.tanh,
    "oc.sin({0})": np.sin, "oc.relu({0})": lambda x: np.maximum(x, 0), "oc.abs({0})": np.abs,
}  # fmt: skip
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "{0} + {1}": np.add, "{0} - {1}": np.subtract, "{0} * {1}": np.multiply, "oc.maximum({0}, {1})": np.maximum,
}  # fmt: skip
TERNARY: dict[str, Callable[[Array, Array, Array], Array]] = {
    "oc.where({0} > 0.0, {1}, {2})": lambda c, x, y: np.where(c > 0, x, y),
    "oc.fma({0}, {1}, {2})": lambda x, y, z: x * y + z,
}
KINKED = ("relu", "abs", "maximum", "where")


def align(x: Array, rows: Rows, to: Rows) -> Array:
    """An array of these rows with an axis for each axis of `to`."""
    return x.reshape([n for k in MEMORY for n in (1,) * (len(to[k]) - len(rows[k])) + sizes(rows[k])])


def pointwise(text: str, function: Callable[..., Array]) -> Operation:
    def value(shapes: Shapes, arrays: Arrays) -> Array:
        to = broadcast_shapes(shapes)
        cells = function(*(align(x, rows, to) for x, rows in zip(arrays, shapes, strict=True)))
        return np.broadcast_to(cells, dims(to))

    return Operation("pointwise", text, broadcast_shapes, value, not any(word in text for word in KINKED))


# --- rows that change places, meet or go away ---


def _matmul(shapes: Shapes, arrays: Arrays) -> Array:
    (left, right), (x, y) = shapes, arrays
    batch, input, output = contract(left, right)
    middle = left[1]
    x = np.broadcast_to(align(x, left, (batch, middle, output)), sizes(batch) + sizes(output) + sizes(middle))
    y = np.broadcast_to(align(y, right, (batch, input, middle)), sizes(batch) + sizes(middle) + sizes(input))
    flat = [prod(sizes(row)) for row in (output, middle, input)]
    cells = np.matmul(
        x.reshape(*sizes(batch), flat[0], flat[1]), y.reshape(*sizes(batch), flat[1], flat[2])
    )
    return cells.reshape(dims((batch, input, output)))


def _transposed(shapes: Shapes, arrays: Arrays) -> Array:
    (rows,), (x,) = shapes, arrays
    batch, output = len(rows[0]), len(rows[2])
    return np.transpose(x, [*range(batch), *range(batch + output, x.ndim), *range(batch, batch + output)])


MATMUL = Operation("matmul", "{0} @ {1}", lambda shapes: contract(*shapes), _matmul)
TRANSPOSE = Operation("transpose", "{0}.T", lambda shapes: transpose(shapes[0]), _transposed)


def batch_slice(index: int) -> Operation:
    def shape(shapes: Shapes) -> Rows:
        batch, input, output = shapes[0]
        if not batch:
            raise Refused("batch")
        if index >= batch[0].size:
            raise Refused("index")
        return batch[1:], input, output

    return Operation("slice", f"{{0}}[{index}]", shape, lambda shapes, arrays: arrays[0][index])


TOTALS: dict[str, Callable[[Array], Array]] = {
    "{0}.sum()": np.sum, "{0}.mean()": lambda x: np.sum(x) / x.size if x.size else np.asarray(np.nan),
    "{0}.max()": lambda x: np.max(x, initial=-np.inf),
}  # fmt: skip


def total(text: str) -> Operation:
    return Operation(
        "total", text, lambda shapes: ((), (), ()), lambda shapes, arrays: np.asarray(TOTALS[text](arrays[0])),
        "max" not in text,
    )  # fmt: skip


# --- specs ---


def einsum(spec: Spec, reduce: str = "add", combine: str = "mul", function: str = "oc.einsum") -> Operation:
    operands = ", ".join(f"{{{n}}}" for n in range(len(spec.operands)))
    choices = ("reduce", reduce, "add"), ("combine", combine, "mul")
    arguments = "".join(f', {key}="{word}"' for key, word, default in choices if word != default)
    return Operation(
        "einsum", f'{function}("{spec.text}", {operands}{spec.arguments}{arguments})',
        lambda shapes: shape_of(spec, shapes),
        lambda shapes, arrays: spec_semantics.contract(spec, shapes, arrays, reduce, combine), reduce == "add",
    )  # fmt: skip


def mean(spec: Spec) -> Operation:
    def value(shapes: Shapes, arrays: Arrays) -> Array:
        total = spec_semantics.contract(spec, shapes, arrays)
        return total / spec_semantics.contract(spec, shapes, [np.ones(dims(shapes[0]))])

    text = f'{{0}}.mean("{spec.text}"{spec.arguments})'
    return Operation("mean", text, lambda shapes: shape_of(spec, shapes), value)


def concat(spec: Spec) -> Operation:
    operands = ", ".join(f"{{{n}}}" for n in range(len(spec.operands)))
    return Operation(
        "concat", f'oc.concat("{spec.text}", {operands}{spec.arguments})', lambda shapes: shape_of(spec, shapes),
        lambda shapes, arrays: spec_semantics.lay(spec, shapes, arrays),
    )  # fmt: skip


def _exponentials(x: Array, axes: tuple[int, ...]) -> Array:
    e = np.exp(x - x.max(axes, keepdims=True, initial=-700.0))
    return e / e.sum(axes, keepdims=True)


def softmax(spec: Spec | None = None) -> Operation:
    """Over the output row, or over the names of the spec that its result lacks."""

    def shape(shapes: Shapes) -> Rows:
        if spec is not None:
            shape_of(spec, shapes)
        return shapes[0]

    def value(shapes: Shapes, arrays: Arrays) -> Array:
        batch, output = len(shapes[0][0]), len(shapes[0][2])
        axes = range(batch, batch + output)
        if spec is not None:
            kept = {term for row in spec.result for term in row.terms}
            terms = [term for kind in MEMORY for term in spec.operands[0][kind].terms]
            axes = [n for n, term in enumerate(terms) if term not in kept]  # type: ignore[assignment]
        return _exponentials(arrays[0], tuple(axes))

    text = "oc.softmax({0})" if spec is None else f'oc.softmax({{0}}, "{spec.text}")'
    return Operation("softmax", text, shape, value)


def stack(kind: int, number: int, nested: bool = False) -> Operation:
    """Tensors of one shape along a new axis in front of a row."""
    complete: Shape = (RowSpec((), "...", 0), RowSpec((), "...", 0), RowSpec((), "...", 0))
    equal = Spec((complete,) * number, complete)

    def shape(shapes: Shapes) -> Rows:
        rows = list(shape_of(equal, shapes))
        rows[kind] = (Axis(number), *rows[kind])
        return rows[0], rows[1], rows[2]

    def value(shapes: Shapes, arrays: Arrays) -> Array:
        batch, output = len(shapes[0][0]), len(shapes[0][2])
        return np.stack(arrays, (0, batch + output, batch)[kind])

    positions = ", ".join(f"{{{n}}}" for n in range(number))
    text = f'oc.stack([{positions}], axis="{("batch", "input", "output")[kind]}")'
    if nested:
        text = f"oc.block({('oc.batch({})', '({},)', '[{}]')[kind].format(positions)})"
    return Operation("stack", text, shape, value)


def take(ids: Array, batch_axes: int) -> Operation:
    """Rows of the leading output axis, at the output axes of `ids`; a batch row of either, or the same of both."""
    positions: Rows = (tuple(map(Axis, ids.shape[:batch_axes])), (), tuple(map(Axis, ids.shape[batch_axes:])))
    letters = [Name(f"s{n}") for n in range(ids.ndim - batch_axes)]

    def spec(table: Rows) -> Spec:
        axes = [Name(f"r{n}") for n in range(len(table[2]) - 1)]
        batch, input = RowSpec((), "...", 0), RowSpec((), "..i..", 0) if table[1] else RowSpec()
        operand: Shape = (batch if table[0] else RowSpec(), input, RowSpec((Name("v"), *axes)))
        picks = batch if batch_axes or not table[0] else RowSpec()
        return Spec((operand, (picks, RowSpec(), RowSpec(tuple(letters)))), (batch, input, RowSpec((*letters, *axes))))

    def shape(shapes: Shapes) -> Rows:
        if not shapes[0][2]:
            raise Refused("count")
        return shape_of(spec(shapes[0]), [shapes[0], positions])

    def value(shapes: Shapes, arrays: Arrays) -> Array:
        (rows,), (x,) = shapes, arrays
        to = dims(shape(shapes))
        if not rows[0]:
            return np.asarray(x[ids])
        if not prod(to):
            return np.zeros(to)
        batch = sizes(rows[0])
        tables = x.reshape(prod(batch), *x.shape[len(batch) :])
        picks = np.broadcast_to(ids, batch + ids.shape[batch_axes:]).reshape(len(tables), -1)
        return np.stack([table[at] for table, at in zip(tables, picks, strict=True)]).reshape(to)

    data = f"np.array({ids.tolist()}, int).reshape({ids.shape})"
    axes = f", batch_axes={batch_axes}" if batch_axes else ""
    return Operation("take", f"oc.take({{0}}, oc.tensor({data}{axes}))", shape, value)


def renamed(operation: Operation, text: str, name: str) -> Operation:
    """The same by a function of its own."""
    return replace(operation, text=text, name=name)
