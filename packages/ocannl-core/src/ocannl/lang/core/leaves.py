"""Tensors that no operation gives: constant data, parameters, placeholders, nodes of code, initializers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ocannl.base.errors import CodeError, DataError, DtypeError
from ocannl.infer.explain import refuse
from ocannl.infer.logic import pointwise
from ocannl.infer.parse import parse_shape
from ocannl.infer.shape import Shape, relate
from ocannl.infer.spec import KINDS, Fixed
from ocannl.infer.terms import Provenance, resolve
from ocannl.ir.assign import Index, Number
from ocannl.ir.index import Affine
from ocannl.ir.precision import Precision, float32, int32, int64, precision
from ocannl.ir.tnode import Contents, Role, TNode
from ocannl.lang import blocks
from ocannl.lang.core import dtypes, graph
from ocannl.lang.core.captured_sizes import Dim
from ocannl.lang.core.context_vars import Site, checked_label, differentiable, site
from ocannl.lang.core.literals import (
    Constant,
    Function,
    HostArray,
    array_of,
    exact,
    is_literal,
    is_number,
    is_truth,
    nested,
    supported,
)
from ocannl.lang.core.operation import like_slot
from ocannl.lang.core.random import Distribution, Draw, Fanned, Sampling
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor, relying

Row = Sequence[Any] | None
Sizes = dict[str, Row]


def leaf(
    label: str,
    role: Role,
    kind: Precision | None,
    rows: Sizes,
    *,
    gradient: object = None,
    where: str = "",
    square: bool = False,
    cells: int | None = None,
    contents: Contents | None = None,
    has_gradient: bool = False,
    **more: Any,
) -> Tensor:
    """A tensor that no operation gives; without a `kind` its type is open."""
    made: Tensor
    typing = dtypes.leaf(kind, gradient=gradient, has_gradient=has_gradient)
    about = role, lambda: made.dims, lambda: typing.settle(relying)
    node = TNode(label, *about, contents=contents, where=where)

    def emit(t: Tensor) -> Shape:
        return Shape.leaf(t.provenance, role=role.value, square=square, cells=cells, **rows)

    made = Tensor(node, emit, typing.given_to(node), has_gradient=has_gradient, **more)
    return made


def name_of(label: object, at: Site) -> str:
    return at.name if label is None else checked_label(label)


def rows_of(
    batch: Row, input: Row, output: Row, b: Row, i: Row, o: Row, shape: str | None = None
) -> Sizes:
    """The three rows from long and short names, or from a text such as `32|28,28->10`."""
    rows: Sizes = {}
    for kind, long, short in zip(KINDS, (batch, input, output), (b, i, o), strict=True):
        if long is not None and short is not None:
            raise CodeError(f"the {kind} row is given twice, as `{kind}=` and as `{kind[0]}=`")
        rows[kind] = _row(kind, long if long is not None else short)
    if shape is None:
        return rows
    if any(row is not None for row in rows.values()):
        raise CodeError("`shape=` gives all rows at once; leave out the others")
    spec = parse_shape(shape)
    for kind, row in spec.rows:
        if row.var is not None or not all(isinstance(a, Fixed) for a in row.axes):
            raise CodeError(f"`shape=` holds sizes only, as in '32|784->128'; not {shape!r}")
        rows[kind] = [a.index for a in row.axes if isinstance(a, Fixed)]
    return rows


def _row(kind: str, row: Row) -> Row:
    if row is None or (isinstance(row, Sequence) and not isinstance(row, str)):
        return row
    raise CodeError(f"`{kind}=` takes a list of sizes, such as [{row!r}], or of (unit, size) pairs; not {row!r}")


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

    Shapes: of an array, the first `batch_axes` axes are batch, the last `input_axes` input, the rest output; of nested
    literals, a list is an output axis, a tuple an input axis, `oc.batch(...)` a batch axis; a number has no axes.
    With `shape="infer"` only the number of elements is a fact: how they divide into axes follows from use.
    Units: `units` names the axes of an array, in its own order; of a literal, those of the array that it makes (batch,
    output, input); of a number, which has no axes, one output axis of size 1.
    Raises: DataError for ragged, mixed or empty literals; DtypeError for elements that are not real numbers.
    """
    at = site()
    name = name_of(label, at)
    if isinstance(data, Tensor):
        raise CodeError(f"`{data.label}` is a tensor already")
    if is_truth(data):
        raise _truth()
    if is_number(data) and units:
        data = [data]  # an axis of size 1 carries the unit
    if is_number(data) and grad:
        return param(name or "tensor", data, batch=[], input=[], output=[], dtype=dtype)
    if is_number(data):
        return _number(data, label=name, kind=None if dtype is None else precision(dtype), where=at.where)
    weak = is_literal(data)
    if weak:
        if batch_axes or input_axes:
            raise CodeError("the nesting of a literal tells its axes; `batch_axes` and `input_axes` are for arrays")
        array, rows = nested(data)
        array = array if dtype is None else array_of(array, dtype)
        sizes = _split(array, len(rows["batch"]), len(rows["input"]), units)
    else:
        array = array_of(data, dtype)
        sizes = _split(array, batch_axes, input_axes, units)
    if shape is not None:
        if shape != "infer" or batch_axes or input_axes or units is not None or grad:
            raise CodeError('`shape="infer"` stands alone: the axes of the data are then inferred from use')
        array, kind = _typed(array, weak and dtype is None)
        infer: Sizes = {"batch": None, "input": None, "output": None}
        held = HostArray(array.reshape(-1).copy())
        title = name or "data"
        return leaf(title, Role.DATA, kind, infer, where=at.where, contents=held, cells=array.size, named=bool(name))
    if grad:
        given = data if weak else array if dtype is not None else _floating(array)
        batch, input, output = (sizes[kind] for kind in KINDS)
        return param(name or "tensor", given, batch=batch, input=input, output=output, dtype=dtype)
    array, kind = _typed(array, weak and dtype is None)
    # the array may be in use elsewhere: what is constant must not change under us
    contents = HostArray(array if isinstance(data, np.memmap) or weak else array.copy())
    return leaf(name or "data", Role.DATA, kind, sizes, where=at.where, contents=contents, named=bool(name))


def from_file(path: object, dtype: object, *, label: str | None = None) -> Tensor:
    """The numbers in a file, as they lie there, not read before they are needed: their count is a fact, their axes are
    inferred.

    Raises: DataError when the file is not there, or does not hold whole numbers of the type.
    """
    at = site()
    kind = precision(dtype)
    try:
        array = np.memmap(os.fspath(path), kind.numpy, "r")  # type: ignore[call-overload]
    except (OSError, TypeError, ValueError) as wrong:
        raise DataError(f"{path!r} cannot be read as {kind}: {wrong}") from None
    name = name_of(label, at)
    rows: Sizes = {"batch": None, "input": None, "output": None}
    held = HostArray(array)
    title = name or "data"
    return leaf(title, Role.DATA, kind, rows, where=at.where, contents=held, cells=array.size, named=bool(name))


def _typed(array: Any, is_weak: bool) -> tuple[Any, Precision | None]:
    """The array, and its type; that of a weak one is open."""
    return (array, None) if is_weak else supported(array)


def _floating(array: Any) -> Any:
    return array if array.dtype.kind not in "iub" else array.astype(float32.numpy)


def _split(array: Any, batch_axes: int, input_axes: int, units: Sequence[str | None] | None) -> Sizes:
    for name, n in (("batch_axes", batch_axes), ("input_axes", input_axes)):
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise CodeError(f"`{name}` is a number of axes, not {n!r}")
    if batch_axes + input_axes > array.ndim:
        raise DataError(
            f"{batch_axes} batch and {input_axes} input axes are asked of an array of {array.ndim} axes, {array.shape}"
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


def _number(value: Any, *, label: str = "", kind: Precision | None = None, where: str = "") -> Tensor:
    number = exact(value)
    return leaf(
        label or f"{number:g}",
        Role.RESULT,
        kind,
        {"batch": [], "input": [], "output": []},
        where=where,
        literal=lambda: Number(number),
        named=bool(label),
    )


def _truth() -> DtypeError:
    return DtypeError("True and False are not numbers here; write 1.0 and 0.0, or give an array of bools")


def embed(value: object) -> Tensor:
    """What may stand in an expression beside tensors: numbers, symbols, captured sizes, arrays."""
    if isinstance(value, Tensor):
        return value
    scalar: Sizes = {"batch": [], "input": [], "output": []}
    if isinstance(value, Symbol):
        literal = Index(Affine.of(value))
        kind = int32 if -(2**31) <= value.lo <= value.hi < 2**31 else int64
        return leaf(value.name, Role.RESULT, kind, scalar, literal=lambda: literal)
    if isinstance(value, Dim):
        return leaf(value.name, Role.RESULT, float32, scalar, literal=lambda: Number(value.number()))
    if is_truth(value):
        raise _truth()
    if is_number(value):
        return _number(value, kind=float32 if isinstance(value, float) else int32)
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return tensor(value)
    if isinstance(value, TNode):
        raise CodeError(f"`{value.label}` is a node; in expressions the tensor itself stands for its value")
    if isinstance(value, list | tuple):
        raise CodeError(f"a literal takes part in expressions as oc.tensor({value!r})"[:200])
    raise CodeError(f"{value!r} cannot take part in an expression of tensors"[:200])


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

    Positional: a text is the label, anything else the initial value, which is a number (everywhere), a nested literal
    or an array (exact values and shape), an initializer, or a tensor expression. The default is uniform in
    [-0.25, 0.25).
    Shapes: rows left out are inferred from use; the batch row is empty unless given.
    """
    if label is not None and not isinstance(label, str):
        if init is not None:
            raise CodeError(f"oc.param takes a label and an initial value; the label is a text, not {label!r}")
        label, init = None, label
    at = site()
    rows = rows_of(batch, input, output, b, i, o, shape)
    kind = None if dtype is None else precision(dtype)
    contents: Contents | None = None
    initial: Any = None
    if init is None:
        contents = Draw(Distribution(-0.25, 0.25))
    elif is_truth(init):
        raise _truth()
    elif is_number(init):
        initial = float(exact(init))
    elif isinstance(init, Tensor) and (filling := _filling(init)) is not None:
        contents = filling  # an initializer by itself: drawn straight into the parameter
    elif isinstance(init, Tensor):
        initial = init
        is_said = kind is None and init.typing.is_float and not init.typing.is_default
        kind = init.typing.known if is_said else kind
    elif callable(init):
        name = blocks.called(init, "lambda")
        raise CodeError(f"`{name}` is no initial value; call initializers, oc.uniform(); wrap functions, oc.init(fn)")
    else:
        who = Provenance(name_of(label, at) or "param", where=at.where)
        contents, rows, kind = _exact(init, rows, kind, who)
    if kind is not None and not kind.is_float:
        raise DtypeError(f"a parameter has a gradient and so a float type, not {kind}; convert, or give `dtype=`")
    if rows["batch"] is None:
        rows["batch"] = []
    name = name_of(label, at)
    recalled = blocks.recall(name or "param")
    if recalled is not None:
        _meet(recalled, rows, at, None if dtype is None else kind)
        return recalled
    made = leaf(
        name or "param",
        Role.PARAMETER,
        kind,
        rows,
        where=at.where,
        gradient=grad_dtype,
        square=square,
        contents=contents,
        initial=initial,
        has_gradient=differentiable.get(),
        named=bool(name),
    )
    for drawn in [contents, *_contents_of(initial)]:
        if isinstance(drawn, Draw) and isinstance(drawn.distribution, Fanned):
            drawn.distribution.bind(made)
    if isinstance(initial, Tensor):
        text = lambda: f"{made.label} = {initial.provenance.expression}"  # noqa: E731
        copy = Provenance(lambda: made.label, "result", text, at.where)
        relate(pointwise(1), [initial.emit()], made.emit(), copy)
    blocks.own(name or "param", made)
    return made


def _meet(p: Tensor, rows: Sizes, at: Site, kind: Precision | None) -> None:
    """A parameter that is met again is as it was: what is said of it here must be true of it."""
    if kind is not None and kind is not p.typing.settle(relying):
        raise DtypeError(f"`{p.label}` is of type {p.dtype} since its block was first applied, and is asked as {kind}")
    for name, row, known in zip(KINDS, rows.values(), map(resolve, p.handle.rows), strict=True):
        if row is None or known.var is not None:
            continue
        asked = [size[1] if isinstance(size, tuple) else size for size in row]
        held = [axis.size if isinstance(size, int) else size for axis, size in zip(known.axes, asked, strict=False)]
        if len(asked) != len(known.axes) or any(h not in (None, a) for h, a in zip(held, asked, strict=True)):
            sizes = [axis.size for axis in known.axes]
            first = f"`{p.label}` has the {name} sizes {sizes} since its block was first applied"
            problem = f"{first}, and is asked with {asked}"
            raise refuse(problem, p.provenance, "configure another block for other sizes: it has parameters of its own")


def _filling(init: Tensor) -> Contents | None:
    """What an initializer fills a parameter with, whatever the initializer's own shape is."""
    if init.application is None:
        return init.node.contents if isinstance(init.node.contents, Draw | Function) else None
    operation = init.application.operation
    return operation.contents if isinstance(operation, Sampling) else None


def _contents_of(initial: object) -> list[Contents | None]:
    return [t.node.contents for t in graph.ancestors([initial])] if isinstance(initial, Tensor) else []


def _exact(
    init: object, rows: Sizes, kind: Precision | None, who: Provenance
) -> tuple[Contents, Sizes, Precision | None]:
    """Initial values given cell by cell: they are a fact about the shape too."""
    if is_literal(init):
        array, given = nested(init)
    else:
        array = array_of(init, kind)
        array, kind = supported(array)
        axes = [len(r) if r is not None else None for r in rows.values()]
        n_batch, n_input = axes[0] or 0, axes[1] or 0
        given = _split(array, n_batch, n_input, None)  # type: ignore[assignment]
    for name, row in rows.items():
        told = given[name]  # type: ignore[index]
        if row is not None and [s[1] if isinstance(s, tuple) else s for s in row] != list(told):
            value = f"the initial value of `{who.label}` has the {name} sizes {list(told)}"
            problem = f"{value}, but {name}={list(row)} is given"
            raise refuse(problem, who, "give a value of these sizes, or leave the sizes to the value")
    named: Sizes = {name: row if row is not None else given[name] for name, row in rows.items()}  # type: ignore[index]
    return HostArray(array.copy()), named, kind


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

    Shapes: rows left out are inferred from use.
    """
    at = site()
    rows = rows_of(batch, input, output, b, i, o, shape)
    kind = None if dtype is None else precision(dtype)
    name = name_of(label, at)
    return leaf(name or "placeholder", Role.PLACEHOLDER, kind, rows, where=at.where, square=square, named=bool(name))


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
    """A node of code, kept between calls; what its code reads before writing it starts as `init`, once per context.

    Shapes: without any row, inferred from use; a node that is given some rows has exactly these.

    In the rules of `oc.defop`, `slot=v1` makes a node like that argument, which lives while the rule's code runs.
    """
    at = site()
    if slot is not None:
        return cast("Tensor", like_slot(name_of(label, at) or "node", slot))
    kind = None if dtype is None else precision(dtype)
    rows = rows_of(batch, input, output, None, None, None)
    if any(row is not None for row in rows.values()):
        rows = {name: [] if row is None else row for name, row in rows.items()}
    if not is_number(init):
        raise DtypeError(f"oc.node starts as a number, not as {init!r}")
    start = Constant(exact(init))
    name = name_of(label, at)
    return leaf(name or "node", Role.STATE, kind, rows, where=at.where, contents=start, named=bool(name))


def companion(label: str, of: Tensor, kind: Precision) -> Tensor:
    """A node of code, at first 0, that goes with a tensor and has its shape."""
    typing = dtypes.leaf(kind)
    about = Role.STATE, lambda: of.dims, lambda: typing.settle(relying)
    node = TNode(label, *about, contents=Constant(0), where=site().where)
    return Tensor(node, lambda _: of.emit(), typing.given_to(node))
