"""Systems of operations between tensors, and the laws that the solver's answers obey."""

from __future__ import annotations

import itertools
import re
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
from ocannl.infer.spec import Fixed
from ocannl.infer.terms import NO_FRONTS, Dim, Row, RowVar, find, fresh, resolve
from ocannl.testing.shapes import Axis, Fronts, Ground, Names, Operation, Rows, holds, number, size_of, walk

Given = tuple[Axis, ...] | None
AT_ONCE = "at once: "


class Claim(NamedTuple):
    """A capture is a number, or `factor` times another."""

    capture: int
    value: int = 0
    other: int | None = None
    factor: int = 1


@dataclass
class System:
    """Tensors with some of their rows, and operations between them; `planted` are rows that are known to satisfy it.

    `fronts` tells behind how many axes broadcasting inserts more, where that is not in front of all.
    """

    roles: list[str]
    rows: list[tuple[Given, Given, Given]]
    operations: list[Operation]
    claims: list[Claim] = field(default_factory=list)
    square: frozenset[int] = frozenset()
    cells: dict[int, int] = field(default_factory=dict)
    captures: int = 0
    fronts: dict[int, Fronts] = field(default_factory=dict)
    planted: list[Rows] | None = None
    found: list[int | None] = field(default_factory=list)  # what captures were found to be by the last answer

    def __str__(self) -> str:
        tensors = [
            f"{n}: {role} {rows}{' square' * (n in self.square)}{f' cells={self.cells[n]}' if n in self.cells else ''}"
            f"{f' fronts={self.fronts[n]}' if n in self.fronts else ''}"
            for n, (role, rows) in enumerate(zip(self.roles, self.rows, strict=True))
        ]
        operations = [
            f"{it.logic.name} {it.logic.spec} {it.operands} => {it.result} {it.sizes or ''}{it.captures or ''}"
            for it in self.operations
        ]
        return "\n".join([*tensors, *operations, *map(str, self.claims)])

    @property
    def variables(self) -> int:
        """Rows of leaves that are not given, and the names of operations: what a search would have to try."""
        names = sum(len(it.logic.spec.labels()) + len(it.logic.spec.row_vars()) for it in self.operations)
        return names + sum(row is None for rows in self.rows for row in rows)

    @property
    def steps(self) -> int:
        return len(self.operations) + len(self.claims)

    def build(self, order: Sequence[int]) -> list[Shape]:
        shapes = self.tensors()
        for n in order:
            self.operate(shapes, n)
        return shapes

    def operate(self, shapes: list[Shape], n: int) -> Shape | None:
        if n >= len(self.operations):
            self.claim(self.claims[n - len(self.operations)])
            return None
        it = self.operations[n]
        captures = {name: self.cells_of[k] for name, k in it.captures.items()}
        who = Provenance(f"operation {n}")
        operands = [shapes[k] for k in it.operands]
        return relate(it.logic, operands, shapes[it.result], who, sizes=it.sizes, captures=captures)

    def claim(self, it: Claim) -> None:
        if it.other is None:
            self.cells_of[it.capture].set(it.value)
        elif it.factor == 1:
            self.cells_of[it.capture].equal(self.cells_of[it.other])
        else:
            self.cells_of[it.capture].scale(self.cells_of[it.other], it.factor)

    def tensors(self) -> list[Shape]:
        self.cells_of = [Capture(f"c{n}") for n in range(self.captures)]
        shapes = []
        for n, (role, rows) in enumerate(zip(self.roles, self.rows, strict=True)):
            who = Provenance(f"t{n}", role)
            if role == "result":
                fronts = self.fronts.get(n, NO_FRONTS)
                batch, input, output = (
                    Row(fresh(front), RowVar(), ()) if row is None else Row((), None, cells(row))
                    for row, front in zip(rows, fronts, strict=True)
                )
                shapes.append(Shape(who, (batch, input, output), fronts=fronts))
            else:
                batch_, input_, output_ = (None if row is None else [written(axis) for axis in row] for row in rows)
                square, total = n in self.square, self.cells.get(n)
                shapes.append(
                    Shape.leaf(
                        who, batch=batch_, input=input_, output=output_, role=role, square=square, cells=total,
                    )
                )  # fmt: skip
        return shapes

    def solve(self, order: Sequence[int]) -> list[Rows] | str:
        """The answer, or what the error says; `at once` if it came before anything was decided."""
        try:
            shapes = self.build(order)
        except ShapeError as error:
            return f"{AT_ONCE}{error}"
        return self.answer(shapes)

    def answer(self, shapes: list[Shape]) -> list[Rows] | str:
        try:
            for shape in shapes:
                finish(shape)
        except ShapeError as error:
            return str(error)
        self.found = [capture.known for capture in self.cells_of]
        return [tuple(map(ground, shape.rows, self.fronts.get(n, NO_FRONTS))) for n, shape in enumerate(shapes)]

    def unsound(self, answer: list[Rows]) -> str:
        """What the answer violates, in words; empty if nothing."""
        for n, given in enumerate(self.rows):
            for said, (axes, _) in zip(given, answer[n], strict=True):
                if said is not None and not agrees(said, axes):
                    return f"{n} is {axes}, not {said}"
            if n in self.square and answer[n][1][0] != answer[n][2][0]:
                return f"{n} is not square"
            if n in self.cells and prod(x[0] or 0 for row in answer[n] for x in row[0]) != self.cells[n]:
                return f"{n} has not {self.cells[n]} cells"
        known: dict[int, int] = {n: size for n, size in enumerate(self.found) if size is not None}
        for it in self.operations:
            names: Names = {}
            rows = [answer[n] for n in (*it.operands, it.result)]
            if not holds(it.logic, rows, it.sizes, names):
                return f"{it.logic.spec} does not hold for {rows}"
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
        choice: list[tuple[Axis, ...]] = [
            tuple((size, None) for size in row)
            for count in range(most + 1)
            for row in itertools.product(sizes, repeat=count)
        ]
        options: list[list[Ground]] = [
            [(x, front) for x in (choice if row is None else [row]) if len(x) >= front]
            for n, rows in enumerate(self.rows)
            for row, front in zip(rows, self.fronts.get(n, NO_FRONTS), strict=True)
        ]
        chosen: list[Ground] = []
        ready = [3 * max(*it.operands, it.result) + 2 for it in self.operations]

        def possible() -> bool:
            last = len(chosen) - 1
            for when, it in zip(ready, self.operations, strict=True):
                if when == last:
                    rows = [tuple(chosen[3 * n : 3 * n + 3]) for n in (*it.operands, it.result)]
                    if not holds(it.logic, rows, it.sizes):
                        return False
            return True

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
        rows = [tuple(chosen[n : n + 3]) for n in range(0, len(chosen), 3)]
        return rows if not self.unsound(rows) else None

    def told(self, names: Sequence[str]) -> System | None:
        """The system with the planted rows of the leaves that are named; None if these are given already."""
        assert self.planted is not None
        rows = list(self.rows)
        for n, (role, given) in enumerate(zip(self.roles, self.rows, strict=True)):
            if f"t{n}" in names and role != "result" and None in given:
                batch, input, output = (axes for axes, _ in self.planted[n])
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


def agrees(said: tuple[Axis, ...], axes: tuple[Axis, ...]) -> bool:
    """What was given without a unit may have got one."""
    return len(said) == len(axes) and all(a in (b, (b[0], None)) for a, b in zip(said, axes, strict=True))


def cells(row: Given) -> tuple[Dim, ...]:
    return () if row is None else tuple(Dim(size, unit) for size, unit in row)


def written(axis: Axis) -> int | tuple[str, int]:
    size, unit = axis
    assert size is not None
    return size if unit is None else (unit, size)


def ground(row: Row, front: int) -> Ground:
    return tuple((find(axis).size, find(axis).unit) for axis in resolve(row).axes), front


# --- what decisions are to be -----------------------------------------------------------------------------------------


def uncommitted(system: System, answer: list[Rows]) -> str:
    """A leaf that could be as large as what it is stretched to, all else being the same.

    Where fixed places are read, axes are as large as these ask for, before they are as large as their uses.
    """
    specs = [row for it in system.operations for shape in it.logic.spec.shapes for _, row in shape.rows]
    if any(isinstance(axis, Fixed) for row in specs for axis in row.axes):
        return ""
    for it in system.operations:
        names: Names = {}
        holds(it.logic, [answer[n] for n in (*it.operands, it.result)], it.sizes, names)
        for use in it.logic.stretch:
            n, k = it.operands[use.slot // 3], use.slot % 3
            (row, _), other = answer[n][k], names[f"..{use.spec.var}"]
            is_open = system.roles[n] != "result" and system.rows[n][k] is None
            if is_open and count(other) > count(row):  # type: ignore[arg-type]
                changed = [*answer]
                rows = ((other, 0) if j == k else r for j, r in enumerate(answer[n]))
                changed[n] = tuple(rows)  # type: ignore[arg-type]
                if not system.unsound(changed):
                    return f"row {k} of {n} is {row}, but could be {other} as its use"
    return ""


def count(row: tuple[Axis, ...]) -> int:
    return prod(size or 0 for size, _ in row)


def unhelpful(system: System, error: str) -> str:
    """An error about a system that can be satisfied which does not name leaves, or sizes, that help when given."""
    assert system.planted is not None
    answer: list[Rows] | str = error
    while isinstance(answer, str):
        if answer.startswith(AT_ONCE):
            return answer
        names = re.findall(r"\bt\d+\b", answer)
        told = system.told(names)
        if told is None:
            told = next((s for part in re.findall(r"`([^`]*)`", answer) if (s := system.named(part))), None)
        if told is None:
            return f"{answer}\nnames nothing that could be given in\n{system}"
        system = told
        answer = system.solve(range(system.steps))
    return ""


def judge(
    system: System, random: Random, small: tuple[tuple[int, ...], int] | None = None, guesses: bool = True
) -> str:
    """What is wrong with the solver's answer, in words; empty if nothing.

    `small` are shapes that are all tried; without `guesses`, nothing is refused but at once or for want of facts.
    """
    order = [*range(system.steps)]
    answer = system.solve(order)
    for _ in range(2):
        random.shuffle(order)
        other = system.solve(order)
        if outcome(other) != outcome(answer):
            return f"in the order {order}: {other}\nbut else: {answer}"
    if not isinstance(answer, str):
        if wrong := system.unsound(answer) or uncommitted(system, answer):
            return wrong
        shapes = system.build(range(system.steps))
        again = system.answer(shapes)
        return "another answer" if isinstance(again, str) else system.misprojected(shapes, again)
    if system.planted is not None:
        return answer if answer.startswith(AT_ONCE) else ""
    if not guesses and not answer.startswith(AT_ONCE) and "nothing says" not in answer:
        return f"a guess was wrong: {answer}"
    if small is not None and answer.startswith(AT_ONCE):
        witness = system.witness(*small, 1500)
        return f"{answer}\nbut {witness}" if witness is not None else ""
    return ""


def traces(system: System) -> str:
    """What an operation that was refused has left behind."""
    kept: list[int] = []
    try:
        shapes = system.tensors()
    except ShapeError:  # what is given of one tensor disagrees
        return ""
    for n in range(system.steps):
        before = [shape.known for shape in shapes]
        try:
            system.operate(shapes, n)
            kept.append(n)
        except ShapeError:
            if [shape.known for shape in shapes] != before:
                return f"operation {n} was refused, but told something"
    answer = system.answer(shapes)
    other = system.solve(kept)
    if answer != other:
        return f"{answer}\nbut without what was refused: {other}"
    if isinstance(answer, str) and (again := system.answer(shapes)) != answer:
        return f"{answer}\nbut asked again: {again}"
    return ""


def outcome(answer: list[Rows] | str) -> object:
    """What must not depend on the order: all but the words of an error."""
    return "refused" if isinstance(answer, str) else answer
