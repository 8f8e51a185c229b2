"""Operands of random expressions: their choice, and the values of operations on them.

Assumptions about values (no kinks, poles or overflow) are kept as guards, which are evaluated for each further call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ocannl.testing.numpy_semantics import MARGIN, SCALAR, Row, dims_of, joined, stretched, within
from ocannl.testing.program import Env
from ocannl.testing.random_einsums import SOFT, Array, Rigid, Rows
from ocannl.testing.random_leaves import CELLS, Leaves, Value

LARGE = 20.0
Guard = Callable[[Env], bool]


def meeting(rigid: tuple[bool, ...], rows: tuple[tuple[int, ...], ...]) -> tuple[bool, bool]:
    """Whether rows may be combined, and whether the result is rigid."""
    stiff = any(r and row for r, row in zip(rigid, rows, strict=True))
    return not stiff or len({len(row) for row in rows if row}) <= 1, stiff


@dataclass
class Operands(Leaves):
    inline: list[Value] = field(default_factory=list)  # expressions to be inlined into the next line that uses them
    guards: list[Guard] = field(default_factory=list)
    smooth: bool = True

    # --- picking ---

    def pick(self, partner: bool = False) -> Value:
        """An operand: an unused expression, a named tensor, or a new leaf."""
        if self.inline and self.chance(0.8):
            return self.inline.pop(self.random.randrange(len(self.inline)))
        fine = [v for v in self.named if partner or not v.partner]
        waiting = [v for v in fine if v.text in self.unused]
        if waiting and self.chance(0.5):
            return self.use(self.random.choice(waiting))
        if fine and self.chance(0.7):
            return self.use(self.random.choice(fine[-8:]))
        value = self.leaf(self.random_rows())
        return self.use(value) if partner or not value.partner else self.pick()

    def pick_beside(self, value: Value) -> Value:
        """A second operand, of which one broadcasts to the other."""
        for _ in range(4):
            partner = self.pick(partner=not value.partner and self.chance(0.2))
            if self.join(value, partner) is not None:
                return partner
            self.put_back(partner)
        if not value.partner and self.chance(0.3):
            fixed = (True, self.chance(0.5), self.chance(0.5))
            open_ = self.open_param(((), value.rows[1], value.rows[2]), fixed)
            if open_ is not None:
                return self.use(open_)
        rows = tuple(row if r else self.changed(row) for row, r in zip(value.rows, value.rigid, strict=True))
        beside = self.leaf((rows[0], rows[1], rows[2]))
        if value.partner and beside.partner:
            return self.use(self.scalar())
        return self.use(beside)

    def put_back(self, value: Value) -> None:
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

    def scalar(self) -> Value:
        """A parameter without axes."""
        text = f"oc.param({self.row_arguments(SCALAR)}, dtype=kind)"
        return self.add_leaf(self.new_name("w"), text, SCALAR, self.numbers(()), True)

    # --- operations ---

    def apply(self, row: Row, operands: list[Value], partner: str = "") -> Value | None:
        """An elementwise operation; None if shapes or values do not fit."""
        rows = self.join(*operands)
        if rows is None:
            return None

        def aligned(arrays: list[Array]) -> list[Array]:
            return [stretched(x, v.rows, rows) for x, v in zip(arrays, operands, strict=True)]

        def fits(*arrays: Array) -> bool:
            return row.fits(*np.broadcast_arrays(*aligned([*arrays])))

        def meaning(*arrays: Array) -> Array:
            return np.asarray(row.compute(*aligned([*arrays])))

        gradient = row.gives_gradient and any(v.gradient for v in operands[row.tested :])
        text = row.text.format(*(v.operand for v in operands))
        return self.new_value(text, rows, meaning, operands, gradient, self.stiffened(*operands), fits, partner)

    def new_value(
        self, text: str, rows: Rows, meaning: Callable[..., Array], operands: list[Value], gradient: bool | None = None,
        rigid: Rigid = SOFT, fits: Callable[..., bool] | None = None, partner: str = "",
    ) -> Value | None:  # fmt: skip
        """The value of an expression; None if its values do not fit."""
        dims = dims_of(rows)
        arrays = [v.array for v in operands]

        def fine(*arrays: Array) -> bool:
            with np.errstate(all="ignore"):
                if fits is not None and not fits(*arrays):
                    return False
                array = meaning(*arrays)
            return bool(np.all(np.isfinite(array))) and within(array, LARGE)

        def compute(env: Env) -> Array:
            return np.broadcast_to(meaning(*(v.compute(env) for v in operands)), dims)

        if not fine(*arrays):
            return None
        self.guards.append(lambda env: fine(*(v.compute(env) for v in operands)))
        array = np.broadcast_to(meaning(*arrays), dims)
        if gradient is None:
            gradient = any(v.gradient for v in operands)
        return Value(text, rows, array, compute, gradient, partner, rigid=rigid)

    def lost(self, operands: list[Value]) -> Value | None:
        """Gives up an operation: puts the operands back, except parameters that would have no shape."""
        for v in operands:
            if v.text in self.open:
                self.retract(v)
            else:
                self.put_back(v)
        return None

    def may_choose(self, candidates: Array, *of: Value) -> bool:
        """Whether the extremes of each row of candidates are well apart, or exactly tied."""
        gaps = np.diff(np.sort(candidates, axis=1), axis=1)
        if bool(np.all(gaps > MARGIN)):
            return True
        if all(v.exact for v in of) and bool(np.all((gaps > MARGIN) | (gaps == 0))):
            self.smooth = False
            return True
        return False
