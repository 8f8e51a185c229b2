"""Size provenance: for each axis of a tensor, the evidence of its size and the operations that propagated it.

No derivation is recorded. Axes store their evidence, and equal axes share one cell, so the path of the evidence is the
shortest path from the tensor to the tensor of the evidence, through operations between tensors that have an axis with
this evidence.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence

from ocannl.infer.cell_count import CellCount
from ocannl.infer.operation_node import Relation
from ocannl.infer.rank_provenance import operations, rank_origin
from ocannl.infer.size_equations import Product, Strided, Sum
from ocannl.infer.spec import KINDS, Kind, Margins, Padding
from ocannl.infer.tensor_description import Provenance
from ocannl.infer.terms import DimVar, Evidence, Owner, find, resolve

MAX_DEPTH = 4
"""Maximum length of a followed chain of equations."""

MAX_SEARCHED_AXES = 100
"""Maximum number of axes searched for uses of a stretched axis."""

MAX_END_OPERATIONS = 4
"""Number of operations shown at either end of a long path."""


class Reasons:
    """Printable explanation of a solved shape: for each axis, the origin of its size."""

    __slots__ = ("lines", "title")

    def __init__(self, owner: Owner) -> None:
        self.title = owner.provenance.label
        self.lines = [f"{self.title}   {owner.known or '(no axes)'}"]
        for kind, row in zip(KINDS, owner.rows, strict=True):
            self.lines.extend(rank_reasons(owner, kind))
            for n, axis in enumerate(map(find, resolve(row).axes), 1):
                self.lines.append(f"  {kind} axis {n} is {size_of(axis)}")
                self.lines.extend(f"    {line}" for line in size_reasons(axis, owner, kind))

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return f"<reasons of {self.title}>"


def rank_reasons(owner: Owner, kind: Kind) -> Iterator[str]:
    """Explains the rank of an inferred row, unless the reasons of its axes imply it."""
    axes = [find(axis) for axis in resolve(owner.rows[KINDS.index(kind)]).axes]
    rank = None if kind in owner.explicit_kinds else rank_origin(owner, KINDS.index(kind))
    if rank is None:
        if not axes and owner.origin is None and kind not in owner.explicit_kinds:
            yield f"  {kind} row is empty: nothing asks for axes"
        return
    source = rank.source and rank.source[0]
    if all(implies_rank(axis.evidence, source, len(axes)) for axis in axes) and (axes or owner.origin is not None):
        return
    yield f"  {kind} row {'is empty' if not axes else 'has 1 axis' if len(axes) == 1 else f'has {len(axes)} axes'}"
    if rank.source is not None:
        provenance = rank.source[0].provenance
        yield f"    {KINDS[rank.source[1]]} row of {provenance.label} is given: {role_and_location(provenance)}"
    yield from (f"    {line}" for line in path_lines(rank.path[::-1], owner, kind))


def implies_rank(evidence: Evidence | None, source: Owner | None, count: int) -> bool:
    """True if the source of an axis size also determines the rank of the row."""
    if evidence is None or evidence.decision:
        return False
    owner = evidence.owner
    if owner in (source, None):
        return True
    assert owner is not None
    return evidence.kind in owner.explicit_kinds and resolve(owner.rows[KINDS.index(evidence.kind)]).count == count


def size_reasons(axis: DimVar, owner: Owner, kind: Kind) -> Iterator[str]:
    """Explains the size of an axis: its evidence, then the operations that propagated it, in order of propagation."""
    evidence = axis.evidence
    if kind in owner.explicit_kinds:
        yield f"given: {role_and_location(owner.provenance)}"
        return
    if evidence is None:
        return
    source = evidence.owner
    if source is not None and not evidence.decision:
        axis_text = f"{evidence.kind} axis {evidence.position} of {source.provenance.label}"
        yield f"{axis_text} is given: {role_and_location(source.provenance)}"
    elif (equation := equation_of(axis, evidence)) is not None:
        yield from equation_reasons(axis, equation, MAX_DEPTH)
    elif evidence.decision:
        yield f"{'' if source in (None, owner) else f'{source.provenance.label}: '}{evidence.decision}"
    else:
        yield evidence_text(evidence, axis)
        yield from (f"  {size_and_source(cell, cell_evidence)}" for cell, cell_evidence in larger_uses(axis))
    yield from path_lines(path_to_evidence(axis, evidence, [owner]) or [], owner, kind)


def path_to_evidence(
    axis: DimVar, evidence: Evidence, start: Sequence[Owner], avoid: Sequence[Relation] = ()
) -> list[Relation] | None:
    """Operations from the start tensors to the source of the evidence of an axis."""
    if (source := evidence.owner) is not None:
        return [] if source in start else shortest_path(start, evidence, lambda owner, _: owner is source, avoid)
    equation = equation_of(axis, evidence)

    def is_target(_: Owner, relation: Relation | None) -> bool:
        if relation is None or equation is None:
            return relation is not None and states_size(relation, axis, evidence)
        return relation is equation.cause

    return shortest_path(start, evidence, is_target, avoid)


def equation_reasons(axis: DimVar, equation: Strided | Sum | Product | CellCount, depth: int) -> Iterator[str]:
    """Explains a size computed by an equation, and recursively the sizes it is computed from."""
    yield f"{axis.evidence}: {formula(equation)}"
    for cell in dict.fromkeys(map(find, (equation.total, *parts_of(equation)))):
        evidence = cell.evidence
        if cell is axis or evidence is None:
            continue
        inner = None if evidence.owner is not None else equation_of(cell, evidence)
        if inner is not None and inner is not equation and depth > 1:
            yield from (f"  {line}" for line in equation_reasons(cell, inner, depth - 1))
        else:
            yield f"  {size_and_source(cell, evidence)}"


def larger_uses(axis: DimVar) -> list[tuple[DimVar, Evidence]]:
    """Larger uses of a stretched axis with their evidence, at most one per size."""
    uses: dict[int, tuple[DimVar, Evidence]] = {}
    todo = [axis] if axis.size == 1 else []
    for cell in todo:
        if cell.size not in (None, 1) and cell.evidence is not None:
            uses.setdefault(cell.size or 0, (cell, cell.evidence))
        elif len(todo) < MAX_SEARCHED_AXES:
            todo.extend(use for use in map(find, cell.below or ()) if use not in todo)
    return list(uses.values())[:2]


def size_and_source(axis: DimVar, evidence: Evidence) -> str:
    """Size with its source: output axis 1 of x is 3: data, mlp.py:30."""
    if evidence.owner is None:
        return evidence_text(evidence, axis)
    axis_text = f"{evidence.kind} axis {evidence.position} of {evidence.owner.provenance.label}"
    return f"{axis_text} is {size_of(axis)}: {role_and_location(evidence.owner.provenance)}"


def formula(equation: Strided | Sum | Product | CellCount) -> str:
    """Equation with its sizes substituted."""
    if isinstance(equation, CellCount):
        return f"{find(equation.total).size} = {' * '.join(str(axis.size) for axis in equation.axes)}"
    if not isinstance(equation, Strided):
        return f"{find(equation.total).size} = {equation.show()}"
    over, start = find(equation.over).size or 0, f"{equation.offset} + " if equation.offset else ""
    if equation.taps is None:
        return f"{find(equation.axis).size} = {equation.stride} * {over + equation.offset // equation.stride}"
    if equation.padding is Padding.SAME:
        return f"{find(equation.axis).size} = {equation.stride} * {over}"
    taps = find(equation.taps).size or 0
    steps = (
        f"{'' if step == 1 else f'{step} * '}({n} - 1)"
        for step, n in ((equation.stride, over), (equation.dilation, taps))
    )
    if not equation.is_exact and isinstance(equation.padding, Margins):
        free = (find(equation.axis).size or 0) + equation.margins - equation.offset - equation.dilation * (taps - 1) - 1
        return f"{over} = {free} // {equation.stride} + 1"
    margins = f" - {equation.margins}" if equation.margins else ""
    return f"{find(equation.axis).size} = {start}{' + '.join(steps)} + 1{margins}"


def parts_of(equation: Strided | Sum | Product | CellCount) -> Sequence[DimVar]:
    return equation.axes if isinstance(equation, CellCount) else equation.parts


def equation_of(axis: DimVar, evidence: Evidence) -> Strided | Sum | Product | CellCount | None:
    """Equation that computed a size, identified by the text of the evidence."""
    for equation in axis.size_equations or ():
        is_explicit = isinstance(equation, CellCount) and equation.cause is None and find(equation.total) is axis
        if (
            isinstance(equation, Strided | Sum | Product | CellCount)
            and equation.text in evidence.text
            and not is_explicit
        ):
            return equation
    return None


def states_size(operation: Relation, axis: DimVar, evidence: Evidence) -> bool:
    """True if the operation states the size: by name, by a capture or in its spec."""
    named = any(find(operation.labels[name]) is axis for name in operation.sizes if name in operation.labels)
    return named or any(find(c.cell) is axis for c in operation.captures) or str(operation.logic) in evidence.text


def path_lines(path: list[Relation], owner: Owner, kind: Kind) -> Iterator[str]:
    """One line per operation; marks the use that a stretchable leaf was fitted to."""
    last = len(path) - 1
    for n, operation in enumerate(reversed(path)):
        if n == MAX_END_OPERATIONS and last > 2 * MAX_END_OPERATIONS:
            yield f"... {last + 1 - 2 * MAX_END_OPERATIONS} more operations ..."
        if n < MAX_END_OPERATIONS or n > last - MAX_END_OPERATIONS or last <= 2 * MAX_END_OPERATIONS:
            provenance = operation.provenance
            fits = n == last and owner.origin is None and is_stretched(operation, owner, KINDS.index(kind))
            yield f"{'fits its use: ' if fits else ''}{described(provenance.expression, provenance.where)}"


def is_stretched(operation: Relation, owner: Owner, row: int) -> bool:
    uses = [slot for slot, *_ in operation.logic.stretch if slot % 3 == row]
    return any(operation.operands[slot // 3] is owner for slot in uses)


def unit_source(axis: DimVar) -> tuple[Evidence, list[Strided | Sum]] | None:
    """Evidence of the axis whose unit was propagated to `axis`, and the equations that propagated it."""
    paths: dict[DimVar, list[Strided | Sum]] = {axis: []}
    todo = [axis]
    for cell in todo:
        if cell.evidence is not None and cell.evidence.unit == axis.unit:
            return cell.evidence, paths[cell]
        for equation in cell.size_equations or ():
            if isinstance(equation, Strided | Sum):
                for neighbour in map(find, (equation.total, *equation.parts)):
                    if neighbour.unit == axis.unit and neighbour not in paths:
                        paths[neighbour] = [*paths[cell], equation]
                        todo.append(neighbour)
    return None


# --- paths of evidence ----------------------------------------------------------------------------------------------


def shortest_path(
    start: Iterable[Owner],
    evidence: Evidence,
    is_target: Callable[[Owner, Relation | None], bool],
    avoid: Sequence[Relation] = (),
) -> list[Relation] | None:
    """Breadth-first search for the operations from tensors to the source of evidence; None if no longer connected."""
    predecessors: dict[Owner, tuple[Owner, Relation] | None] = dict.fromkeys(start)
    todo = list(predecessors)
    for owner in todo:
        if is_target(owner, None):
            return backtrace(predecessors, owner)
    for owner in todo:
        for operation in operations(owner):
            if operation in avoid:
                continue
            if is_target(owner, operation):
                return [*backtrace(predecessors, owner), operation]
            for neighbour in operation.owners:
                if neighbour not in predecessors and has_evidence(neighbour, evidence):
                    predecessors[neighbour] = owner, operation
                    if is_target(neighbour, None):
                        return backtrace(predecessors, neighbour)
                    todo.append(neighbour)
    return None


def backtrace(predecessors: dict[Owner, tuple[Owner, Relation] | None], owner: Owner) -> list[Relation]:
    path: list[Relation] = []
    while (step := predecessors[owner]) is not None:
        owner, operation = step
        path.append(operation)
    return path[::-1]


def has_evidence(owner: Owner, evidence: Evidence) -> bool:
    return any(find(axis).evidence is evidence for row in owner.rows for axis in resolve(row).axes)


def evidence_text(evidence: Evidence, axis: DimVar) -> str:
    """`i` is given as i=3; the axis `0` of a spec is 1"""
    name, separator, assignment = evidence.text.removesuffix(",").partition(", given as ")
    return f"{name} is given as {assignment}" if separator else f"{evidence.text} is {size_of(axis)}"


def size_of(axis: DimVar) -> str:
    return f"{axis.unit} {axis.size}" if axis.unit else str(axis.size)


def role_and_location(provenance: Provenance) -> str:
    return described(provenance.role, provenance.where)


def described(text: str, where: str) -> str:
    return ", ".join(filter(None, (text, where)))
