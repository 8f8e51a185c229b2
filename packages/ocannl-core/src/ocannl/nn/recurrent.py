"""Recurrent layers: a cell, applied along a sequence by `oc.scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from ocannl.base.errors import ArgumentError
from ocannl.lang import api as oc
from ocannl.lang.api import Block, Tensor
from ocannl.nn.layer import layer
from ocannl.nn.operand_axes import check_sequence

State = Any
"""A tensor, or a tuple of tensors, of the shape `..b..|width`."""
States = Sequence[State]
"""The state of each cell of a recurrent layer."""


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
    x: Tensor, lengths: Tensor | None = None, initial: States | None = None, *, width: int, layers: int = 1,
    bidirectional: bool = False, activation: Callable[[Tensor], Tensor] = oc.tanh, rate: float = 0.0,
    return_states: bool = False,
) -> Any:  # fmt: skip
    """`nn.rnn_cell` along a sequence: the states at all positions, and with `return_states` also the last ones.

    `layers` are stacked, with dropout at `rate` between them; with `bidirectional` each layer has a second cell that
    goes from the end to the start, and the states of both are concatenated. Positions from the length of their sequence
    on do not change the state, and their results are 0.

    Last states, and the `initial` ones, which are 0 by default, are a tuple with the state of each cell, in the order
    of PyTorch: layer by layer, forward and then backward.

    Shapes: `..b.., t|c; ..b..| => ..b.., t|width`, or `2 * width` if bidirectional; states are `..b..|width`.
    """
    cell = partial(rnn_cell, width=width, activation=activation)
    return _stacked("rnn", x, lengths, initial, _Recurrence(cell), layers, bidirectional, rate, return_states)


@layer
def gru(
    x: Tensor, lengths: Tensor | None = None, initial: States | None = None, *, width: int, layers: int = 1,
    bidirectional: bool = False, rate: float = 0.0, return_states: bool = False,
) -> Any:  # fmt: skip
    """`nn.gru_cell` along a sequence: the states at all positions, and with `return_states` also the last ones, as in
    `nn.rnn`.

    Shapes: `..b.., t|c; ..b..| => ..b.., t|width`, or `2 * width` if bidirectional; states are `..b..|width`.
    """
    cell = partial(gru_cell, width=width)
    return _stacked("gru", x, lengths, initial, _Recurrence(cell), layers, bidirectional, rate, return_states)


@layer
def lstm(
    x: Tensor, lengths: Tensor | None = None, initial: States | None = None, *, width: int, layers: int = 1,
    bidirectional: bool = False, rate: float = 0.0, return_states: bool = False,
) -> Any:  # fmt: skip
    """`nn.lstm_cell` along a sequence: the states `h` at all positions, and with `return_states` also the last ones, as
    in `nn.rnn`. A state is a pair `(h, c)`.

    Shapes: `..b.., t|c; ..b..| => ..b.., t|width`, or `2 * width` if bidirectional; `h` and `c` are `..b..|width`.
    """
    cell = partial(lstm_cell, width=width)
    return _stacked("lstm", x, lengths, initial, _Recurrence(cell, 2), layers, bidirectional, rate, return_states)


@dataclass(frozen=True, slots=True)
class _Recurrence:
    """A kind of cell: a function from a label to a block, whose state consists of `parts` tensors, its result first."""

    cell: Callable[..., Any]
    parts: int = 1

    def start(self, steps: Tensor) -> State:
        """Zeros of the type of the sequence; for integers, of the type that their products with weights have."""
        zero = oc.tensor(0.0, dtype=steps.dtype) if steps.dtype.is_float else 0.0
        return (zero,) * self.parts if self.parts > 1 else zero

    def result(self, state: State) -> Tensor:
        return cast("Tensor", state[0] if self.parts > 1 else state)

    def checked(self, initial: States | None, names: Sequence[str], steps: Tensor) -> Sequence[State]:
        """The initial state of each cell. Raises: ArgumentError unless there is one for each."""
        if initial is None:
            return [self.start(steps)] * len(names)
        state = "a tensor" if self.parts == 1 else f"a tuple of {self.parts} tensors"
        if not isinstance(initial, list | tuple) or len(initial) != len(names):
            raise ArgumentError(
                f"`initial` holds a state for each of the cells {', '.join(names)}: a tuple of {len(names)}, "
                f"in which a state is {state}"
            )
        for n, part in enumerate(initial):
            fits = isinstance(part, tuple | list) and len(part) == self.parts if self.parts > 1 else True
            if not fits or (self.parts == 1 and isinstance(part, tuple | list)):
                raise ArgumentError(f"the state {n} of `initial`, that of {names[n]}, is {state}")
        return [tuple(part) if self.parts > 1 else part for part in initial]


def _stacked(
    title: str, x: Tensor, lengths: Tensor | None, initial: States | None, kind: _Recurrence, layers: int,
    bidirectional: bool, rate: float, return_states: bool,
) -> Any:  # fmt: skip
    """Layers of cells, each along the results of the layer before."""
    directions = (("cell", False), ("reverse", True))[: 2 if bidirectional else 1]
    names = [
        name if number == 0 else f"{name}_{number + 1}" for number in range(layers) for name, _ in directions
    ]
    check_sequence(x, title)
    steps = oc.einsum("..., t|c => t, ...|c", x)
    starts = iter(kind.checked(initial, names, steps))
    states = []
    for number in range(layers):
        if number and rate:
            steps = oc.dropout(steps, rate)
        results = []
        for name, is_reverse in directions:
            state, result = _along(steps, lengths, kind, kind.cell(label=name), next(starts), is_reverse)
            states.append(state)
            results.append(result)
        steps = oc.concat("...|a; ...|b => ...|a^b", *results) if bidirectional else results[0]
    y = oc.einsum("t, ...|c => ..., t|c", steps)
    return (y, tuple(states)) if return_states else y


def _along(
    steps: Tensor, lengths: Tensor | None, kind: _Recurrence, cell: Block, start: State, is_reverse: bool
) -> tuple[State, Tensor]:
    """The last state of a cell, and its results at all steps."""

    def step(state: State, element: Any) -> tuple[State, Tensor]:
        if lengths is None:
            after = cell(state, element)
            return after, kind.result(after)
        x, position = element
        inside = position < lengths
        after = cell(state, x)
        return _chosen(inside, after, state), oc.where(inside, kind.result(after), 0.0)

    xs = steps if lengths is None else (steps, oc.einsum("t => t|", oc.iota(steps.dims[0])))
    state, results = oc.scan(step, start, xs, reverse=is_reverse)
    return state, cast("Tensor", results)


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
