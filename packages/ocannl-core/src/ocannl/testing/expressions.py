"""Random small programs in the user's language, each with its meaning in NumPy.

A program is text: what it prints is what is built. Beside the text stands, line by line, what NumPy computes for it in
float64, with rules of shapes of its own; so a program judges shape inference, projections and operations by its values,
and gradients by its slopes. Values stay away from kinks, poles and overflow.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from random import Random

import numpy as np

from ocannl.testing.einsums import SOFT, Array, Einsum, Rigid, Rows, random_einsum
from ocannl.testing.meanings import (
    BINARY,
    MARGIN,
    NUMBERS,
    SCALAR,
    TERNARY,
    TOTALS,
    UNARY,
    Row,
    away,
    dims_of,
    joined,
    matmul,
    stretched,
    within,
)
from ocannl.testing.program import Compute, Env, Program

LARGE = 20.0
CELLS = 150
GRID = 64  # leaves hold multiples of 1 / GRID, which every float type that is used here can hold


# --- the generator ---------------------------------------------------------------------------------------------------


def meeting(rigid: tuple[bool, ...], rows: tuple[tuple[int, ...], ...]) -> tuple[bool, bool]:
    """Whether rows may meet, and whether what comes of it is rigid."""
    stiff = any(r and row for r, row in zip(rigid, rows, strict=True))
    return not stiff or len({len(row) for row in rows if row}) <= 1, stiff


@dataclass(frozen=True)
class Value:
    """A tensor of the program: how it is written, what it holds, and what it computes from the leaves.

    `partner` is data of a type that here only meets floats; `exact` values are rounded nowhere. A `rigid` row came from
    a spec with axes before a row variable: axes would be inserted there, so it meets rows of its own length only.
    """

    text: str
    rows: Rows
    array: Array
    compute: Compute
    gradient: bool
    partner: bool = False
    exact: bool = False
    rigid: Rigid = SOFT

    @property
    def operand(self) -> str:
        return self.text if self.text.isidentifier() else f"({self.text})"


@dataclass
class _Maker:
    random: Random
    lines: list[str] = field(default_factory=list)
    data: dict[str, Array] = field(default_factory=dict)
    params: list[str] = field(default_factory=list)
    symbols: dict[str, int] = field(default_factory=dict)
    steps: list[tuple[str, Compute]] = field(default_factory=list)
    named: list[Value] = field(default_factory=list)
    inline: list[Value] = field(default_factory=list)  # written into the next line that uses them
    unused: dict[str, Value] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)  # parameters without all of their rows, before their first use
    leaves: int = 0
    smooth: bool = True
    empty: bool = False  # some sizes are 0

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    # --- leaves ---

    def new_name(self, letter: str) -> str:
        self.leaves += 1
        return f"{letter}{self.leaves}"

    def size(self) -> int:
        return 0 if self.empty and self.chance(0.15) else self.random.choice((1, 2, 2, 3, 3, 4))

    def some_rows(self, batch: bool = True) -> Rows:
        lengths = [self.random.choice((0, 0, 1, 1, 2) if n != 2 else (0, 1, 1, 2, 2)) for n in range(3)]
        made = [tuple(self.size() for _ in range(k)) for k in lengths]
        return (made[0] if batch else ()), made[1], made[2]

    def numbers(self, shape: tuple[int, ...], kind: str = "float64") -> Array:
        low, high = (20, 128) if kind != "int32" else (1, 5)
        found = [self.random.choice((-1, 1)) * self.random.randint(low, high) for _ in range(prod(shape))]
        scale = 1 if kind == "int32" else GRID
        return np.asarray(np.array(found, np.float64).reshape(shape) / scale, kind)  # of no axes too

    def leaf(self, rows: Rows, *, param: bool | None = None) -> Value:
        if prod(dims_of(rows)) > CELLS:
            rows = SCALAR
        if param is None:
            param = self.chance(0.55)
        name = self.new_name("w" if param else "x")
        kind = "float64"
        if param:
            text = self.param_text(rows)
        elif self.chance(0.1) and rows != SCALAR:
            text, kind = self.data_text(name, rows), self.random.choice(("int32", "float16"))
        elif self.chance(0.15):
            text = f"oc.placeholder({self.row_arguments(rows)}, dtype=kind)"
        else:
            text = self.data_text(name, rows)
            if self.chance(0.15):
                text, param = f"{text[:-1]}, grad=True)", True
        array = self.numbers(dims_of(rows), kind)
        return self.add_leaf(name, text, rows, array, param)

    def add_leaf(self, name: str, text: str, rows: Rows, array: Array, param: bool) -> Value:
        self.data[name] = array
        if param:
            self.params.append(name)
        self.lines.append(f"{name} = {text}")
        partner = array.dtype != np.float64
        value = Value(name, rows, array.astype(np.float64), lambda env: env[name], param, partner, exact=True)
        self.named.append(value)
        self.unused[name] = value
        return value

    def data_text(self, name: str, rows: Rows) -> str:
        axes = "".join(f", {n}_axes={len(row)}" for n, row in (("batch", rows[0]), ("input", rows[1])) if row)
        return f'oc.tensor(data["{name}"]{axes})'

    def param_text(self, rows: Rows) -> str:
        initial = self.random.choice(("", "", "0.0, ", '"p", ', "init=0.5, "))
        return f"oc.param({initial}{self.row_arguments(rows)}, dtype=kind)"

    def row_arguments(self, rows: Rows, keep: tuple[bool, bool, bool] = (True, True, True)) -> str:
        short = self.chance(0.5)
        names = ("b", "i", "o") if short else ("batch", "input", "output")
        return ", ".join(f"{n}={list(row)}" for n, row, kept in zip(names, rows, keep, strict=True) if kept)

    def open_param(self, rows: Rows, known: tuple[bool, bool, bool]) -> Value | None:
        """A parameter of which only some rows are told; the others follow from its use."""
        if rows[0] or any(n < 2 for row, told in zip(rows, known, strict=True) if not told for n in row):
            return None
        name = self.new_name("w")
        arguments = self.row_arguments(rows, (False, known[1], known[2]))
        text = f"oc.param({arguments}{', ' if arguments else ''}dtype=kind)"
        self.open.add(name)
        return self.add_leaf(name, text, rows, self.numbers(dims_of(rows)), True)

    # --- picking ---

    def pick(self, partner: bool = False) -> Value:
        """An operand: an expression that waits for its use, a named tensor, or a new leaf."""
        if self.inline and self.chance(0.8):
            return self.inline.pop(self.random.randrange(len(self.inline)))
        fine = [v for v in self.named if partner or not v.partner]
        waiting = [v for v in fine if v.text in self.unused]
        if waiting and self.chance(0.5):
            return self.use(self.random.choice(waiting))
        if fine and self.chance(0.7):
            return self.use(self.random.choice(fine[-8:]))
        made = self.leaf(self.some_rows())
        return self.use(made) if partner or not made.partner else self.pick()

    def use(self, value: Value) -> Value:
        self.unused.pop(value.text, None)
        return value

    def pick_beside(self, value: Value) -> Value:
        """An operand to whose shape the other may be stretched, or the other way round."""
        for _ in range(4):
            other = self.pick(partner=not value.partner and self.chance(0.2))
            if self.join(value, other) is not None:
                return other
            self.give_back(other)
        if not value.partner and self.chance(0.3):
            known = (True, self.chance(0.5), self.chance(0.5))
            open_ = self.open_param(((), value.rows[1], value.rows[2]), known)
            if open_ is not None:
                return self.use(open_)
        rows = tuple(row if r else self.changed(row) for row, r in zip(value.rows, value.rigid, strict=True))
        beside = self.leaf((rows[0], rows[1], rows[2]))
        if value.partner and beside.partner:
            return self.use(self.leaf(SCALAR, param=True))
        return self.use(beside)

    def give_back(self, value: Value) -> None:
        if value.text.isidentifier():
            self.unused[value.text] = value
        else:
            self.inline.append(value)

    def changed(self, row: tuple[int, ...]) -> tuple[int, ...]:
        """A row that broadcasts with this one."""
        if self.chance(0.25):
            row = row[self.random.randint(0, len(row)) :]
        elif self.chance(0.15) and len(row) < 2:
            row = (self.size(), *row)
        return tuple((1 if self.chance(0.2) else n) if n != 1 else self.random.choice((1, 1, 2, 3)) for n in row)

    def join(self, *values: Value) -> Rows | None:
        try:
            rows = joined(*(v.rows for v in values))
        except ValueError:
            return None
        meets = all(meeting(tuple(v.rigid[k] for v in values), tuple(v.rows[k] for v in values))[0] for k in range(3))
        return rows if meets and prod(dims_of(rows)) <= CELLS else None

    def stiffened(self, *values: Value) -> Rigid:
        batch, input, output = (
            meeting(tuple(v.rigid[k] for v in values), tuple(v.rows[k] for v in values))[1] for k in range(3)
        )
        return batch, input, output

    # --- expressions ---

    def apply(self, row: Row, operands: list[Value]) -> Value | None:
        """One operation cell by cell, or None where it does not fit."""
        rows = self.join(*operands)
        if rows is None:
            return None

        def compute(env: Env) -> Array:
            return np.asarray(row.compute(*(stretched(v.compute(env), v.rows, rows) for v in operands)))

        with np.errstate(all="ignore"):
            given = [stretched(v.array, v.rows, rows) for v in operands]
            if not row.fits(*np.broadcast_arrays(*given)):
                return None
            array = np.asarray(row.compute(*given))
        gradient = row.gives_gradient and any(v.gradient for v in operands[row.tested :])
        text = row.text.format(*(v.operand for v in operands))
        return self.checked(text, rows, array, compute, gradient, self.stiffened(*operands))

    def checked(
        self, text: str, rows: Rows, array: Array, compute: Compute, gradient: bool, rigid: Rigid = SOFT
    ) -> Value | None:
        if array.shape != dims_of(rows):
            array = np.broadcast_to(array, dims_of(rows))
        if not np.all(np.isfinite(array)) or not within(array, LARGE):
            return None
        return Value(text, rows, array, compute, gradient, rigid=rigid)

    def unary(self) -> Value | None:
        x = self.pick()
        for _ in range(6):
            made = self.apply(self.random.choice(UNARY if self.chance(0.7) else NUMBERS), [x])
            if made is not None:
                return made
        return self.lost([x])

    def binary(self) -> Value | None:
        x = self.pick()
        twice = x.text.isidentifier() and not x.partner and self.chance(0.06)
        operands = [x, x if twice else self.pick_beside(x)]
        if self.chance(0.5):
            operands.reverse()
        meeting = any(v.partner for v in operands)
        for _ in range(6):
            made = self.apply(self.random.choice(BINARY[:5] if meeting else BINARY), operands)
            if made is not None:
                return made
        return self.lost(operands)

    def ternary(self) -> Value | None:
        x = self.pick()
        y = self.pick_beside(x)
        operands = [x, y, self.use(self.leaf(self.join(x, y) or SCALAR))]
        if any(v.partner for v in operands):
            return self.lost(operands)
        self.random.shuffle(operands)
        return self.apply(self.random.choice(TERNARY), operands) or self.lost(operands)

    def lost(self, operands: list[Value]) -> Value | None:
        """Nothing came of it; the operands are still there, parameters that nothing else shapes excepted."""
        for v in operands:
            if v.text in self.open:
                self.retract(v)
            else:
                self.give_back(v)
        return None

    def retract(self, value: Value) -> None:
        del self.data[value.text]
        self.params.remove(value.text)
        self.named.remove(value)
        self.lines = [line for line in self.lines if not line.startswith(f"{value.text} = ")]

    def product(self) -> Value | None:
        y = self.pick()
        if self.chance(0.3):
            out = tuple(self.size() for _ in range(self.random.choice((0, 1, 1, 2))))
            asks = bool(y.rows[2]) and not y.partner  # nothing says that a parameter has no axes to contract
            w = self.open_param(((), y.rows[2], out), (True, False, True)) if asks else None
            if w is not None:
                return self.multiply(self.use(w), y)
        x = next((v for v in self.named if not v.partner and self.meets(v, y)), None) if self.chance(0.5) else None
        if x is None:
            rows = self.some_rows()
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

        def compute(env: Env) -> Array:
            return matmul(x.compute(env), x.rows, y.compute(env), y.rows)

        array = matmul(x.array, x.rows, y.array, y.rows)
        rigid = (meeting((x.rigid[0], y.rigid[0]), (x.rows[0], y.rows[0]))[1], y.rigid[1], x.rigid[2])
        made = self.checked(f"{x.operand} @ {y.operand}", rows, array, compute, x.gradient or y.gradient, rigid)
        return made or self.lost([x, y])

    def reduction(self) -> Value | None:
        x = self.pick()
        row = self.random.choice(TOTALS)
        chooses = row.text in (".max()", ".min()")
        if not row.fits(x.array) or (chooses and not self.may_choose(x.array.reshape(1, -1), x)):
            return self.lost([x])

        def compute(env: Env) -> Array:
            return np.asarray(row.compute(x.compute(env)))

        made = self.checked(f"{x.operand}{row.text}", SCALAR, np.asarray(row.compute(x.array)), compute, x.gradient)
        return made or self.lost([x])

    def may_choose(self, candidates: Array, *of: Value) -> bool:
        """Whether the extremes of each row of candidates are well apart, or exactly tied."""
        both = np.sort(candidates, axis=1)
        gaps = np.diff(both, axis=1)
        apart = bool(np.all(gaps > MARGIN))
        if not apart and all(v.exact for v in of) and bool(np.all((gaps > MARGIN) | (gaps == 0))):
            self.smooth = False
            return True
        return apart

    def einsum(self) -> Value | None:
        operands = [self.pick() for _ in range(self.random.choice((1, 1, 2, 2, 2, 3)))]
        if self.chance(0.3):
            operands[-1:] = [self.use(self.leaf(operands[-1].rows))]
        if any(v.partner for v in operands):
            return self.lost(operands)
        for _ in range(4):
            made = random_einsum(self.random, [v.rows for v in operands], [v.rigid for v in operands])
            if made is not None and self.sound(made, operands):
                break
        else:
            return self.lost(operands)

        def compute(env: Env) -> Array:
            return made(*(v.compute(env) for v in operands))

        return self.checked(
            self.einsum_text(made, operands), made.rows, made(*(v.array for v in operands)), compute,
            any(v.gradient for v in operands), made.rigid,
        ) or self.lost(operands)  # fmt: skip

    def einsum_text(self, made: Einsum, operands: list[Value]) -> str:
        short = {"add": "sum", "max": "max", "min": "min"}.get(made.reduce)
        if len(operands) == 1 and short and self.chance(0.5):
            names = "".join(f", {k}={v}" for k, v in made.keywords.items())
            return f'{operands[0].operand}.{short}("{made.spec}"{names})'
        return f'oc.einsum("{made.spec}", {", ".join(v.text for v in operands)}{made.arguments()})'

    def sound(self, made: Einsum, operands: list[Value]) -> bool:
        terms = made.terms(*(v.array for v in operands))
        if made.reduce == "add":
            return True
        if made.reduce == "mul":
            return away(terms, 0) and terms.size <= 16 * max(1, prod(dims_of(made.rows)))
        kept = [key for row in made.result for key in (a.key for a in row.axes) if key is not None]
        order = [list(made.sizes).index(key) for key in kept]
        rest = [n for n in range(terms.ndim) if n not in order]
        simple = len(operands) == 1 or made.combine == "fst"
        chosen = np.transpose(terms, order + rest).reshape(prod(terms.shape[n] for n in order), -1)
        return self.may_choose(chosen, *(operands if simple else ())) if simple or chosen.shape[1] > 1 else True

    def rearranged(self) -> Value | None:
        x = self.pick()
        batch, input, output = x.rows
        if batch and batch[0] and self.chance(0.6):
            return self.sliced(x)
        nb, no = len(batch), len(output)
        order = [*range(nb), *range(nb + no, x.array.ndim), *range(nb, nb + no)]

        def compute(env: Env) -> Array:
            return np.transpose(x.compute(env), order)

        array = np.transpose(x.array, order)
        rigid = (x.rigid[0], x.rigid[2], x.rigid[1])
        return Value(f"{x.operand}.T", (batch, output, input), array, compute, x.gradient, x.partner, rigid=rigid)

    def sliced(self, x: Value) -> Value:
        at = self.random.randrange(x.rows[0][0])
        text = str(at)
        if self.chance(0.4):
            text = f"n{len(self.symbols) + 1}"
            self.symbols[text] = at
            self.lines.append(f'{text} = oc.symbol("{text}", 0, {x.rows[0][0]})')
        rows = (x.rows[0][1:], x.rows[1], x.rows[2])
        name = f"{x.operand}[{text}]"
        return Value(name, rows, x.array[at], lambda env: x.compute(env)[at], x.gradient, x.partner, rigid=x.rigid)

    def frozen(self) -> Value | None:
        """The same values, with no gradient through them."""
        x = self.pick()
        array = x.array
        return Value(f"oc.stop_gradient({x.text})", x.rows, array, lambda env: array, False, x.partner, rigid=x.rigid)

    # --- the whole ---

    def name(self, value: Value) -> Value:
        name = f"t{len(self.steps) + 1}"
        compute = value.compute
        if value.gradient and self.chance(0.03):
            array = value.array
            self.lines.append(f"with oc.no_grad(): {name} = {value.text}")
            named = replace(value, text=name, compute=lambda env: env[name], gradient=False, exact=False)
            self.steps.append((name, lambda env: array))
        else:
            self.lines.append(f"{name} = {value.text}")
            named = replace(value, text=name, compute=lambda env: env[name], exact=False)
            self.steps.append((name, compute))
        self.named.append(named)
        self.unused[name] = named
        return named

    def step(self) -> None:
        kinds = {
            self.unary: 5, self.binary: 8, self.einsum: 8, self.product: 4, self.reduction: 2, self.ternary: 1.5,
            self.rearranged: 2, self.frozen: 0.4,
        }  # fmt: skip
        made = self.random.choices(list(kinds), list(kinds.values()))[0]()
        if made is None:
            return
        if self.open:
            self.shape_parameter(made)
        elif self.chance(0.35):
            self.inline.append(made)
        else:
            self.name(made)

    def shape_parameter(self, made: Value) -> None:
        """The line that shapes a parameter; what it says is asked for at once, or else later uses could say more."""
        named = self.name(made)
        self.lines.append(f"{named.text}.dims")
        self.open.clear()

    def loss(self) -> None:
        """The sum over everything that nothing has used, and a parameter at least."""
        for value in self.inline:
            self.name(value)
        terms = [v for v in self.unused.values() if not v.partner]
        if not any(v.gradient for v in terms):
            terms.append(self.leaf(SCALAR, param=True))
        text = " + ".join(self.term(v) for v in terms)

        def compute(env: Env) -> Array:
            return np.asarray(sum(np.sum(np.sin(v.compute(env))) for v in terms))

        self.lines.append(f"loss = {text}")
        self.steps.append(("loss", compute))

    def term(self, value: Value) -> str:
        return f"oc.sin({value.text}).sum()"

    def program(self, steps: int) -> Program:
        self.empty = self.chance(0.06)
        self.leaf(self.some_rows(), param=True)
        for _ in range(steps):
            self.step()
        self.loss()
        return Program(
            "\n".join(self.lines) + "\n", self.data, tuple(self.params), self.symbols, tuple(self.steps), self.smooth
        )


def generate(random: Random, steps: int = 8) -> Program:
    """A program of at most that many operations before its loss; one in ten is up to three times as long."""
    low, high = (2, steps) if random.random() < 0.9 else (steps, 3 * steps)
    return _Maker(random).program(random.randint(low, high))
