"""Losses. Operands of unequal shape are refused: a loss that broadcasts would compare every pair of examples.

Each loss keeps the batch row, so that `loss.mean()` is the mean over the examples that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, DtypeError
from ocannl.infer.logic import ALL_ROWS, EQUAL, STRETCHED, Logic, pointwise
from ocannl.infer.parse import parse
from ocannl.infer.spec import Spec
from ocannl.ir.ops import ADD
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool, is_number
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.elementwise import log1p, sigmoid
from ocannl.lang.ops.elementwise_decorator import formula
from ocannl.lang.ops.indexing import pick
from ocannl.lang.ops.softmax import log_softmax

SHAPES = "Shapes: those of the operands, which are equal; a number has any shape."

_SAME_SIZES = "give both operands the same rows; `batch_axes` and `oc.einsum` say which axis of data is which"
_DISTRIBUTION = Logic(
    "cross-entropy",
    parse("..b..|..o..; ..b..|..o.. => ..b..|"),
    (EQUAL, EQUAL),
    fix="class ids are integers, so give the target dtype=oc.int32; a distribution has a value for every class",
)
_EXAMPLE = Logic("loss", Spec((ALL_ROWS, ALL_ROWS), ALL_ROWS), (EQUAL, EQUAL), needs_axes=False, fix=_SAME_SIZES)


def _equal_rows(operands: Sequence[object]) -> Logic:
    """The logic of equal shapes; a number may be stretched."""
    stretched = tuple(STRETCHED if is_number(operand) else EQUAL for operand in operands)
    return Logic("loss", Spec((ALL_ROWS,) * len(operands), ALL_ROWS), stretched, needs_axes=False, fix=_SAME_SIZES)


@composite
def cross_entropy(logits: object, target: object, *, ignore: int | None = None) -> Tensor:
    """`-log(softmax(logits))` of the class `target`, for each cell of the batch row.

    An integer target is a class id; a float target is a distribution over the output row, by which the terms are
    weighted, and has the shape of the logits. Cells whose id is `ignore` are 0 and do not count in `loss.mean()`.
    Neither do ids outside the row, which are an error in runs with the setting `check_numbers`.

    Shapes: `..b..|v; ..b..| => ..b..|` for classes, `..b..|..o..; ..b..|..o.. => ..b..|` for distributions.
    Grad:   to the logits, `softmax(logits)` minus the target; for distributions also to the target.
    Raises: DtypeError for logits that are not floats, or an `ignore` that is no integer; CodeError for `ignore` beside
            a distribution; ShapeError.
    """
    scores, labels = embed(logits), embed(target)
    if not scores.typing.is_float:
        raise DtypeError(f"`{scores.label}` holds scores, which are floats, and is of type {scores.typing.current}")
    if ignore is not None and (is_bool(ignore) or not isinstance(ignore, int | np.integer)):
        raise DtypeError(f"`ignore` must be an integer class id, not {ignore!r}")
    log_probabilities = log_softmax(scores)
    if not labels.typing.is_float:
        return _cross_entropy_of_classes(log_probabilities, labels, None if ignore is None else int(ignore))
    if ignore is not None:
        raise CodeError(f"`ignore` is a class id, and `{labels.label}` holds distributions; give it dtype=oc.int32")
    weigh = contraction("cross_entropy", _DISTRIBUTION, lambda s, share: -(s * share), ADD)
    return apply(weigh, [log_probabilities, labels])


def _cross_entropy_of_classes(log_probabilities: Tensor, ids: Tensor, ignore: int | None) -> Tensor:
    picked = pick(log_probabilities, ids)

    def count() -> int:
        return log_probabilities.shape.output[0].size

    def is_outside(v: Term) -> Term:
        outside = (v < 0) | (v >= count())
        return outside if ignore is None else outside & term("ne", v, ignore)

    outside = _mask("outside", is_outside, ids)
    outside.node.violation = lambda: f"`{ids.label}` holds class ids outside 0 to {count() - 1}"

    def is_counted(v: Term, outside: Term) -> Term:
        return term("where", outside if ignore is None else outside | term("eq", v, ignore), 0, 1)

    counted = _mask("counted", is_counted, ids, outside)
    negate = contraction("cross_entropy", _EXAMPLE, lambda mask, s: term("where", mask, -s, 0.0), None,
                         result_type=ResultType(weak_operands=frozenset({0})))  # fmt: skip
    loss = apply(negate, [counted, picked])
    loss.counted = (counted,)
    return loss


def _mask(name: str, body: Any, *operands: Tensor) -> Tensor:
    return apply(contraction(name, pointwise(len(operands)), body, None, differentiable=False), operands)


# --- losses of each cell ---------------------------------------------------------------------------------------------


@formula(logic_of=_equal_rows, shapes=SHAPES)
def squared_error(x: Term, target: Term) -> Term:
    """`(x - target)**2`.

    Grad:   to `x` `g * 2 * (x - target)`, to `target` the opposite.
    Raises: ShapeError for operands of unequal shape.
    """
    return (x - target) * (x - target)


@formula(logic_of=_equal_rows, shapes=SHAPES)
def absolute_error(x: Term, target: Term) -> Term:
    """`abs(x - target)`.

    Grad:   to `x` `g * sign(x - target)`, to `target` the opposite.
    Raises: ShapeError for operands of unequal shape.
    """
    return term("abs", x - target)


@formula(logic_of=_equal_rows, shapes=SHAPES)
def huber(x: Term, target: Term, *, delta: float = 1.0) -> Term:
    """`(x - target)**2 / 2` where the difference is at most `delta`, else `delta * (abs(x - target) - delta / 2)`.

    Grad:   to `x` `g` times the difference, clipped to `delta`; to `target` the opposite.
    Raises: ShapeError for operands of unequal shape.
    Source: Huber 1964, "Robust estimation of a location parameter".
    """
    difference = x - target
    size = term("abs", difference)
    return term("where", size <= delta, 0.5 * difference * difference, delta * (size - 0.5 * delta))


@formula(
    lambda g, v, logits, target: g * (sigmoid(logits) - target),
    lambda g, v, logits, target: g * -logits,
    logic_of=_equal_rows,
    shapes=SHAPES,
)
def binary_cross_entropy(logits: Term, target: Term) -> Term:
    """`-target * log(p) - (1 - target) * log(1 - p)` with `p = sigmoid(logits)`, without overflow.

    Grad:   to the logits `g * (sigmoid(logits) - target)`, to `target` `g * -logits`.
    Raises: ShapeError for operands of unequal shape.
    """
    tail: Term = log1p(term("exp", -term("abs", logits)))
    return term("relu", logits) - logits * target + tail


REGISTRY.update(cross_entropy=cross_entropy)
