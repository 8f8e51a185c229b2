"""Errors in the user's words: both facts, the expression, every tensor involved, a way out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ocannl.base.errors import ShapeError
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.reasons import described, equation_of, formula, has_evidence, parts_of, path_to_evidence, unit_source
from ocannl.infer.relation import Relation
from ocannl.infer.terms import Cause, Dim, Evidence, Owner, Provenance, find
from ocannl.infer.trail import Trail

MAX_TENSORS = 6
"""So many tensors an error describes."""

MAX_DEPTH = 3
"""So many computations in a row are followed."""

MAX_OPERATIONS = 4
"""So many operations between a fact and its use are shown; of more, those at either end."""

MAX_DECIDED_LEAVES = 2
"""So many leaves are shown whose shapes ended since they were asked for."""

MAX_ANCESTORS = 500
"""Among so many tensors these are looked for."""

Line = tuple[str, str, str]


def explain(mismatch: Mismatch, cause: Cause | None, trail: Trail) -> ShapeError:
    """The error that the user sees. Takes back what was tried, so that shapes are shown as they were."""
    causes = [c for c in dict.fromkeys((cause, *(mismatch.causes or (trail.cause,)))) if c is not None]
    trace = EvidenceTrace(mismatch, [c for c in causes if isinstance(c, Relation)])
    owners = dict.fromkeys((*mismatch.owners, *trace.sources))
    for c in (*causes, *trace.farthest):
        if isinstance(c, Relation):
            owners.update(dict.fromkeys(o for o in c.operands if not is_number(o) and not is_intermediate(o, c)))
    trail.undo()
    decided = decided_leaves([owner for c in causes if isinstance(c, Relation) for owner in c.operands])
    owners.update(dict.fromkeys(decided))
    decided_lines = [
        ("asked", f"the shape of `{leaf.provenance.label}`, fixed since", leaf.decided_at) for leaf in decided
    ]
    lines = [*(line("in", c.provenance) for c in causes), *trace.lines([c.provenance for c in causes]), *decided_lines]
    return ShapeError("\n".join([mismatch.problem, *table(owners, mismatch.fix or usual_fix(cause), lines)]))


def decided_leaves(operands: Iterable[Owner]) -> list[Owner]:
    """The nearest leaves that operands are computed from whose rows or sizes ended when somebody asked for a shape."""
    leaves: list[Owner] = []
    todo = list(dict.fromkeys(operands))
    seen = set(todo)
    for owner in todo:
        if owner.decided_at:
            leaves.append(owner)
        if len(leaves) == MAX_DECIDED_LEAVES or len(todo) > MAX_ANCESTORS:
            break
        origin = owner.origin
        for operand in origin.operands if isinstance(origin, Relation) else ():
            if operand not in seen:
                seen.add(operand)
                todo.append(operand)
    return leaves


def refuse(problem: str, provenance: Provenance, fix: str) -> ShapeError:
    """The error about something that was said of one tensor, or in one call."""
    return ShapeError("\n".join([problem, *table((), fix, [line("in", provenance)])]))


def table(owners: Iterable[Owner], fix: str, lines: Sequence[Line] = ()) -> list[str]:
    """What is below the problem: expressions, the tensors they are about, the way out."""
    shown = [(owner, owner.provenance) for owner in list(owners)[:MAX_TENSORS]]
    tensors = [
        (provenance.label, owner.known or "(no axes)", described(provenance.role, provenance.where))
        for owner, provenance in shown
    ]
    return align([*lines, *tensors, ("fix", fix, "")])


def is_number(owner: Owner) -> bool:
    """It was written as a number: nobody made it, and it was not written anywhere else."""
    return owner.role == "result" and owner.origin is None and not owner.provenance.where


def is_intermediate(owner: Owner, cause: Cause) -> bool:
    """It was made on the way to what the user wrote, and is not to be seen."""
    origin = owner.origin.provenance if owner.origin is not None else None
    return origin is not None and (origin.expression, origin.where) == (
        cause.provenance.expression,
        cause.provenance.where,
    )


def line(head: str, provenance: Provenance) -> Line:
    return head, provenance.expression, provenance.where


class EvidenceTrace:
    """How facts came to where they disagree.

    givers     the tensors that were given them, or the sizes they were computed from
    between    the operations that they came through
    computed   the arithmetic that made one size of others
    """

    def __init__(self, mismatch: Mismatch, causes: list[Relation]) -> None:
        self.sources: dict[Owner, None] = {}
        self.operations: list[Cause] = []
        self.computed: dict[Line, None] = {}
        self.paths: list[list[Cause]] = []
        same_owner = len({evidence.owner for evidence in mismatch.evidence if evidence is not None}) == 1
        for evidence in mismatch.evidence:
            if evidence is not None and evidence.owner is not None:
                self.sources.setdefault(evidence.owner)
        for cell, evidence in zip(mismatch.cells, mismatch.evidence, strict=True):
            if evidence is not None:
                owners = [owner for cause in causes for owner in cause.operands if has_evidence(owner, evidence)]
                if same_owner:  # both facts are about one tensor, and one of them may have come around
                    owners = [owner for owner in owners if owner is not evidence.owner] or owners
                self.follow(cell, evidence, owners, causes, MAX_DEPTH)
        if len({cell.unit for cell in mismatch.cells} - {None}) > 1:
            for cell in mismatch.cells:
                self.trace_unit(cell)

    def trace_unit(self, cell: Dim) -> None:
        """Keep who gave a unit to an axis that was not given it, and what the unit came through."""
        source = unit_source(cell)
        if source is not None and source[1]:
            evidence, laws = source
            self.paths.append(
                [
                    equation.cause
                    for equation in laws
                    if equation.cause is not None and equation.cause not in self.operations
                ]
            )
            self.operations += self.paths[-1]
            self.computed.setdefault(("since", cell.unit or "", f"the unit of {evidence}"))
            if evidence.owner is not None:
                self.sources.setdefault(evidence.owner)

    def follow(self, cell: Dim, evidence: Evidence, owners: list[Owner], avoid: Sequence[Relation], depth: int) -> None:
        """Keep what a fact came through; where it was computed, what it was computed from as well."""
        if evidence.owner is not None:
            self.sources.setdefault(evidence.owner)
        path: list[Cause] = list(path_to_evidence(cell, evidence, owners, avoid) or ())
        equation = equation_of(cell, evidence) if evidence.owner is None else None
        if equation is not None and equation.cause is not None and equation.cause not in (*path, *avoid):
            path.append(equation.cause)
        self.paths.append([step for step in path if step not in self.operations])
        self.operations += self.paths[-1]
        if equation is None or depth == 0:
            return
        self.computed.setdefault(("since", formula(equation), str(evidence)))
        cause = equation.cause if isinstance(equation.cause, Relation) else None
        for part in dict.fromkeys(map(find, (equation.total, *parts_of(equation)))):
            if part is not cell and part.evidence is not None and part.evidence is not evidence:
                origins = [] if cause is None else [o for o in cause.operands if has_evidence(o, part.evidence)]
                self.follow(part, part.evidence, origins, [*avoid, *([cause] if cause else [])], depth - 1)

    @property
    def farthest(self) -> list[Cause]:
        """The operation that is farthest away, in all its parts."""
        expressions = [c.provenance.expression for c in self.operations]
        return [c for c, expression in zip(self.operations, expressions, strict=True) if expression == expressions[-1]]

    def lines(self, shown: Sequence[Provenance]) -> list[Line]:
        """The operations that are not written out in those that are known, and the arithmetic."""
        operation_lines: dict[Line, None] = {}
        for path in self.paths:
            steps = [line("via", c.provenance) for c in path if not is_within(c.provenance, shown)]
            steps = list(dict.fromkeys(steps))
            if len(steps) > MAX_OPERATIONS:
                steps[2:-1] = [("via", f"... {len(steps) - 3} more ...", "")]
            operation_lines.update(dict.fromkeys(steps))
        return [*operation_lines, *self.computed]


def is_within(part: Provenance, containers: Sequence[Provenance]) -> bool:
    """The expression is written out in another one."""
    return any(part.where == container.where and part.expression in container.expression for container in containers)


def usual_fix(cause: Cause | None) -> str:
    if isinstance(cause, Relation):
        if cause.logic.stretch:
            return "make the two sizes equal, or one of them 1"
        if cause.logic.name == "einsum":
            return "make the two sizes equal; a spec stretches nothing"
    return "make the two sizes equal"


def align(lines: list[Line]) -> list[str]:
    """Three columns."""
    first = max((len(a) for a, _, _ in lines), default=0)
    second = max((len(b) for _, b, c in lines if c), default=0)
    return [f"  {a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in lines]
