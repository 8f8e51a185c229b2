"""Defaults for row variables: the number of axes."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.infer.broadcast import Order
from ocannl.infer.cell_count import CellCount
from ocannl.infer.defaults import Default, OwnerRow, RowDefault, Undecided, refuse_unconstrained, refuse_unsized
from ocannl.infer.leaf_growth import Growth, above, below, undecided_equals
from ocannl.infer.spec import KINDS
from ocannl.infer.terms import EMPTY, MAX_AXES, DimVar, Evidence, Row, RowVar, find, fresh, resolve
from ocannl.infer.unify import Equal


def grow_leaves(undecided: Undecided) -> list[Default]:
    """Extends rows of leaves to the rank of their direct and indirect uses.

    A leaf whose growth would lengthen its own uses grows only as far as it lengthens none; leaves that share a use with
    it grow to this use. Leaves that would lengthen the uses of each other in turn all grow so.
    """
    leaves = [var for var in undecided.row_vars if var.leaf is not None]
    if not leaves:
        return []
    growth = Growth(undecided.row_vars)
    if unbounded := growth.unbounded(leaves):
        stuck = {var for var in unbounded if Growth(undecided.row_vars, unbounded - {var}).of(var) > MAX_AXES}
        growth = Growth(undecided.row_vars, stuck)
        if mutual := growth.unbounded(leaves):
            growth = Growth(undecided.row_vars, stuck | mutual)
    defaults: list[Default] = []
    for var in leaves:
        count = growth.of(var)
        if 0 < count <= MAX_AXES:
            defaults.append(RowDefault(var, Row((), RowVar(depth=var.depth + count), fresh(count))))
    return defaults


def fill_counted(undecided: Undecided) -> list[Default]:
    """Adds the axis missing for a known number of cells, to the batch row if open, else to the output row."""
    defaults: dict[RowVar, Default] = {}
    for var in undecided.row_vars:
        for constraint in var.watchers or ():
            if isinstance(constraint, CellCount) and (missing := constraint.missing) not in (None, 1):
                remainder = constraint.remainder
                axis = DimVar(missing, None, Evidence(text=constraint.text))
                defaults[remainder] = RowDefault(remainder, Row((), None, (axis,)))
    return list(defaults.values())


def end_rows(undecided: Undecided) -> list[Default]:
    """Binds row variables to the empty row in dependence order: variables not stretched from open rows first, and among
    them those in undecided equalities."""
    refuse_unconstrained(unconstrained(undecided))
    for var in undecided.row_vars:
        if var in undecided.unsized:
            refuse_unsized(*undecided.unsized[var])
    dependent = dependent_vars(undecided.row_vars)
    ready = [var for var in undecided.row_vars if var not in dependent or len(dependent) == len(undecided.row_vars)]
    equal = [var for var in ready if any(True for _ in undecided_equals(var))]
    return [RowDefault(var, EMPTY) for var in equal or ready]


def dependent_vars(row_vars: list[RowVar]) -> set[RowVar]:
    """Variables stretched from an open row with axes whose alignment is undecided, transitively."""
    todo = [var for var in row_vars if any(opnd.var is not None and opnd.count for _, opnd in above(var))]
    dependent = set(todo)
    while todo:
        var = todo.pop()
        for row, _ in (*below(var), *((equal, var) for _, equal in undecided_equals(var))):
            if row.var is not None and row.var not in dependent:
                dependent.add(row.var)
                todo.append(row.var)
    return dependent


def overlap_rows(undecided: Undecided) -> list[Default]:
    """Extends rows that must be longer because their known ends cannot overlap."""
    defaults: list[Default] = []
    for constraint in dict.fromkeys(c for var in undecided.row_vars for c in var.watchers or ()):
        if isinstance(constraint, Equal) and constraint.a is not None:
            defaults += overlap(constraint.a, constraint.b)
        elif isinstance(constraint, Order) and constraint.res is not None:
            for res in forms(constraint.res):
                for opnd in forms(constraint.opnd):
                    defaults += insert_axes(res, opnd)
    return defaults


def forms(row: Row) -> list[Row]:
    """The row, and with the rows that undecided equalities give for the part around its variable."""
    row = resolve(row)
    rows = [row]
    for a, b in undecided_equals(row.var) if row.var is not None else ():
        split, skipped = len(row.lead) - len(a.lead), len(a.trail)
        inner = row.lead[max(split, 0) :] + row.trail[:skipped]  # the axes of `row` around its variable that `a` has
        if [*map(find, inner)] == [*map(find, a.axes)]:
            rows.append(Row(row.lead[:split] + b.lead, b.var, b.trail + row.trail[skipped:]))
    return rows


def insert_axes(res: Row, opnd: Row) -> list[Default]:
    """Inserts the fewest axes into each row without which the axes of `opnd` cannot be stretched to `res`."""
    if res.var is opnd.var or can_stretch(res.axes, opnd.axes):
        return []
    counts = [
        (n, m)
        for m in range(res.count + 1 if opnd.var is not None else 1)
        for n in range(opnd.count + m + 1 if res.var is not None else 1)
        if can_stretch((*res.lead, *fresh(n), *res.trail), (*opnd.lead, *fresh(m), *opnd.trail))
    ]
    defaults: list[Default] = []
    if counts:
        for var, count in zip((res.var, opnd.var), map(min, zip(*counts, strict=True)), strict=True):
            if var is not None and count:
                defaults.append(RowDefault(var, Row((), RowVar(depth=var.depth + count), fresh(count))))
    return defaults


def can_stretch(res: tuple[DimVar, ...], opnd: tuple[DimVar, ...]) -> bool:
    """False if known ranks, sizes or units rule out that the operand is stretched to the result."""
    if len(res) < len(opnd):
        return False
    aligned = res[len(res) - len(opnd) :]
    rigid = [(x, find(y)) for x, y in zip(aligned, opnd, strict=True) if find(y).is_rigid]
    return can_equal([x for x, _ in rigid], [y for _, y in rigid])


def overlap(a: Row, b: Row) -> list[Default]:
    """Overlaps the leading axes of one row with the trailing axes of an equal row as far as they can be equal."""
    a, b = resolve(a), resolve(b)
    if b.lead:
        a, b = b, a
    front, back = a.lead, b.trail
    common = len(front)
    if a.var is None or b.var is None or a.var is b.var or common != len(back):
        return []
    while not can_equal(front[len(front) - common :], back):
        common -= 1
    if common == len(front):
        return []
    before, after = Row(front[: len(front) - common], RowVar(), ()), Row((), RowVar(), back[common:])
    return [RowDefault(b.var, before), RowDefault(a.var, after)]


def can_equal(left_axes: Sequence[DimVar], right_axes: Sequence[DimVar]) -> bool:
    """False if known sizes, uses or units distinguish the axes of some pair."""
    sizes: dict[DimVar, int] = {}
    for a, b in zip(map(find, left_axes), map(find, right_axes), strict=False):
        if None not in (a.unit, b.unit) and a.unit != b.unit:
            return False
        distinct = {size for axis in (a, b) if (size := sizes.get(axis, axis.size)) is not None}
        if len(distinct) > 1:
            return False
        for size in distinct:
            if not (admits_size(a, size) and admits_size(b, size)):
                return False
            sizes[a] = sizes[b] = size
    return True


def admits_size(axis: DimVar, size: int) -> bool:
    """False if the size differs from 1 and from the size of the uses of the axis."""
    return size == 1 or axis.lower_bound in (None, size) or axis.size is not None


def unconstrained(undecided: Undecided) -> list[OwnerRow]:
    """Rows of parameters whose axes an operation requires but nothing constrains."""
    reached = [var for var in undecided.row_vars if var.must_be_known and not is_constrained(var)]
    required = set(reached)
    while reached:
        for _, opnd in above(reached.pop()):
            if opnd.var is not None and opnd.var not in required:
                required.add(opnd.var)
                reached.append(opnd.var)
    owner_rows: dict[OwnerRow, None] = {}
    for owner in undecided.owners:
        if owner.is_param:
            for kind, row in zip(KINDS, owner.rows, strict=True):
                var = resolve(row).var
                if var is not None and (owner.must_be_known or var in required) and not is_constrained(var):
                    owner_rows[owner, kind] = None
    return list(owner_rows)


def is_constrained(var: RowVar) -> bool:
    """True if a known row constrains the variable, directly or through computed rows, and no open leaf bounds it."""
    if var.constrained:
        return True
    seen = {var}
    todo = [var]
    is_bounded = False
    while todo:
        for _, opnd in above(todo.pop()):
            if opnd.var is None or opnd.var.constrained:
                is_bounded = True
            elif opnd.var not in seen:
                if opnd.var.leaf is not None:
                    return False
                seen.add(opnd.var)
                todo.append(opnd.var)
    return is_bounded
