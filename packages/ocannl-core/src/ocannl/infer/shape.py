"""Shape of a tensor: three rows of axes, inferred from all operations that use the tensor."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import SupportsIndex
from weakref import ref

from ocannl.infer.capture import Capture
from ocannl.infer.cell_count import CellCount
from ocannl.infer.constraint_generation import emit
from ocannl.infer.defaults import Undecided
from ocannl.infer.explain import refuse
from ocannl.infer.logic import Logic
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.operation_node import Relation
from ocannl.infer.project import project
from ocannl.infer.size_provenance import Reasons
from ocannl.infer.solve import decide, propagate
from ocannl.infer.spec import KINDS, Kind
from ocannl.infer.tensor_description import Provenance
from ocannl.infer.terms import (
    Axis,
    Cause,
    DimVar,
    Evidence,
    Extents,
    Row,
    RowVar,
    Trail,
    find,
    is_solved,
    print_row,
    print_rows,
    resolve,
    sizes_of,
)
from ocannl.infer.transaction import MAX_AXES, MAX_CELLS, check_cells, finish_all, named_rows, transaction
from ocannl.infer.unify import equate
from ocannl.infer.unsized_names import missing_size, result_names

AxisLike = int | tuple[str, int]


class Shape:
    """Three rows of axes; reading a row finishes the inference of all connected tensors.

    relations       operations that may still constrain this shape, or other shapes through it
    uses            weak references to operations that constrained the shape
    origin          the operation that computes the tensor, if any
    explicit_kinds  kinds of the rows specified by the user
    is_required     set for a parameter that an operation reads as more than a scalar
    is_finished     all shapes it depends on are decided
    decided_at      user line whose shape query defaulted the unknowns of this leaf
    """

    __slots__ = (
        "__weakref__", "_dims", "_extents", "_is_solved", "decided_at", "explicit_kinds", "is_finished",
        "is_required", "origin", "provenance", "relations", "role", "rows", "uses",
    )  # fmt: skip

    def __init__(self, provenance: Provenance, rows: tuple[Row, Row, Row], role: str = "result") -> None:
        self.provenance = provenance
        self.rows = rows
        self.role = role
        self.relations: list[Cause] = []
        self.uses: tuple[Callable[[], Cause | None], ...] = ()
        self.is_required = False
        self.is_finished = False
        self.decided_at = ""
        self.explicit_kinds: tuple[Kind, ...] = ()
        self.origin: Cause | None = None
        self._dims: tuple[int, ...] | None = None
        self._extents: Extents | None = None
        self._is_solved = False

    @staticmethod
    def leaf(
        provenance: Provenance,
        *,
        batch: Sequence[AxisLike] | None = None,
        input: Sequence[AxisLike] | None = None,
        output: Sequence[AxisLike] | None = None,
        role: str = "data",
        square: bool = False,
        cells: int | None = None,
    ) -> Shape:
        """Creates the shape of a tensor that is not computed; omitted rows are inferred.

        square    the input and output rows are equal
        cells     total number of cells
        """
        shape = Shape(provenance, (Row(), Row(), Row()), role)
        explicit = dict(zip(KINDS, (batch, input, output), strict=True))
        rows = {kind: _leaf_row(shape, kind, axes) for kind, axes in explicit.items()}
        shape.rows = rows["batch"], rows["input"], rows["output"]
        shape.explicit_kinds = tuple([kind for kind in KINDS if explicit[kind] is not None])
        shape._is_solved = len(shape.explicit_kinds) == 3
        if square or cells is not None:
            transaction(None, lambda trail: _constrain(trail, shape, square, cells))
        return shape

    @property
    def is_param(self) -> bool:
        return self.role == "param"

    @property
    def is_solved(self) -> bool:
        """True if all sizes are known."""
        if not self._is_solved:
            self._is_solved = all(map(is_solved, self.rows))
        return self._is_solved

    @property
    def known(self) -> str:
        """The shape inferred so far; `?` is an unknown size, `...` an unknown part of a row."""
        return print_rows(self.rows)

    @property
    def extents(self) -> Extents:
        """Sizes by row of a solved shape."""
        if self._extents is None:
            batch, input, output = self.rows
            self._extents = sizes_of(batch), sizes_of(input), sizes_of(output)
        return self._extents

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes in memory order: batch, output, input."""
        if self._dims is None:
            finish(self)
            batch, input, output = self.extents
            dims = (*batch, *output, *input)
            if len(dims) > MAX_AXES or prod(dims) > MAX_CELLS:
                transaction(None, lambda _: check_cells(self))
            self._dims = dims
        return self._dims

    @property
    def batch(self) -> tuple[Axis, ...]:
        finish(self)
        return self._row(0)

    @property
    def input(self) -> tuple[Axis, ...]:
        finish(self)
        return self._row(1)

    @property
    def output(self) -> tuple[Axis, ...]:
        finish(self)
        return self._row(2)

    def _row(self, n: int) -> tuple[Axis, ...]:
        axes = map(find, resolve(self.rows[n]).axes)
        return tuple(Axis(axis.size, axis.unit) for axis in axes if axis.size is not None)

    def explain(self) -> Reasons:
        """Returns a printable explanation of all sizes; finishes the inference of all connected tensors."""
        finish(self)
        return Reasons(self)

    def __str__(self) -> str:
        finish(self)
        return print_rows(self.rows)

    def __repr__(self) -> str:
        return f"<Shape {self.known or 'of no axes'}>"


def _constrain(trail: Trail, shape: Shape, square: bool, cells: int | None) -> None:
    if square:
        try:
            equate(trail, shape.rows[1], shape.rows[2])
        except Mismatch as differ:
            rows = f"its input row is {print_row(shape.rows[1])}, and its output row {print_row(shape.rows[2])}"
            raise Mismatch(
                f"`{shape.provenance.label}` is square, but {rows}", owners=(shape,), causes=differ.causes,
                fix="give both rows the same sizes, or only one of them",
            ) from None  # fmt: skip
    if cells is not None:
        name = f"`{shape.provenance.label}`"
        total = DimVar(cells, None, Evidence(text=f"the number of cells of {name}"))
        trail.queue.append(CellCount(total, shape.rows, text=name))
    propagate(trail)


def _leaf_row(shape: Shape, kind: Kind, axes: Sequence[AxisLike] | None) -> Row:
    if axes is None:
        return RowVar(shape)
    if isinstance(axes, (int, str)) or not isinstance(axes, Iterable):
        problem = f"the {kind} row of `{shape.provenance.label}` is {axes!r}, not a list of sizes"
        raise refuse(problem, shape.provenance, f"write {kind}=[...]")
    return Row(trail=tuple(_leaf_axis(shape, kind, n, axis) for n, axis in enumerate(axes, 1)))


def _leaf_axis(shape: Shape, kind: Kind, position: int, axis: AxisLike) -> DimVar:
    unit, size = axis if isinstance(axis, tuple) and len(axis) == 2 else (None, axis)
    where = f"{kind} axis {position} of `{shape.provenance.label}`"
    fix = "give a size, such as 3, or a unit and a size, such as ('rgb', 3)"
    try:
        if isinstance(size, bool):
            raise TypeError
        number = operator.index(size)
    except TypeError:
        raise refuse(f"{where} is {axis!r}: an axis is a size", shape.provenance, fix) from None
    if number < 0:
        raise refuse(f"{where} is {number}: a size cannot be negative", shape.provenance, "give a size from 0")
    if unit is not None and (not isinstance(unit, str) or not unit):
        raise refuse(f"{where} has the unit {unit!r}: a unit must be a word", shape.provenance, fix)
    dim = DimVar(number, unit, Evidence(shape, kind, position, unit=unit))
    dim.leaf = shape
    return dim


def relate(
    logic: Logic,
    operands: Sequence[Shape],
    result: Shape | None,
    provenance: Provenance,
    *,
    sizes: Mapping[str, int] = {},
    captures: Mapping[str, Capture] = {},
) -> Shape:
    """Adds the constraints of one operation and returns the result's shape.

    Raises: ShapeError; all changes are rolled back.
    """
    shape = add_relation(logic, operands, result, provenance, sizes=sizes, captures=captures).result
    assert isinstance(shape, Shape)
    return shape


def add_relation(
    logic: Logic,
    operands: Sequence[Shape],
    result: Shape | None,
    provenance: Provenance,
    *,
    sizes: Mapping[str, int] = {},
    captures: Mapping[str, Capture] = {},
) -> Relation:
    """Adds the constraints of one operation and returns the operation. Raises like `relate`."""
    check_arguments(logic, operands, provenance, sizes, captures)
    check_sizes(logic, result is None, provenance, sizes, captures)
    numbers = {name: operator.index(n) for name, n in sizes.items()}
    relation = Relation(logic, tuple(operands), provenance, numbers, captures)

    def make_result(rows: tuple[Row, Row, Row]) -> Shape:
        shape = Shape(provenance, rows)
        shape.origin = relation
        return shape

    solved_before = {shape for shape in (*operands, result) if shape is not None and shape._is_solved}

    def action(trail: Trail) -> Relation:
        new_result = emit(trail, relation, result, make_result)
        assert isinstance(new_result, Shape)
        for name, capture in captures.items():
            capture.bind(trail, relation, name)
        propagate(trail)
        if result is None and operands and not captures and all(is_solved(row) for t in operands for row in t.rows):
            decide(trail, Undecided((new_result,), named_rows(relation)))
        for shape in dict.fromkeys((*operands, new_result)):
            was_solved = shape in solved_before
            if not shape.is_solved:
                trail.push(shape.relations, relation)
            elif not was_solved and shape is not new_result:
                shape.uses = (*shape.uses, ref(relation))
            if shape is result and not was_solved:
                shape.uses = (*shape.uses, lambda: relation)  # an assignment, otherwise unreferenced
        return relation

    return transaction(relation, action)


def finish(shape: Shape) -> None:
    """Decides all unknowns of `shape` and of the tensors connected to it by unknowns.

    Raises: ShapeError; all changes are rolled back.
    """
    finish_all([shape])


def check_arguments(
    logic: Logic,
    operands: Sequence[Shape],
    provenance: Provenance,
    sizes: Mapping[str, object],
    captures: Mapping[str, object],
) -> None:
    """Rejects calls that are invalid for any shapes."""
    if len(operands) != logic.arity:
        problem = f"{logic} takes {logic.arity} operands, and {len(operands)} are given"
        raise refuse(problem, provenance, "give as many operands as the spec has")
    for name in (*sizes, *captures):
        if name not in logic.spec.names() and name not in logic.spec.row_vars():
            names_text = ", ".join(f"`{label}`" for label in logic.spec.names()) or "no names"
            problem = f"`{name}` is not a name of {logic}, which has {names_text}"
            raise refuse(problem, provenance, "use a name of the spec")
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, SupportsIndex) or operator.index(size) < 0:
            problem = f"`{name}` cannot be {size!r} in {logic}: it is a size or a coefficient"
            raise refuse(problem, provenance, "give a number from 0")
    for name in captures:
        if name in logic.spec.coefficients():
            problem = f"`{name}` is a coefficient of {logic}: it is given, not captured"
            raise refuse(problem, provenance, f"give {name}=..., a number from 1")


def check_sizes(
    logic: Logic, is_new: bool, provenance: Provenance, sizes: Mapping[str, int], captures: Mapping[str, Capture]
) -> None:
    """Rejects names sized by neither an operand, nor a number, nor an equation (a capture, an existing result)."""
    if not logic.unsized:
        return
    equated = set() if is_new else result_names(logic.spec)
    for name in logic.unsized:
        if name not in sizes and name not in captures and name not in equated:
            problem, fix = missing_size(logic.spec, name)
            raise refuse(problem, provenance, fix)


__all__ = ["Axis", "Provenance", "Shape", "finish", "project", "relate"]
