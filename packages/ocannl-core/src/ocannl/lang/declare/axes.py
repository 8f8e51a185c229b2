"""The axis logic of an operation, from a name or an einsum spec."""

from __future__ import annotations

from ocannl.base.errors import CodeError
from ocannl.infer.logic import COMPOSE, COMPOSE_ACCUMULATE, EQUAL, TRANSPOSE, Logic, einsum, pointwise
from ocannl.infer.parse import parse
from ocannl.infer.spec import Spec
from ocannl.lang.core.einsum_arguments import check_arity, operand_count

SYNONYMS = {"@": "compose", "T": "transpose", ".": "pointwise"}
NAMED_LOGICS = {("compose", 2): COMPOSE, ("compose", 3): COMPOSE_ACCUMULATE, ("transpose", 1): TRANSPOSE}


def logic_of(shape: object, operands: int) -> Logic:
    """The logic named `pointwise` or `.`, `compose` or `@`, `transpose` or `T`, or of an einsum spec.

    Raises: CodeError when the logic does not fit the number of operands.
    """
    if isinstance(shape, Logic):
        return shape
    if not isinstance(shape, str):
        raise CodeError(f"the axes of an operation are a text such as 'pointwise' or 'ij;jk => ik', not {shape!r}")
    name = SYNONYMS.get(shape, shape)
    if name == "pointwise":
        return pointwise(operands)
    if (name, operands) in NAMED_LOGICS:
        return NAMED_LOGICS[name, operands]
    if name in ("compose", "transpose"):
        raise CodeError(f"`{shape}` does not fit an operation of {operand_count(operands)}")
    spec = parse(shape)
    check_arity(spec, shape, (None,) * operands)
    return einsum(spec)


def with_earlier_outputs(logic: Logic, earlier: tuple[Logic, ...]) -> Logic:
    """The logic of an output with all earlier outputs as additional operands, behind the inputs."""
    spec = Spec((*logic.spec.operands, *(output.spec.result for output in earlier)), logic.spec.result, logic.spec.text)
    if not earlier:
        return logic
    return Logic(logic.name, spec, (*logic.stretched, *(EQUAL for _ in earlier)), logic.needs_axes)
