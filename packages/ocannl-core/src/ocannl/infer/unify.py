"""Equality: cells become one, row variables get values."""

from __future__ import annotations

from itertools import product

from ocannl.infer.mismatch import Mismatch, rows_differ, sizes_differ, too_small
from ocannl.infer.terms import EMPTY, MAX_AXES, Cause, Dim, Fact, Owner, Row, RowVar, find, print_row, resolve
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


def set_unit(trail: Trail, dim: Dim, unit: str, of: Dim | None = None) -> None:
    """The unit is that of another axis, if one is given."""
    dim = find(dim)
    if dim.unit is None:
        trail.set(dim, "unit", unit)
        trail.queue.append(dim)
    elif dim.unit != unit:
        raise sizes_differ(dim, of or Dim(dim.size, unit))


def set_least(trail: Trail, dim: Dim, least: int) -> None:
    """The axis has at least so many cells; from 2 on, it is not stretched."""
    dim = find(dim)
    if dim.least < least:
        trail.set(dim, "least", least)
        if dim.size is None:
            trail.queue.append(dim)
        elif dim.size < least:
            raise too_small(dim, dim.size, dim.fact)


def raise_lower(trail: Trail, dim: Dim, size: int) -> None:
    """Something of this size fits under `dim`, which is not rigid and whose size is not known."""
    if dim.lower is None:
        trail.set(dim, "lower", size)
        trail.queue.append(dim)
    elif dim.lower != size:
        said = f"an axis that meets both {dim.lower} and {size}, so that it must stretch,"
        set_size(trail, dim, 1, Fact(text=said))


def join(trail: Trail, a: Dim, b: Dim) -> None:
    """`a` and `b` are the same axis."""
    a, b = find(a), find(b)
    if a is b:
        return
    if a.size is not None and b.size is not None and a.size != b.size:
        raise sizes_differ(a, b)
    if a.unit is not None and b.unit is not None and a.unit != b.unit:
        raise sizes_differ(a, b)
    if a.rank < b.rank:
        a, b = b, a
    elif a.rank == b.rank:
        trail.set(a, "rank", a.rank + 1)
    trail.set(b, "link", a)
    if b.size is not None:
        if a.size is None:
            trail.set(a, "size", b.size)
            trail.set(a, "fact", b.fact)
        elif a.fact is not None and a.fact.why and b.fact is not None and not b.fact.why:
            trail.set(a, "fact", b.fact)
    if a.unit is None and b.unit is not None:
        trail.set(a, "unit", b.unit)
        if b.fact is not None:  # who gave the unit gave the size as well
            trail.set(a, "fact", b.fact)
    if a.least < b.least:
        trail.set(a, "least", b.least)
    if a.size is not None and a.size < a.least:
        raise too_small(a, a.size, a.fact)
    adopt(trail, a, b.leaf, b.asked)
    for slot in ("above", "below", "laws"):
        for item in getattr(b, slot) or ():
            trail.add(a, slot, item)
    if b.lower is not None and a.size is None and not a.is_rigid:
        raise_lower(trail, a, b.lower)
    trail.queue.append(a)


def adopt(trail: Trail, axis: Dim, leaf: Owner | None, asked: bool) -> None:
    """The axis belongs to a leaf as well, and matters to what that one matters to."""
    if leaf is not None and axis.leaf is None:
        trail.set(axis, "leaf", leaf)
    if asked and not axis.asked:
        trail.set(axis, "asked", True)


def bind(trail: Trail, var: RowVar, value: Row) -> None:
    """The variable, which has no value yet, is found to be `value`, which does not contain it."""
    trail.set(var, "value", value)
    rest = value.var
    depth = var.depth + len(value.lead) + len(value.trail)
    if depth > MAX_AXES or (rest is not None and rest.depth > MAX_AXES):
        raise endless(trail, var, value)
    if rest is not None:
        share(trail, var, rest, bool(var.told or value.lead or value.trail))
        if depth > rest.depth:
            trail.set(rest, "depth", depth)
    if var.leaf is not None or var.asked:
        for axis in value.axes:
            adopt(trail, find(axis), var.leaf, var.asked)
    if var.watchers is not None:
        trail.queue.extend(var.watchers)
        trail.set(var, "watchers", None)


def share(trail: Trail, var: RowVar, rest: RowVar, told: bool = True) -> None:
    """Axes of `rest` are axes of the same tensor as those of `var`, and matter to what these matter to."""
    if var.leaf is not None and rest.leaf is None:
        trail.set(rest, "leaf", var.leaf)
    if var.asked and not rest.asked:
        trail.set(rest, "asked", True)
    if told and not rest.told:
        trail.set(rest, "told", True)


def endless(trail: Trail, var: RowVar, value: Row) -> Mismatch:
    owners = tuple(v.leaf for v in (var, value.var) if v is not None and v.leaf is not None)
    return Mismatch(
        f"the number of axes would grow without end (a row has at most {MAX_AXES}): some row, ending in "
        f"`{print_row(value)[-20:]}`, would have to be longer than itself",
        owners=owners,
        causes=(trail.cause,),
        fix="give one of the tensors all its axes",
    )


# --- rows -----------------------------------------------------------------------------------------------------------


class Equal:
    """Two rows that are equal, of which not enough is known yet to say which axes are the same."""

    __slots__ = ("a", "b", "cause", "slot")

    def __init__(self, a: Row, b: Row, cause: Cause | None, slot: int) -> None:
        self.a: Row | None = a
        self.b = b
        self.cause = cause
        self.slot = slot

    def fire(self, trail: Trail) -> None:
        if self.a is None:
            return
        before = self.a.var, self.b.var
        left = combine(trail, unify_rows(trail, self.a, self.b, self.slot), self.slot, self)
        trail.set(self, "a", left and left[0])
        if left is not None:
            trail.set(self, "b", left[1])
            self.watch(trail, before)

    def watch(self, trail: Trail, before: tuple[RowVar | None, ...]) -> None:
        assert self.a is not None
        one, other = self.a.var, self.b.var
        for var in {one: None, other: None}:
            if var is not None and var not in before:
                trail.add(var, "watchers", self)
        if one is not None and other is not None:
            share(trail, one, other)
            share(trail, other, one)


def equate(trail: Trail, a: Row, b: Row, slot: int = 0) -> None:
    """Rows `a` and `b` are the same row."""
    left = combine(trail, unify_rows(trail, a, b, slot), slot)
    if left is not None:
        Equal(*left, trail.cause, slot).watch(trail, ())


def unify_rows(trail: Trail, a: Row, b: Row, slot: int) -> tuple[Row, Row] | None:
    """Join what is certain; what is left undecided is returned."""
    whole = a, b = resolve(a), resolve(b)
    if a.var is None or b.var is None:
        unify_closed(trail, a, b, slot)
        return None
    front, back = join_ends(trail, a, b)
    a, b = strip(a, front, back), strip(b, front, back)
    if a.var is b.var:
        if a.count != b.count:
            raise rows_differ(trail.cause, slot, *whole, "no number of axes satisfies both")
        return (a, b) if a.count else None
    if b.var is not None and not b.count:
        bind(trail, b.var, a)
    elif a.var is not None and not a.count:
        bind(trail, a.var, b)
    else:
        return balance(trail, a, b)
    return None


def combine(trail: Trail, left: tuple[Row, Row] | None, slot: int, but: Equal | None = None) -> tuple[Row, Row] | None:
    """What equals a row that another undecided equality is about, equals what that one says; so they decide more."""
    near = dict.fromkeys(c for row in left or () if row.var is not None for c in row.var.watchers or ())
    for other in near:
        if left is not None and isinstance(other, Equal) and other is not but and other.a is not None:
            a, b = resolve(other.a), resolve(other.b)
            for (row, rest), (same, said) in product((left, left[::-1]), ((a, b), (b, a))):
                if same.var is row.var and (around := extras(row, same)) is not None:
                    unify_rows(trail, wrap(around[0], said), wrap(around[1], rest), slot)
                    left = unify_rows(trail, row, rest, slot)
                    break
    return left


def extras(a: Row, b: Row) -> tuple[Row, Row] | None:
    """What either of two rows of one variable has more at the one end where they have axes, if these are the same."""
    front, back = min(len(a.lead), len(b.lead)), min(len(a.trail), len(b.trail))
    if any((a.trail, b.trail)) and any((a.lead, b.lead)):
        return None
    pairs = (*zip(reversed(a.lead), reversed(b.lead), strict=False), *zip(a.trail, b.trail, strict=False))
    if any(find(x) is not find(y) for x, y in pairs):
        return None
    one, other = (Row(row.lead[: len(row.lead) - front], None, row.trail[back:]) for row in (a, b))
    return one, other


def wrap(around: Row, row: Row) -> Row:
    return Row(around.lead + row.lead, row.var, row.trail + around.trail)


def balance(trail: Trail, a: Row, b: Row) -> tuple[Row, Row]:
    """Of two equal rows, one has axes only in front, the other only behind: where these are more, a variable has some.

    What is left undecided never says how long a row is, so that rows without further axes are long enough.
    """
    if b.lead:
        b, a = balance(trail, b, a)
    elif (more := len(b.trail) - len(a.lead)) > 0:
        a, b = Row(a.lead, grow(trail, a.var, (), b.trail[-more:]), ()), Row((), b.var, b.trail[:-more])
    elif more < 0:
        a, b = Row(a.lead[-more:], a.var, ()), Row((), grow(trail, b.var, a.lead[:-more], ()), b.trail)
    return a, b


def grow(trail: Trail, var: RowVar | None, lead: tuple[Dim, ...], behind: tuple[Dim, ...]) -> RowVar:
    """Axes are found around a variable; gives what is left of it."""
    assert var is not None
    rest = RowVar(depth=var.depth + len(lead) + len(behind))
    bind(trail, var, Row(lead, rest, behind))
    return rest


def unify_closed(trail: Trail, a: Row, b: Row, slot: int) -> None:
    """One row at least has all its axes; a variable of the other takes what it leaves over."""
    fits = a.count == b.count if a.var is b.var else a.count >= b.count if a.var is None else a.count <= b.count
    if not fits:
        raise rows_differ(trail.cause, slot, a, b, "they must have equally many axes")
    if a.var is b.var:
        for x, y in zip(a.axes, b.axes, strict=True):
            join(trail, x, y)
        return
    closed, other = (a, b) if a.var is None else (b, a)
    axes = closed.axes
    for x, y in zip(other.lead, axes, strict=False):
        join(trail, x, y)
    for x, y in zip(reversed(other.trail), reversed(axes), strict=False):
        join(trail, x, y)
    assert other.var is not None
    bind(trail, other.var, strip(closed, len(other.lead), len(other.trail)))


def join_ends(trail: Trail, a: Row, b: Row) -> tuple[int, int]:
    """Join the outermost axes that both have; how many there are in front and behind."""
    front, back = min(len(a.lead), len(b.lead)), min(len(a.trail), len(b.trail))
    for x, y in zip(a.lead, b.lead, strict=False):
        join(trail, x, y)
    for x, y in zip(reversed(a.trail), reversed(b.trail), strict=False):
        join(trail, x, y)
    return front, back


def strip(row: Row, front: int, back: int) -> Row:
    """A row without its outermost axes; an open one has these around its variable."""
    if not front and not back:
        return row
    if row.var is not None:
        lead, behind = row.lead[front:], row.trail[: len(row.trail) - back]
        return Row(lead, row.var, behind) if lead or behind else row.var
    axes = row.axes[front : row.count - back]
    return Row((), None, axes) if axes else EMPTY
