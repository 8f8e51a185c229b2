"""User-facing shape errors: both conflicting sizes, the expression, the tensors involved, and a fix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ocannl.base.errors import ShapeError
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.operation_node import Relation
from ocannl.infer.size_provenance import (
    equation_of,
    formula,
    has_evidence,
    parts_of,
    path_to_evidence,
    role_and_location,
    unit_source,
)
from ocannl.infer.tensor_description import Provenance
from ocannl.infer.terms import Cause, DimVar, Evidence, Owner, Trail, find

MAX_TENSORS = 6
"""Maximum number of tensors described in an error."""

MAX_DEPTH = 3
"""Maximum length of a followed chain of equations."""

MAX_OPERATIONS = 4
"""Maximum number of operations shown between evidence and its use; longer paths are elided in the middle."""

MAX_DECIDED_LEAVES = 2
"""Maximum number of leaves shown whose shapes were defaulted by a query."""

MAX_ANCESTORS = 500
"""Maximum number of tensors searched for such leaves."""

Line = tuple[str, str, str]


def explain(mismatch: Mismatch, cause: Cause | None, trail: Trail) -> ShapeError:
    """Builds the user-facing error. Rolls back the trail first, so that shapes are shown as before the operation."""
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
    """Nearest ancestor leaves whose unknowns were defaulted by a shape query."""
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
    """Builds an error about a single tensor or call."""
    return ShapeError("\n".join([problem, *table((), fix, [line("in", provenance)])]))


def table(owners: Iterable[Owner], fix: str, lines: Sequence[Line] = ()) -> list[str]:
    """Lines below the problem: expressions, tensors, fix."""
    shown = [(owner, owner.provenance) for owner in list(owners)[:MAX_TENSORS]]
    tensors = [
        (provenance.label, owner.known or "(no axes)", role_and_location(provenance)) for owner, provenance in shown
    ]
    return align([*lines, *tensors, ("fix", fix, "")])


def is_number(owner: Owner) -> bool:
    """True for a tensor that embeds a number literal."""
    return owner.role == "result" and owner.origin is None and not owner.provenance.where


def is_intermediate(owner: Owner, cause: Cause) -> bool:
    """True for an intermediate tensor of the user's expression."""
    origin = owner.origin.provenance if owner.origin is not None else None
    user = cause.provenance
    return origin is not None and (origin.expression, origin.where) == (user.expression, user.where)


def line(head: str, provenance: Provenance) -> Line:
    return head, provenance.expression, provenance.where


class EvidenceTrace:
    """Paths of the evidence to the operation where it conflicts.

    sources      tensors with explicit sizes, including those of computed sizes
    operations   operations that propagated the evidence
    computed     equations that computed sizes
    paths        operations of each path that no earlier path contains
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
                if same_owner:  # both sizes come from one tensor, one of them possibly over a cycle
                    owners = [owner for owner in owners if owner is not evidence.owner] or owners
                self.follow(cell, evidence, owners, causes, MAX_DEPTH)
        if len({cell.unit for cell in mismatch.cells} - {None}) > 1:
            for cell in mismatch.cells:
                self.trace_unit(cell)

    def trace_unit(self, cell: DimVar) -> None:
        """Records the source of a propagated unit, and the operations that propagated it."""
        source = unit_source(cell)
        if source is not None and source[1]:
            evidence, equations = source
            causes = [equation.cause for equation in equations if equation.cause is not None]
            self.paths.append([cause for cause in causes if cause not in self.operations])
            self.operations += self.paths[-1]
            self.computed.setdefault(("since", cell.unit or "", f"the unit of {evidence}"))
            if evidence.owner is not None:
                self.sources.setdefault(evidence.owner)

    def follow(
        self, cell: DimVar, evidence: Evidence, owners: list[Owner], avoid: Sequence[Relation], depth: int
    ) -> None:
        """Records the path of evidence, and recursively of the sizes it was computed from."""
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
        """All operations of the farthest expression."""
        expressions = [c.provenance.expression for c in self.operations]
        return [c for c, expression in zip(self.operations, expressions, strict=True) if expression == expressions[-1]]

    def lines(self, shown: Sequence[Provenance]) -> list[Line]:
        """Lines for operations not contained in the expressions already shown, and for equations."""
        operation_lines: dict[Line, None] = {}
        for path in self.paths:
            steps = [line("via", c.provenance) for c in path if not is_within(c.provenance, shown)]
            steps = list(dict.fromkeys(steps))
            if len(steps) > MAX_OPERATIONS:
                steps[2:-1] = [("via", f"... {len(steps) - 3} more ...", "")]
            operation_lines.update(dict.fromkeys(steps))
        return [*operation_lines, *self.computed]


def is_within(part: Provenance, containers: Sequence[Provenance]) -> bool:
    """True if the expression is part of a shown expression."""
    return any(part.where == container.where and part.expression in container.expression for container in containers)


def usual_fix(cause: Cause | None) -> str:
    if isinstance(cause, Relation):
        if cause.logic.fix:
            return cause.logic.fix
        if cause.logic.stretch:
            return "make the two sizes equal, or one of them 1"
        if cause.logic.name == "einsum":
            return "make the two sizes equal; a spec does not broadcast"
    return "make the two sizes equal"


def align(lines: list[Line]) -> list[str]:
    """Aligns lines in three columns."""
    first = max((len(a) for a, _, _ in lines), default=0)
    second = max((len(b) for _, b, c in lines if c), default=0)
    return [f"  {a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in lines]
