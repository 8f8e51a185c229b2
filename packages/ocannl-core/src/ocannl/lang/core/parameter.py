"""Parameters: learnable leaves with an initial value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ocannl.base.errors import ArgumentError, CodeError, DtypeError
from ocannl.infer.explain import refuse
from ocannl.infer.logic import pointwise
from ocannl.infer.shape import relate
from ocannl.infer.spec import KINDS
from ocannl.infer.tensor_description import Provenance
from ocannl.infer.terms import resolve
from ocannl.ir.precision import Precision, precision
from ocannl.ir.tnode import Contents, Role
from ocannl.lang import block_application, blocks
from ocannl.lang.core import graph
from ocannl.lang.core.context_vars import gradients_enabled, site
from ocannl.lang.core.fans import ParameterFans, Weight
from ocannl.lang.core.leaf import LeafName, Row, RowSizes, bool_error, leaf, leaf_name, rows_of, split_axes
from ocannl.lang.core.literals import (
    Constant,
    HostArray,
    IndexFunction,
    as_array,
    is_bool,
    is_literal,
    is_number,
    parse_literal,
    python_number,
    to_supported,
)
from ocannl.lang.core.random import Distribution, FanScaled, RandomInitializer, Sampling
from ocannl.lang.core.tensor import Tensor, use_site


def param(
    label: object = None,
    init: object = None,
    *,
    batch: Row = None,
    input: Row = None,
    output: Row = None,
    b: Row = None,
    i: Row = None,
    o: Row = None,
    shape: str | None = None,
    square: bool = False,
    dtype: object = None,
    grad_dtype: object = None,
) -> Tensor:
    """A learnable tensor.

    A positional text is the label; any other positional argument is the initial value: a number (for every cell), a
    nested literal or an array (values and shape), an initializer, or a tensor expression. The default is uniform in
    [-0.25, 0.25).
    Shapes: omitted rows are inferred from use; an omitted batch row is empty.
    """
    if label is not None and not isinstance(label, str):
        if init is not None:
            raise CodeError(f"oc.param takes a label and an initial value; the label must be a string, not {label!r}")
        label, init = None, label
    request = _ParameterRequest(
        leaf_name(label, "param", site()),
        rows_of(batch, input, output, b, i, o, shape),
        None if dtype is None else precision(dtype),
        grad_dtype,
        square,
    )
    return _define_parameter(request, _initial_value(init, request))


@dataclass(frozen=True, slots=True)
class _ParameterRequest:
    """The arguments of `oc.param` except the initial value."""

    name: LeafName
    rows: RowSizes
    kind: Precision | None
    gradient_kind: object
    square: bool


@dataclass(frozen=True, slots=True)
class _InitialValue:
    """An initial value: `contents`, filled in by the host, or `expression`, computed by code; `rows` and `kind` as far
    as the value fixes them."""

    rows: RowSizes
    kind: Precision | None
    contents: Contents | None = None
    expression: Tensor | float | None = None

    @property
    def draws(self) -> list[RandomInitializer]:
        """The random contents of the value."""
        leaves = graph.ancestors([self.expression]) if isinstance(self.expression, Tensor) else []
        sources = [self.contents, *(t.node.contents for t in leaves)]
        return [source for source in sources if isinstance(source, RandomInitializer)]


def _initial_value(init: object, request: _ParameterRequest) -> _InitialValue:
    default = _InitialValue(request.rows, request.kind)
    if init is None:
        return replace(default, contents=RandomInitializer(Distribution(-0.25, 0.25)))
    if is_bool(init):
        raise bool_error()
    if isinstance(init, str):
        raise ArgumentError(f"initial values have no names: write oc.kaiming(), oc.normal() or 0.0 instead of {init!r}")
    if is_number(init):
        return replace(default, expression=float(python_number(init)))
    if isinstance(init, Tensor):
        if (contents := _initializer_contents(init)) is not None:
            return replace(default, contents=contents)  # a bare initializer is drawn directly into the parameter
        adopts_type = request.kind is None and init.typing.is_float and not init.typing.is_default
        return replace(default, expression=init, kind=init.typing.current if adopts_type else request.kind)
    if callable(init):
        name = blocks.function_name(init, "lambda")
        fix = "call initializers, oc.uniform(), and wrap functions, oc.init(fn)"
        raise CodeError(f"`{name}` is not an initial value; {fix}")
    return _exact_value(init, request)


def _define_parameter(request: _ParameterRequest, value: _InitialValue) -> Tensor:
    if value.kind is not None and not value.kind.is_float:
        raise DtypeError(f"a parameter must have a float type, not {value.kind}; convert the value, or give `dtype=`")
    rows = value.rows if value.rows["batch"] is not None else {**value.rows, "batch": []}
    name = request.name
    recalled = block_application.recalled_parameter(name.label)
    if recalled is not None:
        check_recalled(recalled, rows, None if request.kind is None else value.kind)
        return recalled
    parameter = leaf(
        name,
        Role.PARAMETER,
        value.kind,
        rows,
        gradient=request.gradient_kind,
        square=request.square,
        contents=value.contents,
        initial=value.expression,
        has_gradient=gradients_enabled.get(),
    )
    for draw in value.draws:
        if isinstance(draw.distribution, FanScaled) and draw.distribution.factor is None:
            fans = ParameterFans(lambda: parameter, block_application.is_within_current_block())
            draw.distribution = draw.distribution.bound(fans)
            parameter.weights = (*parameter.weights, Weight(fans))
    if isinstance(value.expression, Tensor):
        _equate_shapes(parameter, value.expression, name.where)
    block_application.register_parameter(name.label, parameter)
    return parameter


def _equate_shapes(parameter: Tensor, value: Tensor, where: str) -> None:
    text = lambda: f"{parameter.label} = {value.provenance.expression}"  # noqa: E731
    copy = Provenance(lambda: parameter.label, "result", text, where)
    relate(pointwise(1), [value.emit()], parameter.emit(), copy)


def check_recalled(p: Tensor, rows: RowSizes, kind: Precision | None) -> None:
    """Checks the type and the sizes given for a recalled parameter or state against its first definition."""
    if kind is not None and kind is not p.typing.settle(use_site):
        first = f"`{p.label}` has type {p.dtype} since the first application of its block"
        raise DtypeError(f"{first}, and is requested as {kind}")
    for name, row, resolved in zip(KINDS, rows.values(), map(resolve, p.handle.rows), strict=True):
        if row is None or resolved.var is not None:
            continue
        sizes = [size[1] if isinstance(size, tuple) else size for size in row]
        actual = [a.size if isinstance(size, int) else size for a, size in zip(resolved.axes, sizes, strict=False)]
        if len(sizes) != len(resolved.axes) or any(a not in (None, s) for a, s in zip(actual, sizes, strict=True)):
            first_sizes = [axis.size for axis in resolved.axes]
            first = f"`{p.label}` has the {name} sizes {first_sizes} since the first application of its block"
            problem = f"{first}, and is requested with {sizes}"
            raise refuse(problem, p.provenance, "configure another block for other sizes: it has parameters of its own")


def initial_contents(
    init: object, name: LeafName, rows: RowSizes, kind: Precision | None
) -> tuple[Contents, RowSizes, Precision | None]:
    """The contents of a state, with the rows and the type that they fix. Raises: CodeError for an expression."""
    if is_number(init) and not is_bool(init):
        return Constant(python_number(init)), rows, kind
    value = _initial_value(init, _ParameterRequest(name, rows, kind, None, False))
    if value.contents is None:
        raise CodeError(
            f"the initial value of the state `{name.label}` is a number, an array or an initializer, not an expression"
        )
    return value.contents, value.rows, value.kind


def _initializer_contents(init: Tensor) -> Contents | None:
    """The contents of a bare initializer, whose own shape does not constrain the parameter; None for an expression."""
    contents = init.node.contents
    if init.application is not None:
        operation = init.application.operation
        contents = operation.contents if isinstance(operation, Sampling) else None
    if isinstance(contents, RandomInitializer):
        return contents.copy()  # parameters that share an initializer have streams of their own
    return contents if isinstance(contents, IndexFunction) and init.application is None else None


def _exact_value(init: object, request: _ParameterRequest) -> _InitialValue:
    """An initial value with an explicit number for each cell, which fixes the shape too."""
    rows, kind = request.rows, request.kind
    provenance = Provenance(request.name.label, where=request.name.where)
    if isinstance(init, tuple) and init and all(type(n) is int for n in init) and not any(rows.values()):
        fix = f"write output={list(init)} for a shape, or {tuple(map(float, init))} for values along an input axis"
        raise ArgumentError(f"the second argument of oc.param is the initial value, not the shape, {init}: {fix}")
    if is_literal(init):
        array, value_rows = parse_literal(init)
    else:
        array = as_array(init, kind)
        array, kind = to_supported(array)
        axes = [len(r) if r is not None else None for r in rows.values()]
        n_batch, n_input = axes[0] or 0, axes[1] or 0
        value_rows = split_axes(array, n_batch, n_input, None)  # type: ignore[assignment]
    for name, row in rows.items():
        sizes = value_rows[name]  # type: ignore[index]
        if row is not None and [s[1] if isinstance(s, tuple) else s for s in row] != list(sizes):
            value = f"the initial value of `{provenance.label}` has the {name} sizes {list(sizes)}"
            problem = f"{value}, but {name}={list(row)} is given"
            raise refuse(problem, provenance, "give a value of these sizes, or leave the sizes to the value")
    merged: RowSizes = {
        name: row if row is not None else value_rows[name]  # type: ignore[index]
        for name, row in rows.items()
    }
    return _InitialValue(merged, kind, HostArray(array.copy()))
