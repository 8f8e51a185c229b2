"""Random programs: each step writes one operation on tensors that are there and on new leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np

from ones import operations as ops
from ones.program import Line, Program, Statement
from ones.random_operands import OperandPool, broadcasts
from ones.random_specs import RandomSpecs, mutate
from ones.rows import Axis, Refused, Row, Rows, broadcast, sizes
from ones.specs import At, Joined, Merged, Name, RowSpec, Shape, Spec, Window


class Writer(OperandPool):
    """`ill` is how many of the operations that a rule refuses are kept."""

    ill = 0.5

    # --- cell by cell, and contractions of rows ---

    def unary(self) -> Line | None:
        return self.apply(ops.pointwise(*self.random.choice(list(ops.UNARY.items()))), [self.pick()])

    def binary(self) -> Line | None:
        x = self.pick()
        operands = [x, self.partner(x)]
        self.random.shuffle(operands)
        return self.apply(ops.pointwise(*self.random.choice(list(ops.BINARY.items()))), operands, self.ill)

    def ternary(self) -> Line | None:
        x = self.pick()
        y = self.partner(x)
        operands = [x, y, self.partner(x, y)]
        self.random.shuffle(operands)
        return self.apply(ops.pointwise(*self.random.choice(list(ops.TERNARY.items()))), operands, self.ill)

    def matmul(self) -> Line | None:
        y = self.pick(new=0.3)
        batch, _, output = self.rows[y]
        if self.chance(0.25):
            fine = [name for name in list(self.rows)[-9:] if contracts(self.rows[name], self.rows[y])]
            if fine:
                return self.apply(ops.MATMUL, [self.random.choice(fine), y], self.ill)
        input = tuple(Axis(self.size()) if axis == Axis(1) and self.chance(0.3) else axis for axis in output)
        if self.chance(0.12):
            input = (self.axis(), *input)
        rows = self.beside(batch) if self.chance(0.5) else (), input, self.row(2)
        x = self.leaf(self.spoiled(rows) if self.chance(0.1) else rows, (1,))
        return self.apply(ops.MATMUL, [x, y], self.ill)

    def transpose(self) -> Line | None:
        return self.apply(ops.TRANSPOSE, [self.pick()])

    def slice(self) -> Line | None:
        x = self.pick(lambda rows: bool(rows[0]) or self.chance(0.05))
        size = self.rows[x][0][0].size if self.rows[x][0] else 1
        index = self.random.choice((0, 0, max(0, size - 1), size, 5))
        return self.apply(ops.batch_slice(index), [x], min(self.ill, 0.3))

    def total(self) -> Line | None:
        return self.apply(ops.total(self.random.choice(list(ops.TOTALS))), [self.pick()])

    def softmax(self) -> Line | None:
        x = self.pick()
        if self.chance(0.5):
            return self.apply(ops.softmax(), [x])
        complete, left = self.axes_and_some(self.rows[x])
        return self.apply(ops.softmax(Spec((complete,), left)), [x])

    def axes_and_some(self, rows: Rows) -> tuple[Shape, Shape]:
        """Every axis with a name, and some of these axes in their rows."""
        letters = iter("abcdefghijklmnopqrst")
        complete = [[Name(next(letters)) for _ in row] for row in rows]
        left = [[name for name in row if self.chance(0.6)] for row in complete]
        specs = [tuple(RowSpec(tuple(row)) for row in shape) for shape in (complete, left)]
        return specs[0], specs[1]  # type: ignore[return-value]

    def keep_axes(self) -> Line | None:
        """A reduction whose axes stay, with size 1."""
        x = self.pick()
        complete, _ = self.axes_and_some(self.rows[x])
        left = [RowSpec(tuple(term if self.chance(0.5) else At(0) for term in row.terms)) for row in complete]
        spec = Spec((complete,), (left[0], left[1], left[2]))
        if self.chance(0.4):
            return self.apply(ops.mean(spec), [x])
        return self.apply(ops.einsum(spec, self.random.choice(("add", "max"))), [x])

    # --- specs ---

    def einsum(self) -> Line | None:
        names = [self.pick(new=0.3) for _ in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
        draw = RandomSpecs(self.random)
        shapes = [draw.operand(self.rows[name]) for name in names]
        if len(names) < 3 and self.chance(0.7 if draw.taps else 0.35):
            shape, rows = draw.operand_of_names()
            shapes.append(shape)
            names.append(self.leaf(rows, range(3) if self.chance(0.3) else ()))
        spec = draw.spec(shapes)
        if self.chance(0.06):
            spec = mutate(self.random, spec)
        if self.chance(0.06):
            n = self.random.randrange(len(names))
            names[n] = self.leaf(self.spoiled(self.rows[names[n]]))
        reduce = self.random.choice(("add", "add", "max", "min")) if len(names) == 1 and draw.is_onto else "add"
        combine = "add" if len(names) > 1 and self.chance(0.1) else "mul"
        return self.apply(ops.einsum(spec, reduce, combine), names, self.ill)

    def reshape(self) -> Line | None:
        """Neighbours merged, or an axis split."""
        x = self.pick(lambda rows: any(rows), new=0.15)
        kind = self.random.choice([k for k in range(3) for _ in self.rows[x][k]] or [2])
        complete, _ = self.axes_and_some(self.rows[x])
        names = list(complete[kind].terms)
        if len(names) > 1 and self.chance(0.6):
            low = self.random.randrange(len(names) - 1)
            high = self.random.randint(low + 2, len(names))
            names[low:high] = [Merged(tuple(n.name for n in names[low:high] if isinstance(n, Name)))]  # type: ignore[list-item]
            return self.apply(ops.einsum(Spec((complete,), at(complete, kind, names))), [x], self.ill)
        if not names:
            return None
        n = self.random.randrange(len(names))
        size = self.rows[x][kind][n].size
        first = self.random.choice([k for k in range(1, size + 1) if size % k == 0] or [1])
        taken, parts = list(names), [Name("y"), Name("z")]
        taken[n] = Merged(("y", "z"))  # type: ignore[call-overload]
        names[n : n + 1] = parts
        settings = {} if self.chance(0.04) else {"y": first} if self.chance(0.5) and first else {"z": size // first}
        spec = Spec((at(complete, kind, taken),), at(complete, kind, names), settings)
        return self.apply(ops.einsum(spec), [x], self.ill)

    # --- axes laid one after another ---

    def concat(self) -> Line | None:
        x = self.pick(lambda rows: any(rows), new=0.25)
        rows = self.rows[x]
        positions = [(k, n) for k in range(3) for n in range(len(rows[k]))]
        if not positions:
            return None
        kind, n = self.random.choice(positions)
        complete, _ = self.axes_and_some(rows)
        draw = self.random.random()
        if draw < 0.55:
            return self.join(x, kind, n, complete)
        left, right = self.random.choice(((("p",), (1, "p")), (("p",), ("p", 2)), (("p",), (1, "p", 1))))
        sizes: dict[str, int] = {}
        if draw > 0.75:
            size = rows[kind][n].size
            part = self.random.choice((0, 1, size - 1, size)) if size else 0
            left = self.random.choice((("p", "q"), (part, "p"), ("p", part), ("p", 1, "q")))
            right = self.random.choice((("p",), ("p",), ("q", "p") if "q" in left else (1, "p")))
            sizes = {"p": max(0, part)} if "q" in left and self.chance(0.8) else {}
        operand, result = (at(complete, kind, insert(complete[kind], n, parts)) for parts in (left, right))
        return self.apply(ops.concat(Spec((operand,), result, sizes)), [x], self.ill)

    def join(self, x: str, kind: int, n: int, complete: Shape) -> Line | None:
        """Tensors that differ along one axis."""
        rows, names, letters = self.rows[x], [x], ["u", "v", "w"][: self.random.choice((1, 2, 2, 3))]
        for _ in letters[1:]:
            alike = [name for name in list(self.rows)[-9:] if differ_at(self.rows[name], rows, kind, n)]
            if alike and self.chance(0.5):
                names.append(self.random.choice(alike))
                continue
            row = list(map(bare, rows[kind]))
            row[n] = Axis(self.size())
            shape = [tuple(map(bare, r)) for r in rows]
            shape[kind] = tuple(row)
            changed = shape[0], shape[1], shape[2]
            decided = [k for k in range(3) if k != kind]
            names.append(self.leaf(self.spoiled(changed) if self.chance(0.12) else changed, decided))
        shapes = tuple(at(complete, kind, insert(complete[kind], n, (letter,))) for letter in letters)
        parts: list[str | int] = list(letters)
        if self.chance(0.25):
            parts.insert(self.random.randint(0, len(parts)), self.random.choice((0, 1, 2)))
        if len(parts) == 1:
            parts.append(1)
        result = at(complete, kind, insert(complete[kind], n, tuple(parts)))
        return self.apply(ops.concat(Spec(shapes, result)), names, self.ill)

    def stack(self) -> Line | None:
        x = self.pick()
        alike = [name for name in list(self.rows)[-9:] if sizes_of(self.rows[name]) == sizes_of(self.rows[x])]
        names = [x]
        for _ in range(self.random.choice((0, 1, 1, 2))):
            rows = tuple(tuple(map(bare, row)) for row in self.rows[x])
            if alike and self.chance(0.6):
                names.append(self.random.choice(alike))
            else:
                names.append(self.leaf(self.spoiled(rows) if self.chance(0.12) else rows, range(3)))  # type: ignore[arg-type]
        self.random.shuffle(names)
        return self.apply(ops.stack(self.random.randrange(3), len(names), self.chance(0.3)), names, self.ill)

    # --- windows and tables ---

    def pool(self) -> Line | None:
        x = self.pick(lambda rows: not rows[1] and bool(rows[2]), new=0.1)
        if self.rows[x][1] or not self.rows[x][2]:
            x = self.leaf((self.row(0)[:1], (), (self.axis(), *self.row(2)[:1])))
        if not self.rows[x][2]:
            return None
        rank = 2 if len(self.rows[x][2]) > 1 and self.chance(0.6) else 1
        window, stride = self.random.choice((1, 1, 2, 2, 3)), self.random.choice((1, 1, 2))
        mark = "<="[self.chance(0.3)]
        over = ["e", "f"][:rank]
        walk = [Window(name, name.upper(), stride, mark) for name in over]
        operand = RowSpec((), "...", 0), RowSpec(), RowSpec(tuple(walk), "..c..", rank)
        result = RowSpec((), "...", 0), RowSpec(), RowSpec(tuple(map(Name, over)), "..c..", rank)
        spec = Spec((operand,), result, {name.upper(): window for name in over})
        padding = "none" if mark == "<" else "same"
        text = f'oc.max_pool{rank}d({{0}}, window={window}, stride={stride}, padding="{padding}")'
        return self.apply(ops.renamed(ops.einsum(spec, "max"), text, "pool"), [x], self.ill)

    def convolve(self) -> Line | None:
        x = self.pick(lambda rows: not rows[1] and len(rows[2]) == 2, new=0.1)
        if self.rows[x][1] or len(self.rows[x][2]) != 2:
            x = self.leaf((self.row(0)[:1], (), (self.axis(), self.axis())))
        axes = self.rows[x][2]
        if len(axes) != 2:
            return None
        taps, stride, mark = self.random.choice((1, 1, 2, 3)), self.random.choice((1, 1, 2)), "<="[self.chance(0.3)]
        kernel = self.leaf(((), (), (Axis(taps), bare(axes[1]), self.axis())), (0, 1))
        batch, empty = RowSpec((), "...", 0), RowSpec()
        rows = [
            RowSpec(terms) for terms in (
                (Window("e", "k", stride, mark), Name("i")), (Name("k"), Name("i"), Name("o")), (Name("e"), Name("o"))
            )
        ]  # fmt: skip
        spec = Spec(((batch, empty, rows[0]), (empty, empty, rows[1])), (batch, empty, rows[2]))
        text = f'oc.conv1d({{0}}, {{1}}, stride={stride}, padding="{"none" if mark == "<" else "same"}")'
        return self.apply(ops.renamed(ops.einsum(spec), text, "conv"), [x, kernel], self.ill)

    def take(self) -> Line | None:
        x = self.pick(lambda rows: bool(rows[2]) and rows[2][0].size > 0)
        batch, _, output = self.rows[x]
        if x in self.open or not output or not output[0].size:
            return None
        positions = [self.random.choice((1, 1, 2, 3)) for _ in range(self.random.choice((0, 1, 1, 2)))]
        front = list(sizes(batch)) if self.chance(0.7) else []
        front = front or [self.size() for _ in range(0 if batch else self.random.choice((0, 0, 1)))]
        shape = (*front, *positions)
        ids = np.array([self.random.randrange(output[0].size) for _ in range(int(np.prod(shape)))], dtype=int)
        return self.apply(ops.take(ids.reshape(shape), len(front)), [x])

    # --- programs ---

    def step(self) -> Line | None:
        kinds: dict[Callable[[], Line | None], float] = {
            self.unary: 3, self.binary: 7, self.ternary: 1, self.matmul: 4, self.transpose: 1, self.slice: 1.5,
            self.total: 0.7, self.softmax: 1, self.keep_axes: 1.5, self.einsum: 8, self.reshape: 3, self.concat: 5,
            self.stack: 1.5, self.pool: 1.5, self.convolve: 1, self.take: 1,
        }  # fmt: skip
        return self.random.choices(list(kinds), list(kinds.values()))[0]()


def at(shape: Shape, kind: int, terms: object) -> Shape:
    """The shape with other axes in one row."""
    rows = list(shape)
    rows[kind] = terms if isinstance(terms, RowSpec) else RowSpec(tuple(terms))  # type: ignore[arg-type]
    return rows[0], rows[1], rows[2]


def insert(row: RowSpec, n: int, parts: tuple[str | int, ...]) -> RowSpec:
    """The row with a concatenation, or the only part of one, for an axis."""
    terms = list(row.terms)
    terms[n] = Name(parts[0]) if len(parts) == 1 and isinstance(parts[0], str) else Joined(parts)
    return replace(row, terms=tuple(terms))


def bare(axis: Axis) -> Axis:
    return Axis(axis.size)


def sizes_of(rows: Rows) -> list[tuple[int, ...]]:
    return [sizes(row) for row in rows]


def differ_at(rows: Rows, like: Rows, kind: int, n: int) -> bool:
    """Whether the sizes agree but for one axis."""
    def without(shape: Rows) -> list[Row]:
        row = shape[kind]
        return [*(tuple(map(bare, r)) for k, r in enumerate(shape) if k != kind), *map(bare, row[:n] + row[n + 1 :])]

    return len(rows[kind]) == len(like[kind]) and without(rows) == without(like)


def contracts(left: Rows, right: Rows) -> bool:
    try:
        fits = sizes(broadcast([left[1], right[2]])) == sizes(left[1])
        return fits and broadcasts([(left[0], (), ()), (right[0], (), ())])
    except Refused:
        return False


def generate(random: Random, operations: int = 7, share_open: float = 0.0) -> Program:
    """A program of about so many operations."""
    writer = Writer(
        random, units=random.random() < 0.15, empty=random.random() < 0.15,
        share_open=share_open,
    )  # fmt: skip
    writer.ill = 0.0 if share_open else Writer.ill
    writer.leaf(writer.some_rows())
    for _ in range(4 * operations):
        if sum(isinstance(s, Line) for s in writer.statements) >= operations:
            break
        writer.step()
    return pruned(Program(tuple(writer.statements)))


def pruned(program: Program) -> Program:
    """Without leaves that nothing uses."""
    used = {name for s in program.statements for name in s.operands}
    kept: list[Statement] = [s for s in program.statements if isinstance(s, Line) or s.name in used]
    return replace(program, statements=tuple(kept))
