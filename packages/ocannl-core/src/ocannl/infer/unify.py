"""Unification of axes (union-find) and rows; row variables are bound to rows (Robinson 1965)."""

from __future__ import annotations

from itertools import product

from ocannl.infer.mismatch import Mismatch, rows_differ, sizes_differ, too_small
from ocannl.infer.terms import (
    EMPTY,
    MAX_AXES,
    Cause,
    DimVar,
    Evidence,
    Owner,
    Row,
    RowVar,
    Trail,
    find,
    print_row,
    resolve,
)


def set_size(trail: Trail, dim: DimVar, size: int, evidence: Evidence | None) -> None:
    dim = find(dim)
    if dim.size is not None:
        if dim.size != size:
            raise sizes_differ(dim, DimVar(size, None, evidence))
        return
    if size < dim.min_size:
        raise too_small(dim, size, evidence)
    trail.set(dim, "size", size)
    trail.set(dim, "evidence", evidence)
    trail.queue.append(dim)


def set_unit(trail: Trail, dim: DimVar, unit: str, source: DimVar | None = None) -> None:
    """Sets the unit of an axis; `source` is the axis the unit comes from, if any."""
    dim = find(dim)
    if dim.unit is None:
        trail.set(dim, "unit", unit)
        trail.queue.append(dim)
    elif dim.unit != unit:
        raise sizes_differ(dim, source or DimVar(dim.size, unit))


def set_min_size(trail: Trail, dim: DimVar, min_size: int) -> None:
    """Requires a minimum size; an axis of size at least 2 is never stretched."""
    dim = find(dim)
    if dim.min_size < min_size:
        trail.set(dim, "min_size", min_size)
        if dim.size is None:
            trail.queue.append(dim)
        elif dim.size < min_size:
            raise too_small(dim, dim.size, dim.evidence)


def raise_lower_bound(trail: Trail, dim: DimVar, size: int) -> None:
    """Records that an axis of this size fits under the flexible axis `dim`; two different sizes imply size 1."""
    if dim.lower_bound is None:
        trail.set(dim, "lower_bound", size)
        trail.queue.append(dim)
    elif dim.lower_bound != size:
        reason = f"an axis that meets both {dim.lower_bound} and {size}, so that it must stretch,"
        set_size(trail, dim, 1, Evidence(text=reason))


def join(trail: Trail, a: DimVar, b: DimVar) -> None:
    """Unifies two axes (union by rank)."""
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
            trail.set(a, "evidence", b.evidence)
        elif a.evidence is not None and a.evidence.decision and b.evidence is not None and not b.evidence.decision:
            trail.set(a, "evidence", b.evidence)
    if a.unit is None and b.unit is not None:
        trail.set(a, "unit", b.unit)
        if b.evidence is not None:  # the source of the unit also set the size
            trail.set(a, "evidence", b.evidence)
    if a.min_size < b.min_size:
        trail.set(a, "min_size", b.min_size)
    if a.size is not None and a.size < a.min_size:
        raise too_small(a, a.size, a.evidence)
    adopt(trail, a, b.leaf, b.is_required)
    if b.meets_one and not a.meets_one:
        trail.set(a, "meets_one", True)
    for attribute in ("above", "below", "size_equations"):
        for item in getattr(b, attribute) or ():
            trail.add(a, attribute, item)
    if b.lower_bound is not None and a.size is None and not a.is_rigid:
        raise_lower_bound(trail, a, b.lower_bound)
    trail.queue.append(a)


def adopt(trail: Trail, axis: DimVar, leaf: Owner | None, is_required: bool) -> None:
    """Propagates the leaf and the `is_required` flag of an equal axis."""
    if leaf is not None and axis.leaf is None:
        trail.set(axis, "leaf", leaf)
    if is_required and not axis.is_required:
        trail.set(axis, "is_required", True)


def bind(trail: Trail, var: RowVar, value: Row) -> None:
    """Binds a free row variable to `value`, which does not contain it. The depth limit detects indirect recursion."""
    trail.set(var, "value", value)
    remainder = value.var
    depth = var.depth + len(value.lead) + len(value.trail)
    if depth > MAX_AXES or (remainder is not None and remainder.depth > MAX_AXES):
        raise unbounded_growth(trail, var, value)
    if remainder is not None:
        has_known_axes = var.leaf is not None and value.count > 0
        propagate_flags(trail, var, remainder, var.constrained or has_known_axes)
        if depth > remainder.depth:
            trail.set(remainder, "depth", depth)
    if var.leaf is not None or var.is_required:
        for axis in value.axes:
            adopt(trail, find(axis), var.leaf, var.is_required)
    if var.watchers is not None:
        trail.queue.extend(var.watchers)
        trail.set(var, "watchers", None)


def propagate_flags(trail: Trail, source: RowVar, target: RowVar, constrained: bool = True) -> None:
    """Propagates the leaf and flags of a row variable to another variable of the same row."""
    if source.leaf is not None and target.leaf is None:
        trail.set(target, "leaf", source.leaf)
    if source.is_required and not target.is_required:
        trail.set(target, "is_required", True)
    if constrained and not target.constrained:
        trail.set(target, "constrained", True)


def unbounded_growth(trail: Trail, var: RowVar, value: Row) -> Mismatch:
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
    """Equality of two rows whose axes cannot be paired yet."""

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
        remaining = combine_equalities(trail, unify_rows(trail, self.a, self.b, self.slot), self.slot, self)
        trail.set(self, "a", remaining and remaining[0])
        if remaining is not None:
            trail.set(self, "b", remaining[1])
            self.watch(trail, before)

    def watch(self, trail: Trail, before: tuple[RowVar | None, ...]) -> None:
        assert self.a is not None
        left, right = self.a.var, self.b.var
        for var in {left: None, right: None}:
            if var is not None and var not in before:
                trail.add(var, "watchers", self)
        if left is not None and right is not None:
            propagate_flags(trail, left, right)
            propagate_flags(trail, right, left)


def equate(trail: Trail, a: Row, b: Row, slot: int = 0) -> None:
    """Unifies rows `a` and `b`; suspends what cannot be paired yet as an `Equal` constraint."""
    remaining = combine_equalities(trail, unify_rows(trail, a, b, slot), slot)
    if remaining is not None:
        Equal(*remaining, trail.cause, slot).watch(trail, ())


def unify_rows(trail: Trail, a: Row, b: Row, slot: int) -> tuple[Row, Row] | None:
    """Unifies the axes that certainly correspond, and returns the undecided remainder."""
    original = a, b = resolve(a), resolve(b)
    if a.var is None or b.var is None:
        unify_closed(trail, a, b, slot)
        return None
    front, back = join_ends(trail, a, b)
    a, b = strip(a, front, back), strip(b, front, back)
    if a.var is b.var:
        if a.count != b.count:
            raise rows_differ(trail.cause, slot, *original, "no number of axes satisfies both")
        return (a, b) if a.count else None
    if b.var is not None and not b.count:
        bind(trail, b.var, a)
    elif a.var is not None and not a.count:
        bind(trail, a.var, b)
    else:
        return balance(trail, a, b)
    return None


def combine_equalities(
    trail: Trail, remaining: tuple[Row, Row] | None, slot: int, excluded: Equal | None = None
) -> tuple[Row, Row] | None:
    """Applies transitivity to suspended equalities of one variable: both partners of the row are equal."""
    equalities = dict.fromkeys(c for row in remaining or () if row.var is not None for c in row.var.watchers or ())
    for equality in equalities:
        if not isinstance(equality, Equal) or equality is excluded:
            continue
        if remaining is not None and equality.a is not None:
            a, b = resolve(equality.a), resolve(equality.b)
            for (row, partner), (match, match_partner) in product((remaining, remaining[::-1]), ((a, b), (b, a))):
                if match.var is row.var and (surplus := surplus_axes(row, match)) is not None:
                    unify_rows(trail, wrap(surplus[0], match_partner), wrap(surplus[1], partner), slot)
                    remaining = unify_rows(trail, row, partner, slot)
                    break
    return remaining


def surplus_axes(a: Row, b: Row) -> tuple[Row, Row] | None:
    """Surplus axes of either of two rows of one variable, if they extend at one end only and agree there."""
    front, back = min(len(a.lead), len(b.lead)), min(len(a.trail), len(b.trail))
    if any((a.trail, b.trail)) and any((a.lead, b.lead)):
        return None
    pairs = (*zip(reversed(a.lead), reversed(b.lead), strict=False), *zip(a.trail, b.trail, strict=False))
    if any(find(x) is not find(y) for x, y in pairs):
        return None
    left, right = (Row(row.lead[: len(row.lead) - front], None, row.trail[back:]) for row in (a, b))
    return left, right


def wrap(outer: Row, row: Row) -> Row:
    return Row(outer.lead + row.lead, row.var, row.trail + outer.trail)


def balance(trail: Trail, a: Row, b: Row) -> tuple[Row, Row]:
    """Balances two equal rows, one with leading axes only, the other with trailing axes only.

    Surplus axes move into the opposite variable, so that the suspended remainder never implies a rank and both
    variables can default to the empty row.
    """
    if b.lead:
        b, a = balance(trail, b, a)
    elif (surplus := len(b.trail) - len(a.lead)) > 0:
        a, b = Row(a.lead, expand_var(trail, a.var, (), b.trail[-surplus:]), ()), Row((), b.var, b.trail[:-surplus])
    elif surplus < 0:
        a, b = Row(a.lead[-surplus:], a.var, ()), Row((), expand_var(trail, b.var, a.lead[:-surplus], ()), b.trail)
    return a, b


def expand_var(trail: Trail, var: RowVar | None, lead: tuple[DimVar, ...], behind: tuple[DimVar, ...]) -> RowVar:
    """Binds a variable to axes around a new variable, and returns the new variable."""
    assert var is not None
    remainder = RowVar(depth=var.depth + len(lead) + len(behind))
    bind(trail, var, Row(lead, remainder, behind))
    return remainder


def unify_closed(trail: Trail, a: Row, b: Row, slot: int) -> None:
    """Unifies rows of which at least one is closed; an open row's variable is bound to the remaining axes."""
    fits = a.count == b.count if a.var is b.var else a.count >= b.count if a.var is None else a.count <= b.count
    if not fits:
        raise rows_differ(trail.cause, slot, a, b, "they must have equally many axes")
    if a.var is b.var:
        for x, y in zip(a.axes, b.axes, strict=True):
            join(trail, x, y)
        return
    closed, open_row = (a, b) if a.var is None else (b, a)
    axes = closed.axes
    for x, y in zip(open_row.lead, axes, strict=False):
        join(trail, x, y)
    for x, y in zip(reversed(open_row.trail), reversed(axes), strict=False):
        join(trail, x, y)
    assert open_row.var is not None
    bind(trail, open_row.var, strip(closed, len(open_row.lead), len(open_row.trail)))


def join_ends(trail: Trail, a: Row, b: Row) -> tuple[int, int]:
    """Unifies the outermost axes that both rows have; returns their numbers in front and behind."""
    front, back = min(len(a.lead), len(b.lead)), min(len(a.trail), len(b.trail))
    for x, y in zip(a.lead, b.lead, strict=False):
        join(trail, x, y)
    for x, y in zip(reversed(a.trail), reversed(b.trail), strict=False):
        join(trail, x, y)
    return front, back


def strip(row: Row, front: int, back: int) -> Row:
    """Removes outermost axes of a row; for an open row, the axes around the variable."""
    if not front and not back:
        return row
    if row.var is not None:
        lead, behind = row.lead[front:], row.trail[: len(row.trail) - back]
        return Row(lead, row.var, behind) if lead or behind else row.var
    axes = row.axes[front : row.count - back]
    return Row((), None, axes) if axes else EMPTY
