"""Recurrent layers: a cell, applied along a sequence by `oc.scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ocannl.lang import api as oc
from ocannl.lang.api import Block, Tensor
from ocannl.nn.layer import layer

State = Any
"""A tensor, or a tuple of tensors, of the shape `..b..|width`."""


@layer
def rnn_cell(h: Tensor, x: Tensor, *, width: int, activation: Callable[[Tensor], Tensor] = oc.tanh) -> Tensor:
    """`activation(w_x @ x + w_h @ h + b)`.

    Shapes: `..b..|width; ..b..|c => ..b..|width`; `w_x` is `c -> width`, `w_h` is `width -> width`.
    Init:   uniform within `1 / sqrt(width)`.
    Source: Elman 1990.
    """
    return activation(_affine(x, "w_x", "b", width) + _linear(h, "w_h", width))


@layer
def lstm_cell(state: tuple[Tensor, Tensor], x: Tensor, *, width: int) -> tuple[Tensor, Tensor]:
    """The next `h` and `c`: `c = f * c + i * g`, `h = o * tanh(c)`, with gates that are units of `x` and `h`.

    Shapes: `..b..|width` for `h` and `c`; `w_x` is `c -> 4 * width`, `w_h` is `width -> 4 * width`, with the gates in
            PyTorch's order, i, f, g, o.
    Init:   uniform within `1 / sqrt(width)`.
    Source: Hochreiter, Schmidhuber 1997; Gers, Schmidhuber, Cummins 2000.
    """
    h, c = state
    gates = _affine(x, "w_x", "b", width, 4) + _linear(h, "w_h", width, 4)
    i, f, g, o = _parts(gates, 4)
    c = oc.sigmoid(f) * c + oc.sigmoid(i) * oc.tanh(g)
    return oc.sigmoid(o) * oc.tanh(c), c


@layer
def gru_cell(h: Tensor, x: Tensor, *, width: int) -> Tensor:
    """The next `h`: `(1 - z) * n + z * h`, where the reset gate `r` scales what the candidate `n` takes of `h`.

    Shapes: `..b..|width; ..b..|c => ..b..|width`; `w_x` is `c -> 3 * width`, `w_h` is `width -> 3 * width`, with the
            parts in PyTorch's order, r, z, n; `b_x` and `b_h` are `3 * width`.
    Init:   uniform within `1 / sqrt(width)`.
    Source: Cho et al. 2014, with the reset gate after the product.
    """
    r_x, z_x, n_x = _parts(_affine(x, "w_x", "b_x", width, 3), 3)
    r_h, z_h, n_h = _parts(_affine(h, "w_h", "b_h", width, 3), 3)
    n = oc.tanh(n_x + oc.sigmoid(r_x + r_h) * n_h)
    z = oc.sigmoid(z_x + z_h)
    return (1 - z) * n + z * h


@layer
def rnn(
    x: Tensor, lengths: Tensor | None = None, *, width: int, layers: int = 1, bidirectional: bool = False,
    activation: Callable[[Tensor], Tensor] = oc.tanh, rate: float = 0.0,
) -> Tensor:  # fmt: skip
    """`nn.rnn_cell` along a sequence: the states at all positions.

    `layers` are stacked, with dropout at `rate` between them; with `bidirectional` each layer has a second cell that
    goes from the end to the start, and the states of both are concatenated. Positions from the length of their sequence
    on do not change the state, and their results are 0.

    Shapes: `..b.., t|c; ..b..| => ..b.., t|width`, or `2 * width` if bidirectional.
    """
    return _stacked(x, lengths, layers, bidirectional, rate, lambda name: rnn_cell(
        width=width, activation=activation, label=name), lambda state: state, 0.0)  # fmt: skip


@layer
def gru(
    x: Tensor, lengths: Tensor | None = None, *, width: int, layers: int = 1, bidirectional: bool = False,
    rate: float = 0.0,
) -> Tensor:  # fmt: skip
    """`nn.gru_cell` along a sequence: the states at all positions, as in `nn.rnn`.

    Shapes: `..b.., t|c; ..b..| => ..b.., t|width`, or `2 * width` if bidirectional.
    """
    return _stacked(x, lengths, layers, bidirectional, rate, lambda name: gru_cell(width=width, label=name),
                    lambda state: state, 0.0)  # fmt: skip


@layer
def lstm(
    x: Tensor, lengths: Tensor | None = None, *, width: int, layers: int = 1, bidirectional: bool = False,
    rate: float = 0.0,
) -> Tensor:  # fmt: skip
    """`nn.lstm_cell` along a sequence: the states `h` at all positions, as in `nn.rnn`.

    Shapes: `..b.., t|c; ..b..| => ..b.., t|width`, or `2 * width` if bidirectional.
    """
    return _stacked(x, lengths, layers, bidirectional, rate, lambda name: lstm_cell(width=width, label=name),
                    lambda state: state[0], (0.0, 0.0))  # fmt: skip


def _stacked(
    x: Tensor, lengths: Tensor | None, layers: int, bidirectional: bool, rate: float, cell: Callable[[str], Block],
    result: Callable[[State], Tensor], start: State,
) -> Tensor:  # fmt: skip
    steps = oc.einsum("..., t|c => t, ...|c", x)
    for number in range(layers):
        if number and rate:
            steps = oc.dropout(steps, rate)
        ahead = _along(steps, lengths, cell("cell"), result, start, reverse=False)
        if bidirectional:
            behind = _along(steps, lengths, cell("reverse"), result, start, reverse=True)
            steps = oc.concat("...|a; ...|b => ...|a^b", ahead, behind)
        else:
            steps = ahead
    return oc.einsum("t, ...|c => ..., t|c", steps)


def _along(
    steps: Tensor, lengths: Tensor | None, cell: Block, result: Callable[[State], Tensor], start: State, reverse: bool
) -> Tensor:
    """The results of a cell at all steps."""

    def step(state: State, element: Any) -> tuple[State, Tensor]:
        if lengths is None:
            after = cell(state, element)
            return after, result(after)
        x, position = element
        inside = position < lengths
        after = cell(state, x)
        kept = _chosen(inside, after, state)
        return kept, oc.where(inside, result(after), 0.0)

    xs = steps if lengths is None else (steps, oc.einsum("t => t|", oc.iota(steps.dims[0])))
    _, results = oc.scan(step, start, xs, reverse=reverse)
    return cast("Tensor", results)


def _chosen(condition: Tensor, a: State, b: State) -> State:
    if isinstance(a, tuple):
        return tuple(oc.where(condition, x, y) for x, y in zip(a, b, strict=True))
    return oc.where(condition, a, b)


def _linear(x: Tensor, name: str, width: int, parts: int = 1) -> Tensor:
    bound = width**-0.5
    return oc.param(name, oc.uniform(-bound, bound), o=[parts * width]) @ x


def _affine(x: Tensor, name: str, bias: str, width: int, parts: int = 1) -> Tensor:
    bound = width**-0.5
    return _linear(x, name, width, parts) + oc.param(bias, oc.uniform(-bound, bound), o=[parts * width])


def _parts(gates: Tensor, count: int) -> list[Tensor]:
    together = oc.einsum("...|(n h) => ...|n, h", gates, n=count)
    return [oc.einsum(f"...|{n}, h => ...|h", together) for n in range(count)]
