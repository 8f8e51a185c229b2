"""Broadcasting as an order: `res <= opnd` if the operand can be stretched to the result."""

from __future__ import annotations

from ocannl.infer.mismatch import rows_differ
from ocannl.infer.terms import EMPTY, Cause, DimVar, Row, RowVar, Trail, find, fresh, resolve
from ocannl.infer.unify import bind, join, raise_lower_bound, set_size, strip

PRUNE_THRESHOLD = 16
"""Number of neighbours from which a stretched axis prunes redundant ones, whenever their number doubles."""


def order(trail: Trail, res: DimVar, opnd: DimVar) -> None:
    """Adds the inequality `res <= opnd`."""
    res, opnd = find(res), find(opnd)
    if res is opnd:
        return
    if opnd.is_rigid:
        join(trail, res, opnd)
        return
    if opnd.size == 1 and opnd.below is not None and (n := len(opnd.below)) >= PRUNE_THRESHOLD and not n & (n - 1):
        prune_below(trail, opnd)
    trail.add(opnd, "below", res)
    if res.size is None:
        trail.add(res, "above", opnd)
    push_lower_bound(trail, res, opnd)


def push_lower_bound(trail: Trail, res: DimVar, opnd: DimVar) -> None:
    """Propagates the size or lower bound of `res` to `opnd`."""
    if opnd.size is not None or opnd.is_rigid:
        return
    if res.size == 1 and res.unit is None:
        set_size(trail, opnd, 1, res.evidence)
    elif res.size is not None:
        raise_lower_bound(trail, opnd, res.size)
    elif res.lower_bound is not None:
        raise_lower_bound(trail, opnd, res.lower_bound)


def propagate_axis(trail: Trail, dim: DimVar) -> None:
    """Propagates a changed axis to its equations and neighbours."""
    dim = find(dim)
    if dim.size_equations is not None:
        trail.queue.extend(dim.size_equations)
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
                push_lower_bound(trail, dim, opnd)
        if dim.size is not None:
            trail.set(dim, "above", None)


def prune_below(trail: Trail, dim: DimVar) -> None:
    """Drops solved uses of a stretched axis, except for one witness that rules out a unit."""
    below = list(dict.fromkeys(map(find, dim.below or ())))
    witness = next((res for res in below if res.size not in (None, 1)), None)
    kept = [res for res in below if res is witness or res.size is None or res.size == 1]
    if len(kept) < len(dim.below or ()):
        trail.set(dim, "below", kept)


# --- rows -----------------------------------------------------------------------------------------------------------


class Order:
    """Undecided part of the row inequality `res <= opnd`; at least one of the rows is open."""

    __slots__ = ("cause", "inner", "opnd", "res", "slot")

    def __init__(self, res: Row, opnd: Row, cause: Cause | None, slot: int, inner: bool) -> None:
        self.res: Row | None = res
        self.opnd = opnd
        self.cause = cause
        self.slot = slot
        self.inner = inner

    def fire(self, trail: Trail) -> None:
        if self.res is None:
            return
        before = self.res.var, self.opnd.var
        remaining = pair_axes(trail, self.res, self.opnd, self.slot, self.inner)
        if remaining is None:
            trail.set(self, "res", None)
        else:
            for name, value in zip(("res", "opnd"), remaining, strict=True):
                trail.set(self, name, value)
            self.watch(trail, before)

    def watch(self, trail: Trail, before: tuple[RowVar | None, ...]) -> None:
        assert self.res is not None
        res_var, opnd_var = self.res.var, self.opnd.var
        if res_var is not None and res_var not in before:
            trail.add(res_var, "watchers", self)
        if opnd_var is not None and opnd_var is not res_var and opnd_var not in before:
            trail.add(opnd_var, "watchers", self)


def order_rows(trail: Trail, res: Row, opnd: Row, slot: int, inner: bool) -> None:
    """Adds the row inequality `res <= opnd`; `inner` if `res` is the row of an operand as well."""
    opnd = resolve(opnd)
    if opnd.var is None and not inner and not opnd.lead and not opnd.trail:
        return  # the empty row broadcasts to any row
    remaining = pair_axes(trail, res, opnd, slot, inner)
    if remaining is not None:
        Order(*remaining, trail.cause, slot, inner).watch(trail, ())


def pair_axes(trail: Trail, res: Row, opnd: Row, slot: int, inner: bool) -> tuple[Row, Row] | None:
    """Pairs the axes that certainly meet, lengthens `res` if it is too short, and returns the undecided remainder.

    Axes are aligned from the last, so the leading axes of an open row wait until the row is closed.
    """
    res, opnd = resolve(res), resolve(opnd)
    short = opnd.count - res.count
    if short > 0:
        if res.var is None or res.var is opnd.var:
            raise rows_differ(trail.cause, slot, res, opnd, OPERAND_TOO_LONG if res.var is None else UNSATISFIABLE)
        res = lengthen(trail, res, opnd, short)
    elif short == 0 and res.var is None and opnd.var is not None:
        bind(trail, opnd.var, EMPTY)
        opnd = resolve(opnd)
    if opnd.var is None and inner and res.var is not None and not res.var.constrained:
        trail.set(res.var, "constrained", True)
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


OPERAND_TOO_LONG = "an operand cannot have more axes than the shape it broadcasts to"
UNSATISFIABLE = "no number of axes satisfies both"


def lengthen(trail: Trail, res: Row, opnd: Row, short: int) -> Row:
    """Inserts axes at the variable of `res`, one for each axis of `opnd` without a partner."""
    assert res.var is not None
    trailing = opnd.axes if opnd.var is None else opnd.trail
    unmatched = trailing[: max(0, len(trailing) - len(res.trail))]
    behind = tuple(map(partner, unmatched[max(0, len(unmatched) - short) :]))
    behind = fresh(short - len(behind)) + behind
    remainder = RowVar(depth=res.var.depth + short)
    value = Row((), remainder, behind)
    bind(trail, res.var, value)
    return Row(res.lead, remainder, behind + res.trail) if res.lead or res.trail else value


def partner(opnd: DimVar) -> DimVar:
    """Returns an axis that fits under `opnd`: `opnd` itself if rigid, else a new axis."""
    opnd = find(opnd)
    return opnd if opnd.is_rigid else DimVar()
