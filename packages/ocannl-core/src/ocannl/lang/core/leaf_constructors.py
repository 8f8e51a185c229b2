"""Leaves of the tensor graph: constant data, embedded numbers, placeholders, state nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ocannl.base.errors import CodeError, DataError, DtypeError
from ocannl.infer.spec import KINDS
from ocannl.ir.affine import Affine
from ocannl.ir.assign import Index, Number
from ocannl.ir.precision import Precision, float32, int32, int64, precision
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core import dtype_inference
from ocannl.lang.core.captured_sizes import Dim
from ocannl.lang.core.context_vars import site
from ocannl.lang.core.leaf import LeafName, Row, RowSizes, bool_error, leaf, leaf_name, rows_of, split_axes
from ocannl.lang.core.literals import (
    Constant,
    HostArray,
    as_array,
    is_bool,
    is_literal,
    is_number,
    parse_literal,
    python_number,
    to_supported,
)
from ocannl.lang.core.operation import node_like_slot
from ocannl.lang.core.parameter import param
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor, use_site

INFERRED: RowSizes = {"batch": None, "input": None, "output": None}
NO_AXES: RowSizes = {"batch": [], "input": [], "output": []}


def tensor(
    data: object,
    *,
    batch_axes: int = 0,
    input_axes: int = 0,
    label: str | None = None,
    dtype: object = None,
    grad: bool = False,
    units: Sequence[str | None] | None = None,
    shape: str | None = None,
) -> Tensor:
    """Constant data.

    Shapes: the first `batch_axes` axes of an array are batch, the last `input_axes` input, the others output. In nested
    literals, a list is an output axis, a tuple an input axis, `oc.batch(...)` a batch axis. A number has no axes. With
    `shape="infer"` the data fixes only the number of elements; the axes follow from use.
    Units: `units` names the axes of an array in order; for a literal, the axes of the converted array (batch, output,
    input); for a number, which has no axes, one output axis of size 1.
    Raises: DataError for ragged, mixed or empty literals; DtypeError for elements that are not real numbers.
    """
    call_site = site()
    name = leaf_name(label, "data", call_site)
    parameter_label = name.label if name.is_named else "tensor"
    if isinstance(data, Tensor):
        raise CodeError(f"`{data.label}` is already a tensor")
    if is_bool(data):
        raise bool_error()
    if is_number(data) and units:
        data = [data]  # an axis of size 1 carries the unit
    if is_number(data) and grad:
        return param(parameter_label, data, batch=[], input=[], output=[], dtype=dtype)
    if is_number(data):
        scalar_name = leaf_name(label, _number_text(data), call_site)
        return _scalar(data, scalar_name, None if dtype is None else precision(dtype))
    weak = is_literal(data)
    if weak:
        if batch_axes or input_axes:
            raise CodeError(
                "the nesting of a literal determines its axes; `batch_axes` and `input_axes` are for arrays"
            )
        array, rows = parse_literal(data)
        array = array if dtype is None else as_array(array, dtype)
        sizes = split_axes(array, len(rows["batch"]), len(rows["input"]), units)
    else:
        array = as_array(data, dtype)
        sizes = split_axes(array, batch_axes, input_axes, units)
    if shape is not None:
        if shape != "infer":
            raise CodeError(f'`shape=` is "infer" or left out, and not {shape!r}: the shape is that of the array')
        if batch_axes or input_axes or units is not None or grad:
            raise CodeError('`shape="infer"` stands alone: the axes of the data are then inferred from use')
        array, kind = _supported_array(array, weak and dtype is None)
        contents = HostArray(array.reshape(-1).copy())
        return leaf(name, Role.DATA, kind, INFERRED, contents=contents, cells=array.size)
    if grad:
        initial = data if weak else array if dtype is not None else _floating(array)
        batch, input, output = (sizes[kind] for kind in KINDS)
        return param(parameter_label, initial, batch=batch, input=input, output=output, dtype=dtype)
    array, kind = _supported_array(array, weak and dtype is None)
    # copied: the caller may modify the array, and the data is constant
    contents = HostArray(array if isinstance(data, np.memmap) or weak else array.copy())
    return leaf(name, Role.DATA, kind, sizes, contents=contents)


def from_file(path: object, dtype: object, *, label: str | None = None) -> Tensor:
    """Constant data in a raw binary file, memory-mapped.

    Shapes: the file fixes only the number of elements; the axes follow from use.
    Raises: DataError if the file does not exist, or its size is no multiple of the element size.
    """
    call_site = site()
    kind = precision(dtype)
    try:
        array = np.memmap(os.fspath(path), kind.numpy, "r")  # type: ignore[call-overload]
    except (OSError, TypeError, ValueError) as error:
        raise DataError(f"{path!r} cannot be read as {kind}: {error}") from None
    name = leaf_name(label, "data", call_site)
    return leaf(name, Role.DATA, kind, INFERRED, contents=HostArray(array), cells=array.size)


def _supported_array(array: Any, is_weak: bool) -> tuple[Any, Precision | None]:
    """The array in a supported type, and this type; None (open) for a weak literal."""
    return (array, None) if is_weak else to_supported(array)


def _floating(array: Any) -> Any:
    return array if array.dtype.kind not in "iub" else array.astype(float32.numpy)


def _number_text(value: Any) -> str:
    return f"{python_number(value):g}"


def _scalar(value: Any, name: LeafName, kind: Precision | None) -> Tensor:
    number = python_number(value)
    return leaf(name, Role.RESULT, kind, NO_AXES, literal=lambda: Number(number))


def embed(value: object) -> Tensor:
    """Converts an operand to a tensor: numbers, symbols, captured sizes and arrays may stand beside tensors."""
    if isinstance(value, Tensor):
        return value.as_operand()
    if isinstance(value, Symbol):
        literal = Index(Affine.of(value))
        kind = int32 if -(2**31) <= value.lo <= value.hi < 2**31 else int64
        return leaf(LeafName(value.name), Role.RESULT, kind, NO_AXES, literal=lambda: literal)
    if isinstance(value, Dim):
        return leaf(LeafName(value.name), Role.RESULT, float32, NO_AXES, literal=lambda: Number(value.number()))
    if is_bool(value):
        raise bool_error()
    if is_number(value):
        name = LeafName(_number_text(value), is_named=False)
        return _scalar(value, name, float32 if isinstance(value, float) else int32)
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return tensor(value)
    if isinstance(value, TNode):
        raise CodeError(f"`{value.label}` is a node; use the tensor itself in expressions")
    if isinstance(value, Term):
        raise CodeError("a formula of a rule is no tensor; its value is converted to the type of its slot")
    if isinstance(value, list | tuple):
        raise CodeError(f"a literal must be converted to a tensor in expressions: oc.tensor({value!r})"[:200])
    raise CodeError(f"{value!r} cannot be an operand of a tensor expression"[:200])


def placeholder(
    label: str | None = None,
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
) -> Tensor:
    """A node that is set from outside (`ctx[x] = array`) or assigned by code.

    Shapes: omitted rows are inferred from use.
    """
    name = leaf_name(label, "placeholder", site())
    rows = rows_of(batch, input, output, b, i, o, shape)
    kind = None if dtype is None else precision(dtype)
    return leaf(name, Role.PLACEHOLDER, kind, rows, square=square)


def node(
    label: str | None = None,
    *,
    init: float = 0.0,
    batch: Row = None,
    input: Row = None,
    output: Row = None,
    dtype: object = None,
    slot: object = None,
) -> Tensor:
    """A node of state, kept between calls; its initial value in every context is `init`.

    Shapes: inferred from use if no row is given; otherwise omitted rows are empty.

    In the rules of `oc.defop`, `slot=v1` makes a temporary node with the shape and type of that argument.
    """
    name = leaf_name(label, "node", site())
    if slot is not None:
        return cast("Tensor", node_like_slot(name.label, slot))
    kind = None if dtype is None else precision(dtype)
    rows = rows_of(batch, input, output, None, None, None)
    if any(row is not None for row in rows.values()):
        rows = {name: [] if row is None else row for name, row in rows.items()}
    if not is_number(init):
        raise DtypeError(f"`init` of oc.node must be a number, not {init!r}")
    return leaf(name, Role.STATE, kind, rows, contents=Constant(python_number(init)))


def state_like(label: str, of: Tensor, kind: Precision, init: float = 0.0) -> Tensor:
    """A node of state with the shape of a tensor, initially `init`."""
    typing = dtype_inference.leaf_dtype(kind)
    attributes = Role.STATE, lambda: of.dims, lambda: typing.settle(use_site)
    node = TNode(label, *attributes, contents=Constant(init), where=site().where)
    return Tensor(node, lambda _: of.emit(), typing.bind(node))
