"""Equality: cells become one, row variables get values."""

from __future__ import annotations

from ocannl.infer.mismatch import Mismatch, Place, rows_differ, sizes_differ
from ocannl.infer.terms import EMPTY, MAX_AXES, Cause, Dim, Fact, Row, RowVar, find, print_row, resolve
from ocannl.infer.trail import Trail


def set_size(trail: Trail, dim: Dim, size: int, fact: Fact | None) -> None:
    dim = find(dim)
    if dim.size is not None:
        if dim.size != size:
            raise sizes_differ(dim, Dim(size, None, fact))
        return
    if size < dim.least:
        raise too_small(dim, size, fact)
    trail.set(dim, "size", size)
    trail.set(dim, "fact", fact)
    trail.queue.append(dim)


def set_unit(trail: Trail, dim: Dim, unit: str) -> None:
    dim = find(dim)
    if dim.unit is None:
        trail.set(dim, "unit", unit)
        trail.queue.append(dim)
    elif dim.unit != unit:
        raise sizes_differ(dim, Dim(dim.size, unit))


def set_least(trail: Trail, dim: Dim, least: int) -> None:
    dim = find(dim)
    if dim.least < least:
        trail.set(dim, "least", least)
        if dim.size is not None and dim.size < least:
            raise too_small(dim, dim.size, dim.fact)


def too_small(dim: Dim, size: int, fact: Fact | None) -> Mismatch:
    said = f"{fact or 'an axis'} is {size}"
    return Mismatch(
        f"{said}, but it is indexed up to {dim.least - 1}",
        dims=(dim, Dim(size, None, fact)),
        fix=f"use an index below {size}, or an axis of size {dim.least} or more",
    )


def join(trail: Trail, a: Dim, b: Dim) -> None:
    """`a` and `b` are the same axis."""
    a, b = find(a), find(b)
    if a is b:
        return
    if (a.size is not None and b.size is not None and a.size != b.size) or (a.unit and b.unit and a.unit != b.unit):
        raise sizes_differ(a, b)
    if a.rank < b.rank or (a.rank == b.rank and a.size is None and b.size is not None):
        a, b = b, a
    if a.rank == b.rank:
        trail.set(a, "rank", a.rank + 1)
    trail.set(b, "link", a)
    if a.size is None and b.size is not None:
        trail.set(a, "size", b.size)
        trail.set(a, "fact", b.fact)
    if a.unit is None and b.unit is not None:
        trail.set(a, "unit", b.unit)
    if b.least > a.least:
        trail.set(a, "least", b.least)
    if a.size is not None and a.size < a.least:
        raise too_small(a, a.size, a.fact)
    if b.leaf is not None and (a.leaf is None or (b.leaf.is_param and not a.leaf.is_param)):
        trail.set(a, "leaf", b.leaf)
    if b.asked and not a.asked:
        trail.set(a, "asked", True)
    for slot in ("above", "below", "laws"):
        for item in getattr(b, slot) or ():
            trail.add(a, slot, item)
    if b.lower is not None and a.size is None:
        raise_lower(trail, a, b.lower)
    trail.queue.append(a)


def raise_lower(trail: Trail, dim: Dim, size: int) -> None:
    """Something of this size fits under `dim`, whose own size is not known."""
    if dim.lower is None:
        trail.set(dim, "lower", size)
        trail.queue.append(dim)
    elif dim.lower != size and dim.unit is None:
        fact = Fact(text=f"an axis used both as {dim.lower} and as {size}, which can only be stretched,")
        set_size(trail, dim, 1, fact)


class Equal:
    """Two rows that are equal, of which not enough is known to say which axes are the same."""

    __slots__ = ("a", "at_a", "at_b", "b", "cause", "watched")

    def __init__(self, a: Row, b: Row, at_a: Place | None, at_b: Place | None, cause: Cause | None) -> None:
        self.a = a
        self.b = b
        self.at_a = at_a
        self.at_b = at_b
        self.cause = cause
        self.watched: tuple[RowVar, ...] = ()

    def fire(self, trail: Trail) -> None:
        left = unify_rows(trail, self.a, self.b, self.at_a, self.at_b)
        trail.set(self, "watched", ())
        if left is not None:
            self.wait(trail, *left)

    def wait(self, trail: Trail, a: Row, b: Row) -> None:
        trail.set(self, "a", a)
        trail.set(self, "b", b)
        assert a.var is not None and b.var is not None
        trail.set(self, "watched", (a.var,) if a.var is b.var else (a.var, b.var))
        for var in self.watched:
            if self not in var.watchers:
                trail.watch(var, self)

    @property
    def is_waiting(self) -> bool:
        return bool(self.watched)


def equate(trail: Trail, a: Row, b: Row, at_a: Place | None = None, at_b: Place | None = None) -> None:
    """Rows `a` and `b` are the same row."""
    left = unify_rows(trail, a, b, at_a, at_b)
    if left is not None:
        Equal(*left, at_a, at_b, trail.cause).wait(trail, *left)


def unify_rows(trail: Trail, a: Row, b: Row, at_a: Place | None, at_b: Place | None) -> tuple[Row, Row] | None:
    """Join what is certain; what is left undecided is returned."""
    a, b = whole_a, whole_b = resolve(a), resolve(b)
    if a.var is None and b.var is None:
        if a.count != b.count:
            raise rows_differ(a, b, at_a, at_b, "they must have equally many axes")
        for x, y in zip(a.axes, b.axes, strict=True):
            join(trail, x, y)
        return None
    if a.var is None:
        a, b, at_a, at_b = b, a, at_b, at_a
    assert a.var is not None
    if b.var is None:
        front, back = len(a.lead), len(a.trail)
        if b.count < front + back:
            raise rows_differ(whole_a, whole_b, at_a, at_b, "they must have equally many axes")
        axes = b.axes
        for x, y in zip(a.lead, axes, strict=False):
            join(trail, x, y)
        for x, y in zip(reversed(a.trail), reversed(axes), strict=False):
            join(trail, x, y)
        bind(trail, a.var, inner(b, front, back))
        return None
    front, back = min(len(a.lead), len(b.lead)), min(len(a.trail), len(b.trail))
    for x, y in zip(a.lead, b.lead, strict=False):
        join(trail, x, y)
    for x, y in zip(reversed(a.trail), reversed(b.trail), strict=False):
        join(trail, x, y)
    a, b = strip(a, front, back), strip(b, front, back)
    if a.var is b.var:
        if a.count != b.count:
            raise rows_differ(whole_a, whole_b, at_a, at_b, "no number of axes satisfies both")
        return (a, b) if a.count else None
    if not b.count:
        assert b.var is not None
        bind(trail, b.var, a)
    elif not a.count:
        assert a.var is not None
        bind(trail, a.var, b)
    else:
        return a, b
    return None


def strip(row: Row, front: int, back: int) -> Row:
    """An open row without its outermost axes."""
    return Row(row.lead[front:], row.var, row.trail[: len(row.trail) - back])


def inner(row: Row, front: int, back: int) -> Row:
    """A closed row without its outermost axes, wherever its gap is."""
    axes = row.axes
    stop = len(axes) - back
    gap = min(max(len(row.lead), front), stop)
    if front == stop:
        return EMPTY
    return Row(axes[front:gap], None, axes[gap:stop])


def bind(trail: Trail, var: RowVar, value: Row) -> None:
    """The variable is found to be `value`, which does not contain it."""
    trail.set(var, "value", value)
    rest = value.var
    deep = var.depth + value.count
    if max(deep, rest.depth if rest else 0) > MAX_AXES:
        raise endless(var, value)
    if rest is not None:
        if var.leaf is not None and (rest.leaf is None or (var.leaf.is_param and not rest.leaf.is_param)):
            trail.set(rest, "leaf", var.leaf)
        if var.asked and not rest.asked:
            trail.set(rest, "asked", True)
        if (var.told or value.count) and not rest.told:
            trail.set(rest, "told", True)
        if deep > rest.depth:
            trail.set(rest, "depth", deep)
    if var.leaf is not None or var.asked:
        for axis in value.axes:
            own(trail, axis, var)
    trail.queue.extend(var.watchers)


def own(trail: Trail, axis: Dim, var: RowVar) -> None:
    """The axis belongs to the leaf that the variable belongs to."""
    axis = find(axis)
    leaf = var.leaf
    if leaf is not None and (axis.leaf is None or (leaf.is_param and not axis.leaf.is_param)):
        trail.set(axis, "leaf", leaf)
    if var.asked and not axis.asked:
        trail.set(axis, "asked", True)


def endless(var: RowVar, value: Row) -> Mismatch:
    owners = tuple(v.leaf for v in (var, value.var) if v is not None and v.leaf is not None)
    return Mismatch(
        f"the number of axes would grow without end (beyond {MAX_AXES}): a row must be longer than itself, "
        f"at {print_row(value)[-40:]}",
        owners=owners,
        fix="give one of the tensors all its axes",
    )
