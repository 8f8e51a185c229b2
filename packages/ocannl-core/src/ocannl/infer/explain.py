"""Errors in the user's words: both facts, the expression, every tensor involved, a way out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ocannl.base.errors import ShapeError
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.reasons import carries, origin, said
from ocannl.infer.relation import Relation
from ocannl.infer.terms import Cause, Owner, Provenance
from ocannl.infer.trail import Trail

SHOWN = 6
"""So many tensors an error describes."""

BETWEEN = 3
"""So many operations between a fact and its use are shown; a longer way is not."""


def explain(mismatch: Mismatch, cause: Cause | None, trail: Trail) -> ShapeError:
    """The error that the user sees. Takes back what was tried, so that shapes are shown as they were."""
    causes = [c for c in dict.fromkeys((cause, *(mismatch.causes or (trail.cause,)))) if c is not None]
    between = travelled(mismatch, [c for c in causes if isinstance(c, Relation)])
    owners: dict[Owner, None] = dict.fromkeys(mismatch.owners)
    owners.update(dict.fromkeys(fact.owner for fact in mismatch.facts if fact is not None and fact.owner is not None))
    for c in (*causes, *between[-1:]):
        if isinstance(c, Relation):
            owners.update(dict.fromkeys(owner for owner in c.operands if not is_number(owner)))
    trail.undo()
    lines = [line("in", c.provenance) for c in causes]
    whole = [c.provenance for c in causes]
    lines += [line("via", c.provenance) for c in between if not is_within(c.provenance, whole)]
    return ShapeError("\n".join([mismatch.problem, *table(owners, mismatch.fix or usual_fix(cause), lines)]))


def refuse(problem: str, who: Provenance, fix: str) -> ShapeError:
    """The error about something that was said of one tensor, or in one call."""
    return ShapeError("\n".join([problem, *table((), fix, [line("in", who)])]))


def table(owners: Iterable[Owner], fix: str, lines: Sequence[tuple[str, str, str]] = ()) -> list[str]:
    """What is below the problem: expressions, the tensors they are about, the way out."""
    whose = [(owner, owner.provenance) for owner in list(owners)[:SHOWN]]
    tensors = [(who.label, owner.known or "(no axes)", said(who.role, who.where)) for owner, who in whose]
    return align([*lines, *tensors, ("fix", fix, "")])


def is_number(owner: Owner) -> bool:
    """It was written as a number: nobody made it, and it was not written anywhere else."""
    return owner.role == "result" and owner.origin is None and not owner.provenance.where


def line(head: str, who: Provenance) -> tuple[str, str, str]:
    return head, who.expression, who.where


def travelled(mismatch: Mismatch, causes: list[Relation]) -> list[Relation]:
    """The operations that brought facts to where they disagree, if they are few."""
    between: dict[Relation, None] = {}
    own = len({fact.owner for fact in mismatch.facts if fact is not None}) == 1
    for cell, fact in zip(mismatch.cells, mismatch.facts, strict=True):
        if fact is not None:
            near = [owner for cause in causes for owner in cause.operands if carries(owner, fact)]
            if own:  # both facts are about one tensor, and one of them may have come around
                near = [owner for owner in near if owner is not fact.owner] or near
            path = origin(cell, fact, near, causes)
            if path is not None and len(path) <= BETWEEN:
                between.update(dict.fromkeys(path))
    return list(between)


def is_within(part: Provenance, wholes: Sequence[Provenance]) -> bool:
    """The expression is written out in another one."""
    return any(part.where == whole.where and part.expression in whole.expression for whole in wholes)


def usual_fix(cause: Cause | None) -> str:
    if isinstance(cause, Relation):
        stretches = bool(cause.logic.stretch)
        return f"make the two sizes equal{', or one of them 1' if stretches else '; a spec stretches nothing'}"
    return "make the two sizes equal"


def align(lines: list[tuple[str, str, str]]) -> list[str]:
    """Three columns."""
    first = max((len(a) for a, _, _ in lines), default=0)
    second = max((len(b) for _, b, c in lines if c), default=0)
    return [f"  {a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in lines]
