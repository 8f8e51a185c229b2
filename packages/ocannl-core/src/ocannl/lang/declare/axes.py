"""How the axes of an operation are told: a word, or an einsum spec."""

from __future__ import annotations

from ocannl.base.errors import CodeError
from ocannl.infer.logic import COMPOSE, COMPOSE_ACCUMULATE, EQUAL, TRANSPOSE, Logic, einsum, pointwise
from ocannl.infer.parse import parse
from ocannl.infer.spec import Spec
from ocannl.lang.core.einsum_arguments import check_arity, count

WORDS = {"@": "compose", "T": "transpose", ".": "pointwise"}
NAMED = {("compose", 2): COMPOSE, ("compose", 3): COMPOSE_ACCUMULATE, ("transpose", 1): TRANSPOSE}


def logic_of(shape: object, operands: int) -> Logic:
    """`pointwise` or `.`, `compose` or `@`, `transpose` or `T`, or an einsum spec, for so many operands."""
    if isinstance(shape, Logic):
        return shape
    if not isinstance(shape, str):
        raise CodeError(f"the axes of an operation are a text such as 'pointwise' or 'ij;jk => ik', not {shape!r}")
    word = WORDS.get(shape, shape)
    if word == "pointwise":
        return pointwise(operands)
    if (word, operands) in NAMED:
        return NAMED[word, operands]
    if word in ("compose", "transpose"):
        raise CodeError(f"`{shape}` does not fit an operation of {count(operands)}")
    spec = parse(shape)
    check_arity(spec, shape, (None,) * operands)
    return einsum(spec)


def reading(logic: Logic, earlier: tuple[Logic, ...]) -> Logic:
    """The same for an output that may read outputs computed before it: they are operands behind the others."""
    spec = Spec((*logic.spec.operands, *(other.spec.result for other in earlier)), logic.spec.result, logic.spec.text)
    return Logic(logic.name, spec, (*logic.stretched, *(EQUAL for _ in earlier)), logic.asks) if earlier else logic
