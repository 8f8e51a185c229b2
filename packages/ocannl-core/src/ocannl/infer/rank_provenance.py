"""Rank provenance: the nearest row that is explicit or closed in a spec, and the operations that propagated its rank.

No derivation is recorded. Rows with the same row variable in a spec have equally many axes beside the written ones,
unless one is stretched to the other; so the search goes from row to row through shared variables with equal counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ocannl.infer.operation_node import Relation
from ocannl.infer.spec import KINDS, RowSpec
from ocannl.infer.terms import Cause, Owner, resolve

TensorRow = tuple[Owner, int]
"""Row of a tensor, by the index of its kind."""


class RankOrigin(NamedTuple):
    """Origin of the rank of a row.

    source   explicit row, or None for a closed row of a spec
    path     operations from the source
    """

    source: TensorRow | None
    path: list[Relation]


def rank_origin(owner: Owner, row: int) -> RankOrigin | None:
    """Breadth-first search for the origin of the rank; None if no connected row determines the rank."""
    predecessors: dict[TensorRow, tuple[TensorRow, Relation] | None] = {(owner, row): None}
    todo = list(predecessors)
    for tensor_row in todo:
        if KINDS[tensor_row[1]] in tensor_row[0].explicit_kinds:
            return RankOrigin(tensor_row, path_from(predecessors, tensor_row))
        for operation in operations(tensor_row[0]):
            for slot in slots(operation, tensor_row):
                spec = spec_of(operation, slot)
                if spec.var is None:
                    return RankOrigin(None, [operation, *path_from(predecessors, tensor_row)])
                rows = [row for shape in operation.logic.spec.shapes for _, row in shape.rows]
                variable_axes = count(tensor_row) - len(spec.axes)
                for index, row_spec in enumerate(rows):
                    neighbour = operation.owners[index // 3], index % 3
                    if row_spec.var != spec.var or neighbour in predecessors:
                        continue
                    if count(neighbour) - len(row_spec.axes) == variable_axes:
                        predecessors[neighbour] = tensor_row, operation
                        todo.append(neighbour)
    return None


def path_from(
    predecessors: dict[TensorRow, tuple[TensorRow, Relation] | None], tensor_row: TensorRow
) -> list[Relation]:
    """Follows the predecessors back to the start of the search."""
    path: list[Relation] = []
    while (step := predecessors[tensor_row]) is not None:
        tensor_row, operation = step
        path.append(operation)
    return path


def operations(owner: Owner) -> Iterator[Relation]:
    """Operation that computes a tensor, and the live operations that constrained it."""
    causes: list[Cause | None] = [owner.origin, *owner.relations, *(use() for use in owner.uses)]
    return (cause for cause in causes if isinstance(cause, Relation))


def slots(operation: Relation, tensor_row: TensorRow) -> list[int]:
    return [3 * n + tensor_row[1] for n, owner in enumerate(operation.owners) if owner is tensor_row[0]]


def spec_of(operation: Relation, slot: int) -> RowSpec:
    return operation.logic.spec.shapes[slot // 3].rows[slot % 3][1]


def count(tensor_row: TensorRow) -> int:
    return resolve(tensor_row[0].rows[tensor_row[1]]).count
