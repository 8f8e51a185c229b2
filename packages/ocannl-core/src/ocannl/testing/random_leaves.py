"""Leaves of random programs: parameters, data and states, with values that every type represents exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from random import Random

import ml_dtypes
import numpy as np

from ocannl.base.config import SEED
from ocannl.lang.core.random import unit_uniform
from ocannl.testing.numpy_semantics import SCALAR, dims_of
from ocannl.testing.program import Compute, Line
from ocannl.testing.random_einsums import SOFT, Array, Rigid, Rows

CELLS = 150
GRID = 64  # leaves hold multiples of 1 / GRID, which are exact in every float type used
PARTNERS = ("int32", "int32", "uint8", "float16", "bfloat16")  # types of data combined with floats


@dataclass(frozen=True)
class Value:
    """A tensor of the program: its text, its value, and its function of the leaves.

    `partner` is the type of a value that is combined with floats only; `exact` values are never rounded. A `rigid` row
    comes from a spec with axes before a row variable: broadcasting would insert axes there, so the row is combined only
    with rows of equal length.
    """

    text: str
    rows: Rows
    array: Array
    compute: Compute
    gradient: bool
    partner: str = ""
    exact: bool = False
    rigid: Rigid = SOFT

    @property
    def operand(self) -> str:
        return self.text if self.text.isidentifier() else f"({self.text})"


@dataclass
class Leaves:
    """Generates leaves; subclasses combine them to expressions."""

    random: Random
    lines: list[Line] = field(default_factory=list)
    data: dict[str, Array] = field(default_factory=dict)
    named: list[Value] = field(default_factory=list)
    unused: dict[str, Value] = field(default_factory=dict)
    states: list[Value] = field(default_factory=list)
    open: set[str] = field(default_factory=set)  # parameters without all of their rows, before their first use
    leaves: int = 0
    empty: bool = False  # some sizes are 0

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def new_name(self, letter: str) -> str:
        self.leaves += 1
        return f"{letter}{self.leaves}"

    def size(self) -> int:
        return 0 if self.empty and self.chance(0.15) else self.random.choice((1, 2, 2, 3, 3, 4))

    def random_rows(self, batch: bool = True) -> Rows:
        lengths = [self.random.choice((0, 0, 1, 1, 2) if n != 2 else (0, 1, 1, 2, 2)) for n in range(3)]
        leading, middle, last = [tuple(self.size() for _ in range(k)) for k in lengths]
        return (leading if batch else ()), middle, last

    def numbers(self, shape: tuple[int, ...], kind: str = "float64") -> Array:
        is_integer = "int" in kind
        low, high = (1, 5) if is_integer else (20, 128)
        signs = (1,) if kind == "uint8" else (-1, 1)
        values = [self.random.choice(signs) * self.random.randint(low, high) for _ in range(prod(shape))]
        scale = 1 if is_integer else GRID
        dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else kind
        return np.asarray((np.array(values, np.float64).reshape(shape) / scale).astype(dtype))

    def leaf(self, rows: Rows, *, param: bool | None = None) -> Value:
        if prod(dims_of(rows)) > CELLS:
            rows = SCALAR
        if param is None:
            param = self.chance(0.5)
        if not param and self.chance(0.15):
            return self.state(rows)
        if not param and self.chance(0.06):
            return self.drawn(rows)
        name = self.new_name("w" if param else "x")
        kind = "float64"
        if param and self.chance(0.08):
            text, kind = f'oc.param({self.row_arguments(rows)}, dtype="bfloat16")', "bfloat16"
        elif param:
            text = self.param_text(rows)
        elif self.chance(0.15) and rows != SCALAR:
            text, kind = self.data_text(name, rows), self.random.choice(PARTNERS)
        elif self.chance(0.15):
            text = f"oc.placeholder({self.row_arguments(rows)}, dtype={self.wide()})"
        else:
            text = self.data_text(name, rows)
            if self.chance(0.15):
                text, param = f"{text[:-1]}, grad=True)", True
        return self.add_leaf(name, text, rows, self.numbers(dims_of(rows), kind), param)

    def wide(self) -> str:
        """The type of a leaf: that of the program, or sometimes float64."""
        return '"float64"' if self.chance(0.1) else "kind"

    def drawn(self, rows: Rows) -> Value:
        """Random numbers, equal in each call; float32 in programs of any type."""
        name, dims = self.new_name("u"), dims_of(rows)
        text = f'oc.uniform(key="{name}", counter=0, {self.row_arguments(rows)}, dtype="float32")'
        array = np.asarray(unit_uniform(SEED.get(), name, 0, prod(dims)), np.float64).reshape(dims)
        self.lines.append(Line(f"{name} = {text}", name, lambda env: array, rows))
        value = Value(name, rows, array, lambda env: env[name], False, "float32")
        self.named.append(value)
        self.unused[name] = value
        return value

    def state(self, rows: Rows) -> Value:
        """A node that recorded code may update at the end of each call."""
        name = self.new_name("s")
        text = f"oc.node({self.row_arguments(rows, short=False)}, dtype={self.wide()})"
        leaf = self.add_leaf(name, text, rows, self.numbers(dims_of(rows)), False)
        self.states.append(leaf)
        return leaf

    def add_leaf(self, name: str, text: str, rows: Rows, array: Array, param: bool) -> Value:
        self.data[name] = array
        self.lines.append(Line(f"{name} = {text}", name, None, rows, param))
        partner = "" if array.dtype == np.float64 else array.dtype.name
        wide = array.astype(np.float64)
        value = Value(name, rows, wide, lambda env: env[name].astype(np.float64), param, partner, exact=True)
        self.named.append(value)
        self.unused[name] = value
        return value

    def data_text(self, name: str, rows: Rows) -> str:
        axes = "".join(f", {n}_axes={len(row)}" for n, row in (("batch", rows[0]), ("input", rows[1])) if row)
        return f'oc.tensor(data["{name}"]{axes})'

    def param_text(self, rows: Rows) -> str:
        initial = self.random.choice(("", "", "0.0, ", '"p", ', "init=0.5, "))
        return f"oc.param({initial}{self.row_arguments(rows)}, dtype={self.wide()})"

    def row_arguments(
        self, rows: Rows, keep: tuple[bool, bool, bool] = (True, True, True), short: bool | None = None
    ) -> str:
        short = self.chance(0.5) if short is None else short
        names = ("b", "i", "o") if short else ("batch", "input", "output")
        return ", ".join(f"{n}={list(row)}" for n, row, kept in zip(names, rows, keep, strict=True) if kept)

    def open_param(self, rows: Rows, fixed: tuple[bool, bool, bool]) -> Value | None:
        """A parameter of which only some rows are specified; the others are inferred from its use."""
        if rows[0] or any(n < 2 for row, is_fixed in zip(rows, fixed, strict=True) if not is_fixed for n in row):
            return None
        name = self.new_name("w")
        arguments = self.row_arguments(rows, (False, fixed[1], fixed[2]))
        text = f"oc.param({arguments}{', ' if arguments else ''}dtype=kind)"
        self.open.add(name)
        return self.add_leaf(name, text, rows, self.numbers(dims_of(rows)), True)

    def retract(self, value: Value) -> None:
        del self.data[value.text]
        self.named.remove(value)
        self.open.discard(value.text)
        self.lines = [line for line in self.lines if line.name != value.text]

    def use(self, value: Value) -> Value:
        self.unused.pop(value.text, None)
        return value
