"""Random small programs in the user's language, with their NumPy semantics.

A program is built from its text. Each line has a function that computes it with NumPy in float64, by independent
rules for shapes. Values thus test shape inference, projections and operations, and slopes test gradients. Values avoid
kinks, poles and overflow in every call.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from random import Random

import numpy as np

from ocannl.testing.axis_ops import AXIS_OPS, TABLES
from ocannl.testing.layout_ops import LAYOUT_OPS
from ocannl.testing.numpy_semantics import (
    BINARY,
    INTEGERS,
    NUMBERS,
    SCALAR,
    TERNARY,
    TOTALS,
    UNARY,
    Row,
    away,
    dims_of,
    matmul,
)
from ocannl.testing.program import FROZEN, Env, Line, Program
from ocannl.testing.random_einsums import SOFT, Array, Einsum, Rows, random_einsum
from ocannl.testing.random_leaves import CELLS, Value
from ocannl.testing.random_operands import Operands, meeting
from ocannl.testing.random_updates import random_updates

CALLS = 3


@dataclass
class _Maker(Operands):
    symbols: dict[str, int] = field(default_factory=dict)  # number of values, by name
    call: dict[str, int] = field(default_factory=dict)  # values in the first call
    operations: int = 0

    # --- expressions ---

    def unary(self) -> Value | None:
        x = self.pick()
        for _ in range(6):
            value = self.apply(self.random.choice(UNARY if self.chance(0.7) else NUMBERS), [x])
            if value is not None:
                return value
        return self.lost([x])

    def binary(self) -> Value | None:
        x = self.pick()
        twice = x.text.isidentifier() and not x.partner and self.chance(0.06)
        operands = [x, x if twice else self.pick_beside(x)]
        if self.chance(0.5):
            operands.reverse()
        meeting = any(v.partner for v in operands)
        for _ in range(6):
            value = self.apply(self.random.choice(BINARY[:5] if meeting else BINARY), operands)
            if value is not None:
                return value
        return self.lost(operands)

    def ternary(self) -> Value | None:
        x = self.pick()
        y = self.pick_beside(x)
        operands = [x, y, self.use(self.leaf(self.join(x, y) or SCALAR))]
        if any(v.partner for v in operands):
            return self.lost(operands)
        flags = [v for v in self.named if v.partner == "int32" and self.join(v, *operands)]
        if flags and not self.open and self.chance(0.5):
            value = self.apply(CHOICE, [self.use(flags[-1]), *operands[:2]])
            self.put_back(operands[2])
            return value or self.lost(operands[:2])
        self.random.shuffle(operands)
        return self.apply(self.random.choice(TERNARY), operands) or self.lost(operands)

    def integers(self) -> Value | None:
        """An operation on integers: a new or an existing tensor, and a new one."""
        leaves = [v for v in self.named if v.partner == "int32"]
        x = self.random.choice(leaves) if leaves and self.chance(0.7) else self.integer_leaf(self.random_rows())
        y = self.integer_leaf(tuple(map(self.changed, x.rows)))  # type: ignore[arg-type]
        operands = [x, y]
        self.random.shuffle(operands)
        for _ in range(4):
            value = self.apply(self.random.choice(INTEGERS), operands, "int32")
            if value is not None:
                return self.name(value)
        return self.lost(operands)

    def integer_leaf(self, rows: Rows) -> Value:
        rows = rows if prod(dims_of(rows)) <= CELLS else SCALAR
        name = self.new_name("x")
        text = f'{self.data_text(name, rows)[:-1]}, dtype="int32")' if rows == SCALAR else self.data_text(name, rows)
        return self.use(self.add_leaf(name, text, rows, self.numbers(dims_of(rows), "int32"), False))

    def product(self) -> Value | None:
        y = self.pick()
        if self.chance(0.3):
            out = tuple(self.size() for _ in range(self.random.choice((0, 1, 1, 2))))
            asks = bool(y.rows[2]) and not y.partner  # a parameter without axes to contract would stay undetermined
            w = self.open_param(((), y.rows[2], out), (True, False, True)) if asks else None
            if w is not None:
                return self.multiply(self.use(w), y)
        x = next((v for v in self.named if not v.partner and self.meets(v, y)), None) if self.chance(0.5) else None
        if x is None:
            rows = self.random_rows()
            batch = y.rows[0] if y.rigid[0] else self.changed(y.rows[0])
            x = self.leaf((batch, y.rows[2], rows[2]), param=True)
        return self.multiply(self.use(x), y) if self.meets(x, y) else self.lost([x, y])

    def meets(self, x: Value, y: Value) -> bool:
        inner = meeting((x.rigid[1], y.rigid[2]), (x.rows[1], y.rows[2]))[0]
        outer = meeting((x.rigid[0], y.rigid[0]), (x.rows[0], y.rows[0]))[0]
        try:
            np.broadcast_shapes(x.rows[0], y.rows[0])
            return inner and outer and np.broadcast_shapes(x.rows[1], y.rows[2]) == x.rows[1]
        except ValueError:
            return False

    def multiply(self, x: Value, y: Value) -> Value | None:
        rows = (np.broadcast_shapes(x.rows[0], y.rows[0]), y.rows[1], x.rows[2])
        if prod(dims_of(rows)) > CELLS:
            return self.lost([x, y])

        def meaning(a: Array, b: Array) -> Array:
            return matmul(a, x.rows, b, y.rows)

        rigid = (meeting((x.rigid[0], y.rigid[0]), (x.rows[0], y.rows[0]))[1], y.rigid[1], x.rigid[2])
        return self.new_value(f"{x.operand} @ {y.operand}", rows, meaning, [x, y], rigid=rigid) or self.lost([x, y])

    def reduction(self) -> Value | None:
        x = self.pick()
        row = self.random.choice(TOTALS)
        chooses = row.text in (".max()", ".min()")

        def fits(array: Array) -> bool:
            return row.fits(array) and (not chooses or self.may_choose(array.reshape(1, -1), x))

        return self.new_value(f"{x.operand}{row.text}", SCALAR, row.compute, [x], fits=fits) or self.lost([x])

    def einsum(self) -> Value | None:
        operands = [self.pick() for _ in range(self.random.choice((1, 1, 2, 2, 2, 3)))]
        if self.chance(0.3):
            last = operands.pop()
            self.put_back(last)
            operands.append(self.use(self.leaf(last.rows)))
        if any(v.partner for v in operands):
            return self.lost(operands)
        for _ in range(4):
            spec = random_einsum(self.random, [v.rows for v in operands], [v.rigid for v in operands])
            if spec is not None:
                value = self.by_spec(spec, operands)
                if value is not None:
                    return value
        return self.lost(operands)

    def by_spec(self, spec: Einsum, operands: list[Value]) -> Value | None:
        def fits(*arrays: Array) -> bool:
            return self.sound(spec, operands, arrays)

        return self.new_value(self.einsum_text(spec, operands), spec.rows, spec, operands, rigid=spec.rigid, fits=fits)

    def einsum_text(self, value: Einsum, operands: list[Value]) -> str:
        short = {"add": "sum", "max": "max", "min": "min"}.get(value.reduce)
        if len(operands) == 1 and short and self.chance(0.5):
            names = "".join(f", {k}={v}" for k, v in value.keywords.items())
            return f'{operands[0].operand}.{short}("{value.spec}"{names})'
        return f'oc.einsum("{value.spec}", {", ".join(v.text for v in operands)}{value.arguments()})'

    def sound(self, value: Einsum, operands: list[Value], arrays: tuple[Array, ...]) -> bool:
        terms = value.terms(*arrays)
        if value.reduce == "add":
            return True
        if value.reduce == "mul":
            return away(terms, 0) and terms.size <= 16 * max(1, prod(dims_of(value.rows)))
        kept = [key for row in value.result for key in (a.key for a in row.axes) if key is not None]
        order = [list(value.sizes).index(key) for key in kept]
        reduced = [n for n in range(terms.ndim) if n not in order]
        simple = len(operands) == 1 or value.combine == "fst"
        chosen = np.transpose(terms, order + reduced).reshape(prod(terms.shape[n] for n in order), -1)
        return self.may_choose(chosen, *(operands if simple else ())) if simple or chosen.shape[1] > 1 else True

    def layout_op(self) -> Value | None:
        """An operation of `layout_ops` or `axis_ops`."""
        x = self.pick()
        family = self.random.choice((LAYOUT_OPS, AXIS_OPS, TABLES) if x.text in self.data else (LAYOUT_OPS, AXIS_OPS))
        move = self.random.choice(family)(self.random, x.rows)
        if x.partner or move is None or prod(dims_of(move.rows)) > CELLS:
            return self.lost([x])
        operands = [x, *(self.like(rows, x) for rows in move.operands)]

        def fits(*arrays: Array) -> bool:
            return move.fits(*arrays) and (move.candidates is None or self.may_choose(move.candidates(*arrays), x))

        rigid = tuple(new or any(v.rigid[k] for v in operands) for k, new in enumerate(move.rigid))
        text = move.text.format(*(v.text for v in operands))
        value = self.new_value(
            text, move.rows, move.compute, operands, rigid=(rigid[0], rigid[1], rigid[2]) if rigid else SOFT, fits=fits
        )
        return value or self.lost(operands)

    def like(self, rows: Rows, beside: Value) -> Value:
        """A tensor of these rows: an existing or a new one."""
        grows = 1 in dims_of(rows)  # an axis of size 1 of an expression may grow by later uses
        matches = [v for v in self.named if v.rows == rows and not v.partner and v.rigid == SOFT]
        matches = [v for v in matches if not grows or v.text in self.data]
        if matches and self.chance(0.6):
            return self.use(self.random.choice(matches))
        value = self.leaf(rows)
        return self.use(value if not value.partner else self.leaf(rows, param=True))

    def rearranged(self) -> Value | None:
        x = self.pick()
        batch, input, output = x.rows
        if batch and batch[0] and self.chance(0.6):
            return self.sliced(x)
        nb, no = len(batch), len(output)
        order = [*range(nb), *range(nb + no, x.array.ndim), *range(nb, nb + no)]
        rigid = (x.rigid[0], x.rigid[2], x.rigid[1])
        return self.new_value(
            f"{x.operand}.T", (batch, output, input), lambda a: np.transpose(a, order), [x], rigid=rigid,
            partner=x.partner,
        )  # fmt: skip

    def sliced(self, x: Value) -> Value:
        size = x.rows[0][0]
        at = self.random.randrange(size)
        rows = (x.rows[0][1:], x.rows[1], x.rows[2])
        if not self.chance(0.7):
            return replace(
                x, text=f"{x.operand}[{at}]", rows=rows, array=x.array[at], compute=lambda env: x.compute(env)[at],
                exact=False,
            )  # fmt: skip
        fitting = [name for name, values in self.symbols.items() if values == size]
        name = self.random.choice(fitting) if fitting and self.chance(0.5) else f"n{len(self.symbols) + 1}"
        if name not in self.symbols:
            self.symbols[name], self.call[name] = size, at
            self.lines.append(Line(f'{name} = oc.symbol("{name}", 0, {size})', name))
        at = self.call[name]
        return replace(
            x, text=f"{x.operand}[{name}]", rows=rows, array=x.array[at],
            compute=lambda env: x.compute(env)[int(env[name])], exact=False,
        )  # fmt: skip

    def frozen(self) -> Value | None:
        """`stop_gradient` of an operand."""
        x = self.pick()
        return replace(self.detached(x), text=f"oc.stop_gradient({x.text})", exact=False)

    def detached(self, value: Value) -> Value:
        """The value, held constant while a slope is measured."""
        key = self.new_name(FROZEN)

        def compute(env: Env) -> Array:
            return env.setdefault(key, value.compute(env))

        return replace(value, compute=compute, gradient=False)

    # --- programs ---

    def name(self, value: Value) -> Value:
        name = self.new_name("t")
        text = f"{name} = {value.text}"
        if value.gradient and self.chance(0.03):
            text, value = f"with oc.no_grad(): {text}", self.detached(value)
        self.lines.append(Line(text, name, value.compute, value.rows, value.gradient))
        named = replace(value, text=name, compute=lambda env: env[name], exact=False)
        self.named.append(named)
        self.unused[name] = named
        return named

    def step(self) -> None:
        kinds = {
            self.unary: 5, self.binary: 8, self.einsum: 6, self.layout_op: 8, self.product: 3, self.reduction: 2,
            self.ternary: 1.5, self.rearranged: 2.5, self.integers: 2, self.frozen: 0.4,
        }  # fmt: skip
        value = self.random.choices(list(kinds), list(kinds.values()))[0]()
        if value is None:
            return
        self.operations += 1
        if self.open:
            self.shape_parameter(value)
        elif value.text in self.unused:
            pass  # it is named already
        elif self.chance(0.35):
            self.inline.append(value)
        else:
            self.name(value)

    def shape_parameter(self, value: Value) -> None:
        """Names the value that determines the shape of a parameter; queries its shape before later uses change it."""
        named = self.name(value)
        self.lines.append(Line(f"{named.text}.dims"))
        self.open.clear()

    def terms(self) -> list[Line]:
        """The terms of the loss: all unused values, among them at least one parameter."""
        for value in self.inline:
            self.name(value)
        waiting = [v for v in self.unused.values() if v.partner in ("", "int32")]
        if not any(v.gradient for v in waiting):
            waiting.append(self.scalar())
        return [term(v) for v in waiting]

    def program(self, operations: int) -> Program:
        self.empty = self.chance(0.06)
        self.leaf(self.random_rows(), param=True)
        for _ in range(3 * operations):
            if self.operations < operations:
                self.step()
        value = Program((), tuple(self.terms()), (), self.data, (self.call,), self.smooth, self.operations)
        once = replace(value, lines=tuple(self.lines))
        if not self.symbols and self.chance(0.4):
            return once
        later = [{name: self.random.randrange(n) for name, n in self.symbols.items()} for _ in range(1, CALLS)]
        reading, apart = random_updates(self)
        program = replace(once, lines=tuple(self.lines), updates=(*reading, *apart), calls=(self.call, *later))
        if self.guards_hold(program):
            return program
        program = replace(program, updates=tuple(apart))
        return program if self.guards_hold(program) else replace(program, calls=(self.call,) * CALLS)

    def guards_hold(self, program: Program) -> bool:
        """Whether the guards hold in each call."""
        with np.errstate(all="ignore"):
            return all(guard(env) for env in program.runs(before=True)[1:] for guard in self.guards)


CHOICE = Row("oc.where({}, {}, {})", lambda c, x, y: np.where(c != 0, x, y))


def term(value: Value) -> Line:
    """The term of a value in the loss; integers are promoted to the narrowest sufficient float type."""
    if value.partner:
        return Line(f"(0.5 * {value.text}).sum()", value.text, lambda env: np.asarray(np.sum(0.5 * value.compute(env))))
    return Line(f"oc.sin({value.text}).sum()", value.text, lambda env: np.asarray(np.sum(np.sin(value.compute(env)))))


def generate(random: Random, operations: int = 10) -> Program:
    """A program of about `operations` operations; a tenth of the programs are up to three times as long."""
    low, high = (operations - 3, operations + 5) if random.random() < 0.9 else (operations, 3 * operations)
    return _Maker(random).program(random.randint(max(1, low), high))
