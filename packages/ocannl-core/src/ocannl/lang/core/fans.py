"""Fans of a parameter: how many products each cell of a contraction sums, and how many sums each input cell enters.

    y[o] = sum_k w[o, k] * x[k]                                 fan-in  k           fan-out  o
    y[oh, ow, oc] = sum w[kh, kw, ic, oc] * x[oh+kh, ow+kw, ic] fan-in  kh*kw*ic    fan-out  kh*kw*oc

They follow from the spec of the first contraction of the parameter in the block that owns it. An axis of the parameter
counts for the fan-in unless it is an axis of the result, and for the fan-out unless it is an axis of the other operand;
taps of a window count for both. Without a contraction the input row is the fan-in, and the output row the fan-out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ocannl.base.errors import ShapeError
from ocannl.infer.logic import Logic
from ocannl.infer.spec import AxisSpec, Fixed, ShapeSpec, Window, axis_labels
from ocannl.lang.core import graph
from ocannl.lang.core.operation import Operation
from ocannl.lang.core.tensor_protocol import TensorLike

FAN_IN, FAN_OUT = "fan_in", "fan_out"


class Use(NamedTuple):
    """A contraction that reads the parameter, or a rearrangement of it, as operand `number`."""

    result: TensorLike
    number: int
    is_inside: bool  # the block that owns the parameter
    steps: tuple[Logic, ...]  # of the rearrangement, then of the contraction


class Weight(NamedTuple):
    """A parameter whose fans are recorded, or a rearrangement of it by `steps`."""

    fans: ParameterFans
    steps: tuple[Logic, ...] = ()


class ParameterFans:
    """Records the contractions of a parameter until its fans are first read. `is_inside` tells whether the block that
    owns the parameter is being applied."""

    __slots__ = ("_is_inside", "_total", "_uses", "parameter")

    def __init__(self, parameter: Callable[[], TensorLike], is_inside: Callable[[], bool]) -> None:
        self.parameter = parameter
        self._is_inside = is_inside
        self._uses: list[Use] = []
        self._total: int | None = None

    def record(self, result: TensorLike, number: int, steps: tuple[Logic, ...]) -> None:
        """Records a contraction, unless an equal one was recorded before."""
        use = Use(result, number, self._is_inside(), steps)
        if self._total is None and all(use[1:] != recorded[1:] for recorded in self._uses):
            self._uses.append(use)

    def total(self, names: Sequence[str]) -> int:
        """The sum of the fans of these names. Raises: ShapeError if contractions disagree."""
        if self._total is None:
            self._total = self._computed(names)
            self._uses.clear()  # they would keep the graph alive
        return self._total

    def _computed(self, names: Sequence[str]) -> int:
        if not self._uses:
            shape = self.parameter().shape
            rows = {FAN_IN: shape.input, FAN_OUT: shape.output}
            return sum(math.prod(axis.size for axis in rows[name]) for name in names)
        decisive = [use for use in self._uses if use.is_inside] or self._uses[:1]
        totals = [sum(_fan(use, name) for name in names) for use in decisive]
        for total, use in zip(totals, decisive, strict=True):
            if total != totals[0]:
                raise ShapeError(self._disagreement(names, {totals[0]: decisive[0], total: use}))
        return totals[0]

    def _disagreement(self, names: Sequence[str], uses: dict[int, Use]) -> str:
        label, text = self.parameter().label, " + ".join(name.replace("_", "-") for name in names)
        sources = {total: use.result.provenance for total, use in uses.items()}
        facts = " and ".join(f"{total} in `{source.expression}`" for total, source in sources.items())
        width = max(len(source.expression) for source in sources.values())
        shown = [f"  in   {source.expression:<{width}}  {source.where}".rstrip() for source in sources.values()]
        given = " and ".join(f"{name}=..." for name in names)
        return "\n".join([f"the {text} of `{label}` is {facts}", *shown, f"  fix  give the initial value {given}"])


def record_uses(result: TensorLike, operation: Operation, operands: Sequence[TensorLike]) -> None:
    """Records a contraction in the fans of its operands; a rearrangement of a parameter stands for it."""
    for number, t in enumerate(operands):
        for weight in t.weights:
            steps = (*weight.steps, operation.logic)
            if not _sums(operation, number):
                if _depends_on_parameters(operands):
                    result.weights = (*result.weights, Weight(weight.fans, steps))
            elif _is_contraction(operation):
                weight.fans.record(result, number, steps)


def _depends_on_parameters(operands: Sequence[TensorLike]) -> bool:
    """Whether the operands depend on parameters and numbers alone."""
    leaves = (t for t in graph.ancestors(operands) if t.application is None)
    return all(t.is_parameter or t.literal is not None for t in leaves)


def _is_contraction(operation: Operation) -> bool:
    is_sum = operation.reduce is not None and operation.reduce.name == "add" and not operation.is_gather
    return is_sum and operation.logic.arity > 1


def _sums(operation: Operation, number: int) -> bool:
    """Whether an axis of the operand is none of the result."""
    spec = operation.logic.spec
    return not _names(spec.operands[number]) <= _kept(spec.result)


def _operation(use: Use) -> Operation:
    assert use.result.application is not None
    return use.result.application.operation


def _fan(use: Use, name: str) -> int:
    """The product of the axes that are none of the result (fan-in), or none of the other operands (fan-out)."""
    assert use.result.application is not None
    spec, sizes = _operation(use).logic.spec, _operation(use).sizes
    partners = [shape for n, shape in enumerate(spec.operands) if n != use.number]
    kept = set().union(*map(_kept, [spec.result] if name == FAN_IN else partners))
    operand = use.result.application.operands[use.number]
    factors = list(_axes(spec.operands[use.number], operand))
    return math.prod(_factor(axis, size, kept, sizes) for axis, size in factors)


def _factor(axis: AxisSpec | str, size: int, kept: set[str], sizes: Mapping[str, int]) -> int:
    """The part of an axis, or of the axes of a row variable, that the sum runs over."""
    names = {axis} if isinstance(axis, str) else set(axis_labels(axis))
    if isinstance(axis, Fixed):
        return 1
    if names and names <= kept:
        return 1
    return max(1, size // math.prod(sizes.get(name, 1) for name in names & kept))


def _axes(shape: ShapeSpec, t: TensorLike) -> Iterator[tuple[AxisSpec | str, int]]:
    """The axes of a spec, and its row variables, with their sizes in a tensor."""
    rows = (t.shape.batch, t.shape.input, t.shape.output)
    for (_, row), axes in zip(shape.rows, rows, strict=True):
        sizes = [axis.size for axis in axes]
        end = len(sizes) - len(row.trail)
        yield from zip(row.lead, sizes, strict=False)
        if row.var is not None:
            yield row.var, math.prod(sizes[len(row.lead) : end])
        yield from zip(row.trail, sizes[max(end, 0) :], strict=False)


def _names(shape: ShapeSpec) -> set[str]:
    """The labels and row variables of a shape."""
    labels = {name for _, row in shape.rows for axis in row.axes for name in axis_labels(axis)}
    return labels | {row.var for _, row in shape.rows if row.var is not None}


def _kept(shape: ShapeSpec) -> set[str]:
    """The labels and row variables of a shape, except the taps of windows."""
    taps = {axis.kernel for _, row in shape.rows for axis in row.axes if isinstance(axis, Window)}
    return _names(shape) - {tap for tap in taps if tap is not None}
