"""Losses of each cell. Operands of unequal shape are refused: a loss that broadcasts would compare every pair of
examples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ocannl.infer.logic import ALL_ROWS, EQUAL, STRETCHED, Logic
from ocannl.infer.spec import Spec
from ocannl.ir.precision import float64
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.literals import is_number
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.term_functions import polynomial, precision_of
from ocannl.lang.ops.elementwise import log1p, sigmoid
from ocannl.lang.ops.elementwise_decorator import formula

SHAPES = "Shapes: those of the operands, which are equal; a number has any shape."
SAME_SIZES = "give both operands the same rows; `batch_axes` and `oc.einsum` say which axis of data is which"


def equal_rows(operands: Sequence[object]) -> Logic:
    """The logic of equal shapes; a number may be stretched."""
    stretched = tuple(STRETCHED if is_number(operand) else EQUAL for operand in operands)
    return Logic("loss", Spec((ALL_ROWS,) * len(operands), ALL_ROWS), stretched, needs_axes=False, fix=SAME_SIZES)


def _two_equal_rows(operands: Sequence[object]) -> Logic:
    """The logic of two operands of equal shape, beside weights that are broadcast."""
    logic = equal_rows(operands[:2])
    weights = len(operands) - 2
    stretched = (*logic.stretched, *[STRETCHED] * weights)
    return Logic("loss", Spec((ALL_ROWS,) * len(operands), ALL_ROWS), stretched, needs_axes=False, fix=SAME_SIZES)


# --- differences -----------------------------------------------------------------------------------------------------


@formula(logic_of=equal_rows, shapes=SHAPES)
def squared_error(x: Term, target: Term) -> Term:
    """`(x - target)**2`.

    Grad:   to `x` `g * 2 * (x - target)`, to `target` the opposite.
    Raises: ShapeError for operands of unequal shape.
    """
    return (x - target) * (x - target)


@formula(logic_of=equal_rows, shapes=SHAPES)
def absolute_error(x: Term, target: Term) -> Term:
    """`abs(x - target)`.

    Grad:   to `x` `g * sign(x - target)`, to `target` the opposite.
    Raises: ShapeError for operands of unequal shape.
    """
    return term("abs", x - target)


@formula(logic_of=equal_rows, shapes=SHAPES)
def huber(x: Term, target: Term, *, delta: float = 1.0) -> Term:
    """`(x - target)**2 / 2` where the difference is at most `delta`, else `delta * (abs(x - target) - delta / 2)`.

    Grad:   to `x` `g` times the difference, clipped to `delta`; to `target` the opposite.
    Raises: ShapeError for operands of unequal shape.
    Source: Huber 1964, "Robust estimation of a location parameter".
    """
    difference = x - target
    size = term("abs", difference)
    return term("where", size <= delta, 0.5 * difference * difference, delta * (size - 0.5 * delta))


@formula(logic_of=equal_rows, shapes=SHAPES, positive=["beta"])
def smooth_l1_loss(x: Term, target: Term, *, beta: float = 1.0) -> Term:
    """`(x - target)**2 / (2 * beta)` where the difference is less than `beta`, else `abs(x - target) - beta / 2`: the
    Huber loss divided by its `delta`.

    Grad:   to `x` `g` times the difference divided by `beta`, clipped to 1; to `target` the opposite.
    Raises: DataError unless `beta` is positive; ShapeError for operands of unequal shape.
    Source: Girshick 2015, "Fast R-CNN".
    """
    difference = x - target
    size = term("abs", difference)
    return term("where", size < beta, (0.5 / beta) * difference * difference, size - 0.5 * beta)


@formula(
    lambda g, v, x, target: g * term("tanh", x - target),
    lambda g, v, x, target: -(g * term("tanh", x - target)),
    logic_of=equal_rows,
    shapes=SHAPES,
)
def log_cosh(x: Term, target: Term) -> Term:
    """`log(cosh(x - target))`, without overflow and accurate for small differences.

    Grad:   to `x` `g * tanh(x - target)`, to `target` the opposite.
    Raises: ShapeError for operands of unequal shape.
    """
    size = term("abs", x - target)
    is_small = size < 1.0
    terms = 8 if precision_of(x) is float64 else 5  # of the Taylor series: the next is below a quarter of an ulp
    half = 0.5 * size
    sinh = half * polynomial(half * half, [1 / math.factorial(2 * n + 1) for n in range(terms)])
    rest = log1p(term("where", is_small, 2.0 * sinh * sinh, term("exp", -2.0 * size)))
    return term("where", is_small, rest, size + rest - math.log(2.0))


# --- negative log-likelihoods ----------------------------------------------------------------------------------------


@formula(logic_of=equal_rows, shapes=SHAPES)
def poisson_nll_loss(
    x: Term, target: Term, *, log_input: bool = True, full: bool = False, eps: float = 1e-8
) -> Term:
    """`exp(x) - target * x`, or without `log_input` `x - target * log(x + eps)`: the negative log-likelihood of a count
    under a Poisson distribution of the rate `exp(x)` or `x`, up to a constant.

    With `full`, Stirling's approximation of `log(target!)` is added where the target is greater than 1.

    Grad:   to `x` `g * (exp(x) - target)`, or `g * (1 - target / (x + eps))`; to `target` the derivative of the
            formula.
    Raises: ShapeError for operands of unequal shape.
    """
    likelihood = term("exp", x) - target * x if log_input else x - target * term("log", x + eps)
    if not full:
        return likelihood
    count = term("max", target, 1.0)
    stirling = count * term("log", count) - count + 0.5 * term("log", (2.0 * math.pi) * count)
    return likelihood + term("where", target > 1.0, stirling, 0.0)


@formula(
    lambda g, v, x, target, variance, eps=1e-6, full=False: g * ((x - target) / term("max", variance, eps)),
    lambda g, v, x, target, variance, eps=1e-6, full=False: g * ((target - x) / term("max", variance, eps)),
    lambda g, v, x, target, variance, eps=1e-6, full=False: g * _slope_of_variance(
        x - target, term("max", variance, eps)
    ),
    logic_of=equal_rows,
    shapes=SHAPES,
    positive=["eps"],
)
def gaussian_nll_loss(x: Term, target: Term, variance: Term, *, full: bool = False, eps: float = 1e-6) -> Term:
    """`(log(variance) + (x - target)**2 / variance) / 2`, the negative log-likelihood under a normal distribution, up
    to the constant `log(2 * pi) / 2`, which `full` adds. Variances are at least `eps`.

    Grad:   to `x` `g * (x - target) / variance`, to `target` the opposite; to `variance` the derivative of the formula,
            also where the variance is raised to `eps`.
    Raises: DataError unless `eps` is positive; ShapeError for operands of unequal shape.
    Source: Nix, Weigend 1994.
    """
    difference, spread = x - target, term("max", variance, eps)
    likelihood = 0.5 * (term("log", spread) + difference * difference / spread)
    return likelihood + 0.5 * math.log(2.0 * math.pi) if full else likelihood


def _slope_of_variance(difference: Term, spread: Term) -> Term:
    return 0.5 * (1.0 - difference * difference / spread) / spread


# --- probabilities of truth values -----------------------------------------------------------------------------------


@composite
def binary_cross_entropy(
    logits: object, target: object, *, weight: object = None, positive_weight: object = None, label: str | None = None
) -> Tensor:
    """`-target * log(p) - (1 - target) * log(1 - p)` with `p = sigmoid(logits)`, without overflow.

    `weight` multiplies the loss, `positive_weight` its first term; both are numbers, or tensors that broadcast to the
    other operands.

    Shapes: those of the operands, which are equal; a number has any shape.
    Grad:   to the logits `g * (sigmoid(logits) - target)`, to `target` `g * -logits`; with weights, the derivatives of
            the weighted formula.
    Raises: ShapeError for operands of unequal shape.
    """
    if weight is None and positive_weight is None:
        plain: Tensor = binary_cross_entropy_(logits, target, label=label)
        return plain
    weights = (1.0 if w is None else w for w in (weight, positive_weight))
    weighted: Tensor = weighted_binary_cross_entropy_(logits, target, *weights, label=label)
    return weighted


@formula(
    lambda g, v, logits, target: g * (sigmoid(logits) - target),
    lambda g, v, logits, target: g * -logits,
    logic_of=equal_rows,
    shapes=SHAPES,
)
def binary_cross_entropy_(logits: Term, target: Term) -> Term:
    return term("relu", logits) - logits * target + _log_of_exp_plus_one(logits)


def _log_of_exp_plus_one(logits: Term) -> Term:
    """`log(1 + exp(-abs(logits)))`."""
    tail: Term = log1p(term("exp", -term("abs", logits)))
    return tail


@formula(
    lambda g, v, x, t, w, p: g * w * ((1.0 - t) * sigmoid(x) - p * t * sigmoid(-x)),
    lambda g, v, x, t, w, p: g * w * (p * _softplus(-x) - _softplus(x)),
    lambda g, v, x, t, w, p: g * (p * t * _softplus(-x) + (1.0 - t) * _softplus(x)),
    lambda g, v, x, t, w, p: g * w * t * _softplus(-x),
    logic_of=_two_equal_rows,
)
def weighted_binary_cross_entropy_(x: Term, target: Term, weight: Term, positive_weight: Term) -> Term:
    return weight * (positive_weight * target * _softplus(-x) + (1.0 - target) * _softplus(x))


def _softplus(x: Term) -> Term:
    return term("relu", x) + _log_of_exp_plus_one(x)


@composite
def sigmoid_focal_loss(
    logits: object, target: object, *, alpha: float | None = 0.25, gamma: float = 2.0
) -> Tensor:
    """`binary_cross_entropy(logits, target) * (1 - q)**gamma`, where `q` is the probability of the target:
    `sigmoid(logits)` for 1 and `sigmoid(-logits)` for 0.

    Unless it is None, `alpha` weighs the loss of targets 1, and `1 - alpha` that of targets 0.

    Shapes: those of the operands, which are equal; a number has any shape.
    Grad:   the derivatives of the formula, times `g`.
    Raises: ShapeError for operands of unequal shape.
    Source: Lin, Goyal, Girshick, He, Dollár 2017, "Focal loss for dense object detection".
    """
    focal: Tensor = focal_(binary_cross_entropy(logits, target), logits, target, alpha=alpha, gamma=gamma)
    return focal


def _missed(logits: Term, target: Term) -> Term:
    """The probability that the target does not have."""
    probability: Term = sigmoid(logits) * (1.0 - target) + sigmoid(-logits) * target
    return probability


def _balance(target: Term, alpha: float | None) -> Term | float:
    """`alpha` for the target 1, and `1 - alpha` for 0."""
    return 1.0 if alpha is None else (1.0 - alpha) + (2.0 * alpha - 1.0) * target


def _slope_of_focus(missed: Term, gamma: float) -> Term:
    return term("where", term("eq", missed, 0.0), 0.0, gamma * missed ** (gamma - 1.0))


def _focal_by_logits(g: Term, v: Term, loss: Term, x: Term, target: Term, alpha: float | None, gamma: float) -> Term:
    slope: Term = sigmoid(x) * sigmoid(-x) * (1.0 - 2.0 * target)
    return g * _balance(target, alpha) * loss * _slope_of_focus(_missed(x, target), gamma) * slope


def _focal_by_target(g: Term, v: Term, loss: Term, x: Term, target: Term, alpha: float | None, gamma: float) -> Term:
    missed = _missed(x, target)
    slope: Term = _balance(target, alpha) * _slope_of_focus(missed, gamma) * (sigmoid(-x) - sigmoid(x))
    return g * loss * (slope if alpha is None else slope + (2.0 * alpha - 1.0) * missed**gamma)


@formula(
    lambda g, v, loss, x, target, alpha, gamma: g * _balance(target, alpha) * _missed(x, target) ** gamma,
    _focal_by_logits,
    _focal_by_target,
    logic_of=equal_rows,
)
def focal_(loss: Term, x: Term, target: Term, *, alpha: float | None, gamma: float) -> Term:
    return loss * _balance(target, alpha) * _missed(x, target) ** gamma


REGISTRY.update(binary_cross_entropy=binary_cross_entropy, sigmoid_focal_loss=sigmoid_focal_loss)
