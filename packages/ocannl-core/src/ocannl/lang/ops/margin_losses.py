"""Losses by margins: zero for an example that is on the right side of its margin."""

from __future__ import annotations

from ocannl.base.errors import DataError
from ocannl.infer.logic import EQUAL, Logic, einsum
from ocannl.infer.parse import parse
from ocannl.ir.ops import ADD
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.einsum import minimum
from ocannl.lang.ops.elementwise import root_, sigmoid, softplus
from ocannl.lang.ops.elementwise_decorator import formula
from ocannl.lang.ops.elementwise_losses import SAME_SIZES, SHAPES, equal_rows
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.indexing import pick
from ocannl.lang.ops.losses import counted_examples, weight_of_class
from ocannl.lang.ops.norms import vector_norm
from ocannl.lang.ops.reduced_axes import OUTPUT_ROW, ReducedAxes


def _positive_part(v: Term) -> Term:
    """`max(v, 0)`, whose gradient at 0 is that of `v`."""
    return term("where", v < 0.0, 0.0, v)


# --- losses of each cell ---------------------------------------------------------------------------------------------


@formula(logic_of=equal_rows, shapes=SHAPES)
def hinge_loss(x: Term, target: Term, *, margin: float = 1.0, squared: bool = False) -> Term:
    """`max(margin - target * x, 0)` for targets 1 and -1, or with `squared` its square.

    Grad:   to `x` `-g * target` where the loss is positive, to `target` `-g * x`; with `squared`, times twice the root
            of the loss.
    Raises: ShapeError for operands of unequal shape.
    Source: Cortes, Vapnik 1995.
    """
    missing = _positive_part(margin - target * x)
    return missing * missing if squared else missing


@formula(
    lambda g, v, x, target: -(g * target * sigmoid(-(target * x))),
    lambda g, v, x, target: -(g * x * sigmoid(-(target * x))),
    logic_of=equal_rows,
    shapes=SHAPES,
)
def soft_margin_loss(x: Term, target: Term) -> Term:
    """`log(1 + exp(-target * x))` for targets 1 and -1, without overflow.

    Grad:   to `x` `-g * target * sigmoid(-target * x)`, to `target` `-g * x * sigmoid(-target * x)`.
    Raises: ShapeError for operands of unequal shape.
    """
    loss: Term = softplus(-(target * x))
    return loss


@formula(logic_of=equal_rows, shapes=SHAPES)
def hinge_embedding_loss(x: Term, target: Term, *, margin: float = 1.0) -> Term:
    """The distance `x` where the target is 1, and `max(margin - x, 0)` where the target is -1.

    Grad:   to `x` `g` for the target 1, `-g` for -1 where the loss is positive; none to `target`.
    Raises: ShapeError for operands of unequal shape.
    """
    near = term("where", term("ne", target, -1.0), x, 0.0)
    return near + term("where", term("ne", target, 1.0), _positive_part(margin - x), 0.0)


@formula(logic_of=equal_rows, shapes=SHAPES)
def margin_ranking_loss(x: Term, y: Term, target: Term, *, margin: float = 0.0) -> Term:
    """`max(margin - target * (x - y), 0)`: `x` should be larger than `y` where the target is 1, and smaller where the
    target is -1.

    Grad:   to `x` `-g * target` where the loss is positive, to `y` the opposite; to `target` `-g * (x - y)`.
    Raises: ShapeError for operands of unequal shape.
    """
    return _positive_part(margin - target * (x - y))


@formula(logic_of=equal_rows, shapes=SHAPES)
def contrastive_loss(distance: Term, target: Term, *, margin: float = 1.0) -> Term:
    """`distance**2` of pairs of the same class, whose target is 1, and `max(margin - distance, 0)**2` of pairs of
    different classes, whose target is 0.

    Grad:   to `distance` `g * 2 * distance`, or `-g * 2 * (margin - distance)` where the loss is positive; to `target`
            the difference of the two squares.
    Raises: ShapeError for operands of unequal shape.
    Source: Hadsell, Chopra, LeCun 2006.
    """
    missing = _positive_part(margin - distance)
    return target * (distance * distance) + (1.0 - target) * (missing * missing)


# --- losses of each example ------------------------------------------------------------------------------------------


@composite
def multi_margin_loss(
    scores: object, target: object, *, p: int = 1, margin: float = 1.0, weight: object = None
) -> Tensor:
    """`sum(max(margin - scores[target] + scores[i], 0)**p) / v`, over the classes `i` other than the class `target`,
    for each cell of the batch row. `p` is 1 or 2; `weight` has one factor for each class, by which the losses of the
    examples of the class are multiplied.

    Ids outside the row count as in `cross_entropy`.

    Shapes: `..b..|v; ..b..| => ..b..|`.
    Grad:   to the scores, the derivative of the formula; none to `target`.
    Raises: DataError for another `p`; DtypeError for ids that are not integers; ShapeError.
    Source: Crammer, Singer 2001.
    """
    if p not in (1, 2):
        raise DataError(f"`p` of oc.multi_margin_loss is 1 or 2, not {p!r}")
    values, ids, positions = embed(scores), embed(target), indices()
    picked = pick(values, ids)

    def missing(score: Term, picked: Term, id: Term, position: Term) -> Term:
        shortfall = _positive_part(margin - picked + score)
        power = shortfall * shortfall if p == 2 else shortfall
        return term("where", term("eq", position, id), 0.0, power * (1.0 / max(positions.dims[0], 1)))

    weak = ResultType(weak_operands=frozenset({2, 3}))
    total = contraction("multi_margin_loss", einsum(parse("...|v; ...|; ...|; v => ...|")), missing, ADD,
                        result_type=weak)  # fmt: skip
    counted = counted_examples(ids, lambda: positions.dims[0], None)
    return weight_of_class(apply(total, [values, picked, ids, positions]), ids, weight, counted, values)


@formula()
def shortfall_(x: Term, y: Term, *, margin: float) -> Term:
    return _positive_part(x - y + margin)


@formula(logic_of=equal_rows)
def shifted_difference_(x: Term, y: Term, *, eps: float) -> Term:
    return x - y + eps


@composite
def triplet_margin_loss(
    anchor: object, positive: object, negative: object, *, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False,
) -> Tensor:  # fmt: skip
    """`max(d(anchor, positive) - d(anchor, negative) + margin, 0)`, for each cell of the batch row, where `d(x, y)` is
    the norm of the order `p` of `x - y + eps` over the output row. With `swap`, the distance to the negative example is
    the smaller of `d(anchor, negative)` and `d(positive, negative)`.

    Shapes: `..b..|..i..->..o..; ..b..|..i..->..o..; ..b..|..i..->..o.. => ..b..|..i..->`.
    Grad:   the derivatives of the formula where the loss is positive.
    Raises: DataError for an order that is NaN; ShapeError for operands of unequal shape.
    Source: Balntas, Riba, Ponsa, Mikolajczyk 2016; Schroff, Kalenichenko, Philbin 2015.
    """

    def distance(x: object, y: object) -> Tensor:
        return vector_norm(ReducedAxes(shifted_difference_(x, y, eps=eps), OUTPUT_ROW, {}, {}), p, "distance")

    far = distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    loss: Tensor = shortfall_(distance(anchor, positive), far, margin=margin)
    return loss


_INNER_PRODUCT = Logic("inner product", parse("..b..|..o..; ..b..|..o.. => ..b..|"), (EQUAL, EQUAL), fix=SAME_SIZES)
COSINE_EPS = 1e-12


@composite
def cosine_embedding_loss(x: object, y: object, target: object, *, margin: float = 0.0) -> Tensor:
    """`1 - c` where the target is 1, and `max(c - margin, 0)` where the target is -1, for each cell of the batch row;
    `c` is the cosine of the angle between the output rows.

    Shapes: `..b..|..o..; ..b..|..o..; ..b..| => ..b..|`.
    Grad:   the derivatives of the formula; none to `target`.
    Raises: ShapeError.
    """
    first, second = embed(x), embed(y)
    inner = contraction("inner", _INNER_PRODUCT, lambda a, b: a * b, ADD)
    products = [apply(inner, pair) for pair in ((first, second), (first, first), (second, second))]
    cosine = products[0] / root_((products[1] + COSINE_EPS) * (products[2] + COSINE_EPS))
    loss: Tensor = cosine_embedding_(cosine, target, margin=margin)
    return loss


@formula(logic_of=equal_rows)
def cosine_embedding_(cosine: Term, target: Term, *, margin: float) -> Term:
    far = term("where", term("eq", target, -1.0), _positive_part(cosine - margin), 0.0)
    return term("where", term("eq", target, 1.0), 1.0 - cosine, far)


REGISTRY.update(
    multi_margin_loss=multi_margin_loss, triplet_margin_loss=triplet_margin_loss,
    cosine_embedding_loss=cosine_embedding_loss,
)  # fmt: skip
