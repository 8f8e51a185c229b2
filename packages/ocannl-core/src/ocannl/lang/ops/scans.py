"""Inclusive prefix scans along one axis.

    y[i] = y[i - 1] op x[i]

Values, and the gradient of sums, are computed in blocks (`lang/core/block_scans.py`), or in loops over rows on CPUs
(`lang/core/sequential_scans.py`). The gradients of products and extremes contain first-order recurrences, which CPUs
compute in loops as well (`lang/core/recurrences.py`). In parallel form, a step of a recurrence doubles the range that a
cell has accumulated: after the step of distance d, cells i - 2d + 1 to i. So n cells take ceil(log2 n) steps, each of
them parallel over all cells.

Source: Hillis, Steele 1986; Blelloch 1990.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ocannl.infer.logic import einsum
from ocannl.infer.spec import Spec
from ocannl.ir.ops import ADD, MAX, MIN, MUL, Op
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Hole, ShiftedRead, Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.along_axis import axis_spec, single_axis
from ocannl.lang.ops.index_tensors import indices

AXIS = 2  # the operand whose only axis is scanned
PRECEDING, FOLLOWING = -1, 1

Gradient = Callable[[Slots, int], None]


def _define_scan(name: str, op: Op, gradient: Gradient, doc: str, grad: str) -> Callable[..., Tensor]:
    def scan(x: object, spec: str | None = None, **names: Any) -> Tensor:
        axes, axis = single_axis(x, spec, names, name)
        positions = indices()
        operand = axes.logic.spec.operands[0]

        def forward(s: Slots) -> None:
            s.scan(s.result(), None, s.operands[0], op, AXIS, reverse=False)

        def backward(s: Slots) -> None:
            gradient(s, positions.dims[0])

        logic = einsum(Spec((operand, axis_spec(axis)), operand))
        result_type = ResultType(weak_operands=frozenset({AXIS - 1}))
        operation = Operation(name, logic, forward, backward, reduce=op, result_type=result_type, sizes=axes.sizes)
        return apply(operation, [axes.x, positions], captures=axes.captures)

    scan.__name__ = scan.__qualname__ = name
    scan.__doc__ = f"""{doc} along one axis: the axis that the spec removes, or the only output axis.

            oc.{name}(x, "...|t,c => ...|c")  # along t

        Shapes: those of `x`.
        Grad:   {grad}
        Raises: CodeError unless the spec removes exactly one axis; ShapeError.
        """
    REGISTRY[name] = composite(scan)
    return REGISTRY[name]


# --- recurrences -----------------------------------------------------------------------------------------------------


def _recurrence(
    s: Slots, carried: Term, added: Term, carry: Callable[[Term, Term], Term], direction: int, n: int,
    finish: Callable[[Term], Term] = lambda y: y,
) -> Term:  # fmt: skip
    """Returns `finish(y[i])` for the first-order recurrence `y[i] = added[i] + carry(carried[i], y[i + direction])`."""
    result = s.local("recurrence", 0, _node(s.gradient()).precision.arithmetic)

    def write_steps() -> None:
        step_carried, step_added, distance = carried, added, 1
        while distance < n:
            step_carried, step_added = _materialize(s, step_carried), _materialize(s, step_added)
            offset = direction * distance
            far_carried, far_added = _shifted(step_carried, offset, 1.0), _shifted(step_added, offset, 0.0)
            step_carried, step_added = carry(step_carried, far_carried), step_added + carry(step_carried, far_added)
            distance *= 2
        result.write(None, True, finish(step_added))

    s.recurrence(result, carried, added, carry, finish, direction, AXIS, write_steps)
    return result


def _materialize(s: Slots, value: Term) -> Term:
    """Stores a term in a local node of the type of the gradient, so that it can be read at shifted positions."""
    if isinstance(value.tree, Hole):
        return value
    local = s.local("met", 0, _node(s.gradient()).precision.arithmetic)
    local.write(None, True, value)
    return local


def _shifted(value: Term, offset: int, outside: float) -> Term:
    assert isinstance(value.tree, Hole)
    return Term(ShiftedRead(value.tree, AXIS, offset, outside))


def _node(value: Term) -> Any:
    assert isinstance(value.tree, Hole)
    return value.tree.node


# --- gradients -------------------------------------------------------------------------------------------------------


def _sum_gradient(s: Slots, n: int) -> None:
    s.scan(s.operand_gradient(1), ADD, s.gradient(), ADD, AXIS, reverse=True)


def _product_gradient(s: Slots, n: int) -> None:
    s.operand_gradient(1).write(ADD, False, _product_terms(s, n))


def _product_terms(s: Slots, n: int) -> Term:
    """For cell i, `prod(x[:i])` times the sum over k >= i of `g[k] * prod(x[i+1:k+1])`; exact for zeros in `x`."""
    if n < 2:
        return s.gradient()
    following, preceding = _shifted(s.operands[0], 1, 1.0), _shifted(s.value, -1, 1.0)
    return _recurrence(s, following, s.gradient(), lambda a, b: a * b, FOLLOWING, n, lambda suffix: preceding * suffix)


def _extreme_gradient(s: Slots, n: int) -> None:
    s.operand_gradient(1).write(ADD, False, _extreme_terms(s, n))


def _extreme_terms(s: Slots, n: int) -> Term:
    """Splits the gradient of each prefix equally among the cells that attain its extreme."""
    if n < 2:
        return s.gradient()
    attains = term("eq", s.stored(s.operands[0]), s.value)
    ties = _recurrence(s, _equals_neighbor(s, PRECEDING), attains, _mask, PRECEDING, n)
    share = s.gradient() / ties
    equals_next = _equals_neighbor(s, FOLLOWING)
    return _recurrence(s, equals_next, share, _mask, FOLLOWING, n, lambda total: _mask(attains, total))


def _equals_neighbor(s: Slots, direction: int) -> Term:
    return term("eq", s.value, _shifted(s.value, direction, 0.0))


def _mask(condition: Term, value: Term) -> Term:
    return term("where", condition, value, 0.0)


_EXTREME_GRAD = "split equally among the cells that attain the extreme of a prefix."

cumsum = _define_scan("cumsum", ADD, _sum_gradient, "The cumulative sum", "the cumulative sum of `g` from the end.")
cumprod = _define_scan(
    "cumprod", MUL, _product_gradient, "The cumulative product", "products of all cells but one, exact also for zeros."
)
cummax = _define_scan("cummax", MAX, _extreme_gradient, "The cumulative maximum", _EXTREME_GRAD)
cummin = _define_scan("cummin", MIN, _extreme_gradient, "The cumulative minimum", _EXTREME_GRAD)
