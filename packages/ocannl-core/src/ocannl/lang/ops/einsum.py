"""Matrix multiplication, einsum, transposition, slicing, and compositions of primitives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce as fold
from types import EllipsisType
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.infer.logic import COMPOSE, TRANSPOSE, pointwise, slice_batch
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.parse import parse
from ocannl.infer.spec import Concat, Spec
from ocannl.ir.affine import Sym
from ocannl.ir.ops import ADD, BY_NAME, OPS, Op
from ocannl.lang.core import symbolic_terms
from ocannl.lang.core.einsum_arguments import check_arity, split_names
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.primitives import PRIMITIVES, PYTHON_NAMES

_MATMUL = contraction("matmul", COMPOSE, lambda x, y: x * y, ADD, text="{0} @ {1}")


def matmul(left: object, right: object, *, label: str | None = None) -> Tensor:
    """`left @ right`: the input row of `left` contracts with the output row of `right`.

    Shapes: `..b..|..k..->..o..; ..b..|..i..->..k.. => ..b..|..i..->..o..`, rows broadcasting.
    Grad:   to `left` `g @ right.T`, to `right` `left.T @ g`, summed over broadcast axes.
    Raises: ShapeError.
    """
    return apply(_MATMUL, [embed(left), embed(right)], label=label)


REGISTRY["matmul"] = matmul


def einsum(
    spec: str, *xs: object, reduce: str = "add", combine: str = "mul", label: str | None = None, **names: Any
) -> Tensor:
    """Generalized einsum of one or more operands.

    A spec is `operand; operand => result`. Each of these is `batch | input -> output`, rows of axes:

    - `i`, `row`: an index. Equal names have equal sizes; names that the result does not contain are reduced.
    - `...`, `..v..`: any number of axes; `_`: one axis, not named; `2`: one index of an axis.
    - `2*o<+k`: a window of stride 2 whose taps are all inside the axis; `o=+3*k`: dilation 3, padded with zeros.
    - `(a b)`: a merged axis, in row-major order; `a^b`: a concatenation, for `oc.concat`.

    Each letter is an axis, unless the spec contains any of `, * + ^ & <`: then names are words between commas.
    The manual describes the notation in full on the page "Einsum notation".

    `combine` is a primitive whose arity is the number of operands (`mul` and `add` take any number), `reduce` an
    associative and commutative primitive. Keyword names are identifiers of the spec: an int fixes a size or supplies a
    coefficient, an `oc.Dim` captures the solved size.

    Shapes: those of the spec.
    Grad:   through a sum or product the derivative of `combine`; through a maximum or minimum the same, split equally
            among the points that attain it; none through logical and bitwise operations.
    Raises: CodeError for unknown primitives; EinsumSyntaxError with a caret under the mistake; ShapeError.
    """
    parsed = parse(spec)
    refuse_concat(parsed, spec)
    operands = [embed(x) for x in xs]
    check_arity(parsed, spec, operands)
    sizes, captures = split_names(parsed, spec, names)
    accumulate = _accumulator(reduce)
    operation = contraction(
        "einsum",
        einsum_logic(parsed),
        _combiner(combine, len(operands)),
        accumulate,
        text=einsum_text("einsum", spec, len(operands)),
        sizes=sizes,
    )
    settings = {"spec": spec, "reduce": reduce, "combine": combine}
    return apply(replace(operation, settings=settings), operands, captures=captures, label=label)


def einsum_text(name: str, spec: str, operands: int) -> str:
    quoted = spec.replace("{", "{{").replace("}", "}}")
    return f'{name}("{quoted}", {", ".join(f"{{{n}}}" for n in range(operands))})'


def refuse_concat(parsed: Spec, spec: str) -> None:
    """Raises CodeError for a spec with concatenated axes."""
    if any(isinstance(axis, Concat) for shape in parsed.shapes for _, row in shape.rows for axis in row.axes):
        raise CodeError(f"concatenated axes require oc.concat({spec!r}, ...)")


def _accumulator(name: object) -> Op:
    op = BY_NAME.get(name) if isinstance(name, str) else None
    if op is None or not op.monoid:
        monoids = ", ".join(o.name for o in OPS if o.monoid)
        raise CodeError(f"reduce={name!r} is not an associative and commutative operation; these are {monoids}")
    return op


def _combiner(name: object, operands: int) -> Callable[..., Term]:
    if operands == 1:
        return lambda x: x
    op = BY_NAME.get(OP_NAMES.get(name, name)) if isinstance(name, str) else None
    if op is not None and op.arity == operands:
        return lambda *xs: symbolic_terms.apply(op.name, *xs)
    if op is not None and op.monoid:
        return lambda *xs: fold(lambda x, y: symbolic_terms.apply(op.name, x, y), xs)
    names = ", ".join(o.name for o in OPS if o.arity == operands or (o.monoid and o.arity == 2))
    raise CodeError(f"combine={name!r} is not a primitive of {operands} operands; these are {names}")


OP_NAMES = {v: k for k, v in PYTHON_NAMES.items()}


def transpose(x: object) -> Tensor:
    """Swaps the input and output rows."""
    return apply(contraction("transpose", TRANSPOSE, lambda v: v, None, text="{0}.T"), [embed(x)])


def batch_slice(operand: object, index: object) -> Tensor:
    """`x[n]`: the leftmost batch axis at an int or a static symbol."""
    x = embed(operand)
    if isinstance(index, bool | np.bool_) or not isinstance(index, int | np.integer | Symbol):
        takes = f"`{x.label}[...]` takes an int or a static symbol (oc.symbol), not {index!r}"[:200]
        raise CodeError(f"{takes}: {_index_answer(index)}")
    position: int | Sym = index if isinstance(index, Symbol) else int(index)
    if isinstance(position, int) and position < 0:
        raise CodeError(f"`{x.label}[{position}]`: an index must not be negative, since sizes may not be known yet")
    text = f"{{0}}[{position.name if isinstance(position, Sym) else position}]"
    operation = contraction("slice", slice_batch(position), lambda v: v, None, text=text)
    return apply(replace(operation, settings={"index": position}), [x])


_WITHOUT_GRADIENT = contraction("stop_gradient", pointwise(1), lambda v: v, None, differentiable=False)
_STOP = replace(_WITHOUT_GRADIENT, is_constant=True)


def stop_gradient(x: object, *, label: str | None = None) -> Tensor:
    """The values of `x`, treated as constants by differentiation.

    Shapes: `...|...->... => ...|...->...`.
    Grad:   none.
    """
    return apply(_STOP, [embed(x)], label=label)


def without_gradient(x: Tensor) -> Tensor:
    """`x`, where the derivative with respect to it is 0 at this value only: higher derivatives do not vanish."""
    return apply(_WITHOUT_GRADIENT, [x])


minimum, maximum = PRIMITIVES["min"], PRIMITIVES["max"]


def _index_answer(index: object) -> str:
    """What to write instead of an index that only arrays have."""
    match index:
        case tuple():
            return 'a cell or part of several axes is oc.einsum("...|i,0 => ...|i", x)'
        case slice():
            return 'a part of an axis is oc.concat("a^b => b", x, a=size)'
        case None | EllipsisType():
            return 'a new axis is oc.einsum("...|i => ...|0,i", x)'
        case Tensor() if index.typing.is_float:
            return "choose by a condition with oc.where(mask, x, 0.0)"
        case Tensor() | list() | np.ndarray():
            return "rows are x.take(ids), with integer ids"
    return "it slices the leftmost batch axis"

REGISTRY.update(
    stop_gradient=stop_gradient, transpose=transpose, slice=batch_slice,
    minimum=minimum, maximum=maximum, einsum=einsum,
)  # fmt: skip
