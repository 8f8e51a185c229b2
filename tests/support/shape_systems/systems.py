"""Systems of operations on tensors: construction, solution, and verification of solutions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from random import Random
from typing import NamedTuple

from ocannl.base.errors import ShapeError
from ocannl.infer.capture import Capture
from ocannl.infer.project import project
from ocannl.infer.shape import Provenance, Shape, finish, relate
from ocannl.infer.terms import Row as InferredRow
from ocannl.infer.terms import find, resolve
from shape_systems.shape_oracle import (
    Axis,
    Names,
    Operation,
    Row,
    Rows,
    holds,
    leaves_nothing,
    makes,
    number,
    result_names,
    size_of,
    unsized,
    walk,
)
from shape_systems.size_evidence import names_without_evidence

SizedRow = Row | None
AT_ONCE = "at once: "


class Claim(NamedTuple):
    """A constraint: a capture is a number, or `factor` times another capture."""

    capture: int
    value: int = 0
    base: int | None = None
    factor: int = 1


@dataclass
class System:
    """Leaves with some rows specified, and operations. The first operation with a result creates it, after its
    operands; further ones write into it, as do operations whose result is a leaf.

    `planted` is a solution.
    """

    roles: list[str]
    rows: list[tuple[SizedRow, SizedRow, SizedRow]]
    operations: list[Operation]
    claims: list[Claim] = field(default_factory=list)
    square: frozenset[int] = frozenset()
    cells: dict[int, int] = field(default_factory=dict)
    captures: int = 0
    planted: list[Rows] | None = None
    captured: list[int | None] = field(default_factory=list)  # values of the captures in the last solution

    def __str__(self) -> str:
        tensors = [
            f"{n}: {role} {rows}{' square' * (n in self.square)}{f' cells={self.cells[n]}' if n in self.cells else ''}"
            for n, (role, rows) in enumerate(zip(self.roles, self.rows, strict=True))
        ]
        operations = [
            f"{op.logic.name} {op.logic.spec} {op.operands} {'=>' if self.is_maker(n) else 'writes'} {op.result} "
            f"{op.sizes or ''}{op.captures or ''}"
            for n, op in enumerate(self.operations)
        ]
        return "\n".join([*tensors, *operations, *map(str, self.claims)])

    @property
    def variables(self) -> int:
        """Number of unspecified rows of leaves and of names in specs: the unknowns of a search."""
        names = sum(len(op.logic.spec.labels()) + len(op.logic.spec.row_vars()) for op in self.operations)
        leaves = (rows for rows, role in zip(self.rows, self.roles, strict=True) if role != "result")
        return names + sum(row is None for rows in leaves for row in rows)

    @property
    def steps(self) -> int:
        return len(self.operations) + len(self.claims)

    # --- orders ---

    def is_maker(self, n: int) -> bool:
        """Whether an operation creates its result."""
        result = self.operations[n].result
        first = next(k for k, op in enumerate(self.operations) if op.result == result)
        return self.roles[result] == "result" and first == n

    def is_ready(self, n: int, exists: Sequence[bool]) -> bool:
        """Whether a step can be built, since its tensors exist."""
        if n >= len(self.operations):
            return True
        op = self.operations[n]
        return all(exists[k] for k in op.operands) and (exists[op.result] or self.is_maker(n))

    def random_order(self, random: Random) -> list[int]:
        """A random topological order of the steps."""
        exists = [role != "result" for role in self.roles]
        waiting, order = [*range(self.steps)], list[int]()
        while waiting:
            n = random.choice([n for n in waiting if self.is_ready(n, exists)])
            waiting.remove(n)
            order.append(n)
            if n < len(self.operations):
                exists[self.operations[n].result] = True
        return order

    # --- the solver's answer ---

    def build(self, order: Sequence[int]) -> list[Shape]:
        shapes = self.tensors()
        for n in order:
            self.operate(shapes, n)
        return [shape for shape in shapes if shape is not None]

    def operate(self, shapes: list[Shape | None], n: int) -> None:
        """Build one step."""
        if n >= len(self.operations):
            self.claim(self.claims[n - len(self.operations)])
            return
        op = self.operations[n]
        captures = {name: self.cells_of[k] for name, k in op.captures.items()}
        operands = [shape for k in op.operands if (shape := shapes[k]) is not None]
        result = None if self.is_maker(n) else shapes[op.result]
        provenance = Provenance(f"t{op.result}" if result is None else f"operation {n}")
        shapes[op.result] = relate(op.logic, operands, result, provenance, sizes=op.sizes, captures=captures)

    def claim(self, op: Claim) -> None:
        if op.base is None:
            self.cells_of[op.capture].set(op.value)
        elif op.factor == 1:
            self.cells_of[op.capture].equal(self.cells_of[op.base])
        else:
            self.cells_of[op.capture].scale(self.cells_of[op.base], op.factor)

    def tensors(self) -> list[Shape | None]:
        """The leaves; results do not exist yet."""
        self.cells_of = [Capture(f"c{n}") for n in range(self.captures)]
        shapes: list[Shape | None] = []
        for n, (role, rows) in enumerate(zip(self.roles, self.rows, strict=True)):
            if role == "result":
                shapes.append(None)
                continue
            batch, input, output = (None if row is None else [written(axis) for axis in row] for row in rows)
            square, total = n in self.square, self.cells.get(n)
            provenance = Provenance(f"t{n}", role)
            shapes.append(
                Shape.leaf(provenance, batch=batch, input=input, output=output, role=role, square=square, cells=total)
            )
        return shapes

    def solve(self, order: Sequence[int]) -> list[Rows] | str:
        """The solution, or the error message; prefixed by `at once` if the error precedes all defaults."""
        try:
            shapes = self.build(order)
        except ShapeError as error:
            return f"{AT_ONCE}{error}"
        return self.answer(shapes)

    def answer(self, shapes: Sequence[Shape | None]) -> list[Rows] | str:
        existing = [shape for shape in shapes if shape is not None]
        try:
            for shape in existing:
                finish(shape)
        except ShapeError as error:
            return str(error)
        self.captured = [capture.known for capture in self.cells_of]
        return [tuple(map(ground, shape.rows)) for shape in existing]

    # --- verification ---

    def permits(self, n: int, rows: Sequence[Rows], names: Names | None = None) -> bool:
        """Whether an operation is possible on these rows of all tensors."""
        op = self.operations[n]
        tensors = [rows[k] for k in (*op.operands, op.result)]
        unknown = unsized(op.logic) - op.sizes.keys() - op.captures.keys()
        if self.is_maker(n):
            return not unknown and makes(op.logic, tensors, op.sizes, names, op.captures)
        names = {} if names is None else names
        written = unknown <= result_names(op.logic) and holds(op.logic, tensors, op.sizes, names)
        return written and leaves_nothing(op.logic, tensors, names, op.sizes, op.captures, writes=True)

    def unsound(self, answer: list[Rows]) -> str:
        """Describes a violation by the answer; empty if there is none."""
        for n, specified_rows in enumerate(self.rows):
            for specified, axes in zip(specified_rows, answer[n], strict=True):
                if specified is not None and not agrees(specified, axes):
                    return f"{n} is {axes}, not {specified}"
            if n in self.square and answer[n][1] != answer[n][2]:
                return f"{n} is not square"
            if n in self.cells and prod(x[0] or 0 for row in answer[n] for x in row) != self.cells[n]:
                return f"{n} has not {self.cells[n]} cells"
        captured_sizes: dict[int, int] = {n: size for n, size in enumerate(self.captured) if size is not None}
        for n, op in enumerate(self.operations):
            names: Names = {}
            if not self.permits(n, answer, names):
                rows = [answer[k] for k in (*op.operands, op.result)]
                return f"{op.logic.spec} does not {'make' if self.is_maker(n) else 'hold for'} {rows}"
            for name, k in op.captures.items():
                size = number(names, name)
                if size is not None and captured_sizes.setdefault(k, size) != size:
                    return f"capture {k} is {captured_sizes[k]}, not {size}"
        for claim in self.claims:
            size = captured_sizes.get(claim.capture)
            base = claim.value if claim.base is None else captured_sizes.get(claim.base)
            if size is not None and base is not None and size != claim.factor * base:
                return f"{claim} does not hold of {size}"
        return ""

    def check_projections(self, shapes: list[Shape], answer: list[Rows]) -> str:
        """Describes an operation whose loops do not visit the cells of its spec; empty if there is none."""
        for op in self.operations:
            rows = [answer[n] for n in (*op.operands, op.result)]
            labels = [name for name in op.logic.spec.labels() if name not in op.sizes]
            names: Names = {}
            holds(op.logic, rows, op.sizes, names)
            if any(size_of(names, name) is None for name in labels):
                continue  # a size that occurs in no tensor
            want = walk(op, rows, names)
            if want is None:
                continue
            try:
                projections = project(op.logic, [shapes[n] for n in op.operands], shapes[op.result], sizes=op.sizes)
            except (ShapeError, AssertionError) as error:
                return f"{op.logic.spec} on {rows}: {error!r}"
            got: Counter[object] = Counter()
            for piece in projections.pieces:
                for values in itertools.product(*(range(loop.lo, loop.hi + 1) for loop in piece.loops)):
                    at = dict(zip(piece.loops, values, strict=True))
                    reads = [None if r is None else tuple(i.evaluate(at) for i in r) for r in piece.operands]
                    got[tuple(i.evaluate(at) for i in piece.result), tuple(reads)] += 1
            if got != want:
                return f"{op.logic.spec} on {rows} walks {got - want} instead of {want - got}"
        return ""

    def witness(self, sizes: tuple[int, ...], max_axes: int, tries: int) -> list[Rows] | None:
        """A solution with up to `max_axes` axes in unspecified rows, with evidence for the size of each name; None if
        `tries` attempts find none."""
        choice: list[Row] = [
            tuple((size, None) for size in row)
            for count in range(max_axes + 1)
            for row in itertools.product(sizes, repeat=count)
        ]
        options = [choice if row is None else [row] for rows in self.rows for row in rows]
        chosen: list[Row] = []
        ready = [3 * max(*op.operands, op.result) + 2 for op in self.operations]

        def chosen_rows() -> list[Rows]:
            return [tuple(chosen[n : n + 3]) for n in range(0, len(chosen), 3)]

        def possible() -> bool:
            last, rows = len(chosen) - 1, chosen_rows()
            return all(self.permits(n, rows) for n, when in enumerate(ready) if when == last)

        def is_solution() -> bool:
            self.captured = []
            return not self.unsound(rows := chosen_rows()) and not names_without_evidence(
                self.rows, self.cells, self.operations, rows
            )

        def search() -> bool:
            nonlocal tries
            if len(chosen) == len(options):
                return is_solution()
            for option in options[len(chosen)]:
                tries -= 1
                if tries < 0:
                    return False
                chosen.append(option)
                if possible() and search():
                    return True
                chosen.pop()
            return False

        return chosen_rows() if search() else None

    # --- hints ---

    def with_planted_rows(self, names: Sequence[str]) -> System | None:
        """The system with planted rows of the named leaves specified; None if they are specified already."""
        assert self.planted is not None
        rows = list(self.rows)
        for n, (role, specified_rows) in enumerate(zip(self.roles, self.rows, strict=True)):
            if f"t{n}" in names and role != "result" and None in specified_rows:
                batch, input, output = self.planted[n]
                rows[n] = batch, input, output
        return replace(self, rows=rows) if rows != self.rows else None

    def with_planted_sizes(self, part: str) -> System | None:
        """The system with planted sizes of the labels in specs that contain `part`."""
        assert self.planted is not None
        operations = []
        for op in self.operations:
            names: Names = {}
            holds(op.logic, [self.planted[n] for n in (*op.operands, op.result)], op.sizes, names)
            sizes = dict(op.sizes)
            if part in str(op.logic.spec):
                planted = {name: size_of(names, name) for name in op.logic.spec.labels()}
                sizes = {**{name: size for name, size in planted.items() if size is not None}, **sizes}
            operations.append(op._replace(sizes=sizes))
        return replace(self, operations=operations) if operations != self.operations else None


def agrees(specified: Row, axes: Row) -> bool:
    """Whether a row matches the specified one; unspecified units may be inferred."""
    return len(specified) == len(axes) and all(a in (b, (b[0], None)) for a, b in zip(specified, axes, strict=True))


def written(axis: Axis) -> int | tuple[str, int]:
    size, unit = axis
    assert size is not None
    return size if unit is None else (unit, size)


def ground(row: InferredRow) -> Row:
    return tuple((find(axis).size, find(axis).unit) for axis in resolve(row).axes)
