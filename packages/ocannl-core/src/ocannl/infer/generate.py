"""What one operation says about the shapes of its tensors: logic -> constraints between cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ocannl.infer.arithmetic import Product, Strided, Sum, attach
from ocannl.infer.broadcast import order_rows
from ocannl.infer.logic import Logic
from ocannl.infer.mismatch import Mismatch, Place
from ocannl.infer.spec import (
    KINDS,
    AxisSpec,
    Coef,
    Concat,
    Fixed,
    Label,
    Merged,
    RowSpec,
    ShapeSpec,
    Wild,
    Window,
    print_axis,
)
from ocannl.infer.terms import Dim, Fact, Owner, Provenance, Row, RowVar, find, resolve
from ocannl.infer.trail import Trail
from ocannl.infer.unify import equate, join, set_least, set_size
from ocannl.ir.index import Sym

if TYPE_CHECKING:
    from ocannl.infer.capture import Capture


class Relation:
    """One operation, and what its names stand for."""

    __slots__ = ("at", "captures", "labels", "logic", "operands", "provenance", "result", "row_vars", "sizes")

    def __init__(self, logic: Logic, operands: tuple[Owner, ...], provenance: Provenance, sizes: Mapping[str, int]) -> None:
        self.logic = logic
        self.operands = operands
        self.provenance = provenance
        self.sizes = sizes
        self.result: Owner | None = None
        self.captures: tuple[Capture, ...] = ()
        self.labels: dict[str, Dim] = {}
        self.row_vars: dict[str, Row] = {}
        self.at: dict[str, Place] = {}

    @property
    def owners(self) -> tuple[Owner, ...]:
        return self.operands if self.result is None else (*self.operands, self.result)

    def coefficient(self, value: Coef) -> int:
        if isinstance(value, int):
            return value
        if value not in self.sizes:
            raise Mismatch(
                f"the coefficient `{value}` has no value", cause=self, fix=f"pass {value}=... with the operation"
            )
        return self.sizes[value]


def emit(trail: Trail, it: Relation, result: Owner | None, new_result: Callable[[tuple[Row, Row, Row]], Owner]) -> Owner:
    """Emit everything an operation says; a result that does not exist yet is made of the rows that the spec gives it."""
    spec = it.logic.spec
    if it.logic.asks:
        for owner in it.operands:
            ask(trail, owner)
    for owner, shape, stretched in zip(it.operands, spec.operands, it.logic.stretched, strict=True):
        for kind, (_, row), stretch, actual in zip(KINDS, shape.rows, stretched, owner.rows, strict=True):
            if not stretch:
                match_row(trail, it, row, actual, Place(owner, kind))
    if result is None:
        result = it.result = new_result(_rows(trail, it, spec.result))
        for kind, (_, row) in zip(KINDS, spec.result.rows, strict=True):
            if row.var is not None and row.var not in it.at:
                it.at[row.var] = Place(result, kind, True)
    else:
        it.result = result
        for kind, (_, row), actual in zip(KINDS, spec.result.rows, result.rows, strict=True):
            match_row(trail, it, row, actual, Place(result, kind, True))
    for owner, shape, stretched in zip(it.operands, spec.operands, it.logic.stretched, strict=True):
        for kind, (_, row), stretch, actual in zip(KINDS, shape.rows, stretched, owner.rows, strict=True):
            if stretch:
                at = it.at.get(row.var) if row.var is not None else None
                order_rows(trail, new_row(trail, it, row), actual, at, Place(owner, kind))
    return result


def ask(trail: Trail, owner: Owner) -> None:
    """The axes of an operand mean something to the operation."""
    for row in map(resolve, owner.rows):
        if row.var is not None and not row.count and not row.var.asked:
            trail.set(row.var, "asked", True)
        for axis in map(find, row.axes):
            if axis.size is None and not axis.asked:
                trail.set(axis, "asked", True)


def _rows(trail: Trail, it: Relation, shape: ShapeSpec) -> tuple[Row, Row, Row]:
    batch, input, output = (new_row(trail, it, row, fresh=True) for _, row in shape.rows)
    return batch, input, output


def match_row(trail: Trail, it: Relation, row: RowSpec, actual: Row, at: Place) -> None:
    """The actual row is what the spec says; names that appear for the first time come to mean its axes."""
    actual = resolve(actual)
    front, back = len(row.lead), len(row.trail)
    is_first = row.var is not None and row.var not in it.row_vars
    if actual.var is None:
        fits = actual.count >= front + back if is_first else row.var is None and actual.count == front + back
    else:
        fits = is_first and len(actual.lead) >= front and len(actual.trail) >= back
    if not fits:
        equate(trail, new_row(trail, it, row), actual, it.at.get(row.var or ""), at)
        return
    axes = actual.axes
    for axis, cell in zip(row.lead, axes, strict=False):
        match_axis(trail, it, axis, cell)
    for axis, cell in zip(row.trail, axes[len(axes) - back :], strict=True):
        match_axis(trail, it, axis, cell)
    if row.var is not None:
        it.at[row.var] = at
        if not front and not back:
            it.row_vars[row.var] = actual
        elif actual.var is None:
            gap = min(max(len(actual.lead), front), len(axes) - back)
            it.row_vars[row.var] = Row(axes[front:gap], None, axes[gap : len(axes) - back])
        else:
            it.row_vars[row.var] = Row(actual.lead[front:], actual.var, actual.trail[: len(actual.trail) - back])


def match_axis(trail: Trail, it: Relation, axis: AxisSpec, cell: Dim) -> None:
    """The axis of the tensor is what the spec says."""
    match axis:
        case Label(name):
            known = it.labels.get(name)
            if known is None:
                it.labels[name] = cell
                give_size(trail, it, name, cell)
            elif known is not cell:
                join(trail, known, cell)
        case Fixed(index):
            set_least(trail, cell, (index.hi if isinstance(index, Sym) else index) + 1)
        case Wild(): pass
        case _: add_law(trail, it, axis, cell)


def new_row(trail: Trail, it: Relation, row: RowSpec, *, fresh: bool = False) -> Row:
    """The row that the spec says; `fresh` if it is that of a result which the operation makes."""
    if row.var is None:
        middle = None
    else:
        middle = it.row_vars.get(row.var)
        if middle is None:
            middle = it.row_vars[row.var] = Row((), RowVar(), ())
        if not row.lead and not row.trail:
            return middle
    lead = tuple(new_axis(trail, it, axis, fresh) for axis in row.lead)
    trail_ = tuple(new_axis(trail, it, axis, fresh) for axis in row.trail)
    if middle is None:
        return Row(lead, None, trail_)
    middle = resolve(middle)
    return Row(lead + middle.lead, middle.var, middle.trail + trail_)


def new_axis(trail: Trail, it: Relation, axis: AxisSpec, fresh: bool) -> Dim:
    match axis:
        case Label(name): return label(trail, it, name)
        case Fixed(0) if fresh: return Dim(1, None, Fact(text=f"the axis `0` of `{it.logic.spec.text}`"))
        case _:
            cell = Dim()
            match_axis(trail, it, axis, cell)
            return cell


def label(trail: Trail, it: Relation, name: str) -> Dim:
    """The axis that a name stands for."""
    cell = it.labels.get(name)
    if cell is None:
        cell = it.labels[name] = Dim()
        give_size(trail, it, name, cell)
    return cell


def give_size(trail: Trail, it: Relation, name: str, cell: Dim) -> None:
    if name in it.sizes:
        size = it.sizes[name]
        set_size(trail, cell, size, Fact(text=f"{name}={size} of `{it.provenance.expression}`"))


def add_law(trail: Trail, it: Relation, axis: Window | Concat | Merged, cell: Dim) -> None:
    text = print_axis(axis)
    match axis:
        case Window(stride, over, padding, offset, dilation, kernel):
            taps = None if kernel is None else label(trail, it, kernel)
            attach(trail, Strided(
                cell, label(trail, it, over), taps, stride=it.coefficient(stride), offset=offset,
                dilation=it.coefficient(dilation), padding=padding, text=text, cause=it,
            ))  # fmt: skip
        case Concat(parts):
            named = tuple(label(trail, it, part.name) for part in parts if isinstance(part, Label))
            constant = sum(part for part in parts if isinstance(part, int))
            attach(trail, Sum(cell, named, constant=constant, text=text, cause=it))
        case Merged(parts):
            cells = tuple(label(trail, it, part.name) for part in parts)
            attach(trail, Product(cell, cells, text=text, cause=it))
