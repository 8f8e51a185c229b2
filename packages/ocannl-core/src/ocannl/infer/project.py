"""Projections: maps the axes of an operation's tensors to loops, from its logic and the solved shapes.

Sizes are global, loop identities are local to an operation: a tensor that occurs twice has two independent index
expressions. A broadcast axis has a constant index. Axes of size 1 need no loop. A concatenation has one iteration
domain (box) per part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from ocannl.infer.constraint_generation import emit
from ocannl.infer.defaults import Undecided
from ocannl.infer.logic import Logic
from ocannl.infer.operation_node import Relation
from ocannl.infer.solve import decide
from ocannl.infer.spec import (
    AxisSpec,
    Coef,
    Concat,
    Fixed,
    Label,
    Margins,
    Merged,
    Padding,
    RowSpec,
    Spec,
    Wild,
    Window,
    axis_labels,
)
from ocannl.infer.terms import DimVar, Extents, Owner, Row, Sizes, Trail, find, sizes_of
from ocannl.infer.transaction import finish_all, transaction
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.projections import Indices, Projection, Projections

RowAxis = tuple[str, int]
AxisIndex = AxisSpec | RowAxis | None
"""Index of a tensor axis: an axis of the spec, the n-th axis of a row variable, or None for a constant index."""

ZERO = Affine()
MEMORY_ORDER = (0, 2, 1)  # of batch, input, output


def project(logic: Logic, operands: Sequence[Owner], result: Owner, *, sizes: Mapping[str, int] = {}) -> Projections:
    """Index expressions of all tensors of an operation; finishes the inference of their shapes."""
    finish_all((*operands, result))
    origin = result.origin
    if isinstance(origin, Relation) and origin.operands == tuple(operands) and origin.logic == logic:
        return projections(origin)
    return _project_anew(logic, operands, result, sizes)


def project_inferred(relation: Relation) -> Projections:
    """Projections of an operation whose constraints have been emitted."""
    finish_all(relation.owners)
    if not relation.logic.equal:  # only rows of the result have names
        return projections(relation)
    assert relation.result is not None
    return _project_anew(relation.logic, relation.operands, relation.result, relation.sizes)


def _project_anew(logic: Logic, operands: Sequence[Owner], result: Owner, sizes: Mapping[str, int]) -> Projections:
    relation = Relation(logic, tuple(operands), result.provenance, sizes)

    def action(trail: Trail) -> Projections:
        emit(trail, relation, result, lambda rows: result)
        decide(trail, Undecided((), [Row((), None, tuple(relation.labels.values())), *relation.row_vars.values()]))
        projected = projections(relation)
        trail.undo()  # all shapes were solved before
        return projected

    return transaction(relation, action)


def projections(relation: Relation) -> Projections:
    """Projections of an operation whose names are all sized."""
    labels = tuple([(name, size_of(cell)) for name, cell in relation.labels.items()])
    rows = tuple([(name, sizes_of(row)) for name, row in relation.row_vars.items()])
    tensors = tuple([owner.extents for owner in relation.owners])
    return boxes(relation.logic, tuple(relation.sizes.items()), labels, rows, tensors)


@lru_cache(maxsize=1 << 12)
def boxes(
    logic: Logic,
    coefficients: tuple[tuple[str, int], ...],
    labels: tuple[tuple[str, int], ...],
    rows: tuple[tuple[str, Sizes], ...],
    tensors: tuple[Extents, ...],
) -> Projections:
    """Projections shared by all operations of a logic on tensors of these extents (memoized)."""
    spec = logic.spec
    sizes: dict[str | RowAxis, int] = dict(labels)
    sizes.update(((name, n), size) for name, row in rows for n, size in enumerate(row))
    counts: dict[str | None, int] = {None: 0, **{name: len(row) for name, row in rows}}
    equal = (False, False, False)
    accesses: list[tuple[list[AxisIndex], tuple[int, ...]]] = []
    for actual, shape, stretched in zip(tensors, spec.shapes, (*logic.stretched, equal), strict=True):
        axes: list[AxisIndex] = []
        dims: list[int] = []
        for n in MEMORY_ORDER:
            spec_row = shape.rows[n][1]
            dims += actual[n]
            written = write_out(spec_row, counts[spec_row.var])
            axes += stretch(written, actual[n]) if stretched[n] else written
        accesses.append((axes, tuple(dims)))
    *operands, result = accesses
    names: set[str] = set()
    candidates = [
        Box(dict(labels), dict(coefficients), sizes, inactive, names)
        for inactive in inactive_labels(spec, dict(labels))
    ]
    pieces = [box.projection(result, operands) for box in candidates]
    return Projections(
        tuple(piece for piece in pieces if piece is not None), result[1], tuple(dims for _, dims in operands)
    )


def write_out(row: RowSpec, count: int) -> list[AxisIndex]:
    """Axes of a row, with its variable expanded."""
    if row.var is None:
        return [*row.trail]
    return [*row.lead, *((row.var, n) for n in range(count)), *row.trail]


def stretch(written: list[AxisIndex], extents: Sizes) -> list[AxisIndex]:
    """Indices of a broadcast row, aligned from the last; axes of size 1 get a constant index."""
    aligned = written[len(written) - len(extents) :]
    return [None if extent == 1 else axis for axis, extent in zip(aligned, extents, strict=True)]


def inactive_labels(spec: Spec, labels: Mapping[str, int]) -> list[frozenset[str]]:
    """Inactive labels of each box: all but one label of each group of concatenated labels."""
    groups: list[dict[str, None]] = []
    for axis in (axis for shape in spec.shapes for _, row in shape.rows for axis in row.axes):
        if isinstance(axis, Concat):
            merged = dict.fromkeys(axis_labels(axis))
            for group in [g for g in groups if not merged.keys().isdisjoint(g)]:
                groups.remove(group)
                merged = group | merged
            groups.append(merged)
    chosen: list[frozenset[str]] = [frozenset()]
    for group in groups:
        present = [name for name in group if labels[name]]
        chosen = [inactive | (group.keys() - {name}) for inactive in chosen for name in present]
    return chosen


class Box:
    """One iteration domain: loops are created when an index first needs them.

    labels         sizes of the labels of the spec
    coefficients   values of named coefficients
    sizes          sizes of labels and of the axes of row variables
    inactive       labels that do not occur in this box
    names          loop names used by all boxes of the operation
    label_indices  indices of labels and axes of row variables created so far
    """

    def __init__(
        self,
        labels: Mapping[str, int],
        coefficients: Mapping[str, int],
        sizes: Mapping[str | RowAxis, int],
        inactive: frozenset[str],
        names: set[str],
    ) -> None:
        self.labels = labels
        self.coefficients = coefficients
        self.sizes = sizes
        self.inactive = inactive
        self.names = names
        self.loops: list[Sym] = []
        self.label_indices: dict[str | RowAxis, Affine] = {}

    def projection(
        self, result: tuple[list[AxisIndex], tuple[int, ...]], operands: list[tuple[list[AxisIndex], tuple[int, ...]]]
    ) -> Projection | None:
        """Projection of the box, or None if it writes or reads no cell."""
        reads = [self.has_cells(moves) for moves, _ in operands]
        if not self.has_cells(result[0]) or (self.inactive and not any(reads)):
            return None
        written = self.indices(*result)
        read = tuple(
            [self.indices(*operand) if is_read else None for operand, is_read in zip(operands, reads, strict=True)]
        )
        return Projection(tuple(self.loops), written, read)

    def has_cells(self, axes: list[AxisIndex]) -> bool:
        """True if the tensor has cells in this box."""
        for axis in axes if self.inactive else ():
            if isinstance(axis, Concat):
                if self.inactive.issuperset(axis_labels(axis)):
                    return False
            elif axis is not None and not isinstance(axis, tuple) and not self.inactive.isdisjoint(axis_labels(axis)):
                return False
        return True

    def indices(self, axes: list[AxisIndex], dims: tuple[int, ...]) -> Indices:
        return tuple([self.index(axis, extent) for axis, extent in zip(axes, dims, strict=True)])

    def index(self, axis: AxisIndex, extent: int) -> Affine:
        match axis:
            case None:
                return ZERO
            case tuple():
                return self.label_index(axis, axis_name(axis))
            case Label(name):
                return self.label_index(name, name)
            case Wild():
                return self.new_loop("w", extent)
            case Fixed(at):
                return Affine.of(at)
            case Window():
                return self.window(axis)
            case Concat(parts):
                start = 0
                for part in parts:
                    if isinstance(part, Label) and part.name not in self.inactive:
                        return self.label_index(part.name, part.name) + start
                    start += part if isinstance(part, int) else self.sizes[part.name]
                raise AssertionError("the box has no cell of this tensor")
            case Merged(parts):
                index = ZERO
                for part in parts:
                    index = index * self.sizes[part.name] + self.label_index(part.name, part.name)
                return index

    def window(self, axis: Window) -> Affine:
        index = self.label_index(axis.over, axis.over) * self.coefficient(axis.stride) + axis.offset
        if axis.kernel is None:
            return index
        step = self.coefficient(axis.dilation)
        match axis.padding:
            case Padding.SAME: before = (1 + (self.sizes[axis.kernel] - 1) * step) // 2
            case Margins(before=before): pass
            case _: before = 0
        return index + self.label_index(axis.kernel, axis.kernel) * step - before

    def coefficient(self, value: Coef) -> int:
        return self.coefficients[value] if isinstance(value, str) else value

    def label_index(self, key: str | RowAxis, name: str) -> Affine:
        index = self.label_indices.get(key)
        if index is None:
            index = self.label_indices[key] = self.new_loop(name, self.sizes[key])
        return index

    def new_loop(self, stem: str, size: int) -> Affine:
        """Creates a loop with a unique name; a constant index for a trip count of 1."""
        if size == 1:
            return ZERO
        name, n = stem, 1
        while name in self.names or (n > 1 and name in self.labels):
            n += 1
            name = f"{stem}_{n}"
        self.names.add(name)
        self.loops.append(Sym(name, 0, size - 1))
        return Affine(((1, self.loops[-1]),))


def axis_name(axis: RowAxis) -> str:
    """Loop name: `b0` for an axis of the batch row's `...`, `v0` for an axis of `..v..`."""
    var, n = axis
    return f"{var[3]}{n}" if var.startswith("...") else f"{var}{n}"


def size_of(dim: DimVar) -> int:
    size = find(dim).size
    assert size is not None
    return size
