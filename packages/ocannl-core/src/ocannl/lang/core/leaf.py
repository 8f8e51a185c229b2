"""Leaves: tensors without an operation, their names and the sizes of their axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ocannl.base.errors import ArgumentError, CodeError, DataError, DtypeError
from ocannl.infer.shape import Shape
from ocannl.infer.spec import KINDS
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import Contents, Role, TNode
from ocannl.lang.core import dtype_inference
from ocannl.lang.core.context_vars import CallSite, checked_label
from ocannl.lang.core.shape_text import rows_of_text
from ocannl.lang.core.tensor import Tensor, use_site

Row = Sequence[Any] | None
RowSizes = dict[str, Row]


@dataclass(frozen=True, slots=True)
class LeafName:
    """The label of a leaf and the source line that defines it; `is_named` if the user chose the label."""

    label: str
    where: str = ""
    is_named: bool = True


def leaf_name(label: object, default: str, call_site: CallSite) -> LeafName:
    """The name given by `label=`, else by the variable that stores the leaf, else `default`."""
    name = label_or_bound_name(label, call_site)
    return LeafName(name or default, call_site.where, bool(name))


def label_or_bound_name(label: object, call_site: CallSite) -> str:
    return call_site.name if label is None else checked_label(label)


def leaf(
    name: LeafName,
    role: Role,
    kind: Precision | None,
    rows: RowSizes,
    *,
    gradient: object = None,
    square: bool = False,
    cells: int | None = None,
    contents: Contents | None = None,
    has_gradient: bool = False,
    **fields: Any,
) -> Tensor:
    """A tensor without an operation; if `kind` is None, its data type is open."""
    result: Tensor
    typing = dtype_inference.leaf_dtype(kind, gradient=gradient, has_gradient=has_gradient)
    attributes = role, lambda: result.dims, lambda: typing.settle(use_site)
    node = TNode(name.label, *attributes, contents=contents, where=name.where)

    def emit(t: Tensor) -> Shape:
        return Shape.leaf(t.provenance, role=role.value, square=square, cells=cells, **rows)

    result = Tensor(node, emit, typing.bind(node), has_gradient=has_gradient, is_named=name.is_named, **fields)
    return result


def rows_of(
    batch: Row, input: Row, output: Row, b: Row, i: Row, o: Row, shape: str | None = None
) -> RowSizes:
    """The three rows from long and short keywords, or from a text such as `32|28,28->10`."""
    rows: RowSizes = {}
    for kind, long, short in zip(KINDS, (batch, input, output), (b, i, o), strict=True):
        if long is not None and short is not None:
            raise CodeError(f"the {kind} row is given twice, as `{kind}=` and as `{kind[0]}=`")
        rows[kind] = _row(kind, long if long is not None else short)
    if shape is None:
        return rows
    if any(row is not None for row in rows.values()):
        raise CodeError("`shape=` gives all rows at once; leave out the others")
    if isinstance(shape, (list, tuple)):
        raise ArgumentError(f"`shape=` gives all rows as a text, as in '32|784->128': write output={list(shape)}")
    for kind, row, sizes in rows_of_text(shape):
        if row.var is not None or len(sizes) < len(row.axes):
            raise CodeError(f"`shape=` holds sizes only, as in '32|784->128'; not {shape!r}")
        rows[kind] = sizes
    return rows


def _row(kind: str, row: Row) -> Row:
    if row is None or (isinstance(row, Sequence) and not isinstance(row, str)):
        return row
    raise CodeError(f"`{kind}=` takes a list of sizes, such as [{row!r}], or of (unit, size) pairs; not {row!r}")


def split_axes(array: Any, batch_axes: int, input_axes: int, units: Sequence[str | None] | None) -> RowSizes:
    """The sizes of an array, with their units, as rows of batch, input and output axes."""
    for name, n in (("batch_axes", batch_axes), ("input_axes", input_axes)):
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise CodeError(f"`{name}` is a number of axes, not {n!r}")
    if batch_axes + input_axes > array.ndim:
        raise DataError(
            f"{batch_axes} batch and {input_axes} input axes are requested "
            f"of an array of {array.ndim} axes, {array.shape}"
        )
    if units is not None and (isinstance(units, str) or not isinstance(units, Sequence)):
        raise CodeError(f"`units` is a list with the unit of each axis, or None for an axis without; not {units!r}")
    if units is not None and len(units) != array.ndim:
        raise DataError(f"{len(units)} units are given for the {array.ndim} axes of {array.shape}")
    axes = list(array.shape) if units is None else [
        size if unit is None else (unit, size) for unit, size in zip(units, array.shape, strict=True)
    ]
    end = array.ndim - input_axes
    return {"batch": axes[:batch_axes], "output": axes[batch_axes:end], "input": axes[end:]}


def bool_error() -> DtypeError:
    return DtypeError("True and False are not numbers here; write 1.0 and 0.0, or give an array of bools")
