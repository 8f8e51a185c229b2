"""Shape checking without data: the result shape of a spec or of a tensor function, given operand shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ocannl.base.errors import ArgumentError, CodeError, ShapeError
from ocannl.base.user_functions import call_problem
from ocannl.infer.logic import einsum
from ocannl.infer.parse import parse
from ocannl.infer.shape import Shape, relate
from ocannl.infer.shape_view import TensorShape
from ocannl.infer.tensor_description import Provenance
from ocannl.lang.core.context_vars import no_grad, site
from ocannl.lang.core.einsum_arguments import check_arity, split_names
from ocannl.lang.core.leaf_constructors import placeholder
from ocannl.lang.core.shape_text import rows_of_text
from ocannl.lang.core.tensor import Tensor


def infer(spec: str, *shapes: Any, **names: Any) -> TensorShape:
    """Infers the result shape of `oc.einsum(spec, ...)` (or `oc.concat`) for operands of the given shapes.

    A shape is a text such as `"32|28,28->10"` (a row `...` is inferred; `rgb=3` is a size with a unit), sizes of output
    axes, an array or a tensor.
    """
    parsed = parse(spec)
    check_arity(parsed, spec, shapes)
    sizes, captures = split_names(parsed, spec, names)
    where = site().where
    operands = [_operand_shape(f"operand {n}", shape, where) for n, shape in enumerate(shapes, 1)]
    source = Provenance("the result", "result", lambda: f'infer("{spec}", ...)', where)
    result = relate(einsum(parsed), operands, None, source, sizes=sizes, captures=captures)
    result.dims  # noqa: B018  reading the sizes raises on conflicts
    return TensorShape(result)


def shape_of(function: Callable[..., Any], *shapes: Any, **arguments: Any) -> Any:
    """Infers the result shape of a tensor function for inputs of the given shapes.

    Results in tuples, lists and mappings give shapes in equal containers.
    """
    if not callable(function):
        raise CodeError(f"oc.shape_of takes a function of tensors, not {function!r}")
    with no_grad():
        inputs = [_input_tensor(f"input {n}", shape) for n, shape in enumerate(shapes, 1)]
        try:
            result = function(*inputs, **arguments)
        except TypeError:
            problem = call_problem(function, inputs, arguments)
            if not problem:
                raise
            count = f"{len(inputs)} tensor{'s' * (len(inputs) != 1)}"
            raise ArgumentError(f"oc.shape_of cannot call the function with {count}: {problem}") from None
        return _shapes(result)


def _shapes(result: Any) -> Any:
    match result:
        case Tensor():
            result.dims  # noqa: B018  reading the sizes raises on conflicts
            return result.shape
        case dict(): return {name: _shapes(item) for name, item in result.items()}
        case tuple() if hasattr(result, "_make"): return result._make(map(_shapes, result))
        case tuple() | list(): return type(result)(map(_shapes, result))
        case _: raise CodeError(f"the function returned {result!r} instead of a tensor"[:200])


def rows_of_shape(shape: Any) -> dict[str, list[Any] | None]:
    """The axis sizes by row kind that a text, a sequence of sizes or a shape denotes; None: the row is inferred."""
    if isinstance(shape, TensorShape):
        rows = {"batch": shape.batch, "input": shape.input, "output": shape.output}
        return {kind: [a.size if a.unit is None else (a.unit, a.size) for a in row] for kind, row in rows.items()}
    if isinstance(shape, str):
        return _rows_of_text(shape)
    if isinstance(sizes := getattr(shape, "shape", shape), tuple | list):  # arrays have no axis kinds
        return {"batch": [], "input": [], "output": list(sizes)}
    raise ShapeError(f"{shape!r} is not a shape: write a string such as '32|784->10', or a tuple of sizes")


def _rows_of_text(text: str) -> dict[str, list[Any] | None]:
    rows: dict[str, list[Any] | None] = {}
    for kind, row, sizes in rows_of_text(text):
        if row.var is not None and row.axes:
            raise ShapeError(f"{text!r}: a row is given completely, or inferred, written as `...`")
        if len(sizes) < len(row.axes):
            raise ShapeError(f"{text!r}: a shape contains sizes, not names")
        rows[kind] = None if row.var is not None else sizes
    return rows


def _operand_shape(name: str, operand: Any, where: str) -> Shape:
    if isinstance(operand, Tensor):
        return operand.handle
    rows = rows_of_shape(operand)
    source = Provenance(name, "data", None, where)
    return Shape.leaf(source, batch=rows["batch"], input=rows["input"], output=rows["output"])


def _input_tensor(name: str, shape: Any) -> Tensor:
    return shape if isinstance(shape, Tensor) else placeholder(name, **rows_of_shape(shape))  # type: ignore[arg-type]
