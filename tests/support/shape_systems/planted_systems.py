"""Random systems of shapes with a planted solution; about half are mutated afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

from ocannl.infer.logic import COMPOSE, COMPOSE_ACCUMULATE, TRANSPOSE, Logic, pointwise, slice_batch
from ocannl.infer.spec import AxisSpec, Concat, Fixed, Label, Merged, Padding, RowSpec, Window, axis_labels
from shape_systems.mutations import mutate
from shape_systems.random_systems import specs
from shape_systems.shape_oracle import (
    Axis,
    Names,
    Operation,
    Rows,
    fits,
    holds,
    makes,
    means,
    number,
    result_names,
    size_of,
    spare_parts,
    unsized,
)
from shape_systems.systems import Claim, SizedRow, System

PLANTED = [
    pointwise(1), pointwise(2), pointwise(2), pointwise(2), pointwise(3), COMPOSE, COMPOSE, COMPOSE, TRANSPOSE,
    COMPOSE_ACCUMULATE, slice_batch(0), slice_batch(1),
    *specs(
        "...|i->o => ...|o->i", "...|...->... => ...|...->...", "..v..|...->... => |..v..->...",
        "...|...i; ...|...i => ...|i", "..v..; ..v..i => ..v..", "...|..a..->..b.. => ...|..b..->..a..",
        "ij => ji", "i; j => ij", "ii => i", "i => ii", "i => i k", "i; j => i+j", "... => ..., 2",
        "...ii => ...i", "...i; ...i => ...", "...1 => ...", "...|...2 => ...|...0",
        "...i => ...i1", "..._ => ...", "_ _ => 0", "i j; j k; k l => i l",
        "s*o<+d*k; k => o", "2*o<+k, ..c..; k => o, ..c..", "o=+k; k => o", "3*o=+2*k; k => o", "o<+1+3*k; k => o",
        "2*i => i", "s*i+1 => i", "i => 2*i", "o+k; k => o", "2*o<+k; ..c.., k => ..c.., o",
        "x; y => x^y", "2^x => x", "x => 1^x^2", "x^y; x => y", "x; y; z => x^y^z", "x^y => y", "x, i; y, i => x^y, i",
        "(a b) => a, b", "a, b => (a b)", "..., (a b) => ..., b", "(a b), (b c) => a, c", "(a a) => a",
    ),
]  # fmt: skip


def random_planted(random: Random) -> System:
    """A few operations of any form on all three rows; a part of the systems is mutated."""
    operations, builder = random.randint(2, 5), SolutionBuilder(random, (1, 2, 2, 3, 3, 4))
    for _ in range(operations * 12):
        if len(builder.operations) >= operations:
            break
        builder.operate()
    system = builder.system()
    if random.random() < 0.6:
        mutate(random, system)
    return system


class SolutionBuilder:
    """Builds tensors of known rows, and operations that they satisfy."""

    def __init__(self, random: Random, sizes: Sequence[int]) -> None:
        self.random = random
        self.sizes = sizes
        self.roles: list[str] = []
        self.rows: list[Rows] = []
        self.operations: list[Operation] = []
        self.captured: list[int] = []
        self.explicit_batch: set[int] = set()
        self.is_sized = True  # every name has a size, so that nothing is to be refused

    def operate(self) -> None:
        """Add an operation on tensors that exist and on new ones, if what is drawn fits together."""
        random, names = self.random, Names()
        logic = random.choice(PLANTED)
        coefs = {name: random.choice((1, 2, 2, 3)) for name in logic.spec.coefficients()}
        operands: list[int | None] = []
        for n in range(logic.arity):
            candidates = [k for k in range(len(self.rows)) if logic.name != "slice" or self.roles[k] == "data"]
            reuses = bool(candidates) and random.random() < (0.8 if n == 0 else 0.4)
            operands.append(random.choice(candidates) if reuses else None)
        for use in logic.equal:
            old = operands[use.slot // 3]
            if old is not None:
                row = self.rows[old][use.slot % 3]
                if not means(use.spec, row, names) or not self.divide(use.spec, row, names, coefs):
                    return
        self.invent(logic, operands, names)
        rows: list[Rows] = []
        for n, old in enumerate(operands):
            rows.append(self.rows[old] if old is not None else self.instance(logic, n, names, coefs))
        shortest(logic, rows, names)
        result = tuple(self.row(use.spec, names, coefs) for use in logic.result)
        if any(x[0] > 200 for shape in (*rows, result) for row in shape for x in row if x[0]):
            return
        if any(len(row) > 4 for shape in (*rows, result) for row in shape):
            return
        names = Names()
        if not makes(logic, [*rows, result], coefs, names, spare_parts(logic)):
            return
        slots = [old if old is not None else self.add(rows[n], logic) for n, old in enumerate(operands)]
        wide = [k for k, target in enumerate(self.rows) if holds(logic, [*rows, target], coefs)]
        if wide and random.random() < 0.2:
            to, names = random.choice(wide), Names()
            holds(logic, [*rows, self.rows[to]], coefs, names)
            self.operations.append(Operation(logic, slots, to, *self.extras(logic, names, coefs, True)))
        else:
            self.operations.append(Operation(logic, slots, self.add(result, None), *self.extras(logic, names, coefs)))

    def extras(
        self, logic: Logic, names: Names, coefs: dict[str, int], writes: bool = False
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Sizes that are given by keyword, and captures; what no operand sizes is given, or equated by a write."""
        sizes, captures = dict(coefs), {}
        needed = unsized(logic) - result_names(logic) if writes else unsized(logic) | spare_parts(logic)
        for name in logic.spec.names():
            size = number(names, name)
            if size is not None and name not in coefs:
                if self.random.random() < (0.97 if name in needed else 0.12):
                    sizes[name] = size
                if self.random.random() < 0.2:
                    captures[name] = len(self.captured)
                    self.captured.append(size)
        self.is_sized &= needed <= sizes.keys() | captures.keys()
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
                at = [n for n in range(1, size + 1) if self.total_size(axis, {**names, last: (n, None)}, coefs) == size]
                if at:
                    names[last] = (self.random.choice(at), None)
                    break
            else:
                return False
        return True

    def invent(self, logic: Logic, operands: list[int | None], names: Names) -> None:
        """Chooses values of names that no tensor determines."""
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
                row = self.rows[old][use.slot % 3]
                bound_row = names.get(key)
                names[key] = row if bound_row is None else merged(bound_row, row)  # type: ignore[arg-type]
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
            rows.append(row)
        return tuple(rows)

    def row(self, spec: RowSpec, names: Names, coefs: dict[str, int]) -> tuple[Axis, ...]:
        middle = () if spec.var is None else names[f"..{spec.var}"]
        ends = [tuple(self.cell(a, names, coefs) for a in part) for part in (spec.lead, spec.trail)]
        return (*ends[0], *middle, *ends[1])

    def cell(self, axis: AxisSpec, names: Names, coefs: dict[str, int]) -> Axis:
        match axis:
            case Label(name): return names[name]  # type: ignore[return-value]
            case Fixed(int(at)): return at + 1, None
            case Window() | Concat() | Merged(): return self.total_size(axis, names, coefs), None
            case _: return self.random.choice(self.sizes), None

    def total_size(self, axis: AxisSpec, names: Names, coefs: dict[str, int]) -> int:
        """The size that names make."""
        match axis:
            case Concat(parts):
                return sum(part if isinstance(part, int) else size_of(names, part.name) or 0 for part in parts)
            case Merged(parts):
                return prod(size_of(names, part.name) or 0 for part in parts)
            case Window(stride, over, padding, offset, dilation, kernel):
                stride = coefs[stride] if isinstance(stride, str) else stride
                dilation = coefs[dilation] if isinstance(dilation, str) else dilation
                positions, taps = size_of(names, over) or 0, (size_of(names, kernel) or 0) if kernel else 1
                if kernel is None:
                    return stride * (positions + offset // stride)
                if padding is Padding.SAME:
                    return stride * positions
                return offset + stride * (positions - 1) + dilation * (taps - 1) + 1
            case _: return 0

    def add(self, rows: Rows, logic: Logic | None) -> int:
        role = "result" if logic is None else "data"
        if role == "data" and logic is not None and logic.name != "slice" and not rows[0]:
            role = self.random.choice(("data", "param", "param"))
        self.roles.append(role)
        self.rows.append(rows)
        if logic is not None and logic.name == "slice":
            self.explicit_batch.add(len(self.rows) - 1)
        return len(self.rows) - 1

    def system(self) -> System:
        """The system, with some rows of leaves left unspecified."""
        random = self.random
        rows: list[tuple[SizedRow, SizedRow, SizedRow]] = []
        square, total = set(), {}
        sliced = {op.operands[0] for op in self.operations if op.logic.name == "slice"} | self.explicit_batch
        for n, (role, actual) in enumerate(zip(self.roles, self.rows, strict=True)):
            keep = random.choice((0.3, 0.9))
            specified = [self.forgetful(row) if random.random() < keep else None for row in actual]
            if role == "result":
                specified = [None, None, None]
            elif role == "param":
                specified[0] = ()
            elif n in sliced:
                specified[0] = self.forgetful(actual[0])
            rows.append((specified[0], specified[1], specified[2]))
            if role != "result":
                if actual[1] == actual[2] and random.random() < 0.3:
                    square.add(n)
                if random.random() < 0.12:
                    total[n] = prod(axis[0] or 0 for row in actual for axis in row)
        captured = self.captured
        claims = [Claim(n, size) for n, size in enumerate(captured) if random.random() < 0.2]
        for a, size in enumerate(captured):
            for b, base in enumerate(captured):
                if a != b and base and size % base == 0 and random.random() < 0.5:
                    claims.append(Claim(a, base=b, factor=size // base))
        planted = list(self.rows) if self.is_sized else None
        return System(
            self.roles, rows, self.operations, claims, frozenset(square), total, len(captured), planted=planted
        )

    def forgetful(self, row: tuple[Axis, ...]) -> SizedRow:
        return tuple((size, unit if self.random.random() < 0.5 else None) for size, unit in row)


def merged(a: tuple[Axis, ...], b: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The shortest row that both may be stretched to, if there is one."""
    a, b = (a, b) if len(a) >= len(b) else (b, a)
    longer = a[: len(a) - len(b)]
    both = (*longer, *(y if x == (1, None) else x for x, y in zip(a[len(longer) :], b, strict=True)))
    return both if fits(both, b) else a


def shortest(logic: Logic, rows: Sequence[Rows], names: Names) -> None:
    """Rows that operands alone make are no larger than these ask for."""
    bound = {use.spec.var for use in logic.equal}
    rows_of: dict[str, tuple[Axis, ...]] = {}
    for use in logic.stretch:
        if use.spec.var not in bound:
            row = rows[use.slot // 3][use.slot % 3]
            key = f"..{use.spec.var}"
            rows_of[key] = merged(rows_of.get(key, ()), row)
    names.update(rows_of)
