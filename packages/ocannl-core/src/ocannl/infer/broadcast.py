"""The order `res <= opnd`: an operand may be stretched to a result."""

from __future__ import annotations

from ocannl.infer.mismatch import rows_differ
from ocannl.infer.terms import EMPTY, Cause, Dim, Row, RowVar, find, fresh, resolve
from ocannl.infer.trail import Trail
from ocannl.infer.unify import bind, join, raise_lower, set_size, strip

KEEP = 16
"""From so many neighbours on, whenever they double, a stretched axis drops those that teach it nothing more."""


def order(trail: Trail, res: Dim, opnd: Dim) -> None:
    """`res` fits under `opnd`."""
    res, opnd = find(res), find(opnd)
    if res is opnd:
        return
    if opnd.is_rigid:
        join(trail, res, opnd)
        return
    if opnd.size == 1 and opnd.below is not None and (n := len(opnd.below)) >= KEEP and not n & (n - 1):
        forget(trail, opnd)
    trail.add(opnd, "below", res)
    if res.size is None:
        trail.add(res, "above", opnd)
    press(trail, res, opnd)


def press(trail: Trail, res: Dim, opnd: Dim) -> None:
    """Tell `opnd` what is known of what fits under it."""
    if opnd.size is not None or opnd.is_rigid:
        return
    if res.size == 1 and res.unit is None:
        set_size(trail, opnd, 1, res.fact)
    elif res.size is not None:
        raise_lower(trail, opnd, res.size)
    elif res.lower is not None:
        raise_lower(trail, opnd, res.lower)


def settle(trail: Trail, dim: Dim) -> None:
    """Pass on what an axis has learned."""
    dim = find(dim)
    if dim.laws is not None:
        trail.queue.extend(dim.laws)
    if dim.below is not None and dim.is_rigid:
        below = dim.below
        trail.set(dim, "below", None)
        for res in below:
            join(trail, res, dim)
        dim = find(dim)
    if dim.above is not None:
        for opnd in dim.above:
            opnd = find(opnd)
            if opnd is not dim:
                press(trail, dim, opnd)
        if dim.size is not None:
            trail.set(dim, "above", None)


def forget(trail: Trail, dim: Dim) -> None:
    """Drop what a stretched axis was stretched to, except for one witness that it must not get a unit any more."""
    below = list(dict.fromkeys(map(find, dim.below or ())))
    witness = next((res for res in below if res.size not in (None, 1)), None)
    kept = [res for res in below if res is witness or res.size is None or res.size == 1]
    if len(kept) < len(dim.below or ()):
        trail.set(dim, "below", kept)


# --- rows -----------------------------------------------------------------------------------------------------------


class Order:
    """A row fits under a row; holds what is not yet decided of it. At least one of the rows is open."""

    __slots__ = ("cause", "inside", "opnd", "res", "slot")

    def __init__(self, res: Row, opnd: Row, cause: Cause | None, slot: int, inside: bool) -> None:
        self.res: Row | None = res
        self.opnd = opnd
        self.cause = cause
        self.slot = slot
        self.inside = inside

    def fire(self, trail: Trail) -> None:
        if self.res is None:
            return
        before = self.res.var, self.opnd.var
        left = arrange(trail, self.res, self.opnd, self.slot, self.inside)
        if left is None:
            trail.set(self, "res", None)
        else:
            for name, value in zip(("res", "opnd"), left, strict=True):
                trail.set(self, name, value)
            self.watch(trail, before)

    def watch(self, trail: Trail, before: tuple[RowVar | None, ...]) -> None:
        assert self.res is not None
        one, other = self.res.var, self.opnd.var
        if one is not None and one not in before:
            trail.add(one, "watchers", self)
        if other is not None and other is not one and other not in before:
            trail.add(other, "watchers", self)


def order_rows(trail: Trail, res: Row, opnd: Row, slot: int, inside: bool) -> None:
    """Row `res` fits under row `opnd`; `inside` if it is the row of an operand as well."""
    opnd = resolve(opnd)
    if opnd.var is None and not inside and not opnd.lead and not opnd.trail:
        return  # no axes are stretched to any number of them
    left = arrange(trail, res, opnd, slot, inside)
    if left is not None:
        Order(*left, trail.cause, slot, inside).watch(trail, ())


def arrange(trail: Trail, res: Row, opnd: Row, slot: int, inside: bool) -> tuple[Row, Row] | None:
    """Pair the axes that certainly meet, lengthen `res` where it is too short; what is left undecided is returned.

    Axes meet counted from the last; so what an open row has in its lead waits until the row is closed.
    """
    res, opnd = resolve(res), resolve(opnd)
    short = opnd.count - res.count
    if short > 0:
        if res.var is None or res.var is opnd.var:
            raise rows_differ(trail.cause, slot, res, opnd, LONGER if res.var is None else ENDLESS)
        res = lengthen(trail, res, opnd, short)
    elif short == 0 and res.var is None and opnd.var is not None:
        bind(trail, opnd.var, EMPTY)
        opnd = resolve(opnd)
    if opnd.var is None and inside and res.var is not None and not res.var.told:
        trail.set(res.var, "told", True)
    longer = res.axes if res.var is None else res.trail
    shorter = opnd.axes if opnd.var is None else opnd.trail
    back = min(len(longer), len(shorter))
    for n in range(1, back + 1):
        order(trail, longer[-n], shorter[-n])
    if opnd.var is None and opnd.count == back:
        return None
    res, opnd = strip(res, 0, back), strip(opnd, 0, back)
    if res.var is opnd.var and not (res.lead or res.trail or opnd.lead or opnd.trail):
        return None
    return res, opnd


LONGER = "an operand cannot have more axes than what it is stretched to"
ENDLESS = "no number of axes satisfies both"


def lengthen(trail: Trail, res: Row, opnd: Row, short: int) -> Row:
    """Insert axes at the variable of `res`, where `opnd` has some that would find no partner."""
    assert res.var is not None
    last = opnd.axes if opnd.var is None else opnd.trail
    known = last[: max(0, len(last) - len(res.trail))]
    behind = tuple(map(partner, known[max(0, len(known) - short) :]))
    behind = fresh(short - len(behind)) + behind
    rest = RowVar(depth=res.var.depth + short)
    value = Row((), rest, behind)
    bind(trail, res.var, value)
    return Row(res.lead, rest, behind + res.trail) if res.lead or res.trail else value


def partner(opnd: Dim) -> Dim:
    """An axis that is to fit under `opnd`: the same one, if that cannot be stretched."""
    opnd = find(opnd)
    return opnd if opnd.is_rigid else Dim()
