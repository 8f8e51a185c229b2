"""What one operation says about the shapes of its tensors: logic -> constraints between cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ocannl.infer.arithmetic import Product, Strided, Sum, attach
from ocannl.infer.broadcast import order_rows
from ocannl.infer.relation import Relation
from ocannl.infer.results import broadcast_rows
from ocannl.infer.spec import (
    AxisSpec,
    Concat,
    Fixed,
    Label,
    Merged,
    Padding,
    RowSpec,
    Wild,
    Window,
    axis_labels,
    print_axis,
    print_row_var,
)
from ocannl.infer.terms import Dim, Fact, Owner, Row, RowVar, find, resolve
from ocannl.infer.totals import Total
from ocannl.infer.trail import Trail
from ocannl.infer.unify import equate, join, set_least, set_size, strip
from ocannl.ir.index import Sym

Rows = tuple[Row, Row, Row]


def emit(trail: Trail, it: Relation, result: Owner | None, make: Callable[[Rows], Owner]) -> Owner:
    """Emits all an operation says.

    A result that does not exist yet is made of the rows that the spec gives it; where these stand for rows that are
    stretched, it is exactly their broadcast. A result that exists bounds its operands: they are stretched to it.
    """
    logic, operands = it.logic, it.operands
    if logic.asks:
        for operand in operands:
            if operand.is_param and not operand.asked:
                trail.set(operand, "asked", True)
        for slot, _, meets, _ in (*logic.equal, *logic.stretch):
            if meets:
                ask(trail, operands[slot // 3].rows[slot % 3])
    for slot, row, _, _ in logic.equal:
        match_row(trail, it, row, operands[slot // 3].rows[slot % 3], slot)
    is_new = result is None
    if result is None:
        broadcast_operands(trail, it)
        batch, input, output = [new_row(trail, it, use.spec, True) for use in logic.result]
        result = it.result = make((batch, input, output))
    else:
        it.result = result
        for slot, row, _, _ in logic.result:
            match_row(trail, it, row, result.rows[slot % 3], slot)
    for slot, row, _, inner in logic.stretch:
        if inner or not is_new:
            order_rows(trail, new_row(trail, it, row), operands[slot // 3].rows[slot % 3], slot, inner)
    for name in it.sizes:
        if name in it.row_vars:
            count_row(trail, it, name)
    return result


def broadcast_operands(trail: Trail, it: Relation) -> None:
    """Row variables that stand for nothing but rows of operands that are stretched are the broadcast of these."""
    stretched: dict[str, list[tuple[Row, int]]] = {}
    for slot, row, _, inner in it.logic.stretch:
        if row.var is not None and not inner:
            inner_row = variable_part(trail, it, row, it.operands[slot // 3].rows[slot % 3], slot)
            stretched.setdefault(row.var, []).append((inner_row, slot))
    for var, rows in stretched.items():
        it.row_vars[var] = broadcast_rows(trail, rows)


def variable_part(trail: Trail, it: Relation, row: RowSpec, actual: Row, slot: int) -> Row:
    """The axes of an actual row that a row variable stands for; those written beside the variable are matched."""
    if not row.axes:
        return actual
    lead = tuple([new_axis(trail, it, axis, False) for axis in row.lead])
    behind = tuple([new_axis(trail, it, axis, False) for axis in row.trail])
    middle = RowVar()
    equate(trail, Row(lead, middle, behind), actual, slot)
    return middle


def ask(trail: Trail, row: Row) -> None:
    """Operands meet along this row: whatever its axes come from must be told them."""
    row = resolve(row)
    if row.var is not None and not row.var.asked:
        trail.set(row.var, "asked", True)
    for axis in map(find, row.axes):
        if axis.size is None and not axis.asked:
            trail.set(axis, "asked", True)


# --- rows -----------------------------------------------------------------------------------------------------------


def match_row(trail: Trail, it: Relation, row: RowSpec, actual: Row, slot: int) -> None:
    """The actual row is what the spec says; names that appear for the first time come to mean its axes."""
    actual = resolve(actual)
    front, back = len(row.lead), len(row.trail)
    is_first = row.var is not None and row.var not in it.row_vars
    if actual.var is None:
        fits = actual.count >= front + back if is_first else row.var is None and actual.count == front + back
    else:
        fits = is_first and len(actual.lead) >= front and len(actual.trail) >= back
    if not fits:
        equate(trail, new_row(trail, it, row), actual, slot)
        return
    axes = actual.axes
    stop = len(axes) - back
    for axis, cell in zip(row.lead, axes, strict=False):
        match_axis(trail, it, axis, cell)
    for axis, cell in zip(row.trail, axes[stop:], strict=True):
        match_axis(trail, it, axis, cell)
    if row.var is not None:
        it.row_vars[row.var] = strip(actual, front, back)


def new_row(trail: Trail, it: Relation, row: RowSpec, fresh: bool = False) -> Row:
    """The row that the spec says; `fresh` if it is that of a result which the operation makes."""
    middle = None
    if row.var is not None:
        middle = it.row_vars.get(row.var)
        if middle is None:
            middle = it.row_vars[row.var] = RowVar()
        if not row.lead and not row.trail:
            return middle
        middle = resolve(middle)
    lead = tuple([new_axis(trail, it, axis, fresh) for axis in row.lead])
    behind = tuple([new_axis(trail, it, axis, fresh) for axis in row.trail])
    return Row(lead, None, behind) if middle is None else Row(lead + middle.lead, middle.var, middle.trail + behind)


def count_row(trail: Trail, it: Relation, name: str) -> None:
    """The number that was given for a row variable is the product of its sizes."""
    size = it.sizes[name]
    word = name.removeprefix("...")
    whole = Dim(size, None, Fact(text=f"`{word}`, given as {word}={size},"))
    trail.queue.append(Total(whole, (it.row_vars[name],), text=f"`{print_row_var(name)}`", cause=it))


# --- axes -----------------------------------------------------------------------------------------------------------


def match_axis(trail: Trail, it: Relation, axis: AxisSpec, cell: Dim) -> None:
    """The axis of the tensor is what the spec says."""
    match axis:
        case Label(name):
            known = it.labels.get(name)
            if known is None:
                name_axis(trail, it, name, cell)
            elif known is not cell:
                join(trail, known, cell)
        case Fixed(index): set_least(trail, cell, (index.hi if isinstance(index, Sym) else index) + 1)
        case Wild(): pass
        case _: add_law(trail, it, axis, cell)


def new_axis(trail: Trail, it: Relation, axis: AxisSpec, fresh: bool) -> Dim:
    """The axis that the spec says; that of a new result has no cells beyond those that are written."""
    match axis:
        case Label(name): return label(trail, it, name)
        case Fixed(index) if fresh:
            last = index.hi if isinstance(index, Sym) else index
            return Dim(last + 1, None, Fact(text=f"the axis `{print_axis(axis)}` of {it.logic}"))
        case Window(padding=Padding.UNSTATED) if fresh and axis.kernel is not None:
            cell = Dim()
            add_law(trail, it, replace(axis, padding=Padding.VALID), cell, print_axis(axis))
            return cell
        case _:
            cell = Dim()
            match_axis(trail, it, axis, cell)
            return cell


def label(trail: Trail, it: Relation, name: str) -> Dim:
    """The axis that a name stands for."""
    return it.labels.get(name) or name_axis(trail, it, name, Dim())


def name_axis(trail: Trail, it: Relation, name: str, cell: Dim) -> Dim:
    """From now on the name stands for this axis; its size may have been given."""
    it.labels[name] = cell
    if name in it.sizes:
        size = it.sizes[name]
        set_size(trail, cell, size, Fact(text=f"`{name}`, given as {name}={size},"))
    return cell


def add_law(trail: Trail, it: Relation, axis: Window | Concat | Merged, cell: Dim, written: str = "") -> None:
    text = written or print_axis(axis) if it.logic.name == "einsum" else it.provenance.expression
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
            spare, waits = spare_parts(it, axis), not it.captured.isdisjoint(axis_labels(axis))
            attach(trail, Sum(cell, named, constant=constant, spare=spare, waits=waits, text=text, cause=it))
        case Merged(parts):
            cells = tuple(label(trail, it, part.name) for part in parts)
            attach(trail, Product(cell, cells, text=text, cause=it))


def spare_parts(it: Relation, axis: Concat) -> tuple[Dim, ...]:
    """The parts of a concatenation that the spec mentions nowhere else."""
    everywhere = Counter(
        name for shape in it.logic.spec.shapes for _, row in shape.rows for a in row.axes for name in axis_labels(a)
    )
    return tuple(it.labels[name] for name in axis_labels(axis) if everywhere[name] == 1)
