"""Random systems of shapes: some by chance, some around a solution that is hidden, then broken half of the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from random import Random

from ocannl.infer.logic import (
    COMPOSE,
    COMPOSE_ACCUMULATE,
    TRANSPOSE,
    Logic,
    einsum,
    pointwise,
    slice_batch,
)
from ocannl.infer.parse import parse
from ocannl.infer.spec import AxisSpec, Concat, Fixed, Label, Merged, Padding, RowSpec, Window, axis_labels
from ocannl.testing.shapes import Axis, Fronts, Names, Operation, Rows, fits, fronts, holds, means, number, size_of
from ocannl.testing.systems import AT_ONCE, Claim, Given, System, unhelpful


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
PLANTED = [
    pointwise(1), pointwise(2), pointwise(2), pointwise(2), pointwise(3), COMPOSE, COMPOSE, COMPOSE, TRANSPOSE,
    COMPOSE_ACCUMULATE, slice_batch(0), slice_batch(1),
    *specs(
        "...|i->o => ...|o->i", "...|...->... => ...|...->...", "..v..|...->... => ...|..v..->...",
        "...|...i; ...|...i => ...|i", "..v..; ..v..i => ..v..", "...|..a..->..b.. => ...|..b..->..a..",
        "ij => ji", "i; j => ij", "ii => i", "i => ii", "...ii => ...i", "...i; ...i => ...", "...1 => ...",
        "...|...2 => ...|...0", "...i => ...i1", "..._ => ...", "_ _ => 0", "i j; j k; k l => i l",
        "s*o<+d*k; k => o", "2*o<+k, ..c..; k => o, ..c..", "o=+k; k => o", "3*o=+2*k; k => o", "o<+1+3*k; k => o",
        "2*i => i", "s*i+1 => i", "i => 2*i", "o+k; k => o", "2*o<+k; ..c.., k => ..c.., o",
        "x; y => x^y", "2^x => x", "x => 1^x^2", "x^y; x => y", "x; y; z => x^y^z", "x^y => y", "x, i; y, i => x^y, i",
        "(a b) => a, b", "a, b => (a b)", "..., (a b) => ..., b", "(a b), (b c) => a, c", "(a a) => a",
    ),
]  # fmt: skip


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


# --- around a hidden solution -----------------------------------------------------------------------------------------


def random_planted(random: Random) -> System:
    """A few operations of every form on all three rows; half of them broken somewhere."""
    return plant(random, random.randint(2, 5), (1, 2, 2, 3, 3, 4))


def random_large(random: Random) -> System:
    """More operations, sizes up to 50."""
    return plant(random, random.randint(4, 9), (1, 2, 3, 4, 7, 12, 25, 50))


def plant(random: Random, operations: int, sizes: Sequence[int]) -> System:
    it = Planter(random, sizes)
    for _ in range(operations * 12):
        if len(it.operations) >= operations:
            break
        it.operate()
    system = it.system()
    if random.random() < 0.6:
        spoil(random, system)
    return system


class Planter:
    """Tensors of known rows, and operations that hold of them."""

    def __init__(self, random: Random, sizes: Sequence[int]) -> None:
        self.random = random
        self.sizes = sizes
        self.roles: list[str] = []
        self.rows: list[Rows] = []
        self.operations: list[Operation] = []
        self.captured: list[int] = []
        self.given_batch: set[int] = set()

    def operate(self) -> None:
        """Add an operation on tensors that exist and on new ones, if what is drawn fits together."""
        random, names = self.random, Names()
        logic = random.choice(PLANTED)
        coefs = {name: random.choice((1, 2, 2, 3)) for name in logic.spec.coefficients()}
        operands: list[int | None] = []
        for n in range(logic.arity):
            here = [k for k in range(len(self.rows)) if logic.name != "slice" or self.roles[k] == "data"]
            operands.append(random.choice(here) if here and random.random() < (0.8 if n == 0 else 0.4) else None)
        for use in logic.equal:
            old = operands[use.slot // 3]
            if old is not None:
                row = self.rows[old][use.slot % 3]
                if not means(use.spec, row, names) or not self.divide(use.spec, row[0], names, coefs):
                    return
        self.invent(logic, operands, names)
        rows: list[Rows] = []
        for n, old in enumerate(operands):
            rows.append(self.rows[old] if old is not None else self.instance(logic, n, names, coefs))
        shortest(logic, rows, names)
        result = tuple((self.row(use.spec, names, coefs), 0) for use in logic.result)
        if any(x[0] > 200 for shape in (*rows, result) for row, _ in shape for x in row if x[0]):
            return
        if any(len(row) > 4 for shape in (*rows, result) for row, _ in shape):
            return
        names = Names()
        if not holds(logic, [*rows, result], coefs, names):
            return
        slots = [old if old is not None else self.add(rows[n], logic) for n, old in enumerate(operands)]
        same = [k for k, other in enumerate(self.rows) if other == result and self.roles[k] == "result"]
        to = random.choice(same) if same and random.random() < 0.15 else self.add(result, None)
        self.operations.append(Operation(logic, slots, to, *self.extras(logic, names, coefs)))

    def extras(self, logic: Logic, names: Names, coefs: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """Sizes that are given by keyword, and captures."""
        sizes, captures = dict(coefs), {}
        for name in logic.spec.names():
            size = number(names, name)
            if size is not None and name not in coefs:
                if self.random.random() < 0.12:
                    sizes[name] = size
                if self.random.random() < 0.2:
                    captures[name] = len(self.captured)
                    self.captured.append(size)
        return sizes, captures

    def divide(self, spec: RowSpec, axes: tuple[Axis, ...], names: Names, coefs: dict[str, int]) -> bool:
        """Choose names so that windows, concatenations and products make these axes."""
        back = len(axes) - len(spec.trail)
        met = [*zip(spec.lead, axes, strict=False), *zip(spec.trail, axes[back:], strict=True)]
        for axis, (size, unit) in met:
            assert size is not None
            fresh = [name for name in dict.fromkeys(axis_labels(axis)) if name not in names]
            if isinstance(axis, Label) or not fresh:
                continue
            if unit is not None:
                return False
            for _ in range(12):
                for name in fresh:
                    names[name] = (self.random.randint(1, max(1, min(size, 6))), None)
                last = fresh[0]
                at = [n for n in range(1, size + 1) if self.whole(axis, {**names, last: (n, None)}, coefs) == size]
                if at:
                    names[last] = (self.random.choice(at), None)
                    break
            else:
                return False
        return True

    def invent(self, logic: Logic, operands: list[int | None], names: Names) -> None:
        """What names stand for that no tensor tells yet."""
        for shape in logic.spec.shapes:
            for _, spec in shape.rows:
                in_law = dict.fromkeys(n for a in spec.axes if not isinstance(a, Label) for n in axis_labels(a))
                for name in in_law:
                    names.setdefault(name, (self.random.choice(self.sizes), None))
        for name in logic.spec.labels():
            names.setdefault(name, self.axis())
        for use in logic.stretch:
            old, key = operands[use.slot // 3], f"..{use.spec.var}"
            if old is not None:
                row, _ = self.rows[old][use.slot % 3]
                known = names.get(key)
                names[key] = row if known is None else merged(known, row)  # type: ignore[arg-type]
        for var in logic.spec.row_vars():
            names.setdefault(f"..{var}", tuple(self.axis() for _ in range(self.random.choice((0, 0, 1, 1, 2)))))

    def axis(self) -> Axis:
        return self.random.choice(self.sizes), self.random.choice(("a", "b", *(None,) * 14))

    def instance(self, logic: Logic, n: int, names: Names, coefs: dict[str, int]) -> Rows:
        """A new operand; where it may be stretched, it is a little smaller."""
        rows = []
        for (_, spec), stretched in zip(logic.spec.operands[n].rows, logic.stretched[n], strict=True):
            row = self.row(spec, names, coefs)
            if stretched and self.random.random() < 0.35:
                row = row[self.random.randint(0, len(row)) :]
                row = tuple((1, None) if self.random.random() < 0.2 else axis for axis in row)
            rows.append((row, 0))
        return tuple(rows)

    def row(self, spec: RowSpec, names: Names, coefs: dict[str, int]) -> tuple[Axis, ...]:
        middle = () if spec.var is None else names[f"..{spec.var}"]
        ends = [tuple(self.cell(a, names, coefs) for a in part) for part in (spec.lead, spec.trail)]
        return (*ends[0], *middle, *ends[1])

    def cell(self, axis: AxisSpec, names: Names, coefs: dict[str, int]) -> Axis:
        match axis:
            case Label(name): return names[name]  # type: ignore[return-value]
            case Fixed(int(at)): return at + 1, None
            case Window() | Concat() | Merged(): return self.whole(axis, names, coefs), None
            case _: return self.random.choice(self.sizes), None

    def whole(self, axis: AxisSpec, names: Names, coefs: dict[str, int]) -> int:
        """The size that names make."""
        match axis:
            case Concat(parts):
                return sum(part if isinstance(part, int) else size_of(names, part.name) or 0 for part in parts)
            case Merged(parts):
                return prod(size_of(names, part.name) or 0 for part in parts)
            case Window(stride, over, padding, offset, dilation, kernel):
                stride = coefs[stride] if isinstance(stride, str) else stride
                dilation = coefs[dilation] if isinstance(dilation, str) else dilation
                places, taps = size_of(names, over) or 0, (size_of(names, kernel) or 0) if kernel else 1
                if kernel is None:
                    return stride * (places + offset // stride)
                if padding is Padding.SAME:
                    return stride * places
                return offset + stride * (places - 1) + dilation * (taps - 1) + 1
            case _: return 0

    def add(self, rows: Rows, logic: Logic | None) -> int:
        role = "result" if logic is None else "data"
        if role == "data" and logic is not None and logic.name != "slice" and not rows[0][0]:
            role = self.random.choice(("data", "param", "param"))
        self.roles.append(role)
        self.rows.append(rows)
        if logic is not None and logic.name == "slice":
            self.given_batch.add(len(self.rows) - 1)
        return len(self.rows) - 1

    def system(self) -> System:
        """Leaves keep some of their rows."""
        random = self.random
        rows: list[tuple[Given, Given, Given]] = []
        square, total = set(), {}
        sliced = {it.operands[0] for it in self.operations if it.logic.name == "slice"} | self.given_batch
        for n, (role, actual) in enumerate(zip(self.roles, self.rows, strict=True)):
            keep = random.choice((0.3, 0.9))
            given = [self.forgetful(row) if random.random() < keep else None for row, _ in actual]
            if role == "result":
                given = [None, None, None]
            elif role == "param":
                given[0] = ()
            elif n in sliced:
                given[0] = self.forgetful(actual[0][0])
            rows.append((given[0], given[1], given[2]))
            if role != "result":
                if actual[1][0] == actual[2][0] and random.random() < 0.3:
                    square.add(n)
                if random.random() < 0.12:
                    total[n] = prod(axis[0] or 0 for row, _ in actual for axis in row)
        captured = self.captured
        claims = [Claim(n, size) for n, size in enumerate(captured) if random.random() < 0.2]
        for a, size in enumerate(captured):
            for b, other in enumerate(captured):
                if a != b and other and size % other == 0 and random.random() < 0.5:
                    claims.append(Claim(a, other=b, factor=size // other))
        return System(
            self.roles, rows, self.operations, claims, frozenset(square), total, len(captured), planted=list(self.rows)
        )

    def forgetful(self, row: tuple[Axis, ...]) -> Given:
        return tuple((size, unit if self.random.random() < 0.5 else None) for size, unit in row)


def merged(a: tuple[Axis, ...], b: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The shortest row that both may be stretched to, if there is one."""
    a, b = (a, b) if len(a) >= len(b) else (b, a)
    longer = a[: len(a) - len(b)]
    both = (*longer, *(y if x == (1, None) else x for x, y in zip(a[len(longer) :], b, strict=True)))
    return both if fits((both, 0), (b, 0)) else a


def shortest(logic: Logic, rows: Sequence[Rows], names: Names) -> None:
    """Rows that operands alone make are no larger than these ask for."""
    bound = {use.spec.var for use in logic.equal}
    rows_of: dict[str, tuple[Axis, ...]] = {}
    for use in logic.stretch:
        if use.spec.var not in bound:
            row, _ = rows[use.slot // 3][use.slot % 3]
            key = f"..{use.spec.var}"
            rows_of[key] = merged(rows_of.get(key, ()), row)
    names.update(rows_of)


def spoil(random: Random, system: System) -> None:
    """Change something that was said, so that it may no longer be satisfied."""
    system.planted = None
    ways: list[Callable[[], object]] = []
    for n, rows in enumerate(system.rows):
        for k, row in enumerate(rows):
            if row is not None and system.roles[n] != "result":
                ways += [lambda n=n, k=k, i=i: resize(random, system, n, k, i) for i in range(len(row))] * 3
                if k or system.roles[n] != "param":
                    ways.append(lambda n=n, k=k: relength(random, system, n, k))  # type: ignore[misc]
    for m, it in enumerate(system.operations):
        for name in it.sizes:
            ways.append(lambda m=m, name=name: rename(random, system, m, name))  # type: ignore[misc]
    for n in system.cells:
        ways.append(lambda n=n: system.cells.update({n: system.cells[n] + 1}))  # type: ignore[misc]
    for m, claim in enumerate(system.claims):
        more = {"value": claim.value + 1} if claim.other is None else {"factor": claim.factor + 1}
        changed = claim._replace(**more)
        ways.append(lambda m=m, changed=changed: system.claims.__setitem__(m, changed))  # type: ignore[misc]
    for _ in range(random.choice((1, 2, 2))):
        if ways:
            random.choice(ways)()


def resize(random: Random, system: System, n: int, k: int, i: int) -> None:
    row = list(system.rows[n][k] or ())
    if i < len(row):
        size, unit = row[i]
        row[i] = (random.choice(((size or 0) + 1, (size or 0) + 2, 2)), unit) if random.random() < 0.85 else (size, "c")
        put(system, n, k, tuple(row))


def relength(random: Random, system: System, n: int, k: int) -> None:
    row = system.rows[n][k] or ()
    put(system, n, k, (*row, (2, None)) if random.random() < 0.5 else row[1:])


def put(system: System, n: int, k: int, row: tuple[Axis, ...]) -> None:
    rows = list(system.rows[n])
    rows[k] = row
    system.rows[n] = (rows[0], rows[1], rows[2])


def rename(random: Random, system: System, m: int, name: str) -> None:
    it = system.operations[m]
    system.operations[m] = it._replace(sizes={**it.sizes, name: it.sizes[name] + random.choice((1, 2))})


FAMILIES: dict[str, Callable[[Random], System]] = {
    "rows": random_rows, "kinds": random_kinds, "sums": random_sums, "flanks": random_flanks, "ends": random_ends,
    "stretches": random_stretches, "fronts": random_fronts, "planted": random_planted,
}  # fmt: skip

SMALL = {
    "rows": ((1, 2, 3), 2), "kinds": ((1, 2), 1), "flanks": ((1, 2, 3), 2), "stretches": ((1, 2, 3), 2),
    "fronts": ((1, 2, 3), 2),
}  # fmt: skip
"""Sizes, and numbers of axes, that are all tried to see whether a system of a family can be satisfied."""

# Of 250 systems, so many that can be satisfied may be refused: their number of ways is one that must be asked for, or
# a guess was wrong; what the error names must always help.
ASKED, GUESSED = 20, 9
STRAINED = {"stretches": 1, "flanks": 2}


def refused_without_need(seeds: range) -> str:
    """More systems than usual that could be satisfied are refused, or one in vain; for each 250 systems."""
    asked, guessed = 0, []
    for seed in seeds:
        system = random_planted(Random(f"planted {seed}"))
        if system.planted is not None and isinstance(answer := system.solve(range(system.steps)), str):
            asked += "nothing says how" in answer
            if "nothing says" not in answer:
                guessed.append(f"planted {seed}\n{system}\n{answer}")
            if words := unhelpful(system, answer):
                return f"planted {seed}\n{words}"
    for family, most in STRAINED.items():
        strained = []
        for seed in seeds:
            system = FAMILIES[family](Random(f"{family} {seed}"))
            answer = system.solve(range(system.steps))
            if isinstance(answer, str) and not answer.startswith(AT_ONCE) and "nothing says" not in answer:
                strained.append(f"{family} {seed}\n{system}\n{answer}")
        if len(strained) > most:
            return "\n\n".join(strained)
    if len(guessed) > GUESSED:
        return "\n\n".join(guessed)
    return f"{asked} ask for a size" if asked > ASKED else ""


CERTAIN = ("rows", "kinds", "ends")
"""Families in which no guess of the solver is wrong."""
