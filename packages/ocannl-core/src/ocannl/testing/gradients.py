"""Gradients against central differences, in float64, without any backend."""

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
from ocannl.lang.core.leaves import embed, tensor
from ocannl.lang.core.literals import as_array
from ocannl.lang.core.parameter import param
from ocannl.lang.core.tensor import Tensor
from ocannl.testing.evaluate import evaluate
from ocannl.train import grad_update

Array = np.ndarray[Any, Any]


class GradientMismatch(OcannlError, AssertionError):
    """A gradient that finite differences do not confirm; the message names the worst entry."""


@dataclass(frozen=True)
class _Entry:
    """One entry of a gradient: as the code computes it, and as differences have it."""

    argument: int
    name: str
    at: tuple[int, ...]
    computed: float
    measured: float

    @property
    def off(self) -> float:
        """How far apart the two are, relative to the larger where that is more than 1."""
        if np.isnan(self.computed) or np.isnan(self.measured):
            return np.inf
        return abs(self.computed - self.measured) / max(1.0, abs(self.computed), abs(self.measured))


def gradcheck(fn: Callable[..., Tensor], *arrays: object, eps: float = 1e-6, tol: float = 1e-5) -> None:
    """Checks the gradients of `fn` with respect to each argument, entry by entry.

    `fn` takes tensors and gives one. Arguments are numbers or arrays, whose axes are output axes, or constant tensors
    (`oc.tensor(data, batch_axes=1)`), whose rows are kept; all become float64. The result counts as the sum of its
    cells, each times a weight of its own. Parameters that `fn` makes have their initial values.
    Raises: GradientMismatch where the two differ by more than `tol`, relative to the larger if that is more than 1.
    """
    if not arrays:
        raise CodeError("gradcheck needs an argument to differentiate by: gradcheck(fn, array)")
    given = [_argument(a, n) for n, a in enumerate(arrays, 1)]
    loss = _loss(fn(*given))
    values = _contents(loss, given)
    gradients = _gradients(loss, values)
    forward = loss.forward.elaborate().comp
    entries = [
        _Entry(n, t.label, at, float(gradients.get(t.node, zeros)[at]), _difference(forward, loss, values, t, at, eps))
        for n, t in enumerate(given, 1)
        for zeros in [np.zeros(t.dims)]
        for at in np.ndindex(*t.dims)
    ]
    worst = max(entries, key=lambda e: e.off, default=None)
    if worst is not None and worst.off > tol:
        place = f"[{', '.join(map(str, worst.at))}]" if worst.at else ""
        wrong = sum(e.off > tol for e in entries)
        raise GradientMismatch(
            f"the gradient with respect to argument {worst.argument}, `{worst.name}`, is {worst.computed:.9g} at "
            f"{worst.name}{place}, and differences of the values give {worst.measured:.9g}; {wrong} of {len(entries)} "
            f"entries are off by more than {tol:g}, this one by {worst.off:.3g}"
        )


def _argument(given: object, number: int) -> Tensor:
    """A float64 parameter with these values, and the rows of a tensor if it is one."""
    label = f"x{number}"
    if not isinstance(given, Tensor):
        array = np.asarray(given)
        try:
            return param(label, as_array(array, float64))
        except DtypeError:
            message = f"argument {number} of gradcheck is an array, a number or a tensor, not {given!r}"
            raise DtypeError(message) from None
    held = _held(given.node)
    if given.application is not None or held is None:
        raise CodeError(f"`{given.label}` has no contents to start from: give gradcheck arrays, or oc.tensor(array)")
    shape = given.shape
    batch, input, output = ([axis.size for axis in row] for row in (shape.batch, shape.input, shape.output))
    return param(label, held.astype(np.float64), batch=batch, input=input, output=output)


def _loss(result: object) -> Tensor:
    t = embed(result)
    if not t.has_gradient:
        raise CodeError(f"the result of the function, `{t.label}`, has no gradient: it depends on no argument")
    weights = np.cos(np.arange(prod(t.dims))).reshape(t.dims) + 1.5
    shape = t.shape
    return (t * tensor(weights, batch_axes=len(shape.batch), input_axes=len(shape.input), label="weights")).sum()


def _held(node: TNode) -> Array | None:
    """What a node holds before any code writes it."""
    if node.contents is None:
        return None
    return node.contents.array(node.dims, node.precision, SEED.get()).reshape(node.dims)


def _contents(loss: Tensor, given: list[Tensor]) -> dict[TNode, Array]:
    """What every leaf holds: the arguments, data, and parameters as they start."""
    code = loss.init_params.elaborate().comp
    leaves = [t.node for t in (*graph.ancestors([loss]), *given)]
    arrays = {node: array for node in (*leaves, *nodes(code)) if (array := _held(node)) is not None}
    return {**arrays, **evaluate(code, arrays)}


def _gradients(loss: Tensor, values: dict[TNode, Array]) -> dict[TNode, Array]:
    """By the node of the value."""
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


def gradients_of(loss: Tensor, *of: Tensor) -> tuple[Array, ...]:
    """The gradients of `loss` with respect to leaves, from their initial values."""
    found = _gradients(loss, _contents(loss, list(of)))
    return tuple(found.get(t.node, np.zeros(t.dims)) for t in of)
