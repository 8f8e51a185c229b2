"""Threefry-4x32, a counter-based random number generator, as an operation on tensors."""

from __future__ import annotations

from ocannl.base.errors import DataError, DtypeError
from ocannl.infer.logic import EQUAL, STRETCHED, Logic
from ocannl.infer.parse import parse
from ocannl.infer.shape import relate
from ocannl.infer.tensor_description import Provenance
from ocannl.ir.precision import uint32
from ocannl.ir.threefry import ROUNDS
from ocannl.lang.core import symbolic_terms
from ocannl.lang.core.context_vars import composite, enclosing_call, site
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.initializers import full

_LANE_SPECS = "; ".join(f"...|...->..., {lane}" for lane in (0, 1, 2, 3) * 2)
_LANES = Logic("threefry4x32", parse(f"{_LANE_SPECS}; l => ...|...->..., l"), (STRETCHED,) * 8 + (EQUAL,))
_FOUR_LANES = Logic("threefry4x32", parse("...|...->..., l; l => "), (EQUAL, EQUAL))


@composite
def threefry4x32(key: object, counter: object, rounds: int = 20, *, label: str | None = None) -> Tensor:
    """Random bits: a bijection of the 128-bit counter that depends on the key.

    Shapes: `...|...->..., 4; ...|...->..., 4 => ...|...->..., 4`; the last output axis holds the four words, all
    leading axes broadcast.
    Grad:   none.
    Raises: DtypeError unless both are uint32; DataError unless `rounds` is 20 or 12; ShapeError.
    Source: Salmon, Moraes, Dror, Shaw 2011.
    """
    if rounds not in ROUNDS:
        raise DataError(f"oc.threefry4x32 has {' or '.join(map(str, ROUNDS))} rounds, not {rounds!r}")
    operands = [embed(key), embed(counter)]
    lanes = full(0, batch=[], input=[], output=[4])
    for operand in operands:
        if operand.dtype is not uint32:
            raise DtypeError(f"oc.threefry4x32 takes uint32, and `{operand.label}` is of {operand.dtype}")
        provenance = Provenance("threefry4x32", "result", enclosing_call.get(), site().where)
        relate(_FOUR_LANES, [operand.handle, lanes.handle], None, provenance)

    def forward(s: Slots) -> None:
        s.result().write(None, True, symbolic_terms.apply(f"threefry4x32_{rounds}", *s.operands[:8], s.offset(9)))

    text = f"threefry4x32({{0}}, {{4}}, {rounds})"
    operation = Operation("threefry4x32", _LANES, forward, None, result_type=ResultType(uint32), text=text)
    return apply(operation, [*operands[:1] * 4, *operands[1:] * 4, lanes], label=label)


REGISTRY.update(threefry4x32=threefry4x32)
