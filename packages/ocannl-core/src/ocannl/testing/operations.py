"""Operations tried on their samples: each gradient against differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import reduce as fold
from operator import add
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.leaves import tensor
from ocannl.lang.core.parameter import param
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.declare.catalogue import OperationRow, row_of_declaration
from ocannl.lang.declare.samples import Draw, Sample
from ocannl.testing.gradients import gradcheck

SAYS_NONE = re.compile(r"^Grad: +none\.", re.MULTILINE)


def check_operation(operation: Callable[..., Any] | OperationRow, seed: int = 0) -> int:
    """Holds an operation to its samples; gives how many of them have a gradient, which differences confirm.

    Raises: GradientMismatch; CodeError for an operation without samples, and for one without gradient whose text does
    not say so.
    """
    name = getattr(operation, "__name__", "?")
    row = operation if isinstance(operation, OperationRow) else row_of_declaration(name, operation)
    if not row.samples:
        raise CodeError(f"`{row.call}` has no samples to be tried on: declare samples=[declare.sample(...)]")
    checked = 0
    for sample in row.samples:
        rng = np.random.default_rng(seed)
        given = [tensor(d.array(rng), batch_axes=d.batch_axes, input_axes=d.input_axes) for d in drawn(sample.operands)]

        def call(*xs: Tensor, sample: Sample = sample) -> Tensor:
            return _result(row.function(*_placed(sample.operands, iter(xs)), **sample.settings))

        if call(*map(_parameter, given)).has_gradient:
            gradcheck(call, *given)
            checked += 1
    if not checked and not SAYS_NONE.search(row.doc):
        raise CodeError(f"`{row.call}` has a gradient on none of its samples, and its text does not say `Grad: none.`")
    return checked


def drawn(operands: Any) -> Iterator[Draw]:
    """What is drawn, also inside lists."""
    for given in operands:
        if isinstance(given, Draw):
            yield given
        elif isinstance(given, list):
            yield from drawn(given)


def _placed(operands: Any, xs: Iterator[Tensor]) -> Iterator[Any]:
    """The operands, with tensors where something is drawn."""
    for given in operands:
        if isinstance(given, Draw):
            yield next(xs)
        else:
            yield list(_placed(given, xs)) if isinstance(given, list) else given


def _result(made: Any) -> Tensor:
    """Several results as one number."""
    if isinstance(made, Tensor):
        return made
    totals: Iterator[Tensor] = (t.sum() for t in made)
    return fold(add, totals)


def _parameter(t: Tensor) -> Tensor:
    batch, input, output = ([axis.size for axis in row] for row in (t.shape.batch, t.shape.input, t.shape.output))
    return param(batch=batch, input=input, output=output, dtype=t.dtype)
