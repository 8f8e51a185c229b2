"""Random systems of shapes by chance: each family has its own forms of operations, on tensors of any rows."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ocannl.infer.logic import COMPOSE, COMPOSE_ACCUMULATE, TRANSPOSE, Logic, einsum, pointwise
from ocannl.infer.parse import parse
from ocannl.testing.shapes import Fronts, Operation, fronts
from ocannl.testing.systems import Given, System


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
FLANKS = specs(
    "i, ... => ..., i", "..., i => i, ...", "i, ..., j => j, ..., i", "i, ... => ..., i", "... => ...", "i, j => j, i",
    "..., i => ..., i", "i, ... => i, ...", "i, ... => ...", "..., i => ...", "i, ...; ... => i, ...",
    "..., i, i => i, ...", "i, ... => i", "i, ... => i", "..., i => i", "..., i, j => i, j",
)
FRONTS = [
    pointwise(1), pointwise(2), pointwise(2), pointwise(2), pointwise(2), pointwise(3),
    *specs("i, ... => i, ...", "i, ..., j => i, ..., j", "i; ... => i, ...", "..., i => i, ...", "i, ... => ..., i"),
    *specs("... => ...", "i, j, ... => j, i, ...", "...; ... => ...", "i, ...; i, ... => ...", "i, ... => ..."),
    *specs("i, ...; ..., i => ...", "..., i => ..."),
]  # fmt: skip
ENDS = specs("i, ... => i", "..., i => i", "i, j, ... => i", "..., i, j => j", "... => ...")


def by_chance(
    random: Random, logics: Sequence[Logic], count: int, number: int, ordered: bool = False
) -> list[Operation]:
    operations = []
    for _ in range(number):
        logic, result = random.choice(logics), random.randrange(count)
        earlier = max(1, result) if ordered else count
        operations.append(Operation(logic, [random.randrange(earlier) for _ in range(logic.arity)], result))
    return operations


def random_rows(random: Random) -> System:
    """Output rows alone, of unknown lengths; results may be anything, themselves included."""
    count = random.randint(2, 5)
    roles = [random.choice(["data", "param", "result", "result"]) for _ in range(count)]
    rows: list[tuple[Given, Given, Given]] = []
    for role in roles:
        known = random.random() < (0.1 if role == "result" else 0.5)
        sizes = tuple((random.choice((1, 2, 2, 3)), None) for _ in range(random.randint(0, 2)))
        rows.append(((), (), sizes if known else None))
    return System(roles, rows, by_chance(random, ROWS, count, random.randint(1, count + 1)))


def random_kinds(random: Random) -> System:
    """All three rows, of tensors that mostly are computed from earlier ones."""
    count = random.randint(2, 5)
    roles = [random.choice(["data", "param", "result", "result"]) for _ in range(count)]
    rows: list[tuple[Given, Given, Given]] = []
    for role in roles:
        row: list[Given] = [
            None if role == "result" or random.random() < 0.4
            else tuple((random.choice((1, 2)), None) for _ in range(random.choice((0, 0, 1, 1, 2))))
            for _ in range(3)
        ]  # fmt: skip
        rows.append((() if role == "param" else row[0], row[1], row[2]))
    number, ordered = random.randint(1, count), random.random() < 0.6
    return System(roles, rows, by_chance(random, KINDS, count, number, ordered))


def random_sums(random: Random) -> System:
    """Short output rows with units, in windows and concatenations."""
    count = random.randint(2, 5)
    roles = [random.choice(["data", "result"]) for _ in range(count)]
    rows: list[tuple[Given, Given, Given]] = []
    for role in roles:
        known = random.random() < (0.1 if role == "result" else 0.6)
        units = ("a", "b", *(None,) * 8)
        length = random.choice((1, 1, 1, 2))
        sizes = tuple((random.choice((1, 2, 3, 4, 4, 6)), random.choice(units)) for _ in range(length))
        rows.append(((), (), sizes if known else None))
    number, ordered = random.randint(1, count), random.random() < 0.8
    return System(roles, rows, by_chance(random, SUMS, count, number, ordered))


def random_flanks(random: Random) -> System:
    """Output rows that are equal, with axes in front and behind, some of given sizes."""
    count = random.randint(2, 5)
    roles = [random.choice(["data", "result"]) for _ in range(count)]
    rows: list[tuple[Given, Given, Given]] = []
    for role in roles:
        known = random.random() < (0.1 if role == "result" else 0.4)
        sizes = tuple((random.choice((1, 2, 2, 3)), None) for _ in range(random.randint(0, 3)))
        rows.append(((), (), sizes if known else None))
    number, ordered = random.randint(1, count), random.random() < 0.7
    operations = by_chance(random, FLANKS, count, number, ordered)
    for n, it in enumerate(operations):
        given = {name: random.choice((1, 2, 3)) for name in it.logic.spec.labels() if random.random() < 0.3}
        operations[n] = it._replace(sizes=given)
    return System(roles, rows, operations)


def random_ends(random: Random) -> System:
    """Output rows of which the first and the last axes are told.

    No diagonals: where one of unknown size may be laid over other axes in two ways, the order may show.
    """
    count = random.randint(1, 2)
    operations = []
    for n in range(random.randint(2, 6)):
        logic = random.choice(ENDS)
        given = {name: random.choice((1, 2, 2, 3)) for name in logic.spec.labels() if random.random() < 0.5}
        operations.append(Operation(logic, [random.randrange(count)], count + n, given))
    roles = ["data"] * count + ["result"] * len(operations)
    return System(roles, [((), (), None) for _ in roles], operations)


def random_stretches(random: Random) -> System:
    """Output rows, some given and some not, that broadcasting stretches in several ways, also by way of each other."""
    count = random.randint(3, 5)
    roles = [random.choice(["data", "param"]) for _ in range(count)]
    rows: list[tuple[Given, Given, Given]] = []
    for _ in roles:
        sizes = tuple((random.choice((1, 2, 2, 3)), None) for _ in range(random.choice((0, 1, 1, 2))))
        rows.append(((), (), sizes if random.random() < 0.6 else None))
    operations = []
    for _ in range(random.randint(2, 5)):
        logic = random.choice([pointwise(1), pointwise(2), pointwise(2), pointwise(3)])
        operations.append(Operation(logic, [random.randrange(len(rows)) for _ in range(logic.arity)], len(rows)))
        roles.append("result")
        rows.append(((), (), None))
    return System(roles, rows, operations)


def random_fronts(random: Random) -> System:
    """Output rows into which broadcasting inserts axes in front, in the middle or behind, as what made them says."""
    count = random.randint(2, 3)
    roles = [random.choice(["data", "data", "param"]) for _ in range(count)]
    rows: list[tuple[Given, Given, Given]] = []
    for _ in roles:
        sizes = tuple((random.choice((1, 2, 2, 3)), None) for _ in range(random.choice((0, 1, 1, 2, 2, 3))))
        rows.append(((), (), sizes if random.random() < 0.6 else None))
    operations: list[Operation] = []
    places: dict[int, Fronts] = {}
    for _ in range(random.randint(2, 5)):
        logic = random.choice(FRONTS)
        operands = [random.randrange(len(rows)) for _ in range(logic.arity)]
        given = {name: random.choice((1, 2, 3)) for name in logic.spec.labels() if random.random() < 0.2}
        if len(rows) > count and random.random() < 0.15:
            operations.append(Operation(logic, operands, random.randrange(count, len(rows)), given))
            continue
        operations.append(Operation(logic, operands, len(rows), given))
        places[len(rows)] = fronts(logic, [places.get(n, (0, 0, 0)) for n in operands])
        roles.append("result")
        rows.append(((), (), None))
    return System(roles, rows, operations, fronts=places)
