"""Systems of operations between tensors: how they are built, and what an answer to them violates."""

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
    makes,
    number,
    result_names,
    size_of,
    unsized,
    walk,
)

Given = Row | None
AT_ONCE = "at once: "


class Claim(NamedTuple):
    """A capture is a number, or `factor` times another."""

    capture: int
    value: int = 0
    other: int | None = None
    factor: int = 1


@dataclass
class System:
    """Leaves with some of their rows, and operations. The first operation with a result makes it, and is built after
    its operands; further ones write into it, and so do operations whose result is a leaf.

    `planted` are rows that are known to satisfy it.
    """

    roles: list[str]
    rows: list[tuple[Given, Given, Given]]
    operations: list[Operation]
    claims: list[Claim] = field(default_factory=list)
    square: frozenset[int] = frozenset()
    cells: dict[int, int] = field(default_factory=dict)
    captures: int = 0
    planted: list[Rows] | None = None
    found: list[int | None] = field(default_factory=list)  # what captures were found to be by the last answer

    def __str__(self) -> str:
        tensors = [
            f"{n}: {role} {rows}{' square' * (n in self.square)}{f' cells={self.cells[n]}' if n in self.cells else ''}"
            for n, (role, rows) in enumerate(zip(self.roles, self.rows, strict=True))
        ]
        operations = [
            f"{it.logic.name} {it.logic.spec} {it.operands} {'=>' if self.is_maker(n) else 'writes'} {it.result} "
            f"{it.sizes or ''}{it.captures or ''}"
            for n, it in enumerate(self.operations)
        ]
        return "\n".join([*tensors, *operations, *map(str, self.claims)])

    @property
    def variables(self) -> int:
        """Rows of leaves that are not given, and the names of operations: what a search would have to try."""
        names = sum(len(it.logic.spec.labels()) + len(it.logic.spec.row_vars()) for it in self.operations)
        leaves = (rows for rows, role in zip(self.rows, self.roles, strict=True) if role != "result")
        return names + sum(row is None for rows in leaves for row in rows)

    @property
    def steps(self) -> int:
        return len(self.operations) + len(self.claims)

    # --- orders ---

    def is_maker(self, n: int) -> bool:
        """Whether an operation makes its result."""
        result = self.operations[n].result
        first = next(k for k, it in enumerate(self.operations) if it.result == result)
        return self.roles[result] == "result" and first == n

    def is_ready(self, n: int, exists: Sequence[bool]) -> bool:
        """Whether a step can be built, since its tensors exist."""
        if n >= len(self.operations):
            return True
        it = self.operations[n]
        return all(exists[k] for k in it.operands) and (exists[it.result] or self.is_maker(n))

    def an_order(self, random: Random) -> list[int]:
        """Steps in some topological order."""
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
        it = self.operations[n]
        captures = {name: self.cells_of[k] for name, k in it.captures.items()}
        operands = [shape for k in it.operands if (shape := shapes[k]) is not None]
        result = None if self.is_maker(n) else shapes[it.result]
        who = Provenance(f"t{it.result}" if result is None else f"operation {n}")
        shapes[it.result] = relate(it.logic, operands, result, who, sizes=it.sizes, captures=captures)

    def claim(self, it: Claim) -> None:
        if it.other is None:
            self.cells_of[it.capture].set(it.value)
        elif it.factor == 1:
            self.cells_of[it.capture].equal(self.cells_of[it.other])
        else:
            self.cells_of[it.capture].scale(self.cells_of[it.other], it.factor)

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
            who = Provenance(f"t{n}", role)
            shapes.append(
                Shape.leaf(who, batch=batch, input=input, output=output, role=role, square=square, cells=total)
            )
        return shapes

    def solve(self, order: Sequence[int]) -> list[Rows] | str:
        """The answer, or what the error says; `at once` if it came before anything was decided."""
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
        self.found = [capture.known for capture in self.cells_of]
        return [tuple(map(ground, shape.rows)) for shape in existing]

    # --- its judgement ---

    def permits(self, n: int, rows: Sequence[Rows], names: Names | None = None) -> bool:
        """Whether an operation is possible on these rows of all tensors."""
        it = self.operations[n]
        tensors = [rows[k] for k in (*it.operands, it.result)]
        unknown = unsized(it.logic) - it.sizes.keys() - it.captures.keys()
        if self.is_maker(n):
            return not unknown and makes(it.logic, tensors, it.sizes, names, it.captures)
        return unknown <= result_names(it.logic) and holds(it.logic, tensors, it.sizes, names)

    def unsound(self, answer: list[Rows]) -> str:
        """What the answer violates, in words; empty if nothing."""
        for n, given in enumerate(self.rows):
            for said, axes in zip(given, answer[n], strict=True):
                if said is not None and not agrees(said, axes):
                    return f"{n} is {axes}, not {said}"
            if n in self.square and answer[n][1] != answer[n][2]:
                return f"{n} is not square"
            if n in self.cells and prod(x[0] or 0 for row in answer[n] for x in row) != self.cells[n]:
                return f"{n} has not {self.cells[n]} cells"
        known: dict[int, int] = {n: size for n, size in enumerate(self.found) if size is not None}
        for n, it in enumerate(self.operations):
            names: Names = {}
            if not self.permits(n, answer, names):
                rows = [answer[k] for k in (*it.operands, it.result)]
                return f"{it.logic.spec} does not {'make' if self.is_maker(n) else 'hold for'} {rows}"
            for name, k in it.captures.items():
                size = number(names, name)
                if size is not None and known.setdefault(k, size) != size:
                    return f"capture {k} is {known[k]}, not {size}"
        for claim in self.claims:
            size = known.get(claim.capture)
            other = claim.value if claim.other is None else known.get(claim.other)
            if size is not None and other is not None and size != claim.factor * other:
                return f"{claim} does not hold of {size}"
        return ""

    def misprojected(self, shapes: list[Shape], answer: list[Rows]) -> str:
        """An operation whose loops do not walk the cells that its spec says."""
        for it in self.operations:
            rows = [answer[n] for n in (*it.operands, it.result)]
            labels = [name for name in it.logic.spec.labels() if name not in it.sizes]
            names: Names = {}
            holds(it.logic, rows, it.sizes, names)
            if any(size_of(names, name) is None for name in labels):
                continue  # a size that no tensor shows
            want = walk(it, rows, names)
            if want is None:
                continue
            try:
                found = project(it.logic, [shapes[n] for n in it.operands], shapes[it.result], sizes=it.sizes)
            except (ShapeError, AssertionError) as error:
                return f"{it.logic.spec} on {rows}: {error!r}"
            got: Counter[object] = Counter()
            for piece in found.pieces:
                for values in itertools.product(*(range(loop.lo, loop.hi + 1) for loop in piece.loops)):
                    at = dict(zip(piece.loops, values, strict=True))
                    reads = [None if r is None else tuple(i.evaluate(at) for i in r) for r in piece.operands]
                    got[tuple(i.evaluate(at) for i in piece.result), tuple(reads)] += 1
            if got != want:
                return f"{it.logic.spec} on {rows} walks {got - want} instead of {want - got}"
        return ""

    def witness(self, sizes: tuple[int, ...], most: int, tries: int) -> list[Rows] | None:
        """Some shapes that satisfy everything, rows not given having up to `most` axes; None if `tries` find none."""
        choice: list[Row] = [
            tuple((size, None) for size in row)
            for count in range(most + 1)
            for row in itertools.product(sizes, repeat=count)
        ]
        options = [choice if row is None else [row] for rows in self.rows for row in rows]
        chosen: list[Row] = []
        ready = [3 * max(*it.operands, it.result) + 2 for it in self.operations]

        def possible() -> bool:
            last = len(chosen) - 1
            rows = [tuple(chosen[n : n + 3]) for n in range(0, len(chosen), 3)]
            return all(self.permits(n, rows) for n, when in enumerate(ready) if when == last)

        def search() -> bool:
            nonlocal tries
            if len(chosen) == len(options):
                return True
            for option in options[len(chosen)]:
                tries -= 1
                if tries < 0:
                    return False
                chosen.append(option)
                if possible() and search():
                    return True
                chosen.pop()
            return False

        if not search():
            return None
        self.found = []
        rows: list[Rows] = [tuple(chosen[n : n + 3]) for n in range(0, len(chosen), 3)]
        return rows if not self.unsound(rows) else None

    # --- what would help ---

    def told(self, names: Sequence[str]) -> System | None:
        """The system with the planted rows of the leaves that are named; None if these are given already."""
        assert self.planted is not None
        rows = list(self.rows)
        for n, (role, given) in enumerate(zip(self.roles, self.rows, strict=True)):
            if f"t{n}" in names and role != "result" and None in given:
                batch, input, output = self.planted[n]
                rows[n] = batch, input, output
        return replace(self, rows=rows) if rows != self.rows else None

    def named(self, part: str) -> System | None:
        """The system with the planted sizes of the labels of what a spec says about an axis."""
        assert self.planted is not None
        operations = []
        for it in self.operations:
            names: Names = {}
            holds(it.logic, [self.planted[n] for n in (*it.operands, it.result)], it.sizes, names)
            sizes = dict(it.sizes)
            if part in str(it.logic.spec):
                known = {name: size for name in it.logic.spec.labels() if (size := size_of(names, name)) is not None}
                sizes = {**known, **sizes}
            operations.append(it._replace(sizes=sizes))
        return replace(self, operations=operations) if operations != self.operations else None


def agrees(said: Row, axes: Row) -> bool:
    """What was given without a unit may have got one."""
    return len(said) == len(axes) and all(a in (b, (b[0], None)) for a, b in zip(said, axes, strict=True))


def written(axis: Axis) -> int | tuple[str, int]:
    size, unit = axis
    assert size is not None
    return size if unit is None else (unit, size)


def ground(row: InferredRow) -> Row:
    return tuple((find(axis).size, find(axis).unit) for axis in resolve(row).axes)
