"""Reductions by a spec of one operand, or over all axes, giving a tensor of no axes."""

from __future__ import annotations

from typing import Any

from ocannl.base.errors import CodeError
from ocannl.infer.logic import pointwise
from ocannl.ir.ops import ADD, AND, MAX, MIN, MUL, OR
from ocannl.ir.precision import float32, int32
from ocannl.lang.core import terms
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.terms import Term
from ocannl.lang.ops.einsum import stop_gradient
from ocannl.lang.ops.elementwise import root_
from ocannl.lang.ops.reduced_axes import Away, away, count


def sum_(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The sum by a spec of one operand, or over all axes, giving a tensor of no axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   to each cell that was summed.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return away(x, spec, names, "sum").reduced(ADD, "sum")


def max_(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The largest value by a spec of one operand, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   to the cells that attain it, in equal shares.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return away(x, spec, names, "max").reduced(MAX, "max")


def min_(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The smallest value by a spec of one operand, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   to the cells that attain it, in equal shares.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return away(x, spec, names, "min").reduced(MIN, "min")


def prod(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The product by a spec of one operand, or over all axes; of nothing, 1.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   the product of the other cells, where some of them are zero, too.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return away(x, spec, names, "prod").reduced(MUL, "prod")


def any_(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """1 where some cell is not 0, else 0, by a spec of one operand, or over all axes. NaN is not 0.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   none.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return away(x, spec, names, "any").reduced(OR, "any")


def all_(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """1 where no cell is 0, else 0, by a spec of one operand, or over all axes. NaN is not 0.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   none.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return away(x, spec, names, "all").reduced(AND, "all")


def count_nonzero(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """How many cells are not 0, as int32, by a spec of one operand, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   none.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return away(x, spec, names, "count_nonzero").reduced(ADD, "count_nonzero", _counted, int32)


def _counted(v: Term) -> Term:
    return terms.apply("where", terms.apply("ne", v, 0), 1, 0)


@composite
def mean(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The mean by a spec of one operand, or over all axes; of integers, as float32.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   an equal share to each cell.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return _mean(away(x, spec, names, "mean"))


@composite
def var(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The variance by a spec of one operand, or over all axes; of integers, as float32.

    The mean of the squares of `x - mean(x)`; with `sample`, an estimate from a sample: one less divides the sum.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g * 2 * (x - mean(x)) / n`, with `sample` `n - 1`.
    NaN:    of nothing, and of a sample of one.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return _var(away(x, spec, names, "var"), sample)


@composite
def std(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The standard deviation: the square root of `var`.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g * (x - mean(x)) / (n * v)`, with `sample` `n - 1`; 0 where all cells agree.
    Raises: EinsumSyntaxError; ShapeError.
    """
    root: Tensor = root_(_var(away(x, spec, names, "std"), sample))
    return root


@composite
def norm(x: object, spec: str | None = None, *, ord: float = 2, **names: Any) -> Tensor:
    """The length by a spec of one operand, or over all axes: `ord` is 1, 2 (Euclid's) or `math.inf`, the largest.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   of 2, `g * x / v`, and 0 at the origin; of the others, that of `abs` and of the sum or the largest.
    Raises: CodeError for any other `ord`; EinsumSyntaxError; ShapeError.
    """
    if ord not in _NORMS:
        raise CodeError(f"ord={ord!r} is no norm; there are 1, 2 and inf")
    op, formula = _NORMS[ord]
    reduced = away(x, spec, names, "norm").reduced(op, "norm", formula)
    return root_(reduced) if ord == 2 else reduced


def _mean(over: Away) -> Tensor:
    total = over.reduced(ADD, "sum", least=float32)
    return _divided("mean", total, over, 0)


def _var(over: Away, sample: bool) -> Tensor:
    mean = stop_gradient(_mean(over))  # which hands on the sum of the deviations, and that is 0
    apart = over.met(over.x, mean, lambda v, mean: v - mean, "deviation")
    rest = Away(apart, over.logic, over.sizes, {})
    return _divided("var", rest.reduced(ADD, "sum", lambda v: v * v), rest, int(sample))


def _divided(name: str, total: Tensor, over: Away, less: int) -> Tensor:
    kind = over.x.typing.offered if over.x.typing.is_float else total.typing.offered

    def share(v: Term) -> Term:
        return v / max(count(total) - less, 0)

    divide = contraction(name, pointwise(1), share, None, text="{0} / count", kind=kind)
    return apply(divide, [total])


def _square(v: Term) -> Term:
    return v * v


def _magnitude(v: Term) -> Term:
    return terms.apply("abs", v)


_NORMS = {1: (ADD, _magnitude), 2: (ADD, _square), float("inf"): (MAX, _magnitude)}

REGISTRY.update(
    sum=sum_, largest=max_, smallest=min_, prod=prod, any=any_, all=all_, count_nonzero=count_nonzero, mean=mean,
    var=var, std=std, norm=norm,
)  # fmt: skip
