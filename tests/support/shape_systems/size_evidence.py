"""Sizes that only the left side of an assignment could give: the documented rule that refuses them.

A name that occurs only in the result of a spec needs a size, or an axis of the left side whose size is determined by
the other operations. The definition looks at the axes of one solution and shares no code with the solver: operations
join the axes that they pair, broadcast ones too, and a size is determined if a given size, the axis of a tensor with a
given number of cells, or an axis read at a fixed index is among the joined axes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ocannl.infer.logic import Logic
from ocannl.infer.spec import Fixed, Label, RowSpec, Wild, axis_labels
from shape_systems.shape_oracle import Names, Operation, Row, Rows, holds, unsized

Node = tuple[object, ...]
"""An axis (tensor, row, position), a name (operation, name), or an axis of a row variable, counted from its end."""
SPECIFIED: Node = ("specified",)


class AxisClasses:
    """Axes that operations pair, as disjoint sets (union-find)."""

    def __init__(self) -> None:
        self.parents: dict[Node, Node] = {}

    def find(self, node: Node) -> Node:
        while (parent := self.parents.get(node, node)) != node:
            node = parent
        return node

    def union(self, a: Node, b: Node) -> None:
        self.parents[self.find(a)] = self.find(b)


def names_without_evidence(
    specified: Sequence[Sequence[Row | None]], counted: Collection[int], operations: Sequence[Operation],
    rows: Sequence[Rows],
) -> list[tuple[int, str]]:  # fmt: skip
    """Names of operations, by number, that neither an operand nor a size determines, nor any other operation. `counted`
    are the tensors with a given number of cells."""
    classes = AxisClasses()
    for n, leaf_rows in enumerate(specified):
        for k, row in enumerate(leaf_rows):
            for i in range(len(rows[n][k])):
                if row is not None or n in counted:
                    classes.union((n, k, i), SPECIFIED)
    for m, op in enumerate(operations):
        for a, b in pairs(m, op, rows):
            classes.union(a, b)
    return [
        (m, name)
        for m, op in enumerate(operations)
        for name in sorted(unsized(op.logic) & set(op.logic.spec.labels()))
        if classes.find((m, name)) != classes.find(SPECIFIED)
    ]


def pairs(m: int, op: Operation, rows: Sequence[Rows]) -> Iterator[tuple[Node, Node]]:
    """Axes that an operation pairs with each other, with its names, or with given sizes."""
    tensors, names = (*op.operands, op.result), Names()
    holds(op.logic, [rows[n] for n in tensors], op.sizes, names)
    for name in {*op.sizes, *op.captures}:
        yield (m, name), SPECIFIED
    for use in (*op.logic.equal, *op.logic.result):
        n, k = tensors[use.slot // 3], use.slot % 3
        yield from spec_pairs(m, op.logic, use.spec, (n, k), len(rows[n][k]), is_result=use in op.logic.result)
    for use in op.logic.stretch:
        n, k = op.operands[use.slot // 3], use.slot % 3
        for i in range(len(rows[n][k])):
            yield (n, k, i), (m, use.spec.var, len(rows[n][k]) - i)


def spec_pairs(
    m: int, logic: Logic, spec: RowSpec, row: tuple[int, int], count: int, *, is_result: bool
) -> Iterator[tuple[Node, Node]]:
    """Axes of a row of `count` axes that equal those of its spec."""
    back = count - len(spec.trail)
    for i, axis in [*enumerate(spec.lead), *enumerate(spec.trail, back)]:
        if isinstance(axis, Fixed) or (is_result and isinstance(axis, Wild)):
            yield (*row, i), SPECIFIED
        for name in (axis.name,) if isinstance(axis, Label) else axis_labels(axis):
            yield (*row, i), (m, name)
    if spec.var is not None:
        for i in range(len(spec.lead), back):
            yield (*row, i), (m, spec.var, back - i)
