"""Errors in the user's words: both facts, the expression, every tensor involved, a way out."""

from __future__ import annotations

from ocannl.base.errors import ShapeError
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.relation import Relation
from ocannl.infer.terms import Owner
from ocannl.infer.trail import Trail

SHOWN = 6
"""So many tensors an error describes."""


def explain(mismatch: Mismatch, relation: Relation | None, trail: Trail) -> ShapeError:
    """The error that the user sees. Takes back what was tried, so that shapes are shown as they were."""
    causes = [c for c in dict.fromkeys((relation, *(mismatch.causes or (trail.cause,)))) if c is not None]
    owners: dict[Owner, None] = dict.fromkeys(mismatch.owners)
    owners.update(dict.fromkeys(fact.owner for fact in mismatch.facts if fact is not None and fact.owner is not None))
    for cause in causes:
        if isinstance(cause, Relation):
            owners.update(dict.fromkeys(cause.operands))
    trail.undo()
    lines = [("in", cause.provenance.expression, cause.provenance.where) for cause in causes]
    for owner in list(owners)[:SHOWN]:
        who = owner.provenance
        lines.append((who.label, owner.known or "(no axes)", ", ".join(filter(None, (who.role, who.where)))))
    lines.append(("fix", mismatch.fix or usual_fix(relation), ""))
    return ShapeError("\n".join([mismatch.problem, *align(lines)]))


def usual_fix(relation: Relation | None) -> str:
    if relation is not None and relation.logic.stretch:
        return "make the two sizes equal, or one of them 1"
    return "make the two sizes equal; a spec stretches nothing"


def align(lines: list[tuple[str, str, str]]) -> list[str]:
    """Three columns."""
    first = max((len(a) for a, _, _ in lines), default=0)
    second = max((len(b) for _, b, c in lines if c), default=0)
    return [f"  {a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in lines]
