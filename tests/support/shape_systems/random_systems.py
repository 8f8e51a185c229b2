"""Random systems of shapes; each family has a set of operations, applied to tensors of any rows."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ocannl.infer.logic import COMPOSE, COMPOSE_ACCUMULATE, TRANSPOSE, Logic, einsum, pointwise
from ocannl.infer.parse import parse
from shape_systems.shape_oracle import Operation, unsized
from shape_systems.systems import SizedRow, System


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
    *specs("..v..|...->... => |..v..->...", "...|...i; ...|...i => ...|i"),
]  # fmt: skip
SUMS = [
    pointwise(1), pointwise(2),
    *specs("2*o<+k; k => o", "o<+k; k => o", "o=+k; k => o", "2*o=+k; k => o", "2*i => i", "i => 2*i", "i+1 => i"),
    *specs("x; y => x^y", "i; j => i+j", "2^x => x", "x => 1^x", "x^y => y", "x^y; x => y", "(a b) => a, b"),
    *specs("a, b => (a b)", "o<+2*k; k => o", "o+k; k => o", "i; j => i", "i => i", "i => ij", "_ => 0", "i; j => ij"),
]  # fmt: skip
FLANKS = specs(
    "i, ... => ..., i", "..., i => i, ...", "i, ..., j => j, ..., i", "i, ... => ..., i", "... => ...", "i, j => j, i",
    "..., i => ..., i", "i, ... => i, ...", "i, ... => ...", "..., i => ...", "i, ...; ... => i, ...",
    "..., i, i => i, ...", "i, ... => i", "i, ... => i", "..., i => i", "..., i, j => i, j",
)
INSERTED = [
    pointwise(1), pointwise(2), pointwise(2), pointwise(2), pointwise(2), pointwise(3),
    *specs("i, ... => i, ...", "i, ..., j => i, ..., j", "i; ... => i, ...", "..., i => i, ...", "i, ... => ..., i"),
    *specs("... => ...", "i, j, ... => j, i, ...", "...; ... => ...", "i, ...; i, ... => ...", "i, ... => ..."),
    *specs("i, ...; ..., i => ...", "..., i => ...", "... => 0, ...", "..., i => ..., 0", "... => ..., 2"),
]  # fmt: skip
MET = [
    pointwise(1), pointwise(2), COMPOSE, COMPOSE, COMPOSE, TRANSPOSE, COMPOSE_ACCUMULATE,
    *specs("|i, ...->... => |...->...", "|..., i->... => |...->...", "|...->i, ... => |...->...", "i, ... => i, ..."),
    *specs("|...->..., i => |...->...", "|i, ...->... => |i, ...->...", "|...->i, ... => |...->i, ..."),
    *specs("|i, ...->... => |..., i->...", "|i, j, ...->... => |j, ...->..."),
]  # fmt: skip
JOINED = [
    pointwise(1), pointwise(2), pointwise(2), pointwise(2), pointwise(2), pointwise(3),
    *specs("i => i", "i, j => j, i", "i; i => i", "i, j; i, j => i", "i, j; j => i", "i, i => i", "..., i; i => ..."),
]  # fmt: skip
DIAGONALS = [
    pointwise(1), pointwise(2), pointwise(2), pointwise(2), pointwise(3),
    *specs("i, i => i", "i, i, ... => i, ...", "..., i, i => ..., i", "i, ..., i => i, ...", "i, ..., i => ..."),
    *specs("i => i, i", "i, ... => i, i, ...", "..., i => ..., i, i", "i, ...; i, i, ... => i, ..."),
    *specs("i, j, ..., i => j, ...", "..., i; ..., i, i => ...", "i, i, i => i", "i, ... => i", "..., i => ..., i"),
]  # fmt: skip
ENDS = specs("i, ... => i", "..., i => i", "i, j, ... => i", "..., i, j => j", "... => ...")


class SystemBuilder:
    """Builds leaves and operations; each operation creates a result, or writes into an existing tensor."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.roles: list[str] = []
        self.rows: list[tuple[SizedRow, SizedRow, SizedRow]] = []
        self.operations: list[Operation] = []

    def leaf(self, role: str, batch: SizedRow, input: SizedRow, output: SizedRow) -> None:
        self.roles.append(role)
        self.rows.append((batch, input, output))

    def operate(self, logic: Logic, sizes: dict[str, int] | None = None, write: float = 0.0) -> None:
        """Adds an operation; most names that no operand sizes are assigned sizes."""
        count, sizes = len(self.roles), dict(sizes or {})
        operands = [self.random.randrange(count) for _ in range(logic.arity)]
        result = self.random.randrange(count) if self.random.random() < write else count
        for name in sorted(unsized(logic)):
            if name in logic.spec.labels() and self.random.random() < 0.9:
                sizes[name] = self.random.choice((1, 2, 2, 3))
        self.operations.append(Operation(logic, operands, result, sizes))
        if result == count:
            self.roles.append("result")
            self.rows.append((None, None, None))

    def system(self) -> System:
        return System(self.roles, self.rows, self.operations)


def random_row(random: Random, sizes: Sequence[int], counts: Sequence[int], probability: float) -> SizedRow:
    row = tuple((random.choice(sizes), None) for _ in range(random.choice(counts)))
    return row if random.random() < probability else None


def random_rows(random: Random) -> System:
    """Output rows alone, of unknown lengths; what is written into may be anything, operands included."""
    chance = SystemBuilder(random)
    for _ in range(random.randint(2, 3)):
        chance.leaf(random.choice(["data", "param"]), (), (), random_row(random, (1, 1, 2, 2, 3), (0, 1, 2), 0.5))
    for _ in range(random.randint(1, 4)):
        chance.operate(random.choice(ROWS), write=0.35)
    return chance.system()


def random_kinds(random: Random) -> System:
    """All three rows."""
    chance = SystemBuilder(random)
    for _ in range(random.randint(1, 3)):
        role = random.choice(["data", "param"])
        batch, input, output = (random_row(random, (1, 2), (0, 0, 1, 1, 2), 0.6) for _ in range(3))
        chance.leaf(role, () if role == "param" else batch, input, output)
    for _ in range(random.randint(1, 4)):
        chance.operate(random.choice(KINDS), write=0.3)
    return chance.system()


def random_sums(random: Random) -> System:
    """Short output rows with units, in windows and concatenations."""
    chance = SystemBuilder(random)
    for _ in range(random.randint(2, 3)):
        units = ("a", "b", *(None,) * 8)
        length = random.choice((1, 1, 1, 2))
        sizes = tuple((random.choice((1, 1, 2, 3, 4, 4, 6)), random.choice(units)) for _ in range(length))
        chance.leaf("data", (), (), sizes if random.random() < 0.6 else None)
    for _ in range(random.randint(1, 4)):
        chance.operate(random.choice(SUMS), write=0.25)
    return chance.system()


def random_flanks(random: Random) -> System:
    """Output rows that are equal, with axes in front and behind, some of given sizes."""
    chance = SystemBuilder(random)
    for _ in range(random.randint(1, 3)):
        chance.leaf("data", (), (), random_row(random, (1, 2, 2, 3), (0, 1, 2, 3), 0.4))
    for _ in range(random.randint(1, 4)):
        logic = random.choice(FLANKS)
        sizes = {name: random.choice((1, 2, 3)) for name in logic.spec.labels() if random.random() < 0.3}
        chance.operate(logic, sizes, write=0.35)
    return chance.system()


def random_ends(random: Random) -> System:
    """Output rows of which the first and last axes are specified.

    No diagonals: where one of unknown size may be laid over other axes in two ways, the order may show.
    """
    count = random.randint(1, 2)
    operations = []
    for n in range(random.randint(2, 6)):
        logic = random.choice(ENDS)
        sizes = {name: random.choice((1, 2, 2, 3)) for name in logic.spec.labels() if random.random() < 0.5}
        operations.append(Operation(logic, [random.randrange(count)], count + n, sizes))
    roles = ["data"] * count + ["result"] * len(operations)
    return System(roles, [((), (), None) for _ in roles], operations)


def random_stretches(random: Random) -> System:
    """Output rows, some given and some not, that broadcasting stretches in several ways, also by way of each other."""
    chance = SystemBuilder(random)
    for _ in range(random.randint(3, 5)):
        chance.leaf(random.choice(["data", "param"]), (), (), random_row(random, (1, 1, 2, 2, 3), (0, 1, 1, 2), 0.6))
    for _ in range(random.randint(2, 5)):
        chance.operate(random.choice([pointwise(1), pointwise(2), pointwise(2), pointwise(3)]), write=0.15)
    return chance.system()


def random_inserted(random: Random) -> System:
    """Output rows into which broadcasting inserts axes, in front whatever specs write in front of a row variable."""
    chance = SystemBuilder(random)
    for _ in range(random.randint(2, 3)):
        row = random_row(random, (1, 1, 2, 2, 3), (0, 1, 1, 2, 2, 3), 0.6)
        chance.leaf(random.choice(["data", "data", "param"]), (), (), row)
    for _ in range(random.randint(2, 5)):
        logic = random.choice(INSERTED)
        sizes = {name: random.choice((1, 2, 3)) for name in logic.spec.labels() if random.random() < 0.2}
        chance.operate(logic, sizes, write=0.15)
    return chance.system()


def random_met(random: Random) -> System:
    """Input and output rows that meet, with axes that specs write in front of a row variable, or behind.

    Nothing writes into what exists: leaves that are stretched to each other in turn may both stay short.
    """
    chance = SystemBuilder(random)
    for _ in range(random.randint(2, 3)):
        input, output = (random_row(random, (1, 2, 2, 3), (0, 1, 1, 2, 2), 0.35) for _ in range(2))
        chance.leaf(random.choice(["data", "data", "param"]), (), input, output)
    for _ in range(random.randint(2, 4)):
        logic = random.choice(MET)
        sizes = {name: random.choice((1, 2, 3)) for name in logic.spec.labels() if random.random() < 0.35}
        chance.operate(logic, sizes)
    return chance.system()


def random_joined(random: Random) -> System:
    """Output rows of unknown sizes that broadcasting bounds and specs then equate."""
    chance = SystemBuilder(random)
    for _ in range(random.randint(3, 4)):
        chance.leaf(random.choice(["data", "param"]), (), (), random_row(random, (1, 2, 2, 2, 3), (1, 1, 2), 0.4))
    for _ in range(random.randint(2, 5)):
        logic = random.choice(JOINED)
        sizes = {name: random.choice((1, 1, 2, 3)) for name in logic.spec.labels() if random.random() < 0.2}
        chance.operate(logic, sizes, write=0.1)
    return chance.system()


def random_diagonals(random: Random) -> System:
    """Output rows, also of unknown lengths, with repeated axes and with axes that broadcasting inserts or stretches."""
    chance = SystemBuilder(random)
    for _ in range(random.randint(2, 3)):
        row = random_row(random, (1, 1, 2, 2, 2), (0, 1, 2, 2, 3), 0.35)
        chance.leaf(random.choice(["data", "data", "param"]), (), (), row)
    for _ in range(random.randint(2, 4)):
        logic = random.choice(DIAGONALS)
        sizes = {name: random.choice((1, 2, 2)) for name in logic.spec.labels() if random.random() < 0.2}
        chance.operate(logic, sizes, write=0.15)
    return chance.system()
