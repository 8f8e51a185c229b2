"""Errors in the user's words: both facts, the expression, every tensor involved, a way out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ocannl.base.errors import ShapeError
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.reasons import bringer, carries, formula, law_of, origin, parts_of, said
from ocannl.infer.relation import Relation
from ocannl.infer.terms import Cause, Dim, Fact, Owner, Provenance, find
from ocannl.infer.trail import Trail

SHOWN = 6
"""So many tensors an error describes."""

DEPTH = 3
"""So many computations in a row are followed."""

BETWEEN = 4
"""So many operations between a fact and its use are shown; of more, those at either end."""

SHOWN_DECIDED = 2
"""So many leaves are shown whose shapes ended since they were asked for."""

MAX_ANCESTORS = 500
"""Among so many tensors these are looked for."""

Line = tuple[str, str, str]


def explain(mismatch: Mismatch, cause: Cause | None, trail: Trail) -> ShapeError:
    """The error that the user sees. Takes back what was tried, so that shapes are shown as they were."""
    causes = [c for c in dict.fromkeys((cause, *(mismatch.causes or (trail.cause,)))) if c is not None]
    found = Travelled(mismatch, [c for c in causes if isinstance(c, Relation)])
    owners = dict.fromkeys((*mismatch.owners, *found.givers))
    for c in (*causes, *found.last):
        if isinstance(c, Relation):
            owners.update(dict.fromkeys(o for o in c.operands if not is_number(o) and not is_inside(o, c)))
    trail.undo()
    decided = decided_leaves([owner for c in causes if isinstance(c, Relation) for owner in c.operands])
    owners.update(dict.fromkeys(decided))
    asked = [("asked", f"the shape of `{leaf.provenance.label}`, fixed since", leaf.decided_at) for leaf in decided]
    lines = [*(line("in", c.provenance) for c in causes), *found.lines([c.provenance for c in causes]), *asked]
    return ShapeError("\n".join([mismatch.problem, *table(owners, mismatch.fix or usual_fix(cause), lines)]))


def decided_leaves(operands: Iterable[Owner]) -> list[Owner]:
    """The nearest leaves that operands are computed from whose rows or sizes ended when somebody asked for a shape."""
    found: list[Owner] = []
    todo = list(dict.fromkeys(operands))
    seen = set(todo)
    for owner in todo:
        if owner.decided_at:
            found.append(owner)
        if len(found) == SHOWN_DECIDED or len(todo) > MAX_ANCESTORS:
            break
        origin = owner.origin
        for other in origin.operands if isinstance(origin, Relation) else ():
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return found


def refuse(problem: str, who: Provenance, fix: str) -> ShapeError:
    """The error about something that was said of one tensor, or in one call."""
    return ShapeError("\n".join([problem, *table((), fix, [line("in", who)])]))


def table(owners: Iterable[Owner], fix: str, lines: Sequence[Line] = ()) -> list[str]:
    """What is below the problem: expressions, the tensors they are about, the way out."""
    whose = [(owner, owner.provenance) for owner in list(owners)[:SHOWN]]
    tensors = [(who.label, owner.known or "(no axes)", said(who.role, who.where)) for owner, who in whose]
    return align([*lines, *tensors, ("fix", fix, "")])


def is_number(owner: Owner) -> bool:
    """It was written as a number: nobody made it, and it was not written anywhere else."""
    return owner.role == "result" and owner.origin is None and not owner.provenance.where


def is_inside(owner: Owner, cause: Cause) -> bool:
    """It was made on the way to what the user wrote, and is not to be seen."""
    made = owner.origin.provenance if owner.origin is not None else None
    return made is not None and (made.expression, made.where) == (cause.provenance.expression, cause.provenance.where)


def line(head: str, who: Provenance) -> Line:
    return head, who.expression, who.where


class Travelled:
    """How facts came to where they disagree.

    givers     the tensors that were given them, or the sizes they were computed from
    between    the operations that they came through
    computed   the arithmetic that made one size of others
    """

    def __init__(self, mismatch: Mismatch, causes: list[Relation]) -> None:
        self.givers: dict[Owner, None] = {}
        self.between: list[Cause] = []
        self.computed: dict[Line, None] = {}
        self.ways: list[list[Cause]] = []
        own = len({fact.owner for fact in mismatch.facts if fact is not None}) == 1
        for fact in mismatch.facts:
            if fact is not None and fact.owner is not None:
                self.givers.setdefault(fact.owner)
        for cell, fact in zip(mismatch.cells, mismatch.facts, strict=True):
            if fact is not None:
                near = [owner for cause in causes for owner in cause.operands if carries(owner, fact)]
                if own:  # both facts are about one tensor, and one of them may have come around
                    near = [owner for owner in near if owner is not fact.owner] or near
                self.follow(cell, fact, near, causes, DEPTH)
        if len({cell.unit for cell in mismatch.cells} - {None}) > 1:
            for cell in mismatch.cells:
                self.trace_unit(cell)

    def trace_unit(self, cell: Dim) -> None:
        """Keep who gave a unit to an axis that was not given it, and what the unit came through."""
        found = bringer(cell)
        if found is not None and found[1]:
            fact, laws = found
            self.ways.append([law.cause for law in laws if law.cause is not None and law.cause not in self.between])
            self.between += self.ways[-1]
            self.computed.setdefault(("since", cell.unit or "", f"the unit of {fact}"))
            if fact.owner is not None:
                self.givers.setdefault(fact.owner)

    def follow(self, cell: Dim, fact: Fact, near: list[Owner], avoid: Sequence[Relation], depth: int) -> None:
        """Keep what a fact came through; where it was computed, what it was computed from as well."""
        if fact.owner is not None:
            self.givers.setdefault(fact.owner)
        path: list[Cause] = list(origin(cell, fact, near, avoid) or ())
        law = law_of(cell, fact) if fact.owner is None else None
        if law is not None and law.cause is not None and law.cause not in (*path, *avoid):
            path.append(law.cause)
        self.ways.append([step for step in path if step not in self.between])
        self.between += self.ways[-1]
        if law is None or depth == 0:
            return
        self.computed.setdefault(("since", formula(law), str(fact)))
        cause = law.cause if isinstance(law.cause, Relation) else None
        for part in dict.fromkeys(map(find, (law.whole, *parts_of(law)))):
            if part is not cell and part.fact is not None and part.fact is not fact:
                origins = [] if cause is None else [o for o in cause.operands if carries(o, part.fact)]
                self.follow(part, part.fact, origins, [*avoid, *([cause] if cause else [])], depth - 1)

    @property
    def last(self) -> list[Cause]:
        """The operation that is farthest away, in all its parts."""
        words = [c.provenance.expression for c in self.between]
        return [c for c, word in zip(self.between, words, strict=True) if word == words[-1]]

    def lines(self, known: Sequence[Provenance]) -> list[Line]:
        """The operations that are not written out in those that are known, and the arithmetic."""
        told: dict[Line, None] = {}
        for way in self.ways:
            steps = [line("via", c.provenance) for c in way if not is_within(c.provenance, known)]
            steps = list(dict.fromkeys(steps))
            if len(steps) > BETWEEN:
                steps[2:-1] = [("via", f"... {len(steps) - 3} more ...", "")]
            told.update(dict.fromkeys(steps))
        return [*told, *self.computed]


def is_within(part: Provenance, wholes: Sequence[Provenance]) -> bool:
    """The expression is written out in another one."""
    return any(part.where == whole.where and part.expression in whole.expression for whole in wholes)


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
