"""Rows whose numbers of axes force each other to grow, so that none satisfies all operations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ocannl.infer.mismatch import Mismatch
from ocannl.infer.relation import Relation
from ocannl.infer.spec import KINDS
from ocannl.infer.terms import Cause, Owner, resolve

Length = tuple[Owner | Relation, int | str]
"""How many axes row `k` of a tensor has, or a row variable of an operation."""


class AtLeast(NamedTuple):
    """`length` is at least `other + more`, since `cause` says so."""

    length: Length
    other: Length
    more: int
    cause: Relation | None


def endless(cause: Cause | None) -> Mismatch | None:
    """What is wrong with an operation, in terms of the tensors whose rows form a cycle, if some do."""
    cycle = find_cycle([bound for relation in around(cause) for bound in bounds(relation)])
    rows = [(node, k) for (node, k), *_ in cycle if not isinstance(node, Relation) and isinstance(k, int)]
    if not rows:
        return None
    owner, kind = rows[0]
    more = sum(bound.more for bound in cycle)
    return Mismatch(
        f"no number of axes satisfies all these operations: the {KINDS[kind]} row of `{owner.provenance.label}` "
        f"would have to be {more} {'axis' if more == 1 else 'axes'} longer than itself",
        owners=tuple(dict.fromkeys(owner for owner, _ in rows)),
        causes=tuple(dict.fromkeys(bound.cause for bound in cycle)),
        fix="give one of the tensors all its axes",
    )


def around(cause: Cause | None) -> Iterable[Relation]:
    """An operation, and those that it is connected to by tensors of which something is open."""
    found = {cause: None} if isinstance(cause, Relation) else {}
    todo = list(found)
    for it in todo:
        for other in (other for owner in it.owners for other in owner.relations):
            if isinstance(other, Relation) and other not in found:
                found[other] = None
                todo.append(other)
    return found


def bounds(it: Relation) -> Iterator[AtLeast]:
    """What an operation says of numbers of axes that are not known."""
    for slot, spec, _, _ in (*it.logic.equal, *it.logic.stretch, *it.logic.result):
        owner, k = it.owner(slot), slot % 3
        if owner is not None and spec.var is not None and resolve(owner.rows[k]).var is not None:
            said, count = (it, spec.var), len(spec.axes)
            yield AtLeast(said, (owner, k), -count, it)
            if slot // 3 == it.logic.arity or not it.logic.stretched[slot // 3][k]:
                yield AtLeast((owner, k), said, count, it)
    for owner in it.owners:
        if owner.origin is None and resolve(owner.rows[1]).var is resolve(owner.rows[2]).var is not None:  # square
            yield AtLeast((owner, 1), (owner, 2), 0, None)
            yield AtLeast((owner, 2), (owner, 1), 0, None)


def find_cycle(bounds: Iterable[AtLeast]) -> list[AtLeast]:
    """Bounds around a cycle that make a length larger than itself (Bellman, 1958; Ford, 1956)."""
    after: dict[Length, list[AtLeast]] = {}
    for bound in bounds:
        after.setdefault(bound.other, []).append(bound)
    least: dict[Length, int] = dict.fromkeys(after, 0)
    why: dict[Length, AtLeast] = {}
    todo = deque(after)
    while todo:
        other = todo.popleft()
        for bound in after.get(other, ()):
            if least[other] + bound.more > least.get(bound.length, 0):
                least[bound.length] = least[other] + bound.more
                if cycle := leads_back(why, bound):
                    return cycle
                why[bound.length] = bound
                todo.append(bound.length)
    return []


def leads_back(why: dict[Length, AtLeast], last: AtLeast) -> list[AtLeast]:
    """The way from a length to what it bounds itself by, if there is one."""
    way = [last]
    while way[-1].other != last.length:
        if way[-1].other not in why:
            return []
        way.append(why[way[-1].other])
    return way
