"""Inference for those who only want the checker: what a spec or a function gives for shapes, without any data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.logic import einsum
from ocannl.infer.parse import parse, parse_shape
from ocannl.infer.shape import Shape, relate
from ocannl.infer.spec import Fixed, ShapeSpec
from ocannl.infer.tensor_shape import TensorShape
from ocannl.infer.terms import Provenance
from ocannl.lang.core.context_vars import no_grad, site
from ocannl.lang.core.einsum_arguments import check_arity, split_names
from ocannl.lang.core.leaves import placeholder
from ocannl.lang.core.tensor import Tensor


def infer(spec: str, *shapes: Any, **names: Any) -> TensorShape:
    """The shape that `oc.einsum(spec, ...)` (or `oc.concat`) gives for operands of these shapes.

    A shape is a text such as `"32|28,28->10"` (a row `...` is inferred), sizes of output axes, an array or a tensor.
    """
    read = parse(spec)
    check_arity(read, spec, shapes)
    sizes, captures = split_names(read, spec, names)
    where = site().where
    operands = [_leaf(f"operand {n}", given, where) for n, given in enumerate(shapes, 1)]
    source = Provenance("the result", "result", lambda: f'infer("{spec}", ...)', where)
    made = relate(einsum(read), operands, None, source, sizes=sizes, captures=captures)
    made.dims  # noqa: B018  whatever disagrees is said now
    return TensorShape(made)


def shape_of(function: Callable[..., Any], *shapes: Any, **arguments: Any) -> Any:
    """The shape that a tensor function gives for inputs of these shapes, or shapes in tuples, lists and mappings as it
    gives tensors."""
    if not callable(function):
        raise CodeError(f"oc.shape_of takes a function of tensors, not {function!r}")
    with no_grad():
        inputs = [_input(f"input {n}", given) for n, given in enumerate(shapes, 1)]
        return _shapes(function(*inputs, **arguments))


def _shapes(result: Any) -> Any:
    match result:
        case Tensor():
            result.dims  # noqa: B018  whatever disagrees is said now
            return result.shape
        case dict(): return {name: _shapes(item) for name, item in result.items()}
        case tuple() if hasattr(result, "_make"): return result._make(map(_shapes, result))
        case tuple() | list(): return type(result)(map(_shapes, result))
        case _: raise CodeError(f"the function gave {result!r}, where a tensor is wanted"[:200])


def rows_of(given: Any) -> dict[str, list[Any] | None]:
    """The rows that a text, sizes or a shape stand for; None where a row is to be inferred."""
    if isinstance(given, TensorShape):
        rows = {"batch": given.batch, "input": given.input, "output": given.output}
        return {kind: [a.size if a.unit is None else (a.unit, a.size) for a in row] for kind, row in rows.items()}
    if isinstance(given, str):
        return _read(parse_shape(given), given)
    if isinstance(sizes := getattr(given, "shape", given), tuple | list):  # an array has a shape, and no kinds of axes
        return {"batch": [], "input": [], "output": list(sizes)}
    raise ShapeError(f"{given!r} is no shape: write a text such as '32|784->10', or a tuple of sizes")


def _read(spec: ShapeSpec, text: str) -> dict[str, list[Any] | None]:
    rows: dict[str, list[Any] | None] = {}
    for kind, row in spec.rows:
        if row.var is not None and row.axes:
            raise ShapeError(f"{text!r}: a row is written whole, or as `...` to be inferred")
        if not all(isinstance(axis, Fixed) for axis in row.axes):
            raise ShapeError(f"{text!r}: a shape holds sizes, not names")
        rows[kind] = None if row.var is not None else [a.index for a in row.axes if isinstance(a, Fixed)]
    return rows


def _leaf(name: str, given: Any, where: str) -> Shape:
    if isinstance(given, Tensor):
        return given.handle
    rows = rows_of(given)
    source = Provenance(name, "data", None, where)
    return Shape.leaf(source, batch=rows["batch"], input=rows["input"], output=rows["output"])


def _input(name: str, given: Any) -> Tensor:
    return given if isinstance(given, Tensor) else placeholder(name, **rows_of(given))  # type: ignore[arg-type]
