"""Why a tensor has its sizes: for each axis, the fact that told its size and the operations it came through.

Nothing is recorded for this. A cell knows the fact that told its size; cells that must agree are one cell; so the way
of a fact is the shortest path from the tensor that is asked about to the tensor that was given, through operations
between tensors that have an axis with this fact.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence

from ocannl.infer.arithmetic import Product, Strided, Sum
from ocannl.infer.lengths import length, operations
from ocannl.infer.relation import Relation
from ocannl.infer.spec import KINDS, Kind, Padding
from ocannl.infer.terms import Dim, Fact, Owner, find, resolve
from ocannl.infer.totals import Total

DEPTH = 4
"""So many computations in a row are followed."""

WIDTH = 100
"""Among so many axes the uses of a stretched one are looked for."""

SHOWN = 4
"""So many operations are shown at either end of a long way."""


class Reasons:
    """Text when printed: for each axis of a tensor whose shape is known, what forced its size."""

    __slots__ = ("lines", "title")

    def __init__(self, owner: Owner) -> None:
        self.title = owner.provenance.label
        self.lines = [f"{self.title}   {owner.known or '(no axes)'}"]
        for kind, row in zip(KINDS, owner.rows, strict=True):
            self.lines.extend(counted(owner, kind))
            for n, axis in enumerate(map(find, resolve(row).axes), 1):
                self.lines.append(f"  {kind} axis {n} is {size_of(axis)}")
                self.lines.extend(f"    {line}" for line in chain(axis, owner, kind))

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return f"<reasons of {self.title}>"


def counted(owner: Owner, kind: Kind) -> Iterator[str]:
    """Why a row that was not given has so many axes, where the reasons of its axes do not tell."""
    axes = [find(axis) for axis in resolve(owner.rows[KINDS.index(kind)]).axes]
    found = None if kind in owner.given else length(owner, KINDS.index(kind))
    if found is None:
        if not axes and owner.origin is None and kind not in owner.given:
            yield f"  {kind} row is empty: nothing asks for axes"
        return
    giver = found.giver and found.giver[0]
    if all(tells(axis.fact, giver, len(axes)) for axis in axes) and (axes or owner.origin is not None):
        return
    yield f"  {kind} row {'is empty' if not axes else 'has 1 axis' if len(axes) == 1 else f'has {len(axes)} axes'}"
    if found.giver is not None:
        who = found.giver[0].provenance
        yield f"    {KINDS[found.giver[1]]} row of {who.label} is given: {said(who.role, who.where)}"
    yield from (f"    {line}" for line in steps(found.way[::-1], owner, kind))


def tells(fact: Fact | None, giver: Owner | None, count: int) -> bool:
    """Who told the size of an axis told the length of its row as well."""
    if fact is None or fact.why:
        return False
    home = fact.owner
    if home in (giver, None):
        return True
    assert home is not None
    return fact.kind in home.given and resolve(home.rows[KINDS.index(fact.kind)]).count == count


def chain(axis: Dim, owner: Owner, kind: Kind) -> Iterator[str]:
    """What told the size of an axis of a tensor, then the operations between, in the direction in which it went."""
    fact = axis.fact
    if kind in owner.given:
        yield f"given: {said(owner.provenance.role, owner.provenance.where)}"
        return
    if fact is None:
        return
    home = fact.owner
    if home is not None and not fact.why:
        who = home.provenance
        yield f"{fact.kind} axis {fact.position} of {who.label} is given: {said(who.role, who.where)}"
    elif (law := law_of(axis, fact)) is not None:
        yield from computed(axis, law, DEPTH)
    elif fact.why:
        yield f"{'' if home in (None, owner) else f'{home.provenance.label}: '}{fact.why}"
    else:
        yield stated(fact, axis)
        yield from (f"  {shown(cell, told)}" for cell, told in uses(axis))
    yield from steps(origin(axis, fact, [owner]) or [], owner, kind)


def origin(axis: Dim, fact: Fact, near: Sequence[Owner], avoid: Sequence[Relation] = ()) -> list[Relation] | None:
    """The operations from some tensors to where the fact about an axis was told."""
    if (home := fact.owner) is not None:
        return [] if home in near else way(near, fact, lambda owner, _: owner is home, avoid)
    law = law_of(axis, fact)
    return way(near, fact, lambda _, it: it is not None and (it is law.cause if law else speaks(it, axis, fact)), avoid)


def computed(axis: Dim, law: Strided | Sum | Product | Total, depth: int) -> Iterator[str]:
    """The arithmetic that told a size, and below it what told the sizes that went in."""
    yield f"{axis.fact}: {formula(law)}"
    for cell in dict.fromkeys(map(find, (law.whole, *parts_of(law)))):
        fact = cell.fact
        if cell is axis or fact is None:
            continue
        inner = None if fact.owner is not None else law_of(cell, fact)
        if inner is not None and inner is not law and depth > 1:
            yield from (f"  {line}" for line in computed(cell, inner, depth - 1))
        else:
            yield f"  {shown(cell, fact)}"


def uses(axis: Dim) -> list[tuple[Dim, Fact]]:
    """The larger axes that a stretched one is used as, with who told them: one for each size."""
    found: dict[int, tuple[Dim, Fact]] = {}
    todo = [axis] if axis.size == 1 else []
    for cell in todo:
        if cell.size not in (None, 1) and cell.fact is not None:
            found.setdefault(cell.size or 0, (cell, cell.fact))
        elif len(todo) < WIDTH:
            todo.extend(use for use in map(find, cell.below or ()) if use not in todo)
    return list(found.values())[:2]


def shown(axis: Dim, fact: Fact) -> str:
    """A size and who told it: output axis 1 of x is 3: data, mlp.py:30."""
    if fact.owner is None:
        return stated(fact, axis)
    who = fact.owner.provenance
    return f"{fact.kind} axis {fact.position} of {who.label} is {size_of(axis)}: {said(who.role, who.where)}"


def formula(law: Strided | Sum | Product | Total) -> str:
    """The arithmetic with numbers in it."""
    if isinstance(law, Total):
        return f"{find(law.whole).size} = {' * '.join(str(axis.size) for axis in law.axes)}"
    if not isinstance(law, Strided):
        return f"{find(law.whole).size} = {law.show()}"
    over, start = find(law.over).size or 0, f"{law.offset} + " if law.offset else ""
    if law.taps is None:
        return f"{find(law.axis).size} = {law.stride} * {over + law.offset // law.stride}"
    if law.padding is Padding.SAME:
        return f"{find(law.axis).size} = {law.stride} * {over}"
    taps = find(law.taps).size or 0
    steps = (f"{'' if step == 1 else f'{step} * '}({n} - 1)" for step, n in ((law.stride, over), (law.dilation, taps)))
    return f"{find(law.axis).size} = {start}{' + '.join(steps)} + 1"


def parts_of(law: Strided | Sum | Product | Total) -> Sequence[Dim]:
    return law.axes if isinstance(law, Total) else law.parts


def law_of(axis: Dim, fact: Fact) -> Strided | Sum | Product | Total | None:
    """The arithmetic that a fact speaks of."""
    for law in axis.laws or ():
        is_given = isinstance(law, Total) and law.cause is None and find(law.whole) is axis
        if isinstance(law, Strided | Sum | Product | Total) and law.text in fact.text and not is_given:
            return law
    return None


def speaks(operation: Relation, axis: Dim, fact: Fact) -> bool:
    """The operation is where a size was given by name, captured or written."""
    named = any(find(operation.labels[name]) is axis for name in operation.sizes if name in operation.labels)
    return named or any(find(c.cell) is axis for c in operation.captures) or str(operation.logic) in fact.text


def steps(path: list[Relation], owner: Owner, kind: Kind) -> Iterator[str]:
    """A line for each operation; a leaf that may be stretched was made to fit its use."""
    last = len(path) - 1
    for n, operation in enumerate(reversed(path)):
        if n == SHOWN and last > 2 * SHOWN:
            yield f"... {last + 1 - 2 * SHOWN} more operations ..."
        if n < SHOWN or n > last - SHOWN or last <= 2 * SHOWN:
            who = operation.provenance
            fits = n == last and owner.origin is None and is_stretched(operation, owner, KINDS.index(kind))
            yield f"{'fits its use: ' if fits else ''}{said(who.expression, who.where)}"


def is_stretched(operation: Relation, owner: Owner, row: int) -> bool:
    uses = [slot for slot, *_ in operation.logic.stretch if slot % 3 == row]
    return any(operation.operands[slot // 3] is owner for slot in uses)


def bringer(axis: Dim) -> tuple[Fact, list[Strided | Sum]] | None:
    """The axis that the unit of another was given with, and the arithmetic that it came through."""
    before: dict[Dim, list[Strided | Sum]] = {axis: []}
    todo = [axis]
    for cell in todo:
        if cell.fact is not None and cell.fact.unit == axis.unit:
            return cell.fact, before[cell]
        for law in cell.laws or ():
            if isinstance(law, Strided | Sum):
                for other in map(find, (law.whole, *law.parts)):
                    if other.unit == axis.unit and other not in before:
                        before[other] = [*before[cell], law]
                        todo.append(other)
    return None


# --- ways of facts --------------------------------------------------------------------------------------------------


def way(
    start: Iterable[Owner],
    fact: Fact,
    arrived: Callable[[Owner, Relation | None], bool],
    avoid: Sequence[Relation] = (),
) -> list[Relation] | None:
    """The operations from some tensors to where a fact was told, or none if that is not connected any more."""
    before: dict[Owner, tuple[Owner, Relation] | None] = dict.fromkeys(start)
    todo = list(before)
    for owner in todo:
        if arrived(owner, None):
            return back(before, owner)
    for owner in todo:
        for operation in operations(owner):
            if operation in avoid:
                continue
            if arrived(owner, operation):
                return [*back(before, owner), operation]
            for other in operation.owners:
                if other not in before and carries(other, fact):
                    before[other] = owner, operation
                    if arrived(other, None):
                        return back(before, other)
                    todo.append(other)
    return None


def back(before: dict[Owner, tuple[Owner, Relation] | None], owner: Owner) -> list[Relation]:
    path: list[Relation] = []
    while (step := before[owner]) is not None:
        owner, operation = step
        path.append(operation)
    return path[::-1]


def carries(owner: Owner, fact: Fact) -> bool:
    return any(find(axis).fact is fact for row in owner.rows for axis in resolve(row).axes)


def stated(fact: Fact, axis: Dim) -> str:
    """`i` is given as i=3; the axis `0` of a spec is 1"""
    name, given, how = fact.text.removesuffix(",").partition(", given as ")
    return f"{name} is given as {how}" if given else f"{fact.text} is {size_of(axis)}"


def size_of(axis: Dim) -> str:
    return f"{axis.unit} {axis.size}" if axis.unit else str(axis.size)


def said(what: str, where: str) -> str:
    return ", ".join(filter(None, (what, where)))
