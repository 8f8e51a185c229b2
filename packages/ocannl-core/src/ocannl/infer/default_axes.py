"""Defaults for axes: sizes, once all ranks are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod

from ocannl.infer.broadcast_results import BroadcastAxis
from ocannl.infer.cell_count import CellCount
from ocannl.infer.default_rows import cell_counts
from ocannl.infer.defaults import AxisDefault, Default, OwnerRow, Undecided, refuse_unconstrained, refuse_unsized
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.row_overlaps import forms
from ocannl.infer.size_equations import Product, SizeEquation, Strided, Sum
from ocannl.infer.spec import KINDS, Padding
from ocannl.infer.terms import DimVar, Trail, find, resolve
from ocannl.infer.unify import set_size


def size_equations(axis: DimVar) -> list[SizeEquation]:
    """Equations that contain an axis."""
    return [equation for equation in axis.size_equations or () if isinstance(equation, Strided | Sum | Product)]


def fit_counted(undecided: Undecided) -> list[Default]:
    """Fits axes of open rows with a known number of cells to their uses, before the rows are filled."""
    counts = [count for count in cell_counts(undecided) if find(count.total).size is not None]
    rows = [form for count in counts for row in count.rows for form in forms(row)]
    axes = dict.fromkeys(find(axis) for row in rows for axis in row.axes)
    return [fit(axis) for axis in axes if axis.size is None and has_flexible_bound(axis)]


def refuse_unsized_names(undecided: Undecided) -> list[Default]:
    """Rejects names without an operand that sizes them if only defaults could: no axis that operations connect with
    theirs has a size. All numbers of axes are known here, and the known sizes follow from given ones."""
    for term, (relation, name) in {**undecided.unsized, **undecided.unsized_leaves}.items():
        if isinstance(term, DimVar) and name not in relation.captured and not meets_sized(term):
            refuse_unsized(relation, name)
    return []


def meets_sized(axis: DimVar) -> bool:
    """True if operations connect the axis, directly or through other axes, with an axis of a given size, one read at a
    fixed index, or one of a tensor with a known number of cells."""
    seen = {axis}
    todo = [axis]
    while todo:
        axis = todo.pop()
        is_default = axis.evidence is not None and axis.evidence.decision != ""
        if axis.min_size or (axis.size is not None and not is_default):
            return True
        if any(isinstance(constraint, CellCount) for constraint in axis.size_equations or ()):
            return True
        equated = (cell for equation in size_equations(axis) for cell in (equation.total, *equation.parts))
        for cell in map(find, (*(axis.above or ()), *(axis.below or ()), *equated)):
            if cell not in seen:
                seen.add(cell)
                todo.append(cell)
    return False


def fit_leaves(undecided: Undecided) -> list[Default]:
    """Fits axes of leaves to the size of their uses."""
    return [fit(axis) for axis in undecided.axes if axis.leaf is not None and has_flexible_bound(axis)]


def has_flexible_bound(axis: DimVar) -> bool:
    """True if a use bounds the axis and the axis may be stretched."""
    return axis.lower_bound is not None and not axis.is_rigid


def fit(axis: DimVar) -> Default:
    """Fits an axis to its lower bound, or to 1 if its uses differ in unit or an equation admits only 1.

    A fitted axis takes the unit of its uses, unless its size is 1: an axis of size 1 without a unit fits any use.
    """
    assert axis.lower_bound is not None
    units = units_below(axis)
    stretches = len(units) > 1 or (not admits(axis, axis.lower_bound) and admits(axis, 1))
    size = 1 if stretches else axis.lower_bound
    unit = next(iter(units), None) if size != 1 else None
    return AxisDefault(axis, size, f"an axis of which {axis.lower_bound} is used", "fits its use", unit)


def admits(axis: DimVar, size: int) -> bool:
    """True if no equation of the axis contradicts the size (tested by trial propagation)."""
    for equation in size_equations(axis):
        trial = Trail()
        try:
            set_size(trial, axis, size, None)
            equation.fire(trial)
        except Mismatch:
            return False
        finally:
            trial.undo()
    return True


def units_below(axis: DimVar) -> set[str]:
    """Units of the direct and indirect uses of an axis."""
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


def reach_indices(undecided: Undecided) -> list[Default]:
    """Sizes axes read at fixed indices by the largest index."""
    read = [axis for axis in undecided.axes if axis.min_size]
    return [AxisDefault(a, a.min_size, f"an axis indexed up to {a.min_size - 1}", "reaches its index") for a in read]


def fit_arithmetic(undecided: Undecided) -> list[Default]:
    """Fits axes in equations with axes of leaves to their uses, so that these leaves grow."""
    reached = reached_from_leaves(undecided.axes)
    return [
        fit(axis) for axis in undecided.axes
        if axis in reached and has_flexible_bound(axis) and size_equations(axis) and axis not in undecided.unsized
    ]  # fmt: skip


def reached_from_leaves(axes: list[DimVar]) -> set[DimVar]:
    """Open axes that depend on an open axis of a leaf through equations or broadcasting (transitive closure)."""
    todo = [axis for axis in axes if axis.leaf is not None]
    reached = set(todo)
    while todo:
        axis = todo.pop()
        cells = [cell for equation in size_equations(axis) for cell in (equation.total, *equation.parts)]
        for neighbour in map(find, (*cells, *(axis.below or ()))):
            if neighbour.size is None and neighbour not in reached:
                reached.add(neighbour)
                todo.append(neighbour)
    return reached


def drop_unused_parts(undecided: Undecided) -> list[Default]:
    """Sizes unused parts of concatenations by 0, except for the last one if all parts are unused."""
    unused: dict[DimVar, None] = {}
    for axis in undecided.axes:
        for equation in size_equations(axis):
            if isinstance(equation, Sum):
                unused.update(dict.fromkeys(equation.superfluous()))
    return [AxisDefault(axis, 0, "a part that no use requires", "nothing needs it") for axis in unused]


def default_leaves(undecided: Undecided) -> list[Default]:
    """Sizes unconstrained axes of leaves by 1, and rejects unconstrained parameters and names. Computed axes, and axes
    that meet them, are deferred."""
    refuse_unconstrained(unconstrained(undecided))
    leaves = independent_leaves(undecided.axes)
    for axis in leaves:
        if axis in undecided.unsized_leaves and not is_constrained(axis):
            refuse_unsized(*undecided.unsized_leaves[axis])
    refuse_unpaired(undecided, leaves)
    return [AxisDefault(axis, 1, "an axis without a known size", "its size is not determined") for axis in leaves]


def unconstrained(undecided: Undecided) -> list[OwnerRow]:
    """Rows of parameters with axes that an operation requires but nothing constrains."""
    reached = [axis for axis in undecided.axes if axis.is_required and not is_constrained(axis)]
    required = set(reached)
    while reached:
        for upper in map(find, reached.pop().above or ()):
            if upper.size is None and upper not in required:
                required.add(upper)
                reached.append(upper)
    owner_rows: dict[OwnerRow, None] = {}
    for owner in undecided.owners:
        if owner.is_param:
            for kind, row in zip(KINDS, owner.rows, strict=True):
                axes = [axis for axis in map(find, resolve(row).axes) if axis.size is None]
                if any((owner.is_required or axis in required) and not is_constrained(axis) for axis in axes):
                    owner_rows[owner, kind] = None
    return list(owner_rows)


def is_constrained(axis: DimVar) -> bool:
    """True if `fits_sized` holds, or the axis or a use of it meets an axis of known size."""
    if has_least_size(axis) or fits_sized(axis):
        return True
    return any(is_sized(upper) for use in (axis, *uses(axis)) for upper in use.above or ())


def has_least_size(axis: DimVar) -> bool:
    """True if the axis meets axes of size 1, or is computed from such axes and axes of known size."""
    seen = {axis}
    todo = [axis]
    while todo:
        axis = todo.pop()
        if axis.meets_one:
            continue
        parts = [part for e in size_equations(axis) if find(e.total) is axis for part in map(find, e.parts)]
        unknown = [part for part in parts if part.size is None]
        if not parts or not seen.isdisjoint(unknown):
            return False
        seen.update(unknown)
        todo += unknown
    return True


def is_sized(axis: DimVar) -> bool:
    return find(axis).size is not None


def uses(axis: DimVar) -> set[DimVar]:
    """Axes that fit under this axis (transitive closure)."""
    seen: set[DimVar] = set()
    todo = [axis]
    while todo:
        for use in map(find, todo.pop().below or ()):
            if use not in seen:
                seen.add(use)
                todo.append(use)
    return seen


def fits_sized(axis: DimVar) -> bool:
    """True if the axis fits under an axis with a least size, directly or through computed axes, and under no other open
    leaf."""
    seen = {axis}
    todo = [axis]
    is_bounded = False
    while todo:
        for upper in map(find, todo.pop().above or ()):
            if upper.size is not None or has_least_size(upper):
                is_bounded = True
            elif upper not in seen:
                if upper.leaf is not None:
                    return False
                seen.add(upper)
                todo.append(upper)
    return is_bounded


def independent_leaves(axes: list[DimVar]) -> list[DimVar]:
    """Axes of leaves that neither are computed nor meet, directly or through other leaves, an axis that is computed."""
    computed = computed_axes(axes) | determined_later(axes)
    leaves = [axis for axis in axes if axis.leaf is not None and axis not in computed]
    return without_meeting([axis for axis in leaves if not fits_any(axis, computed)], computed)


def without_meeting(axes: list[DimVar], computed: set[DimVar]) -> list[DimVar]:
    """The axes that do not meet a computed axis, directly or through other axes of leaves."""
    deferred = set(computed)
    while meeting := [axis for axis in axes if meets_any(axis, deferred)]:
        deferred.update(meeting)
        axes = [axis for axis in axes if axis not in deferred]
    return axes


def determined_later(axes: list[DimVar]) -> set[DimVar]:
    """Computed axes that an equation determines once an axis of a leaf in this equation is known, or once its
    superfluous parts are dropped."""
    equations = {equation: None for axis in axes for equation in size_equations(axis)}
    determined: set[DimVar] = set()
    for equation in equations:
        cells = [cell for cell in map(find, (equation.total, *equation.parts)) if cell.size is None]
        has_superfluous = isinstance(equation, Sum) and equation.superfluous()
        if has_superfluous or any(cell.leaf is not None for cell in cells):
            determined.update(cell for cell in cells if cell.leaf is None)
    return determined


def shrink_computed(undecided: Undecided) -> list[Default]:
    """Sizes the remaining axes by 1; rejects ambiguous equations and names without an equation."""
    for axis in undecided.axes:
        if axis in undecided.unsized:
            refuse_unsized(*undecided.unsized[axis])
    refuse_ambiguous(undecided)
    axes = computed_last(undecided.axes)
    refuse_unpaired(undecided, axes)
    reason = "no use requires more"
    return [AxisDefault(axis, 1, f"an axis of which {reason}", reason) for axis in axes]


def computed_last(axes: list[DimVar]) -> list[DimVar]:
    """The axes to default first: those not determined by other undecided axes, if any; else parts of equations, before
    the leaves that are stretched to them."""
    computed, totals = computed_axes(axes), computed_totals(axes)
    first = [axis for axis in axes if axis not in computed]
    parts = [axis for axis in axes if axis not in totals]
    equated = [axis for axis in parts if size_equations(axis)]
    return next(filter(None, (without_meeting(first, computed), first, equated, parts)), axes)


def computed_axes(axes: list[DimVar]) -> set[DimVar]:
    """Axes determined by equations and cell counts, and the axes stretched to axes in equations."""
    computed = computed_totals(axes)
    todo = [axis for axis in axes if any(isinstance(c, SizeEquation | CellCount) for c in axis.size_equations or ())]
    while todo:
        axis = todo.pop()
        added = {upper for upper in map(find, axis.above or ()) if upper.size is None and upper is not axis} - computed
        computed |= added
        todo += added
    return computed


def meets_any(axis: DimVar, targets: set[DimVar]) -> bool:
    """True if an axis of a leaf meets a target axis in a result."""
    if axis.leaf is None:
        return False
    return any(find(upper) in targets and find(upper) is not use for use in uses(axis) for upper in use.above or ())


def fits_any(axis: DimVar, targets: set[DimVar]) -> bool:
    """True if an axis fits under a target axis."""
    return any(find(upper) in targets for upper in axis.above or ())


def computed_totals(axes: list[DimVar]) -> set[DimVar]:
    """Axes determined by the parts of an equation, or by the operands of a broadcast."""
    constraints = [constraint for axis in axes for constraint in axis.size_equations or ()]
    totals = {find(c.total) for c in constraints if isinstance(c, Strided | Sum | Product | CellCount)}
    return totals | {find(c.result) for c in constraints if isinstance(c, BroadcastAxis) and not c.is_settled}


def refuse_unpaired(undecided: Undecided, defaulted: list[DimVar]) -> None:
    """Rejects two concatenations of the same axis, or of axes of one broadcast, that parts of size 1 make unequal."""
    ones = set(defaulted)
    sums: dict[DimVar, dict[int, Sum]] = {}
    for axis in undecided.axes:
        for equation in size_equations(axis):
            parts = [find(part) for part in equation.parts]
            total = find(equation.total)
            if isinstance(equation, Sum) and total.size is None and all(p.size is not None or p in ones for p in parts):
                size = equation.constant + sum(1 if part.size is None else part.size for part in parts)
                results = map(find, total.below or ()) if size != 1 else ()
                for cell in (total, *results):
                    sums.setdefault(cell, {})[size] = equation
    for total, by_size in sums.items():
        if len(by_size) > 1:
            left, right = list(by_size.values())[:2]
            raise Mismatch(
                f"nothing says how `{left.text}` and `{right.text}` divide the same axis",
                dims=(total, *left.parts, *right.parts), causes=(left.cause, right.cause),
                fix="give the size of a part by its name",
            )  # fmt: skip


def refuse_ambiguous(undecided: Undecided) -> None:
    """Rejects a known total with several unknown parts."""
    for equation in ambiguous_equations(undecided.axes):
        total = find(equation.total)
        raise Mismatch(
            f"nothing says how `{equation.text}` divides {total.evidence or 'the whole'}, which is {total.size}",
            dims=(equation.total, *equation.parts), causes=(equation.cause,),
            fix="give the size of a part by its name",
        )  # fmt: skip


def ambiguous_equations(axes: list[DimVar]) -> Iterator[SizeEquation]:
    """Equations of a known total with several unknown parts, unless all parts must be 1; parts of a sum may be
    empty."""
    for axis in axes:
        for equation in size_equations(axis):
            total, parts = find(equation.total), Counter(map(find, equation.parts))
            unknown = [part for part in parts if part.size is None]
            if total.size is None or len(unknown) < 2:
                continue
            sizes = [part.size for part in parts.elements() if part.size is not None]
            match equation:
                case Strided(padding=Padding.SAME | Padding.UNSTATED): is_unique = True
                case Strided(): is_unique = total.size + equation.margins == equation.offset + 1
                case Sum(): is_unique = False
                case Product(): is_unique = total.size == equation.factor * prod(sizes)
            if not is_unique:
                yield equation
