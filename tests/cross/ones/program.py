"""A program: leaves and operations in the order in which they are written, with the shapes of NumPy's rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from random import Random
from types import CodeType
from typing import Any

import numpy as np

from ones.operations import Operation
from ones.rows import KINDS, MEMORY, SCALAR, Row, Rows, dims
from ones.spec_semantics import Array

HEADER = '''import numpy as np
import ocannl as oc


def cells(seed, *dims):
    return np.random.default_rng(seed).uniform(-1, 1, dims)

'''


def cells(seed: int, *sizes: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, sizes)


def zeros(seed: int, *sizes: int) -> Array:
    """Stands for `cells` where only shapes matter."""
    return np.zeros(sizes)


@dataclass(frozen=True)
class Leaf:
    """Data, a parameter, a placeholder or a node; the rows of the kinds `hidden` are left out."""

    name: str
    rows: Rows
    role: str = "data"
    seed: int = 0
    hidden: frozenset[int] = frozenset()

    operands = ()
    rule = ""

    @property
    def is_open(self) -> bool:
        return bool(self.hidden)

    @property
    def array(self) -> Array:
        return cells(self.seed, *dims(self.rows))

    @cached_property
    def text(self) -> str:
        if self.role == "data":
            return f"{self.name} = oc.tensor({self.data})"
        rows = [f"{kind}={written(row)}" for k, (kind, row) in enumerate(zip(KINDS, self.rows, strict=True))
                if k not in self.hidden]  # fmt: skip
        return f"{self.name} = oc.{self.role}({', '.join([*rows, 'dtype=oc.float64'])})"

    @cached_property
    def code(self) -> CodeType:
        return compiled(self.text, self.name)

    @property
    def data(self) -> str:
        """Arguments of `oc.tensor`."""
        axes = "".join(f", {KINDS[k]}_axes={len(self.rows[k])}" for k in (0, 1) if self.rows[k])
        units = [axis.unit for k in MEMORY for axis in self.rows[k]]
        marks = f", units={tuple(units)!r}" if any(units) else ""
        return f"cells({', '.join(map(str, (self.seed, *dims(self.rows))))}){axes}{marks}"


def compiled(text: str, name: str) -> CodeType:
    """The statement on a line of its own, with the number of its name."""
    return compile("\n" * int(name.rpartition("_")[2][1:]) + text, "program.py", "exec")


def written(row: Row) -> list[Any]:
    return [axis.size if axis.unit is None else (axis.unit, axis.size) for axis in row]


@dataclass(frozen=True)
class Line:
    """An operation on named tensors; `rule` is the documented rule that refuses it, if one does."""

    name: str
    operation: Operation
    operands: tuple[str, ...]
    rows: Rows = SCALAR
    rule: str = ""

    @cached_property
    def text(self) -> str:
        return f"{self.name} = {self.operation.text.format(*self.operands)}"

    @cached_property
    def code(self) -> CodeType:
        return compiled(self.text, self.name)


Statement = Leaf | Line


@dataclass(frozen=True, eq=False)
class Program:
    """`asked` are the names whose `.dims` is asked as soon as they are written; `foreign` are names of statements that
    share no open leaf with the others, and whose results nothing but foreign statements uses."""

    statements: tuple[Statement, ...]
    requested: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()

    @property
    def by_name(self) -> dict[str, Statement]:
        return {statement.name: statement for statement in self.statements}

    @property
    def leaves(self) -> list[Leaf]:
        return [s for s in self.statements if isinstance(s, Leaf)]

    @property
    def lines(self) -> list[Line]:
        return [s for s in self.statements if isinstance(s, Line)]

    @property
    def expected(self) -> dict[str, Rows]:
        """The shapes by NumPy's rules, of all that is not refused."""
        return {s.name: s.rows for s in self.statements if not s.rule}

    @cached_property
    def own(self) -> Program:
        """Without what is foreign."""
        return replace(self, statements=tuple(s for s in self.statements if s.name not in self.foreign))

    def reordered(self, random: Random) -> Program:
        """Another topological order."""
        waiting, done = list(self.statements), set[str]()
        order: list[Statement] = []
        while waiting:
            ready = [s for s in waiting if done.issuperset(s.operands)]
            chosen = random.choice(ready[:12])
            waiting.remove(chosen)
            order.append(chosen)
            done.add(chosen.name)
        return replace(self, statements=tuple(order))

    def asking(self, random: Random, share: float) -> Program:
        return replace(self, requested=frozenset(s.name for s in self.statements if random.random() < share))

    def shapes(self, leaves: Mapping[str, Rows]) -> Iterator[tuple[Line, Rows]]:
        """The shape of every operation, given those of the leaves. Raises `Refused`."""
        rows = dict(leaves)
        for line in self.lines:
            if not line.rule:
                rows[line.name] = line.operation.shape([rows[name] for name in line.operands])
                yield line, rows[line.name]

    def values(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The value of every operation, given those of the leaves."""
        rows, out = self.expected, dict(arrays)
        with np.errstate(all="ignore"):
            for line in self.lines:
                if not line.rule:
                    names = line.operands
                    out[line.name] = line.operation.value([rows[n] for n in names], [out[n] for n in names])
        return out

    def __str__(self) -> str:
        out = []
        for s in self.statements:
            note = f"refused: {s.rule}" if s.rule else "" if isinstance(s, Leaf) else str(dims(s.rows))
            out.append(f"{s.text}{f'  # {note}' if note else ''}{'  (foreign)' * (s.name in self.foreign)}")
            if s.name in self.requested:
                out.append(f"{s.name}.dims")
        return HEADER + "\n".join(out) + "\n"


def needed(program: Program, names: Sequence[str]) -> Program:
    """Without what these tensors do not need."""
    wanted, kept = set(names), []
    for statement in reversed(program.statements):
        if statement.name in wanted:
            wanted.update(statement.operands)
            kept.append(statement)
    requested, foreign = program.requested & wanted, program.foreign & wanted
    return replace(program, statements=tuple(reversed(kept)), requested=requested, foreign=foreign)


def elements(rows: Rows) -> int:
    return prod(dims(rows))
