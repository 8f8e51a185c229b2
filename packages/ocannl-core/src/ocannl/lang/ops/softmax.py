"""Scores and probabilities: over the output row, or over the axes that a spec takes away.

All of them subtract the largest score first, so that no exponential overflows.
"""

from __future__ import annotations

from typing import Any

from ocannl.base.errors import DtypeError
from ocannl.ir.ops import ADD, MAX
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaves import embed
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.terms import Term
from ocannl.lang.core.terms import apply as term
from ocannl.lang.ops.einsum import stop_gradient
from ocannl.lang.ops.elementwise import log_of_sum_
from ocannl.lang.ops.indexing import pick
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.reduced_axes import OUTPUT_ROW, Away, away

exp, log, where = PRIMITIVES["exp"], PRIMITIVES["log"], PRIMITIVES["where"]


@composite
def softmax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """`exp(x) / sum(exp(x))`: over the output row, or over the axes that `spec` takes away.

        weights = oc.softmax(scores, "...|q,k => ...|q")

    Shapes: those of `x`.
    Grad:   `v * (g - sum(g * v))`.
    NaN:    where the largest score is infinite, as in PyTorch.
    Raises: EinsumSyntaxError; ShapeError.
    """
    over, shifted = _shifted(x, spec, names, "softmax")
    raised = exp(shifted)
    return over.met(raised, _total(over, raised), lambda e, total: e / total, "softmax")


@composite
def log_softmax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The logarithm of `softmax`, exact where probabilities vanish.

    Shapes: those of `x`.
    Grad:   `g - softmax(x) * sum(g)`.
    NaN:    where the largest score is infinite, as in PyTorch.
    Raises: EinsumSyntaxError; ShapeError.
    """
    over, shifted = _shifted(x, spec, names, "log_softmax")
    return over.met(shifted, log(_total(over, exp(shifted))), lambda s, total: s - total, "log_softmax")


@composite
def logsumexp(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """`log(sum(exp(x)))`: over the output row, or over the axes that `spec` takes away.

    Shapes: `..b..|..i..->..o.. => ..b..|..i..->`, or those of the spec.
    Grad:   `g * softmax(x)`; 0 where all scores are minus infinity, NaN for one that is infinite.
    Raises: EinsumSyntaxError; ShapeError.
    """
    over = away(x, spec, names, "logsumexp", OUTPUT_ROW)
    largest = stop_gradient(over.reduced(MAX, "max"))
    most: Tensor = where((largest - largest < 1) | (largest > 0), largest, 0)  # not minus infinity, which vanishes
    total: Tensor = log_of_sum_(_total(over, over.met(over.x, most, _raised, "exp")))
    return total + most


@composite
def cross_entropy(logits: object, target: object) -> Tensor:
    """`-log(softmax(logits))` of the class `target`, for each cell of the batch row.

    Integers are classes; floats are distributions over the output row, whose terms are weighted and summed. A class
    outside of the row counts 0.

    Shapes: `..b..|v; ..b..| => ..b..|` for classes, `..b..|..o..; ..b..|..o.. => ..b..|` for distributions.
    Grad:   to the logits, `softmax(logits)` less the target; for distributions also to the target.
    Raises: DtypeError for logits that are not floats; ShapeError.
    """
    scores, wanted = embed(logits), embed(target)
    if not scores.typing.is_float:
        raise DtypeError(f"`{scores.label}` holds scores, which are floats, and is of type {scores.typing.known}")
    likely = log_softmax(scores)
    if not wanted.typing.is_float:
        return -pick(likely, wanted)
    return -away(likely * wanted, "...|..o.. => ...|", {}, "sum").reduced(ADD, "sum")


def _shifted(x: object, spec: str | None, names: dict[str, Any], title: str) -> tuple[Away, Tensor]:
    over = away(x, spec, names, title, OUTPUT_ROW)
    largest = stop_gradient(over.reduced(MAX, "max"))
    return over, over.met(over.x, largest, lambda v, most: v - most, "shifted")


def _raised(v: Term, most: Term) -> Term:
    is_infinite = (v > 0) & term("ne", v - v, 0)  # the others vanish beside it
    return term("where", is_infinite, 1, exp(v - most))


def _total(over: Away, raised: Tensor) -> Tensor:
    return Away(raised, over.logic, over.sizes, {}).reduced(ADD, "sum")


REGISTRY.update(softmax=softmax, log_softmax=log_softmax, logsumexp=logsumexp, cross_entropy=cross_entropy)
