"""Checks gradients against central differences, in float64, without a backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ocannl.base.config import SEED
from ocannl.base.errors import CodeError, DtypeError, OcannlError
from ocannl.ir.assign import Comp, nodes
from ocannl.ir.precision import float64
from ocannl.ir.tnode import TNode
from ocannl.lang.core import graph
from ocannl.lang.core.leaf_constructors import embed, tensor
from ocannl.lang.core.literals import as_array
from ocannl.lang.core.parameter import param
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.training_mode import training
from ocannl.testing.evaluate import evaluate
from ocannl.train import grad_update

Array = np.ndarray[Any, Any]


class GradientMismatch(OcannlError, AssertionError):
    """A gradient that differs from finite differences; the message names the worst entry."""


@dataclass(frozen=True)
class _Entry:
    """An entry of a gradient: as computed by the code, and as measured by differences."""

    argument: int
    name: str
    at: tuple[int, ...]
    computed: float
    measured: float

    @property
    def off(self) -> float:
        """The difference of the two, relative to the larger if that exceeds 1."""
        if np.isnan(self.computed) or np.isnan(self.measured):
            return np.inf
        return abs(self.computed - self.measured) / max(1.0, abs(self.computed), abs(self.measured))


def gradcheck(fn: Callable[..., Tensor], *arrays: object, eps: float = 1e-6, tol: float = 1e-5) -> None:
    """Checks the gradients of `fn` with respect to each argument, entry by entry.

    `fn` takes tensors and returns one. Arguments are numbers or arrays, whose axes are output axes, or constant tensors
    (`oc.tensor(data, batch_axes=1)`), whose rows are kept; all are converted to float64. The result is reduced to a
    weighted sum of its cells. Parameters created by `fn` have their initial values.
    Raises: GradientMismatch if the two differ by more than `tol`, relative to the larger if that exceeds 1.
    """
    if not arrays:
        raise CodeError("gradcheck needs an argument to differentiate by: gradcheck(fn, array)")
    arguments = [_argument(a, n) for n, a in enumerate(arrays, 1)]
    loss = _loss(fn(*arguments))
    values = _contents(loss, arguments)
    gradients = _gradients(loss, values)
    with training(True):  # as the code of gradients
        forward = loss.forward.elaborate().comp
    entries = [
        _Entry(n, t.label, at, float(gradients.get(t.node, zeros)[at]), _difference(forward, loss, values, t, at, eps))
        for n, t in enumerate(arguments, 1)
        for zeros in [np.zeros(t.dims)]
        for at in np.ndindex(*t.dims)
    ]
    worst = max(entries, key=lambda e: e.off, default=None)
    if worst is not None and worst.off > tol:
        index_text = f"[{', '.join(map(str, worst.at))}]" if worst.at else ""
        count = sum(e.off > tol for e in entries)
        raise GradientMismatch(
            f"the gradient with respect to argument {worst.argument}, `{worst.name}`, is {worst.computed:.9g} at "
            f"{worst.name}{index_text}, and differences of the values give {worst.measured:.9g}; {count} of "
            f"{len(entries)} entries are off by more than {tol:g}, this one by {worst.off:.3g}"
        )


def _argument(value: object, number: int) -> Tensor:
    """A float64 parameter with these values, and with the rows of `value` if it is a tensor."""
    label = f"x{number}"
    if not isinstance(value, Tensor):
        array = np.asarray(value)
        try:
            return param(label, as_array(array, float64))
        except DtypeError:
            message = f"argument {number} of gradcheck is an array, a number or a tensor, not {value!r}"
            raise DtypeError(message) from None
    contents = _initial_contents(value.node)
    if value.application is not None or contents is None:
        raise CodeError(f"`{value.label}` has no contents to start from: give gradcheck arrays, or oc.tensor(array)")
    shape = value.shape
    batch, input, output = ([axis.size for axis in row] for row in (shape.batch, shape.input, shape.output))
    return param(label, contents.astype(np.float64), batch=batch, input=input, output=output)


def _loss(result: object) -> Tensor:
    t = embed(result)
    if not t.has_gradient:
        raise CodeError(f"the result of the function, `{t.label}`, has no gradient: it depends on no argument")
    weights = np.cos(np.arange(prod(t.dims))).reshape(t.dims) + 1.5
    shape = t.shape
    return (t * tensor(weights, batch_axes=len(shape.batch), input_axes=len(shape.input), label="weights")).sum()


def _initial_contents(node: TNode) -> Array | None:
    """The initial contents of a node."""
    if node.contents is None:
        return None
    return np.array(node.contents.array(node.dims, node.precision, SEED.get())).reshape(node.dims)


def _contents(loss: Tensor, arguments: list[Tensor]) -> dict[TNode, Array]:
    """The values of all leaves: arguments, data, and the initial values of parameters."""
    code = loss.init_params.elaborate().comp
    leaves = [t.node for t in (*graph.ancestors([loss]), *arguments)]
    arrays = {node: array for node in (*leaves, *nodes(code)) if (array := _initial_contents(node)) is not None}
    return {**arrays, **evaluate(code, arrays)}


def _gradients(loss: Tensor, values: dict[TNode, Array]) -> dict[TNode, Array]:
    """The gradients, by the node of the value."""
    state = evaluate(grad_update(loss).elaborate().comp, values)
    return {node.gradient_of: array for node, array in state.items() if node.gradient_of is not None}


def _difference(
    forward: Comp, loss: Tensor, values: dict[TNode, Array], t: Tensor, at: tuple[int, ...], eps: float
) -> float:
    def value(step: float) -> float:
        moved = values[t.node].copy()
        moved[at] += step
        return float(evaluate(forward, {**values, t.node: moved})[loss.node])

    return (value(eps) - value(-eps)) / (2 * eps)


def gradients_of(loss: Tensor, *leaves: Tensor) -> tuple[Array, ...]:
    """The gradients of `loss` with respect to leaves, from their initial values."""
    gradients = _gradients(loss, _contents(loss, list(leaves)))
    return tuple(gradients.get(t.node, np.zeros(t.dims)) for t in leaves)
