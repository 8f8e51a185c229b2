"""The loss of connectionist temporal classification, by a scan over the frames.

    blank[j]   the logarithm of the probability of all paths that have read the first j labels and end with a blank
    label[j]   that of all paths that end with label j

Source: Graves, Fernández, Gomez, Schmidhuber 2006, "Connectionist temporal classification", section 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ocannl.base.errors import DataError, DtypeError
from ocannl.infer.logic import Logic
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.parse import parse
from ocannl.ir.ops import ADD, Op
from ocannl.ir.precision import Precision, int32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term, tree_of
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.concat import concat
from ocannl.lang.ops.control_flow import scan
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.elementwise import logaddexp
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.indexing import pick
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.rotations import roll

_EMISSION = einsum_logic(parse("...|t,v; ...|s; v => t...|s"))
_IS_FRAME = einsum_logic(parse("...|t; ...|; t => t...|"))
_STATES = einsum_logic(parse("...|s; s => ...|s"))
_REPEATED = einsum_logic(parse("...|s; ...|s; s => ...|s"))
_LENGTH = einsum_logic(parse("...|s => ...|"))


@composite
def ctc_loss(
    log_probabilities: object, targets: object, input_lengths: object = None, target_lengths: object = None, *,
    blank: int = 0, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """The negative logarithm of the probability of a sequence of labels, for each cell of the batch row: the sum over
    all alignments of labels and blanks with the frames `t`, where repeated labels without a blank between them are one.

    `log_probabilities` has one distribution over the classes `v` for each frame, `targets` the ids of the labels, and
    `blank` is the class without a label. Frames and labels beyond the lengths do not count; by default all of them do.
    Targets that no alignment has, as there are too few frames, have an infinite loss, or, with `zero_infinity`, the
    loss and gradient 0.

    Shapes: `..b..|t,v; ..b..|s; ..b..|; ..b..| => ..b..|`.
    Grad:   to `log_probabilities`, minus the probability of the class at the frame among all alignments; none to ids.
    Raises: DtypeError for log-probabilities that are not floats, or ids and lengths that are not integers; DataError
            for a negative `blank`; ShapeError.
    Source: Graves, Fernández, Gomez, Schmidhuber 2006, "Connectionist temporal classification".
    """
    if is_bool(blank) or not isinstance(blank, int | np.integer) or blank < 0:
        raise DataError(f"`blank` of oc.ctc_loss is a class id, not {blank!r}"[:200])
    scores, ids = embed(log_probabilities), _integers(targets)
    if not scores.typing.is_float:
        raise DtypeError(f"`{scores.label}` holds log-probabilities, which are floats, not {scores.typing.current}")
    of_blank = einsum(f"...|t,{blank} => ...|t", scores)
    frames = _length(of_blank) if input_lengths is None else _integers(input_lengths)
    labels = _length(ids) if target_lengths is None else _integers(target_lengths)
    states = concat("...|s => ...|s^1", ids)  # the last one has no label
    never = _where_first(states, -math.inf, -math.inf, scores)
    before_first = _where_first(states, -math.inf, 0.0, scores)
    skip = _skip(states, scores)
    where = PRIMITIVES["where"]

    def step(carry: tuple[Tensor, Tensor], frame: tuple[Tensor, Tensor, Tensor]) -> tuple[tuple[Tensor, Tensor], None]:
        blanks, ends = carry
        emitted_blank, emitted, is_active = frame
        previous = roll(ends, 1, "...|s => ...|") + before_first
        entered = logaddexp(blanks, previous) + emitted_blank
        advanced = logaddexp(logaddexp(ends, blanks), previous + skip) + emitted
        return (where(is_active, entered, blanks), where(is_active, advanced, ends)), None

    sequence = (einsum("...|t => t...|", of_blank), _emissions(scores, states), _active(of_blank, frames))
    (blanks, ends), _ = scan(step, (_where_first(states, 0.0, -math.inf, scores), never), sequence)
    before = roll(ends, 1, "...|s => ...|") + before_first
    loss: Tensor = -logaddexp(pick(blanks, labels), pick(before, labels))
    return where(loss < math.inf, loss, 0.0) if zero_infinity else loss


def _integers(values: object) -> Tensor:
    t = embed(values)
    if t.typing.is_float:
        raise DtypeError(f"`{t.label}` holds integers, and is of type {t.typing.current}")
    return t


def _length(t: Tensor) -> Tensor:
    """The size of the output axis, for each cell of the batch row."""
    return _constant("length", _LENGTH, lambda _: Term(tree_of(1)), [t], int32, ADD)


def _where_first(states: Tensor, first: float, later: float, like: Tensor) -> Tensor:
    """One number for the first state, and one for all others."""

    def value(_: Term, position: Term) -> Term:
        return term("where", term("eq", position, 0), first, later)

    return _constant("first", _STATES, value, [states, indices()], like.typing.as_operand)


def _skip(states: Tensor, like: Tensor) -> Tensor:
    """0 where a label differs from the label before, so that no blank must separate them, else minus infinity."""

    def value(label: Term, before: Term, position: Term) -> Term:
        return term("where", term("ne", label, before) & (position > 0), 0.0, -math.inf)

    operands = [states, roll(states, 1, "...|s => ...|"), indices()]
    return _constant("skip", _REPEATED, value, operands, like.typing.as_operand)


def _active(of_blank: Tensor, frames: Tensor) -> Tensor:
    """1 for the frames that count, else 0."""
    operands = [of_blank, frames, indices()]
    return _constant("active", _IS_FRAME, lambda _, n, t: term("where", t < n, 1, 0), operands, int32)


def _emissions(scores: Tensor, states: Tensor) -> Tensor:
    """The log-probabilities of the labels of the states, for each frame."""

    def is_class(score: Term, label: Term, v: Term) -> Term:
        return term("where", term("eq", label, v), score, 0.0)

    weak = ResultType(weak_operands=frozenset({1, 2}))
    return apply(contraction("emission", _EMISSION, is_class, ADD, result_type=weak), [scores, states, indices()])


def _constant(
    name: str,
    logic: Logic,
    value: Callable[..., Term],
    operands: list[Tensor],
    kind: Precision,
    reduce: Op | None = None,
) -> Tensor:
    operation = contraction(name, logic, value, reduce, differentiable=False, result_type=ResultType(kind))
    return apply(operation, operands)


REGISTRY.update(ctc_loss=ctc_loss)
