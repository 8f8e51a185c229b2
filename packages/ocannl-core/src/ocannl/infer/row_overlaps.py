"""Rows that must be longer because their known ends cannot overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ocannl.infer.broadcast import Order
from ocannl.infer.defaults import Default, RowDefault, Undecided
from ocannl.infer.leaf_growth import undecided_equals
from ocannl.infer.terms import DimVar, Row, RowVar, find, fresh, resolve
from ocannl.infer.unify import Equal


def overlap_rows(undecided: Undecided) -> list[Default]:
    """Extends rows that must be longer because their known ends cannot overlap."""
    defaults: list[Default] = []
    constraints = list(dict.fromkeys(c for var in undecided.row_vars for c in var.watchers or ()))
    for front, back in equal_rows([c for c in constraints if isinstance(c, Equal)]):
        defaults += overlap(front, back)
    for constraint in constraints:
        if isinstance(constraint, Order) and constraint.res is not None:
            for res in forms(constraint.res):
                for opnd in forms(constraint.opnd):
                    defaults += insert_axes(res, opnd)
    return defaults


def equal_rows(equalities: Iterable[Equal]) -> Iterator[tuple[Row, Row]]:
    """Equal rows, the first with leading and the second with trailing axes, of each undecided equality and of chains:
    `b, ..x.. = ..y.., c` and `d, ..y.. = ..z.., e` imply `d, b, ..x.. = ..z.., e, c`."""
    pairs: list[tuple[Row, Row]] = []
    for equality in equalities:
        if equality.a is not None:
            a, b = resolve(equality.a), resolve(equality.b)
            front, back = (b, a) if a.trail or b.lead else (a, b)
            if None not in (front.var, back.var) and front.var is not back.var and not (front.trail or back.lead):
                pairs.append((front, back))
    todo = [(front, back, {front.var, back.var}) for front, back in pairs]
    while todo:
        front, back, seen = todo.pop()
        yield front, back
        for outer, inner in pairs:
            if outer.var is back.var and inner.var not in seen:
                chain = Row(outer.lead + front.lead, front.var), Row((), inner.var, inner.trail + back.trail)
                todo.append((*chain, seen | {inner.var}))


def overlap(a: Row, b: Row) -> list[Default]:
    """Overlaps the leading axes of one row with the trailing axes of an equal row as far as they can be equal."""
    front, back = a.lead, b.trail
    common = len(front)
    if a.var is None or b.var is None or common != len(back):
        return []
    while not can_equal(front[len(front) - common :], back):
        common -= 1
    if common == len(front):
        return []
    before, after = Row(front[: len(front) - common], RowVar(), ()), Row((), RowVar(), back[common:])
    return [RowDefault(b.var, before), RowDefault(a.var, after)]


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


def can_equal(left_axes: Sequence[DimVar], right_axes: Sequence[DimVar]) -> bool:
    """False if known sizes, uses or units distinguish axes that would be equal if each pair was."""
    groups: dict[DimVar, set[DimVar]] = {}
    for a, b in zip(map(find, left_axes), map(find, right_axes), strict=False):
        group = groups.setdefault(a, {a}) | groups.setdefault(b, {b})
        groups.update(dict.fromkeys(group, group))
    return all(are_compatible(group) for group in {id(group): group for group in groups.values()}.values())


def are_compatible(axes: Iterable[DimVar]) -> bool:
    """True if axes can be equal: they have at most one unit and one size, and no uses of another size."""
    sizes, units = ({value for axis in axes if (value := getattr(axis, key)) is not None} for key in ("size", "unit"))
    return max(len(sizes), len(units)) < 2 and all(admits_size(axis, size) for axis in axes for size in sizes)


def admits_size(axis: DimVar, size: int) -> bool:
    """False if the size differs from 1 and from the size of the uses of the axis."""
    return size == 1 or axis.lower_bound in (None, size) or axis.size is not None
