"""Why a row has so many axes: the nearest row that was given, or written out in a spec, and the operations between.

Nothing is recorded for this either. Rows that a spec calls by one name have equally many axes beside those written
there, unless one is stretched to the other; so the way leads from row to row through names, where the numbers agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ocannl.infer.relation import Relation
from ocannl.infer.spec import KINDS, RowSpec
from ocannl.infer.terms import Cause, Owner, resolve

Place = tuple[Owner, int]
"""A row of a tensor: of which kind."""


class Length(NamedTuple):
    """What told the number of axes of a row.

    giver    the tensor that was given such a row, and its kind; none where a spec has the axes written out
    way      the operations from there
    """

    giver: Place | None
    way: list[Relation]


def length(owner: Owner, row: int) -> Length | None:
    """None where nothing connected to the tensor tells."""
    before: dict[Place, tuple[Place, Relation] | None] = {(owner, row): None}
    todo = list(before)
    for place in todo:
        if KINDS[place[1]] in place[0].given:
            return Length(place, way(before, place))
        for operation in operations(place[0]):
            for slot in slots(operation, place):
                spec = spec_of(operation, slot)
                if spec.var is None:
                    return Length(None, [operation, *way(before, place)])
                rest = count(place) - len(spec.axes)
                for other, named in enumerate(row for shape in operation.logic.spec.shapes for _, row in shape.rows):
                    there = operation.owners[other // 3], other % 3
                    if named.var == spec.var and there not in before and count(there) - len(named.axes) == rest:
                        before[there] = place, operation
                        todo.append(there)
    return None


def way(before: dict[Place, tuple[Place, Relation] | None], place: Place) -> list[Relation]:
    found: list[Relation] = []
    while (step := before[place]) is not None:
        place, operation = step
        found.append(operation)
    return found


def operations(owner: Owner) -> Iterator[Relation]:
    """The operation that made a tensor, and those that told something about it, as far as they still exist."""
    causes: list[Cause | None] = [owner.origin, *owner.relations, *(use() for use in owner.uses)]
    return (cause for cause in causes if isinstance(cause, Relation))


def slots(operation: Relation, place: Place) -> list[int]:
    return [3 * n + place[1] for n, owner in enumerate(operation.owners) if owner is place[0]]


def spec_of(operation: Relation, slot: int) -> RowSpec:
    return operation.logic.spec.shapes[slot // 3].rows[slot % 3][1]


def count(place: Place) -> int:
    return resolve(place[0].rows[place[1]]).count
