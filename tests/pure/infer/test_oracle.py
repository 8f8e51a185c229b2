"""Random systems of shapes, judged by definitions that share no code with the solver.

Every answer must satisfy each operation (*sound*), and be the same in whatever order the operations were built. What
is refused at once must be unsatisfiable, as far as trying all small shapes can tell. OCANNL_TEST_SHAPES says how many
systems are tried.

Where broadcasting inserts axes into a row of inferred length is what the first spec says that writes axes around a row
variable; this alone may depend on the order, so it is not compared, and specs that write axes in front are left out.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from random import Random

import pytest

from ocannl.base.errors import ShapeError
from ocannl.infer.logic import COMPOSE, COMPOSE_ACCUMULATE, TRANSPOSE, Logic, einsum, pointwise
from ocannl.infer.parse import parse
from ocannl.infer.shape import Provenance, Shape, finish, relate
from ocannl.infer.spec import Concat, Fixed, Label, Merged, Padding, RowSpec, Window
from ocannl.infer.terms import Dim, Row, RowVar, find, resolve

SYSTEMS = int(os.environ.get("OCANNL_TEST_SHAPES", "1500"))

Axis = tuple[int, str | None]
Ground = tuple[tuple[Axis, ...], int]
"""The axes of a row, and where broadcasting inserts more."""


# --- what operations mean ---------------------------------------------------------------------------------------------


def fits(res: Ground, opnd: Ground) -> bool:
    """Axes can be inserted at the gap of `opnd`, so that each of its axes equals its partner or is a plain 1."""
    (long, _), (short, gap) = res, opnd
    back = len(short) - gap
    if len(long) < len(short):
        return False
    met = long[:gap] + (long[len(long) - back :] if back else ())
    return all(y in (x, (1, None)) for x, y in zip(met, short, strict=True))


Names = dict[str, object]


def means(spec: RowSpec, row: Ground, names: Names) -> bool:
    """The axes are what the spec says, given and completing what its names stand for."""
    axes, _ = row
    front, back = len(spec.lead), len(spec.trail)
    if len(axes) < front + back or (spec.var is None and len(axes) != front + back):
        return False
    middle = axes[front : len(axes) - back]
    if spec.var is not None and names.setdefault(f"..{spec.var}", middle) != middle:
        return False
    ends = [*zip(spec.lead, axes, strict=False), *zip(spec.trail, axes[len(axes) - back :], strict=True)]
    return all(names.setdefault(a.name, x) == x if isinstance(a, Label) else True for a, x in ends) and all(
        x[0] > a.index if isinstance(a, Fixed) else True for a, x in ends
    )


def adds_up(axis: object, size: int, names: Names) -> bool:
    """Windows, concatenations and merged axes; names that nothing has given a size yet may have any."""

    def of(name: str) -> int | None:
        known = names.get(name)
        return known[0] if isinstance(known, tuple) and known and isinstance(known[0], int) else None

    match axis:
        case Window(stride=int(stride), dilation=int(dilation)):
            over, padding, offset, kernel = axis.over, axis.padding, axis.offset, axis.kernel
            places, taps = of(over), of(kernel) if kernel else 1
            if places is None or taps is None:
                return True
            if kernel is None:
                return size == stride * (places + offset // stride)
            if padding is Padding.SAME:
                return size == stride * places
            reach = offset + stride * (places - 1) + dilation * (taps - 1) + 1
            return size == reach if padding is Padding.VALID else size >= reach
        case Concat(parts):
            sizes = [part if isinstance(part, int) else of(part.name) for part in parts]
            known = sum(n for n in sizes if n is not None)
            return known == size if None not in sizes else known <= size
        case Merged(parts):
            product = 1
            for part in parts:
                product *= of(part.name) or 1
            is_all = all(of(part.name) is not None for part in parts)
            return product == size if is_all else size == 0 or (product > 0 and size % product == 0)
        case _:
            return True


def holds(logic: Logic, rows: list[tuple[Ground, ...]]) -> bool:
    """The operation is possible on these rows of its operands and its result."""
    names: Names = {}
    equal = (*logic.equal, *logic.result)
    if not all(means(use.spec, rows[use.slot // 3][use.slot % 3], names) for use in equal):
        return False
    for use in equal:
        axes, _ = rows[use.slot // 3][use.slot % 3]
        front = len(use.spec.lead)
        met = [*zip(use.spec.lead, axes, strict=False), *zip(reversed(use.spec.trail), reversed(axes), strict=False)]
        if front + len(use.spec.trail) <= len(axes) and not all(adds_up(axis, x[0], names) for axis, x in met):
            return False
    for use in logic.stretch:
        template = names.get(f"..{use.spec.var}")
        if isinstance(template, tuple) and not fits((template, 0), rows[use.slot // 3][use.slot % 3]):
            return False
    return True


# --- systems ----------------------------------------------------------------------------------------------------------


Given = tuple[Axis, ...] | None


@dataclass
class System:
    """Tensors with some of their rows, and operations between them."""

    roles: list[str]
    rows: list[tuple[Given, Given, Given]]
    operations: list[tuple[Logic, list[int], int]]

    def __str__(self) -> str:
        tensors = [f"{n}: {role} {rows}" for n, (role, rows) in enumerate(zip(self.roles, self.rows, strict=True))]
        return "\n".join([*tensors, *(f"{logic.spec} {operands} => {r}" for logic, operands, r in self.operations)])

    def build(self, order: list[int]) -> list[Shape]:
        shapes = self.tensors()
        for n in order:
            self.operate(shapes, n)
        return shapes

    def operate(self, shapes: list[Shape], n: int) -> None:
        logic, operands, result = self.operations[n]
        relate(logic, [shapes[k] for k in operands], shapes[result], Provenance(f"operation {n}"))

    def tensors(self) -> list[Shape]:
        shapes = []
        for n, (role, rows) in enumerate(zip(self.roles, self.rows, strict=True)):
            who = Provenance(f"t{n}", role)
            if role == "result":
                batch, input, output = (Row((), RowVar() if row is None else None, self.axes(row)) for row in rows)
                shapes.append(Shape(who, (batch, input, output)))
            else:
                given = [None if row is None else [(unit, size) for size, unit in row] for row in rows]
                shapes.append(Shape.leaf(who, batch=given[0], input=given[1], output=given[2], role=role))
        return shapes

    def axes(self, row: Given) -> tuple[Dim, ...]:
        return () if row is None else tuple(Dim(size, unit) for size, unit in row)

    def solve(self, order: list[int]) -> list[tuple[Ground, ...]] | str:
        """The answer, or what the error says; `at once` if it came before anything was decided."""
        try:
            shapes = self.build(order)
        except ShapeError as error:
            return f"at once: {error}"
        return self.answer(shapes)

    def answer(self, shapes: list[Shape]) -> list[tuple[Ground, ...]] | str:
        try:
            for shape in shapes:
                finish(shape)
        except ShapeError as error:
            return str(error)
        return [tuple(ground(row) for row in shape.rows) for shape in shapes]

    def witness(self, sizes: tuple[int, ...], most: int, tries: int) -> list[tuple[Ground, ...]] | None:
        """Some shapes that satisfy everything, rows not given having up to `most` axes; None if `tries` find none."""
        choice = [
            (tuple((size, None) for size in row), 0)
            for count in range(most + 1)
            for row in itertools.product(sizes, repeat=count)
        ]
        options = [[(row, 0)] if row is not None else choice for rows in self.rows for row in rows]
        chosen: list[Ground] = []
        ready = [max(3 * max(*operands, result) + 2 for operands, result in [(o, r)]) for _, o, r in self.operations]

        def possible() -> bool:
            last = len(chosen) - 1
            for when, (logic, operands, result) in zip(ready, self.operations, strict=True):
                if when == last and not holds(logic, [tuple(chosen[3 * n : 3 * n + 3]) for n in (*operands, result)]):
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

        return [tuple(chosen[n : n + 3]) for n in range(0, len(chosen), 3)] if search() else None


def ground(row: Row) -> Ground:
    row = resolve(row)
    return tuple((find(axis).size, find(axis).unit) for axis in row.axes), len(row.lead)


def axes(answer: list[tuple[Ground, ...]] | str) -> object:
    return [[axes for axes, _ in rows] for rows in answer] if not isinstance(answer, str) else "refused"


def specs(*texts: str) -> list[Logic]:
    return [einsum(parse(text)) for text in texts]


ROWS = [
    pointwise(1), pointwise(1), pointwise(2), pointwise(2), pointwise(3),
    *specs("...i => ...i", "ij => ji", "i; j => ij", "ii => i", "...i; ...i => ...", "...1 => ...", "...1 => ...0"),
    *specs("...i => ...ij", "i => i", "..._ => ...", "...ij => ...ji"),
]  # fmt: skip
KINDS = [
    pointwise(1), pointwise(2), pointwise(2), COMPOSE, COMPOSE, COMPOSE, TRANSPOSE, COMPOSE_ACCUMULATE,
    *specs("...|i->o => ...|o->i", "...|...->... => ...|...->...", "...|...->... => ...->..."),
    *specs("..v..|...->... => ...|..v..->...", "...|...i; ...|...i => ...|i"),
]  # fmt: skip
SUMS = [
    pointwise(1), pointwise(2),
    *specs("2*o<+k; k => o", "o<+k; k => o", "o=+k; k => o", "2*o=+k; k => o", "2*i => i", "i => 2*i", "i+1 => i"),
    *specs("x; y => x^y", "2^x => x", "x => 1^x", "x^y => y", "x^y; x => y", "(a b) => a, b", "a, b => (a b)"),
    *specs("o<+2*k; k => o", "o+k; k => o", "i; j => i", "i => i", "i => ij", "_ => 0", "i; j => ij"),
]  # fmt: skip


def random_rows(random: Random) -> System:
    """Output rows alone, of unknown lengths; results may be anything, themselves included."""
    count = random.randint(2, 5)
    roles = [random.choice(["data", "param", "result", "result"]) for _ in range(count)]
    rows = []
    for role in roles:
        known = random.random() < (0.1 if role == "result" else 0.5)
        sizes = tuple((random.choice((1, 2, 2, 3)), None) for _ in range(random.randint(0, 2)))
        rows.append(((), (), sizes if known else None))
    return System(roles, rows, random_operations(random, ROWS, count, random.randint(1, count + 1)))


def random_kinds(random: Random) -> System:
    """All three rows, of tensors that mostly are computed from earlier ones."""
    count = random.randint(2, 5)
    roles = [random.choice(["data", "param", "result", "result"]) for _ in range(count)]
    rows = []
    for role in roles:
        row = [
            None if role == "result" or random.random() < 0.4
            else tuple((random.choice((1, 2)), None) for _ in range(random.choice((0, 0, 1, 1, 2))))
            for _ in range(3)
        ]  # fmt: skip
        rows.append((() if role == "param" else row[0], row[1], row[2]))
    number, ordered = random.randint(1, count), random.random() < 0.6
    return System(roles, rows, random_operations(random, KINDS, count, number, ordered))


def random_sums(random: Random) -> System:
    """Short output rows with units, in windows and concatenations."""
    count = random.randint(2, 5)
    roles = [random.choice(["data", "result"]) for _ in range(count)]
    rows = []
    for role in roles:
        known = random.random() < (0.1 if role == "result" else 0.6)
        units = ("a", "b", *(None,) * 8)
        length = random.choice((1, 1, 1, 2))
        sizes = tuple((random.choice((1, 2, 3, 4, 4, 6)), random.choice(units)) for _ in range(length))
        rows.append(((), (), sizes if known else None))
    number, ordered = random.randint(1, count), random.random() < 0.8
    return System(roles, rows, random_operations(random, SUMS, count, number, ordered))


def random_operations(random, logics, count, number, ordered=False):
    operations = []
    for _ in range(number):
        logic, result = random.choice(logics), random.randrange(count)
        earlier = max(1, result) if ordered else count
        operations.append((logic, [random.randrange(earlier) for _ in range(logic.arity)], result))
    return operations


# --- laws -------------------------------------------------------------------------------------------------------------

FAMILIES = {"rows": random_rows, "kinds": random_kinds, "sums": random_sums}
CHUNK = 250


@pytest.mark.parametrize("start", range(0, SYSTEMS, CHUNK))
@pytest.mark.parametrize("family", [*FAMILIES])
def test_answers_are_sound_and_independent_of_order(family, start):
    for seed in range(start, min(start + CHUNK, SYSTEMS)):
        random = Random(f"{family} {seed}")
        system = FAMILIES[family](random)
        order = [*range(len(system.operations))]
        answer = system.solve(order)
        for _ in range(2):
            random.shuffle(order)
            other = system.solve(order)
            assert axes(other) == axes(answer), f"{seed} in the order {order}\n{system}\n{answer}\n{other}"
        if not isinstance(answer, str):
            for logic, operands, result in system.operations:
                rows = [answer[n] for n in (*operands, result)]
                assert holds(logic, rows), f"{seed}\n{system}\n{logic.spec} does not hold for {rows}"


@pytest.mark.parametrize("start", range(0, SYSTEMS, CHUNK))
@pytest.mark.parametrize("family", ["rows", "kinds"])
def test_what_is_refused_at_once_cannot_be_satisfied(family, start):
    sizes, most = ((1, 2, 3), 2) if family == "rows" else ((1, 2), 1)
    for seed in range(start, min(start + CHUNK, SYSTEMS)):
        system = FAMILIES[family](Random(f"{family} {seed}"))
        answer = system.solve([*range(len(system.operations))])
        if isinstance(answer, str) and answer.startswith("at once"):
            witness = system.witness(sizes, most, 1500)
            assert witness is None, f"{seed}\n{system}\n{answer}\nbut {witness}"


@pytest.mark.parametrize("start", range(0, SYSTEMS, CHUNK))
@pytest.mark.parametrize("family", [*FAMILIES])
def test_what_is_refused_leaves_no_trace(family, start):
    for seed in range(start, min(start + CHUNK, SYSTEMS)):
        system = FAMILIES[family](Random(f"{family} {seed}"))
        shapes, kept = system.tensors(), []
        for n in range(len(system.operations)):
            before = [shape.known for shape in shapes]
            try:
                system.operate(shapes, n)
                kept.append(n)
            except ShapeError:
                assert [shape.known for shape in shapes] == before, f"{seed}, operation {n}\n{system}"
        answer = system.answer(shapes)
        assert answer == system.solve(kept), f"{seed}\n{system}"
        if isinstance(answer, str):
            assert system.answer(shapes) == answer, f"{seed}, asked twice\n{system}"


def test_enough_systems_of_either_kind_are_tried():
    for family, make in FAMILIES.items():
        answers = [(s := make(Random(f"{family} {seed}"))).solve([*range(len(s.operations))]) for seed in range(300)]
        refused = sum(isinstance(answer, str) for answer in answers) / 300
        assert 0.25 < refused < 0.75, f"{family}: {refused:.0%} are refused"


def test_the_oracle_knows_its_subject():
    def row(*sizes, gap=0):
        return tuple((size, None) for size in sizes), gap

    assert fits(row(2, 3), row(3)) and fits(row(2, 3), row(1, 3, gap=1))
    assert not fits(row(2, 3), row(3, gap=1)) and not fits(row(3), row(1, 3))
    for spec, rows, possible in [
        ("ij => ji", [(2, 3), (3, 2)], True), ("ij => ji", [(2, 3), (2, 3)], False), ("ii => i", [(2, 3), (2,)], False),
        ("2*o<+k; k => o", [(7,), (3,), (3,)], True), ("2*o<+k; k => o", [(8,), (3,), (3,)], False),
        ("x; y => x^y", [(2,), (3,), (5,)], True), ("x; y => x^y", [(2,), (3,), (6,)], False),
        ("(a b) => a, b", [(6,), (2, 3)], True), ("(a b) => a, b", [(6,), (2, 4)], False),
        ("i1 => i", [(3, 2), (3,)], True), ("i1 => i", [(3, 1), (3,)], False), ("_ _ => 0", [(3, 2), (1,)], True),
    ]:  # fmt: skip
        assert holds(einsum(parse(spec)), [(row(), row(), row(*sizes)) for sizes in rows]) is possible, (spec, rows)
