"""The order `res <= opnd`: an operand may be stretched to a result."""

from __future__ import annotations

from ocannl.infer.mismatch import Place, rows_differ
from ocannl.infer.terms import Cause, Dim, Row, RowVar, find, resolve
from ocannl.infer.trail import Trail
from ocannl.infer.unify import bind, inner, join, raise_lower, set_size, strip, too_small

KEEP = 16
"""How many neighbours an axis of size 1 may have before those that can teach it nothing any more are dropped."""


def order(trail: Trail, res: Dim, opnd: Dim) -> None:
    """`res` fits under `opnd`."""
    res, opnd = find(res), find(opnd)
    if res is opnd:
        return
    if opnd.is_rigid:
        join(trail, res, opnd)
        return
    if opnd.size == 1 and opnd.below is not None and len(opnd.below) >= KEEP:
        forget(trail, opnd)
    trail.add(opnd, "below", res)
    if res.size is None:
        trail.add(res, "above", opnd)
    press(trail, res, opnd)


def press(trail: Trail, res: Dim, opnd: Dim) -> None:
    """Tell `opnd`, which is not rigid, what is known of `res`."""
    if opnd.size is not None:
        return
    if res.size == 1:
        set_size(trail, opnd, 1, res.fact)
    elif res.size is not None:
        raise_lower(trail, opnd, res.size)
    elif res.lower is not None:
        raise_lower(trail, opnd, res.lower)


def settle(trail: Trail, dim: Dim) -> None:
    """Pass on what an axis has learned."""
    dim = find(dim)
    if dim.size is not None and dim.size < dim.least:
        raise too_small(dim, dim.size, dim.fact)
    if dim.laws:
        trail.queue.extend(dim.laws)
    if dim.is_rigid and dim.below:
        below = dim.below
        trail.set(dim, "below", None)
        for res in below:
            join(trail, res, dim)
        dim = find(dim)
    if dim.above:
        for opnd in dim.above:
            opnd = find(opnd)
            if opnd is not dim:
                press(trail, dim, opnd)
        if dim.size is not None:
            trail.set(dim, "above", None)


def forget(trail: Trail, dim: Dim) -> None:
    """Drop from a stretched axis the results that are known: only a unit could concern them, and it would be refused."""
    kept: list[Dim] = []
    stretched = False
    for res in map(find, dim.below or ()):
        if res.size is None or (res.size == 1 and res.unit is None):
            kept.append(res)
        elif not stretched:
            stretched = True
            kept.append(res)
    if len(kept) < len(dim.below or ()):
        trail.set(dim, "below", kept)


class Order:
    """A row fits under a row; holds what is not yet decided of it."""

    __slots__ = ("at_opnd", "at_res", "cause", "opnd", "res", "watched")

    def __init__(self, res: Row, opnd: Row, at_res: Place | None, at_opnd: Place | None, cause: Cause | None) -> None:
        self.res = res
        self.opnd = opnd
        self.at_res = at_res
        self.at_opnd = at_opnd
        self.cause = cause
        self.watched: tuple[RowVar, ...] = ()

    @property
    def is_waiting(self) -> bool:
        return bool(self.watched)

    def fire(self, trail: Trail) -> None:
        if not self.watched or all(var.value is None for var in self.watched):
            return
        left = arrange(trail, self.res, self.opnd, self.at_res, self.at_opnd)
        if left is None:
            trail.set(self, "watched", ())
        else:
            self.wait(trail, *left)

    def wait(self, trail: Trail, res: Row, opnd: Row) -> None:
        before = self.watched
        trail.set(self, "res", res)
        trail.set(self, "opnd", opnd)
        both = res.var, opnd.var
        now = tuple(v for n, v in enumerate(both) if v is not None and v not in both[:n])
        trail.set(self, "watched", now)
        for var in now:
            if var not in before:
                trail.watch(var, self)


def order_rows(trail: Trail, res: Row, opnd: Row, at_res: Place | None, at_opnd: Place | None) -> None:
    """Row `res` fits under row `opnd`."""
    left = arrange(trail, res, opnd, at_res, at_opnd)
    if left is not None:
        Order(*left, at_res, at_opnd, trail.cause).wait(trail, *left)


def arrange(trail: Trail, res: Row, opnd: Row, at_res: Place | None, at_opnd: Place | None) -> tuple[Row, Row] | None:
    """Pair the axes that certainly meet, lengthen `res` where it is too short; what is left undecided is returned."""
    res, opnd = resolve(res), resolve(opnd)
    if opnd.var is None and not opnd.count:
        tell(trail, res.var, at_res)
        return None
    if res.var is None:
        return arrange_closed(trail, res, opnd, at_res, at_opnd)
    short = opnd.count - res.count
    if short > 0:
        if res.var is opnd.var:
            raise rows_differ(res, opnd, at_res, at_opnd, "no number of axes satisfies both")
        res = lengthen(trail, res, opnd, short)
    front, back = min(len(res.lead), len(opnd.lead)), min(len(res.trail), len(opnd.trail))
    for x, y in zip(res.lead, opnd.lead, strict=False):
        order(trail, x, y)
    for x, y in zip(reversed(res.trail), reversed(opnd.trail), strict=False):
        order(trail, x, y)
    res, opnd = strip(res, front, back), strip(opnd, front, back)
    if not opnd.count and opnd.var is None:
        tell(trail, res.var, at_res)
        return None
    if res.var is opnd.var and not res.count and not opnd.count:
        return None
    return res, opnd


def arrange_closed(
    trail: Trail, res: Row, opnd: Row, at_res: Place | None, at_opnd: Place | None
) -> tuple[Row, Row] | None:
    """`res` has all its axes."""
    front, back = len(opnd.lead), len(opnd.trail)
    if res.count < front + back:
        raise rows_differ(res, opnd, at_res, at_opnd, "an operand cannot have more axes than what it is stretched to")
    axes = res.axes
    for x, y in zip(axes, opnd.lead, strict=False):
        order(trail, x, y)
    for x, y in zip(reversed(axes), reversed(opnd.trail), strict=False):
        order(trail, x, y)
    if opnd.var is None:
        return None
    middle = inner(res, front, back)
    if not middle.count:
        bind(trail, opnd.var, middle)
        return None
    return middle, Row((), opnd.var, ())


def lengthen(trail: Trail, res: Row, opnd: Row, short: int) -> Row:
    """Insert axes at the variable of `res`, where `opnd` has some that would find no partner."""
    assert res.var is not None
    front = max(0, min(len(opnd.lead) - len(res.lead), short))
    back = short - front
    first, last = len(res.lead), len(opnd.trail) - len(res.trail)
    lead = tuple(partner(y) for y in opnd.lead[first : first + front])
    trail_ = tuple(partner(y) for y in opnd.trail[last - back : last])
    var = RowVar(depth=res.var.depth + short)
    bind(trail, res.var, Row(lead, var, trail_))
    return Row(res.lead + lead, var, trail_ + res.trail)


def partner(opnd: Dim) -> Dim:
    """An axis that is to fit under `opnd`: the same one, if that cannot be stretched."""
    opnd = find(opnd)
    return opnd if opnd.is_rigid else Dim()


def tell(trail: Trail, var: RowVar | None, at: Place | None) -> None:
    """A known row has no more axes for this operand to meet."""
    if var is not None and not var.told and at is not None and not at.is_result:
        trail.set(var, "told", True)
