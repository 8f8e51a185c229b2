"""Matrices in the rows of tensors, and operations on them that are host calls.

A matrix is a linear map `..b..|columns->rows`, or two output axes `..b..|rows,columns`: in memory order, both are the
two trailing axes. Results have the form of the first operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ocannl.infer.logic import Logic
from ocannl.infer.parse import parse
from ocannl.ir.ops import ADD, Domain
from ocannl.lang.core.host_calls import host_call
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.linalg.arrays import Array, in_lapack_type, sum_to
from ocannl.lang.ops.concat import concat
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.indexed_rows import INPUT, OUTPUT, axis_count

BROADCAST_BATCH = True, False, False


@dataclass(frozen=True, slots=True)
class MatrixForm:
    """The rows of a tensor that hold a matrix."""

    is_map: bool

    def spec(self, rows: str, columns: str) -> str:
        return f"...|{columns}->{rows}" if self.is_map else f"...|{rows},{columns}"


def form_of(x: Tensor) -> MatrixForm:
    """A linear map, if the tensor has an input axis as far as inferred; otherwise two output axes."""
    return MatrixForm(bool(axis_count(x, INPUT)))


def is_vector(x: Tensor) -> bool:
    """Whether a tensor has one output axis, or its axes are not inferred."""
    return not axis_count(x, INPUT) and axis_count(x, OUTPUT) in (None, 1)


def host_operation(
    name: str,
    spec: str,
    forward: Callable[..., Any],
    gradient: Callable[..., Any] | None,
    operands: Sequence[object],
    *,
    label: str | None = None,
    sizes: dict[str, int] | None = None,
    constants: int = 0,
) -> Tensor:
    """Applies an operation whose rules are host calls.

    `forward` computes the value from the operands. `gradient` computes the contributions to the gradients of the
    operands, as a tuple, from the gradient of the value, the value and the operands; they may have the shape of the
    broadcast batch row. The last operands, as many as `constants`, have no gradient.
    """
    parsed = parse(spec)
    logic = Logic("einsum", parsed, (BROADCAST_BATCH,) * len(parsed.operands))

    def compute(s: Slots) -> None:
        s.result()[...] = host_call(in_lapack_type(forward), *s.operands, name=name)

    def differentiate(s: Slots) -> None:
        assert gradient is not None
        rule, differentiable = gradient, len(s.operands) - constants

        def contributions(g: Array, value: Array, *operands: Array) -> Any:
            computed = in_lapack_type(rule)(g, value, *operands)
            summed = tuple(sum_to(c, x.shape) for c, x in zip(computed, operands[:differentiable], strict=True))
            return summed if len(summed) > 1 else summed[0]

        results = host_call(
            contributions, s.gradient(), s.value, *s.operands, outputs=differentiable, name=f"{name} gradient"
        )
        for number, result in enumerate(results, 1):
            s.operand_gradient(number).write(ADD, False, result)

    rule = differentiate if gradient is not None else None
    result_type = ResultType(domain=Domain.FLOAT)
    operation = Operation(name, logic, compute, rule, result_type=result_type, sizes=sizes or {})
    return apply(operation, [embed(x) for x in operands], label=label)


def part(packed: Tensor, name: str, spec: str) -> Tensor:
    """The matrix at a place in a packed array, by a spec of `oc.concat`."""
    return concat(spec, packed, label=f"{packed.label}.{name}")


def row(packed: Tensor, name: str, spec: str) -> Tensor:
    """The vector at a fixed index of a packed array, by a spec of `oc.einsum`."""
    return einsum(spec, packed, label=f"{packed.label}.{name}")
