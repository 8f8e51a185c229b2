"""Decisions about sizes, when the number of axes is known."""

from __future__ import annotations

from collections import Counter
from math import prod

from ocannl.infer.arithmetic import Law, Product, Strided, Sum
from ocannl.infer.close import AxisClosing, Closing, Open, Place, refuse_unsized, refuse_untold
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.results import BroadcastAxis
from ocannl.infer.spec import KINDS, Padding
from ocannl.infer.terms import Dim, find, resolve
from ocannl.infer.totals import Total
from ocannl.infer.trail import Trail
from ocannl.infer.unify import set_size


def laws(axis: Dim) -> list[Law]:
    """The arithmetic an axis takes part in."""
    return [law for law in axis.laws or () if isinstance(law, Strided | Sum | Product)]


def fit_counted(it: Open) -> list[Closing]:
    """Where the number of cells is known but not yet the number of axes, known uses decide what is missing."""
    totals = {law: None for var in it.row_vars for law in var.watchers or () if isinstance(law, Total)}
    axes = {axis: None for total in totals if find(total.whole).size is not None for axis in total.axes}
    return [fit(axis) for axis in axes if axis.size is None and axis.lower is not None and not axis.is_rigid]


def fit_leaves(it: Open) -> list[Closing]:
    """Axes of leaves get the size of their uses."""
    return [fit(axis) for axis in it.axes if axis.leaf is not None and axis.lower is not None and not axis.is_rigid]


def fit(axis: Dim) -> Closing:
    """Uses that agree in size but not in unit, or not with arithmetic, leave nothing but stretching.

    An axis of size 1 takes the unit of its uses; a larger one has it, since it is the same axis.
    """
    assert axis.lower is not None
    units = units_below(axis)
    stretches = len(units) > 1 or (not admits(axis, axis.lower) and admits(axis, 1))
    size = 1 if stretches else axis.lower
    unit = None if stretches else next(iter(units), None)
    return AxisClosing(axis, size, f"an axis of which {axis.lower} is used", "fits its use", unit)


def admits(axis: Dim, size: int) -> bool:
    """No arithmetic that the axis takes part in refuses the size."""
    for law in laws(axis):
        trial = Trail()
        try:
            set_size(trial, axis, size, None)
            law.fire(trial)
        except Mismatch:
            return False
        finally:
            trial.undo()
    return True


def units_below(axis: Dim) -> set[str]:
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


def reach_indices(it: Open) -> list[Closing]:
    """Axes that are read at fixed places are just large enough for these."""
    read = [axis for axis in it.axes if axis.least]
    return [AxisClosing(a, a.least, f"an axis indexed up to {a.least - 1}", "reaches its index") for a in read]


def fit_arithmetic(it: Open) -> list[Closing]:
    """Axes in arithmetic with axes of leaves get the size of their uses, so that these leaves grow."""
    grow = reached_from_leaves(it.axes)
    return [
        fit(axis) for axis in it.axes
        if axis in grow and axis.lower is not None and not axis.is_rigid and laws(axis) and axis not in it.unsized
    ]  # fmt: skip


def reached_from_leaves(axes: list[Dim]) -> set[Dim]:
    """Open axes that depend on an open axis of a leaf, by arithmetic or since they are stretched from it."""
    todo = [axis for axis in axes if axis.leaf is not None]
    found = set(todo)
    while todo:
        axis = todo.pop()
        cells = [cell for law in laws(axis) for cell in (law.whole, *law.parts)]
        for other in map(find, (*cells, *(axis.below or ()))):
            if other.size is None and other not in found:
                found.add(other)
                todo.append(other)
    return found


def drop_spare(it: Open) -> list[Closing]:
    """Parts of a concatenation that nothing else mentions vanish, all but one if there is nothing else."""
    spare: dict[Dim, None] = {}
    for axis in it.axes:
        for law in laws(axis):
            if isinstance(law, Sum):
                unknown = [part for part in dict.fromkeys(map(find, law.parts)) if part.size is None]
                spare.update(dict.fromkeys(law.superfluous(unknown)))
    return [AxisClosing(axis, 0, "a part that nothing needs", "nothing needs it") for axis in spare]


def free_leaves(it: Open) -> list[Closing]:
    """Axes of leaves that nothing says anything about have size 1; those of parameters had to be told. What arithmetic
    gives waits for what it is made of, and so does what is used beside it."""
    refuse_untold(untold(it))
    later = computed(it.axes)
    leaves = [axis for axis in it.axes if axis.leaf is not None and axis not in later and not is_beside(axis, later)]
    refuse_unpaired(it, leaves)
    return [AxisClosing(axis, 1, "an axis that nothing tells a size", "nothing tells its size") for axis in leaves]


def untold(it: Open) -> list[Place]:
    """Axes of parameters that matter to an operation, where nothing tells their size."""
    reached = [axis for axis in it.axes if axis.asked and not is_told(axis)]
    matters = set(reached)
    while reached:
        for up in map(find, reached.pop().above or ()):
            if up.size is None and up not in matters:
                matters.add(up)
                reached.append(up)
    places: dict[Place, None] = {}
    for owner in it.owners:
        if owner.is_param:
            for kind, row in zip(KINDS, owner.rows, strict=True):
                axes = [axis for axis in map(find, resolve(row).axes) if axis.size is None]
                if any((owner.asked or axis in matters) and not is_told(axis) for axis in axes):
                    places[owner, kind] = None
    return list(places)


def is_told(axis: Dim) -> bool:
    """What it fits under is known or computed from what is known, or a use of it fits under something known too."""
    return fits_known(axis) or any(known(up) for use in uses(axis) for up in use.above or ())


def known(axis: Dim) -> bool:
    return find(axis).size is not None


def uses(axis: Dim) -> set[Dim]:
    """The axes that fit under this one, directly or not."""
    seen: set[Dim] = set()
    todo = [axis]
    while todo:
        for use in map(find, todo.pop().below or ()):
            if use not in seen:
                seen.add(use)
                todo.append(use)
    return seen


def fits_known(axis: Dim) -> bool:
    seen = {axis}
    todo = [axis]
    some = False
    while todo:
        for up in map(find, todo.pop().above or ()):
            if up.size is not None:
                some = True
            elif up not in seen:
                if up.leaf is not None:
                    return False
                seen.add(up)
                todo.append(up)
    return some


def shrink_computed(it: Open) -> list[Closing]:
    """What is left is 1; what arithmetic leaves ambiguous is refused, and so is what needs an equation and has none."""
    for axis in it.axes:
        if axis in it.unsized:
            refuse_unsized(*it.unsized[axis])
    refuse_ambiguous(it)
    axes = computed_last(it.axes)
    refuse_unpaired(it, axes)
    words = "nothing asks for more"
    return [AxisClosing(axis, 1, f"an axis of which {words}", words) for axis in axes]


def computed_last(axes: list[Dim]) -> list[Dim]:
    """Those that do not follow when the others are known, if there are any."""
    later, wholes = computed(axes), wholes_of(axes)
    first = [axis for axis in axes if axis not in later]
    first = [axis for axis in first if not is_beside(axis, later)] or first
    return first or [axis for axis in axes if axis not in wholes] or axes


def computed(axes: list[Dim]) -> set[Dim]:
    """What arithmetic and the counting of cells give, and what is stretched to an axis in arithmetic."""
    found = wholes_of(axes)
    todo = [axis for axis in axes if any(isinstance(law, Law | Total) for law in axis.laws or ())]
    while todo:
        axis = todo.pop()
        fresh = {up for up in map(find, axis.above or ()) if up.size is None and up is not axis} - found
        found |= fresh
        todo += fresh
    return found


def is_beside(axis: Dim, later: set[Dim]) -> bool:
    """The axis meets one of these in a result, which it is to fit."""
    if axis.leaf is None:
        return False
    return any(find(up) in later and find(up) is not use for use in uses(axis) for up in use.above or ())


def wholes_of(axes: list[Dim]) -> set[Dim]:
    """What follows from the parts of arithmetic, or from the operands of a result, when these are known."""
    every = [law for axis in axes for law in axis.laws or ()]
    wholes = {find(law.whole) for law in every if isinstance(law, Strided | Sum | Product | Total)}
    return wholes | {find(law.result) for law in every if isinstance(law, BroadcastAxis) and not law.is_settled}


def refuse_unpaired(it: Open, closing: list[Dim]) -> None:
    """One whole that is made of parts in two ways, which parts of size 1 would not make equal, or two that a result is
    computed from: nobody said which parts are larger."""
    ones = set(closing)
    ways: dict[Dim, dict[int, Sum]] = {}
    for axis in it.axes:
        for law in laws(axis):
            parts = [find(part) for part in law.parts]
            whole = find(law.whole)
            if isinstance(law, Sum) and whole.size is None and all(p.size is not None or p in ones for p in parts):
                total = law.constant + sum(1 if part.size is None else part.size for part in parts)
                results = map(find, whole.below or ()) if total != 1 else ()
                for place in (whole, *results):
                    ways.setdefault(place, {})[total] = law
    for whole, totals in ways.items():
        if len(totals) > 1:
            one, other = list(totals.values())[:2]
            raise Mismatch(
                f"nothing says how `{one.text}` and `{other.text}` divide the same axis",
                dims=(whole, *one.parts, *other.parts), causes=(one.cause, other.cause),
                fix="give the size of a part by its name",
            )  # fmt: skip


def refuse_ambiguous(it: Open) -> None:
    """A known whole does not say how it divides, unless only parts of size 1 make it; parts of a sum may be empty."""
    for axis in it.axes:
        for law in laws(axis):
            whole, parts = find(law.whole), Counter(map(find, law.parts))
            unknown = [part for part in parts if part.size is None]
            if whole.size is None or len(unknown) < 2:
                continue
            known = [part.size for part in parts.elements() if part.size is not None]
            match law:
                case Strided(): is_one = law.padding is not Padding.VALID or whole.size == law.offset + 1
                case Sum(): is_one = False
                case Product(): is_one = whole.size == law.factor * prod(known)
            if not is_one:
                raise Mismatch(
                    f"nothing says how `{law.text}` divides {whole.fact or 'the whole'}, which is {whole.size}",
                    dims=(law.whole, *law.parts), causes=(law.cause,), fix="give the size of a part by its name",
                )  # fmt: skip
