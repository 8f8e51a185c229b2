"""Constraint generation: the logic of an operation -> constraints between the axes and rows of its tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ocannl.infer.broadcast import order_rows
from ocannl.infer.broadcast_results import broadcast_rows
from ocannl.infer.cell_count import CellCount
from ocannl.infer.operation_node import Relation
from ocannl.infer.size_equations import Product, Strided, Sum, attach
from ocannl.infer.spec import (
    AxisSpec,
    Concat,
    Fixed,
    Label,
    Margins,
    Merged,
    Padding,
    RowSpec,
    Wild,
    Window,
    axis_labels,
    print_axis,
    print_row_var,
)
from ocannl.infer.terms import DimVar, Evidence, Owner, Row, RowVar, Trail, find, resolve
from ocannl.infer.unify import equate, join, set_min_size, set_size, strip
from ocannl.ir.affine import Sym

Rows = tuple[Row, Row, Row]


def emit(trail: Trail, relation: Relation, result: Owner | None, make_result: Callable[[Rows], Owner]) -> Owner:
    """Emits the constraints of an operation, and returns its result.

    A new result consists of the rows of the spec, with row variables of stretched rows bound to the broadcast of the
    operands. An existing result bounds its operands, which are stretched to it.
    """
    logic, operands = relation.logic, relation.operands
    relation.result = result
    if logic.needs_axes:
        for operand in operands:
            if operand.is_param and not operand.is_required:
                trail.set(operand, "is_required", True)
        for slot, _, meets, _ in (*logic.equal, *logic.stretch):
            if meets:
                mark_required(trail, operands[slot // 3].rows[slot % 3])
    for slot, row, _, _ in logic.equal:
        match_row(trail, relation, row, operands[slot // 3].rows[slot % 3], slot)
    is_new = result is None
    if result is None:
        broadcast_operands(trail, relation)
        batch, input, output = [new_row(trail, relation, use.spec, True) for use in logic.result]
        result = relation.result = make_result((batch, input, output))
    else:
        for slot, row, _, _ in logic.result:
            match_row(trail, relation, row, result.rows[slot % 3], slot)
    for slot, row, _, inner in logic.stretch:
        if inner or not is_new:
            order_rows(trail, new_row(trail, relation, row), operands[slot // 3].rows[slot % 3], slot, inner)
    for name in relation.sizes:
        if name in relation.row_vars:
            constrain_row_product(trail, relation, name)
    return result


def broadcast_operands(trail: Trail, relation: Relation) -> None:
    """Binds row variables of stretched operand rows to the broadcast of these rows."""
    stretched: dict[str, list[tuple[Row, int]]] = {}
    for slot, row, _, inner in relation.logic.stretch:
        if row.var is not None and not inner:
            inner_row = variable_part(trail, relation, row, relation.operands[slot // 3].rows[slot % 3], slot)
            stretched.setdefault(row.var, []).append((inner_row, slot))
    for var, rows in stretched.items():
        relation.row_vars[var] = broadcast_rows(trail, rows)


def variable_part(trail: Trail, relation: Relation, row: RowSpec, actual: Row, slot: int) -> Row:
    """Returns the part of an actual row bound to the row variable, and matches the axes written beside it."""
    if not row.axes:
        return actual
    lead = tuple([new_axis(trail, relation, axis, False) for axis in row.lead])
    behind = tuple([new_axis(trail, relation, axis, False) for axis in row.trail])
    middle = RowVar()
    equate(trail, Row(lead, middle, behind), actual, slot)
    return middle


def mark_required(trail: Trail, row: Row) -> None:
    """Marks a row along which operands meet: parameters its axes come from need inferred sizes."""
    row = resolve(row)
    if row.var is not None and not row.var.is_required:
        trail.set(row.var, "is_required", True)
    for axis in map(find, row.axes):
        if axis.size is None and not axis.is_required:
            trail.set(axis, "is_required", True)


# --- rows -----------------------------------------------------------------------------------------------------------


def match_row(trail: Trail, relation: Relation, row: RowSpec, actual: Row, slot: int) -> None:
    """Matches an actual row with its spec; names that occur for the first time are bound to its axes."""
    actual = resolve(actual)
    front, back = len(row.lead), len(row.trail)
    is_first = row.var is not None and row.var not in relation.row_vars
    if actual.var is None:
        fits = actual.count >= front + back if is_first else row.var is None and actual.count == front + back
    else:
        fits = is_first and len(actual.lead) >= front and len(actual.trail) >= back
    if not fits:
        equate(trail, new_row(trail, relation, row), actual, slot)
        return
    axes = actual.axes
    stop = len(axes) - back
    for axis, cell in zip(row.lead, axes, strict=False):
        match_axis(trail, relation, axis, cell)
    for axis, cell in zip(row.trail, axes[stop:], strict=True):
        match_axis(trail, relation, axis, cell)
    if row.var is not None:
        relation.row_vars[row.var] = strip(actual, front, back)


def new_row(trail: Trail, relation: Relation, row: RowSpec, fresh: bool = False) -> Row:
    """Creates the row of a spec; `fresh` for a row of a new result."""
    middle = None
    if row.var is not None:
        middle = relation.row_vars.get(row.var)
        if middle is None:
            middle = relation.row_vars[row.var] = RowVar()
        if not row.lead and not row.trail:
            return middle
        middle = resolve(middle)
    lead = tuple([new_axis(trail, relation, axis, fresh) for axis in row.lead])
    behind = tuple([new_axis(trail, relation, axis, fresh) for axis in row.trail])
    return Row(lead, None, behind) if middle is None else Row(lead + middle.lead, middle.var, middle.trail + behind)


def constrain_row_product(trail: Trail, relation: Relation, name: str) -> None:
    """Constrains the product of a row variable's sizes to the number passed for its name."""
    size = relation.sizes[name]
    keyword = name.removeprefix("...")
    total = DimVar(size, None, Evidence(text=f"`{keyword}`, given as {keyword}={size},"))
    trail.queue.append(CellCount(total, (relation.row_vars[name],), text=f"`{print_row_var(name)}`", cause=relation))


# --- axes -----------------------------------------------------------------------------------------------------------


def match_axis(trail: Trail, relation: Relation, axis: AxisSpec, cell: DimVar) -> None:
    """Matches an axis of a tensor with its spec."""
    match axis:
        case Label(name):
            bound = relation.labels.get(name)
            if bound is None:
                name_axis(trail, relation, name, cell)
            elif bound is not cell:
                join(trail, bound, cell)
        case Fixed(index): set_min_size(trail, cell, (index.hi if isinstance(index, Sym) else index) + 1)
        case Wild(): pass
        case _: add_size_equation(trail, relation, axis, cell)


def new_axis(trail: Trail, relation: Relation, axis: AxisSpec, fresh: bool) -> DimVar:
    """Creates the axis of a spec; an axis of a new result ends at the last cell written."""
    match axis:
        case Label(name): return label_axis(trail, relation, name)
        case Fixed(index) if fresh:
            last = index.hi if isinstance(index, Sym) else index
            return DimVar(last + 1, None, Evidence(text=f"the axis `{print_axis(axis)}` of {relation.logic}"))
        case Window(padding=Padding.UNSTATED) if fresh and axis.kernel is not None:
            cell = DimVar()
            add_size_equation(trail, relation, replace(axis, padding=Padding.VALID), cell, print_axis(axis))
            return cell
        case Window(padding=Margins()) if fresh:
            cell = DimVar()
            add_size_equation(trail, relation, axis, cell, is_shortest=True)
            return cell
        case _:
            cell = DimVar()
            match_axis(trail, relation, axis, cell)
            return cell


def label_axis(trail: Trail, relation: Relation, name: str) -> DimVar:
    """Axis bound to a name."""
    return relation.labels.get(name) or name_axis(trail, relation, name, DimVar())


def name_axis(trail: Trail, relation: Relation, name: str, cell: DimVar) -> DimVar:
    """Binds a name to an axis, and sets the size passed for the name, if any."""
    relation.labels[name] = cell
    if name in relation.sizes:
        size = relation.sizes[name]
        set_size(trail, cell, size, Evidence(text=f"`{name}`, given as {name}={size},"))
    return cell


def add_size_equation(
    trail: Trail, relation: Relation, axis: Window | Concat | Merged, cell: DimVar, written: str = "",
    *, is_shortest: bool = False,
) -> None:  # fmt: skip
    """Adds the size equation of a compound axis; `written` overrides its text, `is_shortest` is that of `Strided`."""
    text = written or print_axis(axis) if relation.logic.name == "einsum" else relation.provenance.expression
    match axis:
        case Window(stride, over, padding, offset, dilation, kernel):
            taps = None if kernel is None else label_axis(trail, relation, kernel)
            attach(trail, Strided(
                cell, label_axis(trail, relation, over), taps, stride=relation.coefficient(stride), offset=offset,
                dilation=relation.coefficient(dilation), padding=padding, is_shortest=is_shortest,
                text=text, cause=relation,
            ))  # fmt: skip
        case Concat(parts):
            named = tuple(label_axis(trail, relation, part.name) for part in parts if isinstance(part, Label))
            constant = sum(part for part in parts if isinstance(part, int))
            unused = unused_parts(relation, axis)
            for name in empty_parts(relation, axis, unused):
                evidence = Evidence(text=f"a part of `{text}`", decision="nothing needs it")
                set_size(trail, relation.labels[name], 0, evidence)
            cells = tuple(relation.labels[name] for name in unused)
            computed = tuple(relation.labels[name] for name in computed_parts(relation, axis))
            attach(trail, Sum(
                cell, named, constant=constant, unused=cells, computed=computed, text=text, cause=relation,
            ))  # fmt: skip
        case Merged(parts):
            cells = tuple(label_axis(trail, relation, part.name) for part in parts)
            attach(trail, Product(cell, cells, text=text, cause=relation))


def empty_parts(relation: Relation, axis: Concat, unused: Sequence[str]) -> Sequence[str]:
    """Parts of a concatenation that have size 0, whatever the sizes of operands: the unused parts, except for the first
    one if the operands, an existing result and the given sizes determine all other parts."""
    if not relation.captured.isdisjoint(axis_labels(axis)):
        return ()
    spec = relation.logic.spec
    rows = [row for shape in (spec.operands if relation.result is None else spec.shapes) for _, row in shape.rows]
    sized = {a.name for row in rows for a in row.axes if isinstance(a, Label)} | set(relation.sizes)
    unsized = [name for name in axis_labels(axis) if name not in sized]
    candidates = [name for name in unused if name in unsized]
    return candidates[len(candidates) == len(unsized) :]


def computed_parts(relation: Relation, axis: Concat) -> tuple[str, ...]:
    """Parts of a concatenation that are no axes of operands."""
    rows = [row for shape in relation.logic.spec.operands for _, row in shape.rows]
    given = {a.name for row in rows for a in row.axes if isinstance(a, Label)}
    return tuple(name for name in axis_labels(axis) if name not in given)


def unused_parts(relation: Relation, axis: Concat) -> tuple[str, ...]:
    """Parts of a concatenation that occur nowhere else in the spec."""
    rows = [row for shape in relation.logic.spec.shapes for _, row in shape.rows]
    occurrences = Counter(name for row in rows for axis_spec in row.axes for name in axis_labels(axis_spec))
    return tuple(name for name in axis_labels(axis) if occurrences[name] == 1)
