"""Running operations: of one axis, what meets up to each place.

    y[i] = y[i - 1] op x[i]

Steps double what a cell has met: after the step of d, those from i - 2d + 1 to i. So n cells take log n sweeps, each of
them in any order. Gradients go the other way, by the same steps.

Source: Hillis, Steele 1986; of first-order recurrences Blelloch 1990.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ocannl.infer.logic import einsum
from ocannl.infer.spec import Spec
from ocannl.ir.ops import ADD, MAX, MIN, MUL, Op
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.operation import Operation, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.terms import Hole, Shifted, Term
from ocannl.lang.core.terms import apply as term
from ocannl.lang.ops.axis_walks import axis_alone, one_axis
from ocannl.lang.ops.index_tensors import indices
from ocannl.lower.types import neutral

AXIS = 2  # the operand whose one axis is walked
BACK, ON = -1, 1

Cells = tuple[Term, ...]
Gradient = Callable[[Slots, int], Term]


def _running(name: str, op: Op, gradient: Gradient, doc: str, grad: str) -> Callable[..., Tensor]:
    def run(x: object, spec: str | None = None, **names: Any) -> Tensor:
        over, axis = one_axis(x, spec, names, name)
        places = indices()
        whole = over.logic.spec.operands[0]

        def forward(s: Slots) -> None:
            nothing = neutral(op, _node(s.value).precision).value
            cells = (s.operands[0],)
            (met,) = _swept(s, s.value, cells, (nothing,), lambda a, b: (term(op.name, *a, *b),), BACK, size())
            s.result().write(None, True, met)

        def backward(s: Slots) -> None:
            s.operand_gradient(1).write(ADD, False, gradient(s, size()))

        def size() -> int:
            return places.dims[0]

        logic = einsum(Spec((whole, axis_alone(axis)), whole))
        weak = frozenset({AXIS - 1})
        operation = Operation(name, logic, forward, backward, reduce=op, weak_operands=weak, sizes=over.sizes)
        return apply(operation, [over.x, places], captures=over.captures)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"""{doc} up to each place of one axis: the axis that the spec takes away, or the one output axis.

            oc.{name}(x, "...|t,c => ...|c")  # along t

        Shapes: those of `x`.
        Grad:   {grad}
        Raises: CodeError for a spec that takes away no axis, or several; ShapeError.
        """
    REGISTRY[name] = composite(run)
    return REGISTRY[name]


# --- steps -----------------------------------------------------------------------------------------------------------


def _swept(
    s: Slots, like: Term, cells: Cells, outside: tuple[float, ...], join: Callable[[Cells, Cells], Cells], way: int,
    n: int,
) -> Cells:  # fmt: skip
    """Each cell joined with all that lie before it (`BACK`) or behind it (`ON`), in the type of what it is `like`."""
    reach = 1
    while reach < n:
        cells = tuple(_stored(s, like, cell) for cell in cells)
        cells = join(cells, tuple(_shifted(c, way * reach, o) for c, o in zip(cells, outside, strict=True)))
        reach *= 2
    return cells


def _recurrence(s: Slots, carried: Term, added: Term, carry: Callable[[Term, Term], Term], way: int, n: int) -> Term:
    """`y[i] = added[i] + carry(carried[i], y[i + way])`."""

    def join(near: Cells, far: Cells) -> Cells:
        return carry(near[0], far[0]), near[1] + carry(near[0], far[1])

    return _swept(s, s.gradient(), (carried, added), (1.0, 0.0), join, way, n)[1]


def _stored(s: Slots, like: Term, value: Term) -> Term:
    """What can be read elsewhere."""
    if isinstance(value.tree, Hole):
        return value
    local = s.local("met", 0, _node(like).precision.arithmetic)
    local.write(None, True, value)
    return local


def _shifted(value: Term, by: int, outside: float) -> Term:
    assert isinstance(value.tree, Hole)
    return Term(Shifted(value.tree, AXIS, by, outside))


def _node(value: Term) -> Any:
    assert isinstance(value.tree, Hole)
    return value.tree.node


# --- gradients -------------------------------------------------------------------------------------------------------


def _of_sum(s: Slots, n: int) -> Term:
    (met,) = _swept(s, s.gradient(), (s.gradient(),), (0.0,), lambda a, b: (a[0] + b[0],), ON, n)
    return met


def _of_product(s: Slots, n: int) -> Term:
    """What comes before a cell, times the sum of what arrives from it on, each times what comes in between."""
    if n < 2:
        return s.gradient()
    behind = _recurrence(s, _shifted(s.operands[0], 1, 1.0), s.gradient(), lambda a, b: a * b, ON, n)
    return _shifted(s.value, -1, 1.0) * behind


def _of_extreme(s: Slots, n: int) -> Term:
    """Where an extreme stays, the cells that attain it share what arrives, equally among those up to each place."""
    if n < 2:
        return s.gradient()
    attains = term("eq", s.stored(s.operands[0]), s.value)
    ties = _recurrence(s, _stays(s, BACK), attains, _kept, BACK, n)
    share = s.gradient() / ties
    return term("where", attains, _recurrence(s, _stays(s, ON), share, _kept, ON, n), 0.0)


def _stays(s: Slots, way: int) -> Term:
    return term("eq", s.value, _shifted(s.value, way, 0.0))


def _kept(condition: Term, value: Term) -> Term:
    return term("where", condition, value, 0.0)


cumsum = _running("cumsum", ADD, _of_sum, "The sum", "the sum of what arrives from each place on.")
cumprod = _running("cumprod", MUL, _of_product, "The product", "the products of the other cells, zeros or not.")
cummax = _running("cummax", MAX, _of_extreme, "The largest value", "to the cells that attain it, in equal shares.")
cummin = _running("cummin", MIN, _of_extreme, "The smallest value", "to the cells that attain it, in equal shares.")
