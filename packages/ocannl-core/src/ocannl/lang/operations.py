"""The operations everyone starts with: one table of primitives, contractions, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.infer.logic import COMPOSE, TRANSPOSE, pointwise, slice_batch
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.parse import parse
from ocannl.infer.spec import Concat, Spec
from ocannl.ir.index import Sym
from ocannl.ir.ops import ADD, BY_NAME, OPS, Op
from ocannl.lang import terms
from ocannl.lang.ambient import composite
from ocannl.lang.given import check_arity, split_names
from ocannl.lang.leaves import embed
from ocannl.lang.operation import contraction
from ocannl.lang.operators import REGISTRY
from ocannl.lang.symbols import Symbol
from ocannl.lang.tensor import Tensor, apply
from ocannl.lang.terms import Term

WORDS = {"not": "not_", "and": "and_", "or": "or_"}
"""Primitives whose names are words of Python."""

_WEAK = {"where": frozenset({0}), "relu_gate": frozenset({0}), "sat01_gate": frozenset({0})}


def _text(op: Op) -> str:
    if not op.symbol:
        return ""
    symbol = {"!": "~", "&&": "&", "||": "|"}.get(op.symbol, op.symbol)
    return f"{symbol}{{0}}" if op.arity == 1 else f"{{0}} {symbol} {{1}}" if op.name not in ("eq", "ne") else ""


def _primitive(op: Op) -> Callable[..., Any]:
    """The public function of one row of the table of primitives."""
    name = WORDS.get(op.name, op.name)
    operation = contraction(
        name,
        pointwise(op.arity),
        lambda *xs: terms.apply(op.name, *xs),
        None,
        differentiable=terms.is_differentiable(op),
        domain=op.domain,
        weak_operands=_WEAK.get(op.name, frozenset()),
        text=_text(op),
    )

    def function(*inputs: object, label: str | None = None) -> Any:
        if len(inputs) != op.arity:
            raise CodeError(f"oc.{name} takes {op.arity} operand{'s' * (op.arity > 1)}, not {len(inputs)}")
        if any(isinstance(i, Term) for i in inputs):
            return terms.apply(op.name, *inputs)
        return apply(operation, [embed(i) for i in inputs], label=label)

    function.__name__ = function.__qualname__ = name
    smooth = "" if terms.is_differentiable(op) else "\n\n    Grad:   none.\n    "
    function.__doc__ = f"{op.doc} Cell by cell, every row broadcasting.{smooth}"
    return function


PRIMITIVES: dict[str, Callable[..., Any]] = {WORDS.get(op.name, op.name): _primitive(op) for op in OPS}
REGISTRY.update(PRIMITIVES)

_MATMUL = contraction("matmul", COMPOSE, lambda x, y: x * y, ADD, text="{0} @ {1}")


def matmul(left: object, right: object, *, label: str | None = None) -> Tensor:
    """`left @ right`: the input row of `left` contracts with the output row of `right`.

    Shapes: `..b..|..k..->..o..; ..b..|..i..->..k.. => ..b..|..i..->..o..`, rows broadcasting.
    """
    return apply(_MATMUL, [embed(left), embed(right)], label=label)


REGISTRY["matmul"] = matmul


def einsum(
    spec: str, *xs: object, reduce: str = "add", combine: str = "mul", label: str | None = None, **names: Any
) -> Tensor:
    """Generalized einsum of one to three operands.

    `combine` is any primitive of as many operands as there are (`mul` and `add` of any number), `reduce` an
    accumulating one. Keyword names are identifiers of the spec: an int fixes a size or supplies a coefficient, an
    `oc.Dim` captures the solved size.
    Raises: EinsumSyntaxError with a caret under the mistake; ShapeError.
    """
    read = parse(spec)
    refuse_concat(read, spec)
    operands = [embed(x) for x in xs]
    check_arity(read, spec, operands)
    sizes, captures = split_names(read, spec, names)
    accumulate = _accumulator(reduce)
    operation = contraction(
        "einsum",
        einsum_logic(read),
        _combiner(combine, len(operands)),
        accumulate,
        text=einsum_text("einsum", spec, len(operands)),
        sizes=sizes,
    )
    return apply(operation, operands, captures=captures, label=label)


def einsum_text(name: str, spec: str, operands: int) -> str:
    quoted = spec.replace("{", "{{").replace("}", "}}")
    return f'{name}("{quoted}", {", ".join(f"{{{n}}}" for n in range(operands))})'


def refuse_concat(read: Spec, spec: str) -> None:
    if any(isinstance(axis, Concat) for shape in read.shapes for _, row in shape.rows for axis in row.axes):
        raise CodeError(f"axes are laid one after another by oc.concat({spec!r}, ...)")


def _accumulator(name: object) -> Op:
    op = BY_NAME.get(name) if isinstance(name, str) else None
    if op is None or not op.monoid:
        known = ", ".join(o.name for o in OPS if o.monoid)
        raise CodeError(f"reduce={name!r} is not an operation that accumulates in any order; there are {known}")
    return op


def _combiner(name: object, operands: int) -> Callable[..., Term]:
    if operands == 1:
        return lambda x: x
    op = BY_NAME.get(WORDS_BACK.get(name, name)) if isinstance(name, str) else None
    if op is not None and op.arity == operands:
        return lambda *xs: terms.apply(op.name, *xs)
    if op is not None and op.monoid:
        return lambda *xs: fold(lambda x, y: terms.apply(op.name, x, y), xs)
    known = ", ".join(o.name for o in OPS if o.arity == operands or (o.monoid and o.arity == 2))
    raise CodeError(f"combine={name!r} is no primitive of {operands} operands; there are {known}")


WORDS_BACK = {v: k for k, v in WORDS.items()}


def transpose(x: Tensor) -> Tensor:
    """Input and output rows change places."""
    return apply(contraction("transpose", TRANSPOSE, lambda v: v, None, text="{0}.T"), [x])


def batch_slice(x: Tensor, index: object) -> Tensor:
    """`x[n]`: the leftmost batch axis at an int or a static symbol."""
    if isinstance(index, bool | np.bool_) or not isinstance(index, int | np.integer | Symbol):
        raise CodeError(f"`{x.label}[...]` takes an int or a static symbol (oc.symbol), not {index!r}")
    at: int | Sym = index if isinstance(index, Symbol) else int(index)
    if isinstance(at, int) and at < 0:
        raise CodeError(f"`{x.label}[{at}]`: an index counts from the front; sizes may not be known yet")
    text = f"{{0}}[{at.name if isinstance(at, Sym) else at}]"
    return apply(contraction("slice", slice_batch(at), lambda v: v, None, text=text), [x])


_STOP = contraction("stop_gradient", pointwise(1), lambda v: v, None, differentiable=False)


def stop_gradient(x: object, *, label: str | None = None) -> Tensor:
    """The same values, with no gradient through them."""
    return apply(_STOP, [embed(x)], label=label)


@composite
def sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))`, computed by tanh: exact at both infinities."""
    return 0.5 * PRIMITIVES["tanh"](0.5 * _operand(x)) + 0.5


@composite
def silu(x: Any) -> Any:
    """`x * sigmoid(x)`. Source: Elfwing, Uchibe, Doya 2018."""
    x = _operand(x)
    return x * sigmoid(x)


@composite
def gelu(x: Any) -> Any:
    """`0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3)))`. Source: Hendrycks, Gimpel 2016."""
    x = _operand(x)
    return 0.5 * x * (1.0 + PRIMITIVES["tanh"](0.7978845608028654 * (x + 0.044715 * (x * x * x))))


def _operand(x: Any) -> Any:
    return x if isinstance(x, Term) else embed(x)


minimum, maximum = PRIMITIVES["min"], PRIMITIVES["max"]

REGISTRY.update(
    sigmoid=sigmoid, silu=silu, gelu=gelu, stop_gradient=stop_gradient, transpose=transpose, slice=batch_slice,
    minimum=minimum, maximum=maximum, einsum=einsum,
)  # fmt: skip
