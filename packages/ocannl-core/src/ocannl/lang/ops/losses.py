"""Losses of class scores and of distributions.

Each loss keeps the batch row, so that `loss.mean()` is the mean over the examples that count.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ocannl.base.errors import CodeError, DataError, DtypeError, ShapeError
from ocannl.infer.explain import table
from ocannl.infer.logic import EQUAL, Logic, einsum, pointwise
from ocannl.infer.parse import parse
from ocannl.ir.ops import ADD
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.elementwise import expm1
from ocannl.lang.ops.elementwise_decorator import formula
from ocannl.lang.ops.elementwise_losses import SAME_SIZES
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.indexed_rows import OUTPUT, axis_count
from ocannl.lang.ops.indexing import pick
from ocannl.lang.ops.softmax import log_softmax

_ONE_PER_CLASS = "class ids are integers, so give the target dtype=oc.int32; a distribution has a value for every class"
_DISTRIBUTION = parse("..b..|..o..; ..b..|..o.. => ..b..|")
_WEIGHTED = parse("..b..|..o..; ..b..|..o..; ..o.. => ..b..|")
_TOTAL, _WEIGHTED_TOTAL = parse("..b..|..o.. => ..b..|"), parse("..b..|..o..; ..o.. => ..b..|")


@composite
def cross_entropy(
    logits: object, target: object, *, ignore: int | None = None, weight: object = None, label_smoothing: float = 0.0
) -> Tensor:
    """`-log(softmax(logits))` of the class `target`, for each cell of the batch row.

    An integer target is a class id; a float target is a distribution over the output row, by which the terms are
    weighted, and has the shape of the logits. Cells whose id is `ignore` are 0 and do not count in `loss.mean()`.
    Neither do ids outside the row, which are an error in runs with the setting `check_numbers`.

    `weight` has one factor for each class, by which the terms of the class are multiplied; `loss.mean()` of class ids
    is then the weighted mean. `label_smoothing` is the part of the target that is spread over all classes.

    Shapes: `..b..|v; ..b..| => ..b..|` for classes, `..b..|..o..; ..b..|..o.. => ..b..|` for distributions.
    Grad:   to the logits, `softmax(logits)` minus the target, for each weight; for distributions also to the target.
    Raises: DtypeError for logits that are not floats, or an `ignore` that is no integer; CodeError for `ignore` beside
            a distribution; DataError for a smoothing outside [0, 1]; ShapeError.
    """
    scores, labels = embed(logits), embed(target)
    if ignore is not None and (is_bool(ignore) or not isinstance(ignore, int | np.integer)):
        raise DtypeError(f"`ignore` must be an integer class id, not {ignore!r}")
    if not 0 <= label_smoothing <= 1:
        raise DataError(f"`label_smoothing` is a part of the target, from 0 to 1, not {label_smoothing!r}")
    log_probabilities = _log_probabilities(scores)
    weights = None if weight is None else embed(weight)
    if not labels.typing.is_float:
        _check_rows(scores, labels)
        return _cross_entropy_of_classes(log_probabilities, labels, ignore, weights, float(label_smoothing))
    if ignore is not None:
        raise CodeError(f"`ignore` is a class id, and `{labels.label}` holds distributions; give it dtype=oc.int32")
    return _cross_entropy_of_distributions(log_probabilities, labels, weights, float(label_smoothing))


def _check_rows(scores: Tensor, ids: Tensor) -> None:
    """Checks the rows of scores and class ids, as far as inferred. Raises: ShapeError."""
    for t, count, rule in ((scores, 1, "scores have one output axis, the classes"), (ids, 0, "class ids have none")):
        if (axes := axis_count(t, OUTPUT)) not in (None, count):
            problem = f"{rule}, and `{t.label}` has {axes} output axes; examples are along batch axes"
            fix = f"give `{t.label}` batch axes: batch_axes={max(axes - count, 1)} of an array, or batch=[n]"
            raise ShapeError("\n".join([problem, *table([scores.handle, ids.handle], fix)]))


def _log_probabilities(scores: Tensor) -> Tensor:
    if not scores.typing.is_float:
        raise DtypeError(f"`{scores.label}` holds scores, which are floats, and is of type {scores.typing.current}")
    return log_softmax(scores)


def _cross_entropy_of_distributions(
    log_probabilities: Tensor, shares: Tensor, weights: Tensor | None, smoothing: float
) -> Tensor:
    def weigh(s: Term, share: Term, *weight: Term) -> Term:
        smooth = share if not smoothing else (1.0 - smoothing) * share + smoothing / _classes(log_probabilities)
        return -(s * smooth * weight[0]) if weight else -(s * smooth)

    spec = _DISTRIBUTION if weights is None else _WEIGHTED
    logic = Logic("cross-entropy", spec, (EQUAL,) * len(spec.operands), fix=_ONE_PER_CLASS)
    operands = [log_probabilities, shares] if weights is None else [log_probabilities, shares, weights]
    return apply(contraction("cross_entropy", logic, weigh, ADD), operands)


def _classes(log_probabilities: Tensor) -> int:
    return max(prod(axis.size for axis in log_probabilities.shape.output), 1)


def _cross_entropy_of_classes(
    log_probabilities: Tensor, ids: Tensor, ignore: int | None, weights: Tensor | None, smoothing: float
) -> Tensor:
    counted = counted_examples(
        ids, lambda: log_probabilities.shape.output[0].size, None if ignore is None else int(ignore)
    )
    picked = pick(log_probabilities, ids)
    if weights is not None:
        weight = _weights_of_ids(weights, ids, log_probabilities)
        counted, picked = masked_("weight", counted, weight), picked * weight
    if smoothing:
        picked = (1.0 - smoothing) * picked + smoothing * _mean_of_classes(log_probabilities, weights)
    loss = masked_("cross_entropy", counted, -picked)
    loss.counted = (counted,)
    return loss


def _mean_of_classes(log_probabilities: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of the terms of all classes, with their weights."""

    def weigh(s: Term, *weight: Term) -> Term:
        return (s * weight[0] if weight else s) * (1.0 / _classes(log_probabilities))

    spec = _TOTAL if weights is None else _WEIGHTED_TOTAL
    logic = Logic("cross-entropy", spec, (EQUAL,) * len(spec.operands), fix=SAME_SIZES)
    operands = [log_probabilities] if weights is None else [log_probabilities, weights]
    return apply(contraction("smoothing", logic, weigh, ADD), operands)


# --- examples that count ---------------------------------------------------------------------------------------------

_EXAMPLE = Logic("loss", parse("...|; ...| => ...|"), (EQUAL, EQUAL), needs_axes=False, fix=SAME_SIZES)


def counted_examples(ids: Tensor, classes: Callable[[], int], ignore: int | None) -> Tensor:
    """1 where an id is a class and not `ignore`, else 0; other ids are an error in runs with `check_numbers`."""
    if ids.typing.is_float:
        raise DtypeError(f"`{ids.label}` holds class ids, which are integers; give dtype=oc.int32")

    def is_outside(v: Term) -> Term:
        outside = (v < 0) | (v >= classes())
        return outside if ignore is None else outside & term("ne", v, ignore)

    outside = _mask("outside", is_outside, ids)
    outside.node.violation = lambda: f"`{ids.label}` holds class ids outside 0 to {classes() - 1}"

    def is_counted(v: Term, outside: Term) -> Term:
        return term("where", outside if ignore is None else outside | term("eq", v, ignore), 0, 1)

    return _mask("counted", is_counted, ids, outside)


def masked_(name: str, counted: Tensor, loss: Tensor) -> Tensor:
    """The losses of examples that count, and 0 for the others."""
    select = contraction(name, _EXAMPLE, lambda mask, s: term("where", mask, s, 0.0), None,
                         result_type=ResultType(weak_operands=frozenset({0})))  # fmt: skip
    return apply(select, [counted, loss])


_WEIGHT = einsum(parse("...|v; ...|; v; v => ...|"))


def _weights_of_ids(weights: Tensor, ids: Tensor, scores: Tensor) -> Tensor:
    """The weights of the classes `ids`; there are as many weights as classes in `scores`."""

    def is_class(_: Term, label: Term, weight: Term, v: Term) -> Term:
        return term("where", term("eq", v, label), weight, 0.0)

    weak = ResultType(weak_operands=frozenset({0, 1, 3}))
    return apply(contraction("weight", _WEIGHT, is_class, ADD, result_type=weak), [scores, ids, weights, indices()])


def weight_of_class(loss: Tensor, ids: Tensor, weight: object, counted: Tensor, scores: Tensor) -> Tensor:
    """The losses of the examples that count, times the weights of their classes."""
    weighted = loss if weight is None else loss * _weights_of_ids(embed(weight), ids, scores)
    result = masked_(loss.label, counted, weighted)
    result.counted = (counted,)
    return result


def _mask(name: str, body: Callable[..., Term], *operands: Tensor) -> Tensor:
    return apply(contraction(name, pointwise(len(operands)), body, None, differentiable=False), operands)


# --- other losses of probabilities -----------------------------------------------------------------------------------


@composite
def softmax_focal_loss(
    logits: object, target: object, *, gamma: float = 2.0, weight: object = None, ignore: int | None = None
) -> Tensor:
    """`-(1 - p)**gamma * log(p)` for the probability `p = softmax(logits)` of the class `target`, for each cell of the
    batch row. `weight` has one factor for each class; ids count as in `cross_entropy`.

    Shapes: `..b..|v; ..b..| => ..b..|`.
    Grad:   to the logits, the derivative of the formula; none to `target`.
    Raises: DtypeError for logits that are not floats, or ids that are not integers; ShapeError.
    Source: Lin, Goyal, Girshick, He, Dollár 2017, "Focal loss for dense object detection".
    """
    log_probabilities, ids = _log_probabilities(embed(logits)), embed(target)
    counted = counted_examples(ids, lambda: log_probabilities.shape.output[0].size, ignore)
    return weight_of_class(focus_(pick(log_probabilities, ids), gamma=gamma), ids, weight, counted, log_probabilities)


def _slope_of_focus(g: Term, v: Term, s: Term, gamma: float) -> Term:
    missed: Term = -expm1(s)
    slope = gamma * missed ** (gamma - 1.0) * term("exp", s) * s
    return g * (term("where", term("eq", missed, 0.0), 0.0, slope) - missed**gamma)


@formula(_slope_of_focus)
def focus_(s: Term, *, gamma: float) -> Term:
    """`-(1 - exp(s))**gamma * s`."""
    missed: Term = -expm1(s)
    return -(missed**gamma * s)


@composite
def kl_div(x: object, target: object, *, log_target: bool = False) -> Tensor:
    """The Kullback-Leibler divergence `sum(target * (log(target) - x))` of a distribution `target` from the
    log-probabilities `x`, over the output row; with `log_target`, `target` has log-probabilities, too. Terms whose
    target is 0 are 0.

    Shapes: `..b..|..o..; ..b..|..o.. => ..b..|`.
    Grad:   to `x` `-g * target`; to `target` the derivative of the formula.
    Raises: ShapeError for operands of unequal shape.
    Source: Kullback, Leibler 1951.
    """

    def divergence(s: Term, t: Term) -> Term:
        if log_target:
            return term("exp", t) * (t - s)
        is_zero = term("eq", t, 0.0)
        return term("where", is_zero, 0.0, t * (term("log", term("where", is_zero, 1.0, t)) - s))

    logic = Logic("divergence", _DISTRIBUTION, (EQUAL, EQUAL), fix=SAME_SIZES)
    return apply(contraction("kl_div", logic, divergence, ADD), [embed(x), embed(target)])


@composite
def dice_loss(x: object, target: object, *, smooth: float = 1.0) -> Tensor:
    """`1 - (2 * sum(x * target) + smooth) / (sum(x) + sum(target) + smooth)`, over the output row: 1 minus the Dice
    coefficient of probabilities `x` and a mask.

    Shapes: `..b..|..o..; ..b..|..o.. => ..b..|`.
    Grad:   the derivatives of the formula.
    Raises: ShapeError for operands of unequal shape.
    Source: Milletari, Navab, Ahmadi 2016, "V-Net".
    """
    common, total = _overlap(embed(x), embed(target))
    return 1.0 - (2.0 * common + smooth) / (total + smooth)


@composite
def iou_loss(x: object, target: object, *, smooth: float = 1.0) -> Tensor:
    """`1 - (c + smooth) / (sum(x) + sum(target) - c + smooth)` with `c = sum(x * target)`, over the output row: 1 minus
    the intersection over the union of probabilities `x` and a mask, their Jaccard index.

    Shapes: `..b..|..o..; ..b..|..o.. => ..b..|`.
    Grad:   the derivatives of the formula.
    Raises: ShapeError for operands of unequal shape.
    Source: Rahman, Wang 2016.
    """
    common, total = _overlap(embed(x), embed(target))
    return 1.0 - (common + smooth) / (total - common + smooth)


def _overlap(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of the products and of the sums of the cells of two output rows."""
    logic = Logic("overlap", _DISTRIBUTION, (EQUAL, EQUAL), fix=SAME_SIZES)
    common = apply(contraction("common", logic, lambda a, b: a * b, ADD), [x, target])
    return common, apply(contraction("total", logic, lambda a, b: a + b, ADD), [x, target])


REGISTRY.update(
    cross_entropy=cross_entropy, dice_loss=dice_loss, iou_loss=iou_loss, kl_div=kl_div,
    softmax_focal_loss=softmax_focal_loss,
)  # fmt: skip
