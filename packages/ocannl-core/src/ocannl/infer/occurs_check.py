"""Divergence check: finds cyclic rank constraints that no finite number of axes satisfies."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ocannl.infer.mismatch import Mismatch
from ocannl.infer.operation_node import Relation
from ocannl.infer.spec import KINDS
from ocannl.infer.terms import Cause, Owner, resolve

RankTerm = tuple[Owner | Relation, int | str]
"""Rank of row `k` of a tensor, or of a row variable of an operation."""


class RankBound(NamedTuple):
    """Difference constraint `larger >= smaller + offset`, implied by `cause`."""

    larger: RankTerm
    smaller: RankTerm
    offset: int
    cause: Relation | None


def divergence(cause: Cause | None) -> Mismatch | None:
    """Reports the tensors whose rows form a cycle of positive length, if any."""
    cycle = positive_cycle([bound for relation in connected_relations(cause) for bound in rank_bounds(relation)])
    rows = [(node, k) for (node, k), *_ in cycle if not isinstance(node, Relation) and isinstance(k, int)]
    if not rows:
        return None
    owner, kind = rows[0]
    more = sum(bound.offset for bound in cycle)
    return Mismatch(
        f"no number of axes satisfies all these operations: the {KINDS[kind]} row of `{owner.provenance.label}` "
        f"would have to be {more} {'axis' if more == 1 else 'axes'} longer than itself",
        owners=tuple(dict.fromkeys(owner for owner, _ in rows)),
        causes=tuple(dict.fromkeys(bound.cause for bound in cycle)),
        fix="give one of the tensors all its axes",
    )


def connected_relations(cause: Cause | None) -> Iterable[Relation]:
    """An operation and all operations connected to it through undecided tensors."""
    relations = {cause: None} if isinstance(cause, Relation) else {}
    todo = list(relations)
    for relation in todo:
        for neighbour in (neighbour for owner in relation.owners for neighbour in owner.relations):
            if isinstance(neighbour, Relation) and neighbour not in relations:
                relations[neighbour] = None
                todo.append(neighbour)
    return relations


def rank_bounds(relation: Relation) -> Iterator[RankBound]:
    """Difference constraints of an operation between unknown ranks."""
    for slot, spec, _, _ in (*relation.logic.equal, *relation.logic.stretch, *relation.logic.result):
        owner, k = relation.owner(slot), slot % 3
        if owner is not None and spec.var is not None and resolve(owner.rows[k]).var is not None:
            row_var, count = (relation, spec.var), len(spec.axes)
            yield RankBound(row_var, (owner, k), -count, relation)
            if slot // 3 == relation.logic.arity or not relation.logic.stretched[slot // 3][k]:
                yield RankBound((owner, k), row_var, count, relation)
    for owner in relation.owners:
        if owner.origin is None and resolve(owner.rows[1]).var is resolve(owner.rows[2]).var is not None:  # square
            yield RankBound((owner, 1), (owner, 2), 0, None)
            yield RankBound((owner, 2), (owner, 1), 0, None)


def positive_cycle(bounds: Iterable[RankBound]) -> list[RankBound]:
    """Finds a cycle of positive total offset by longest paths (Bellman 1958; Ford 1956)."""
    bounds_from: dict[RankTerm, list[RankBound]] = {}
    for bound in bounds:
        bounds_from.setdefault(bound.smaller, []).append(bound)
    lower_bounds: dict[RankTerm, int] = dict.fromkeys(bounds_from, 0)
    predecessors: dict[RankTerm, RankBound] = {}
    todo = deque(bounds_from)
    while todo:
        term = todo.popleft()
        for bound in bounds_from.get(term, ()):
            if lower_bounds[term] + bound.offset > lower_bounds.get(bound.larger, 0):
                lower_bounds[bound.larger] = lower_bounds[term] + bound.offset
                if cycle := path_back(predecessors, bound):
                    return cycle
                predecessors[bound.larger] = bound
                todo.append(bound.larger)
    return []


def path_back(predecessors: dict[RankTerm, RankBound], last: RankBound) -> list[RankBound]:
    """Path of bounds from a term back to itself, or an empty list."""
    path = [last]
    while path[-1].smaller != last.larger:
        if path[-1].smaller not in predecessors:
            return []
        path.append(predecessors[path[-1].smaller])
    return path
