"""Closings: what inference decides where constraints leave a choice.

Leaves (parameters, data, placeholders) are as large as their uses; what is computed is as small as it can be. Every
closing of one stage is found in the same state, then all are made, so that no order of constraints shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ocannl.infer.arithmetic import Strided, Sum
from ocannl.infer.broadcast import Order
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.spec import KINDS
from ocannl.infer.terms import MAX_AXES, Dim, Fact, Owner, Row, RowVar, find, print_row, resolve
from ocannl.infer.trail import Trail
from ocannl.infer.unify import Equal, bind, set_size

Closing = Callable[[Trail], None]
NO_LIMIT = 1 << 30


class Open:
    """Everything undecided among connected tensors: variables of rows, then axes, each in a fixed order."""

    __slots__ = ("axes", "row_vars", "rows")

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.row_vars: list[RowVar] = []
        self.axes: list[Dim] = []

    def refresh(self) -> None:
        """Look which rows are still undecided."""
        row_vars: dict[RowVar, None] = {}
        axes: dict[Dim, None] = {}
        rows: list[Row] = []
        for row in self.rows:
            row = resolve(row)
            undecided = row.var is not None
            if row.var is not None:
                row_vars[row.var] = None
            for axis in row.axes:
                axis = find(axis)
                if axis.size is None:
                    axes[axis] = None
                    undecided = True
            if undecided:
                rows.append(row)
        self.rows = rows
        self.row_vars = list(row_vars)
        self.axes = list(axes)


def orders(var: RowVar) -> Iterator[Order]:
    """The undecided inequalities that a variable takes part in."""
    for constraint in dict.fromkeys(var.watchers):
        if isinstance(constraint, Order) and constraint.is_waiting:
            yield constraint


def below(var: RowVar) -> Iterator[Order]:
    return (o for o in orders(var) if o.opnd.var is var and o.res.var is not var)


def above(var: RowVar) -> Iterator[Order]:
    return (o for o in orders(var) if o.res.var is var and o.opnd.var is not var)


# --- rows --------------------------------------------------------------------------------------------------------------


def grow_leaves(it: Open) -> Iterator[Closing]:
    """Rows of leaves get as many axes as their uses have, directly or through what is computed from them."""
    leaves = [var for var in it.row_vars if var.leaf is not None]
    if not leaves:
        return
    cap = caps(it.row_vars)
    want = wants(it.row_vars)
    for var in leaves:
        lead, trail = want.get(var, (0, 0))
        if lead + trail > MAX_AXES:
            continue
        trail = min(trail, cap.get(var, NO_LIMIT))
        lead = min(lead, cap.get(var, NO_LIMIT) - trail)
        if lead + trail:
            yield _grow(var, lead, trail)


def _grow(var: RowVar, lead: int, trail_: int) -> Closing:
    def close(trail: Trail) -> None:
        rest = RowVar(depth=var.depth + lead + trail_)
        bind(trail, var, Row(tuple(Dim() for _ in range(lead)), rest, tuple(Dim() for _ in range(trail_))))

    return close


def caps(row_vars: Iterable[RowVar]) -> dict[RowVar, int]:
    """The largest number of axes that uses whose rows are closed leave to a variable."""
    cap: dict[RowVar, int] = {}
    todo: list[RowVar] = []
    for var in row_vars:
        for o in below(var):
            if o.res.var is None:
                room = o.res.count - o.opnd.count
                if room < cap.get(var, NO_LIMIT):
                    cap[var] = room
                    todo.append(var)
    while todo:
        var = todo.pop()
        for o in above(var):
            room = cap[var] + o.res.count - o.opnd.count
            if o.opnd.var is not None and room < cap.get(o.opnd.var, NO_LIMIT):
                cap[o.opnd.var] = room
                todo.append(o.opnd.var)
    return cap


def wants(row_vars: Iterable[RowVar]) -> dict[RowVar, tuple[int, int]]:
    """How many axes, in front and behind, the uses of a variable have that it does not have yet."""
    want: dict[RowVar, tuple[int, int]] = {}
    todo: list[RowVar] = []

    def learn(o: Order, inside: tuple[int, int]) -> None:
        var = o.opnd.var
        assert var is not None
        lead = max(0, len(o.res.lead) + inside[0] - len(o.opnd.lead))
        trail = max(0, len(o.res.trail) + inside[1] - len(o.opnd.trail))
        old = want.get(var, (0, 0))
        new = max(old[0], lead), max(old[1], trail)
        if new != old and sum(old) <= MAX_AXES:
            want[var] = new
            todo.append(var)

    for var in row_vars:
        for o in below(var):
            learn(o, (0, 0))
    while todo:
        var = todo.pop()
        for o in above(var):
            if o.opnd.var is not None:
                learn(o, want[var])
    return want


def overlap_rows(it: Open) -> Iterator[Closing]:
    """Of equal rows that start differently and end differently, each gets what the other shows: nothing overlaps."""
    for var in it.row_vars:
        for constraint in dict.fromkeys(var.watchers):
            if isinstance(constraint, Equal) and constraint.is_waiting and constraint.a.var is var:
                if constraint.a.var is not constraint.b.var:
                    yield _overlap(constraint)
                    return


def _overlap(equal: Equal) -> Closing:
    def close(trail: Trail) -> None:
        a, b = resolve(equal.a), resolve(equal.b)
        if a.var is None or b.var is None or a.var is b.var:
            return
        middle = RowVar(depth=max(a.var.depth, b.var.depth))
        bind(trail, a.var, Row(b.lead, middle, b.trail))
        bind(trail, b.var, Row(a.lead, middle, a.trail))

    return close


def end_rows(it: Open) -> Iterator[Closing]:
    """Rows get no further axes."""
    refuse_untold(untold_rows(it))
    for var in it.row_vars:
        yield _end(var)


def _end(var: RowVar) -> Closing:
    return lambda trail: bind(trail, var, Row()) if var.value is None else None


def untold_rows(it: Open) -> list[tuple[Owner, str]]:
    """Rows of parameters whose axes mean something to an operation, where nothing tells them."""
    found: dict[tuple[Owner, str], None] = {}
    asked = _upward([var for var in it.row_vars if var.asked and not var.told and not _is_told(var)])
    for var in it.row_vars:
        if var in asked and not var.told and var.leaf is not None and var.leaf.is_param and not _is_told(var):
            for kind, row in zip(KINDS, var.leaf.rows, strict=True):
                if resolve(row).var is var:
                    found[var.leaf, kind] = None
    return list(found)


def _upward(row_vars: list[RowVar]) -> set[RowVar]:
    seen = set(row_vars)
    todo = list(row_vars)
    while todo:
        for o in above(todo.pop()):
            if o.opnd.var is not None and o.opnd.var not in seen:
                seen.add(o.opnd.var)
                todo.append(o.opnd.var)
    return seen


def _is_told(var: RowVar) -> bool:
    """Everything that this row fits under is known, or computed from what is known."""
    seen = {var}
    todo = [var]
    some = False
    while todo:
        for o in above(todo.pop()):
            some = True
            up = o.opnd.var
            if up is None or up.told or up in seen:
                continue
            if up.leaf is not None:
                return False
            seen.add(up)
            todo.append(up)
    return some


# --- sizes -------------------------------------------------------------------------------------------------------------


def fit_leaves(it: Open) -> Iterator[Closing]:
    """Axes of leaves get the size of their uses."""
    for axis in it.axes:
        if axis.leaf is not None and axis.lower is not None and axis.unit is None:
            yield _fit(axis)


def _fit(axis: Dim) -> Closing:
    size = 1 if len(_units_below(axis)) > 1 else axis.lower
    assert size is not None
    return _close(axis, size, f"the size {size} of its uses")


def _units_below(axis: Dim) -> set[str]:
    units: set[str] = set()
    seen = {axis}
    todo = [axis]
    while todo:
        for res in map(find, todo.pop().below or ()):
            if res.unit is not None:
                units.add(res.unit)
            elif res.size is None and res not in seen:
                seen.add(res)
                todo.append(res)
    return units


def _close(axis: Dim, size: int, words: str) -> Closing:
    def close(trail: Trail) -> None:
        if find(axis).size is None:
            set_size(trail, axis, size, fact_of(axis, words))

    return close


def fact_of(axis: Dim, words: str) -> Fact:
    """Where the axis of a leaf is, so that an error can name it."""
    if axis.leaf is not None:
        for kind, row in zip(KINDS, axis.leaf.rows, strict=True):
            for n, cell in enumerate(resolve(row).axes, 1):
                if find(cell) is axis:
                    return Fact(axis.leaf, kind, n, words)
    return Fact(text=words)


def reach_indices(it: Open) -> Iterator[Closing]:
    """Axes that are read at fixed places are large enough for these."""
    for axis in it.axes:
        if axis.least > 1 or (axis.least == 1 and axis.leaf is None):
            size = axis.least if axis.lower is None or axis.lower < axis.least or axis.least == 1 else axis.lower
            yield _close(axis, size, f"an axis indexed up to {axis.least - 1}")


def fit_computed(it: Open) -> Iterator[Closing]:
    """Axes that windows, concatenations and products are about get the size of their uses."""
    for axis in it.axes:
        if axis.laws and axis.lower is not None:
            yield _fit(axis)


def drop_parts(it: Open) -> Iterator[Closing]:
    """Parts of a concatenation that nothing tells anything about vanish."""
    for axis in it.axes:
        for law in axis.laws or ():
            if isinstance(law, Sum) and find(law.whole) is not axis and find(law.whole).size is not None:
                if axis.leaf is None and not axis.below:
                    yield _close(axis, 0, "a part that nothing needs")
                    return


def free_leaves(it: Open) -> Iterator[Closing]:
    """Axes of leaves that nothing says anything about: size 1, but parameters must be told."""
    refuse_untold(untold_axes(it))
    for axis in it.axes:
        if axis.leaf is not None:
            yield _close(axis, max(1, axis.least), "a size that nothing says anything about")


def untold_axes(it: Open) -> list[tuple[Owner, str]]:
    found: dict[tuple[Owner, str], None] = {}
    asked = {axis for axis in it.axes if axis.asked and not _size_is_told(axis)}
    todo = list(asked)
    while todo:
        for up in map(find, todo.pop().above or ()):
            if up.size is None and up not in asked:
                asked.add(up)
                todo.append(up)
    for axis in it.axes:
        if axis in asked and axis.leaf is not None and axis.leaf.is_param and not _size_is_told(axis):
            for kind, row in zip(KINDS, axis.leaf.rows, strict=True):
                if any(find(cell) is axis for cell in resolve(row).axes):
                    found[axis.leaf, kind] = None
    return list(found)


def _size_is_told(axis: Dim) -> bool:
    """Everything that this axis fits under is of size 1, or computed from such."""
    if axis.least:
        return True
    seen = {axis}
    todo = [axis]
    some = False
    while todo:
        for up in map(find, todo.pop().above or ()):
            some = True
            if up.size is not None or up in seen:
                continue
            if up.leaf is not None:
                return False
            seen.add(up)
            todo.append(up)
    return some


def shrink_computed(it: Open) -> Iterator[Closing]:
    """What is left has size 1."""
    for axis in it.axes:
        yield _close(axis, max(1, axis.least), "1, since nothing asks for more")


def refuse_untold(found: list[tuple[Owner, str]]) -> None:
    if not found:
        return
    names = " and ".join(f"the {kind} row of `{owner.provenance.label}`" for owner, kind in found)
    parameters = list(dict.fromkeys(owner for owner, _ in found))
    words = " and ".join(f"`{owner.provenance.label}`" for owner in parameters)
    owner, kind = found[0]
    known = print_row(owner.rows[KINDS.index(kind)])  # type: ignore[arg-type]
    raise Mismatch(
        f"you forgot a hidden dimension: nothing says what {names} {'is' if len(found) == 1 else 'are'}",
        owners=tuple(parameters),
        fix=f"give `{owner.provenance.label}` {kind}=[...]" + (f" (known: {known})" if known != "..." else "")
        + (f", or another of {words}" if len(parameters) > 1 else ""),
    )  # fmt: skip


__all__ = ["Open", "Strided"]
