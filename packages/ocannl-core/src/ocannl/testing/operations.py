"""Checks operations on their samples: gradients against finite differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import reduce as fold
from operator import add
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.leaf_constructors import tensor
from ocannl.lang.core.parameter import param
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.declare.catalogue import OperationRow, row_of_declaration
from ocannl.lang.declare.samples import Draw, Sample
from ocannl.testing.gradients import gradcheck

NO_GRADIENT = re.compile(r"^Grad: +none\.", re.MULTILINE)


def check_operation(operation: Callable[..., Any] | OperationRow, seed: int = 0) -> int:
    """Checks an operation on its samples; returns the number of samples whose gradient was checked.

    Raises: GradientMismatch; CodeError for an operation without samples, or without gradient and without the line
    `Grad: none.` in its docstring.
    """
    name = getattr(operation, "__name__", "?")
    row = operation if isinstance(operation, OperationRow) else row_of_declaration(name, operation)
    if not row.samples:
        raise CodeError(f"`{row.call}` has no samples to be tried on: declare samples=[declare.sample(...)]")
    checked = 0
    for sample in row.samples:
        rng = np.random.default_rng(seed)
        draws = drawn(sample.operands)
        tensors = [tensor(d.array(rng), batch_axes=d.batch_axes, input_axes=d.input_axes) for d in draws]

        def call(*xs: Tensor, sample: Sample = sample) -> Tensor:
            return called(row, sample, xs)

        if call(*map(_parameter, tensors)).has_gradient:
            gradcheck(call, *tensors)
            checked += 1
    if not checked and not NO_GRADIENT.search(row.doc):
        raise CodeError(f"`{row.call}` has a gradient on none of its samples, and its text does not say `Grad: none.`")
    return checked


def drawn(operands: Any) -> Iterator[Draw]:
    """The random operands, also inside lists."""
    for operand in operands:
        if isinstance(operand, Draw):
            yield operand
        elif isinstance(operand, list):
            yield from drawn(operand)


def called(row: OperationRow, sample: Sample, xs: Iterable[Tensor]) -> Tensor:
    """The operation applied to a sample, with tensors in place of random operands."""
    return _result(row.function(*_placed(sample.operands, iter(xs)), **sample.settings))


def _placed(operands: Any, xs: Iterator[Tensor]) -> Iterator[Any]:
    """The operands, with tensors in place of random ones."""
    for operand in operands:
        if isinstance(operand, Draw):
            yield next(xs)
        else:
            yield list(_placed(operand, xs)) if isinstance(operand, list) else operand


def _result(result: Any) -> Tensor:
    """The sum of all results if there are several."""
    if isinstance(result, Tensor):
        return result
    totals: Iterator[Tensor] = (t.sum() for t in result)
    return fold(add, totals)


def _parameter(t: Tensor) -> Tensor:
    batch, input, output = ([axis.size for axis in row] for row in (t.shape.batch, t.shape.input, t.shape.output))
    return param(batch=batch, input=input, output=output, dtype=t.dtype)
