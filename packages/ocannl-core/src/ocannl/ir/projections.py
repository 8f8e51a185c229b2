"""How one operation walks its tensors: loops, and for each tensor the cell that an iteration touches.

Projections are derived for one operation at a time, with symbols of its own. A loop that the result's index does not
mention is a reduction; nothing else declares one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from ocannl.ir.affine import Affine, Sym

Indices = tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """One box of iterations. An operand that takes no part in it (another part of a concatenation) has None.

    Indices are in memory order and may leave the array (padded windows): readers guard, see `Read.outside`.
    """

    loops: tuple[Sym, ...]
    result: Indices
    operands: tuple[Indices | None, ...]

    def at(self, slot: int) -> Indices | None:
        """The cell of a tensor of the operation: 0 is the result, n the n-th operand."""
        return self.result if slot == 0 else self.operands[slot - 1]


@dataclass(frozen=True, slots=True)
class Projections:
    """The boxes of an operation, in the order of its parts; one, unless something is concatenated.

    Gradients permute the roles of the tensors and keep the loops.
    """

    pieces: tuple[Projection, ...]
    result_dims: tuple[int, ...]
    operand_dims: tuple[tuple[int, ...], ...]

    def dims(self, slot: int) -> tuple[int, ...]:
        """The sizes of a tensor of the operation: 0 is the result, n the n-th operand."""
        return self.result_dims if slot == 0 else self.operand_dims[slot - 1]


# --- which cells indices reach --------------------------------------------------------------------------------------

WORK = 1 << 16
"""So many cases are tried where no rule decides; beyond, the answer is no, which claims nothing."""

Digits = list[tuple[int, int]]
"""Of an index, the size of each coefficient and the number of values that go with it."""


def is_injective(indices: Sequence[Affine], loops: Sequence[Sym]) -> bool:
    """No two iterations meet in one cell. Symbols that are not loops stand for one number each.

    Exact: two iterations meet if their difference is a solution of the homogeneous equations within the box of
    differences. Indices that are digits of a number, the ordinary case, are recognised without a search.
    """
    if any(loop.extent == 0 for loop in loops):
        return True
    free = {loop: loop.extent - 1 for loop in loops if loop.extent > 1}
    rows = [[(coef, sym) for coef, sym in index.terms if sym in free] for index in indices]
    while True:
        told = {sym for row in rows if is_radix([(abs(c), free[s] + 1) for c, s in row]) for _, sym in row}
        if not told:
            break
        free = {sym: reach for sym, reach in free.items() if sym not in told}
        rows = [[(coef, sym) for coef, sym in row if sym in free] for row in rows]
    rows = [row for row in rows if row]
    return not free or ({sym for row in rows for _, sym in row} == set(free) and not may_meet(rows, free))


def is_radix(digits: Digits) -> bool:
    """Each coefficient is larger than all that the smaller ones can add up to, so that the sum tells every value."""
    reach = 0
    for coef, count in sorted(digits):
        if coef <= reach:
            return False
        reach += coef * (count - 1)
    return True


def may_meet(rows: list[list[tuple[int, Sym]]], free: Mapping[Sym, int]) -> bool:
    """Whether a difference other than zero makes all rows zero, or it takes too much work to know."""
    order = sorted(free, key=lambda sym: -max(abs(coef) for row in rows for coef, other in row if other is sym))
    table = [[sum(coef for coef, other in row if other is sym) for sym in order] for row in rows]
    ends = range(len(order) + 1)
    reach = [[sum(abs(c) * free[s] for c, s in zip(t[n:], order[n:], strict=True)) for n in ends] for t in table]
    divisor = [[gcd(*t[n:]) for n in ends] for t in table]
    work = 0
    todo: list[tuple[int, tuple[int, ...], bool]] = [(0, (0,) * len(table), True)]
    while todo:
        n, sums, is_zero = todo.pop()
        if n == len(order):
            if not is_zero:
                return True
            continue
        least, most = (0 if is_zero else -free[order[n]]), free[order[n]]  # a difference and its opposite are one
        for t, total, rest in zip(table, sums, reach, strict=True):
            if coef := t[n]:
                low, high = -total - rest[n + 1], -total + rest[n + 1]
                if coef < 0:
                    low, high, coef = -high, -low, -coef
                least, most = max(least, -(-low // coef)), min(most, high // coef)
        work += max(0, most - least + 1)
        if work > WORK:
            return True
        for value in range(least, most + 1):
            now = tuple(total + t[n] * value for t, total in zip(table, sums, strict=True))
            if all(total % g[n + 1] == 0 if g[n + 1] else total == 0 for g, total in zip(divisor, now, strict=True)):
                todo.append((n + 1, now, is_zero and value == 0))
    return False


def is_surjective(indices: Sequence[Affine], loops: Sequence[Sym], dims: Sequence[int]) -> bool:
    """Every cell of an array of these dims is met, whatever the numbers that symbols other than loops stand for."""
    if 0 in dims:
        return True
    if any(loop.extent == 0 for loop in loops):
        return False
    own = {loop for loop in loops if loop.extent > 1}
    groups: list[tuple[set[Sym], list[int]]] = []
    for n, index in enumerate(indices):
        syms, axes = {sym for sym in index.syms if sym in own}, [n]
        for group in [g for g in groups if not syms.isdisjoint(g[0])]:
            groups.remove(group)
            syms, axes = syms | group[0], group[1] + axes
        groups.append((syms, axes))
    return all(covers([indices[n] for n in axes], syms, [dims[n] for n in axes]) for syms, axes in groups)


def covers(indices: list[Affine], loops: set[Sym], dims: list[int]) -> bool:
    """The same for axes that share loops, none with an axis outside."""
    if len(indices) == 1:
        return covers_axis(indices[0], loops, dims[0])
    if prod(loop.extent for loop in loops) < prod(dims) or prod(loop.extent for loop in loops) > WORK:
        return False
    if any(sym not in loops and sym.extent > 1 for index in indices for sym in index.syms):
        return False
    order = sorted(loops, key=lambda sym: sym.name)
    fixed = {sym: sym.lo for index in indices for sym in index.syms if sym not in loops}
    met = set()
    for values in product(*(range(sym.lo, sym.hi + 1) for sym in order)):
        at = {**fixed, **dict(zip(order, values, strict=True))}
        cell = tuple(index.evaluate(at) for index in indices)
        if all(0 <= place < size for place, size in zip(cell, dims, strict=True)):
            met.add(cell)
    return len(met) == prod(dims)


def covers_axis(index: Affine, loops: set[Sym], size: int) -> bool:
    """The values of one index are all of `0 .. size - 1`, and perhaps others."""
    own = [(coef, sym) for coef, sym in index.terms if sym in loops]
    others = Affine(tuple(term for term in index.terms if term[1] not in loops), index.const).range()
    low, high = Affine(tuple(own)).range()
    if others[1] + low > 0 or others[0] + high < size - 1:
        return False
    reach = 0
    for coef, count in sorted((abs(coef), sym.extent) for coef, sym in own):
        if coef > reach + 1:
            break
        reach += coef * (count - 1)
    else:
        return True
    if others[0] != others[1] or high - low > WORK * 64:
        return False
    met = 1  # bit n: the value low + n is met
    for coef, count in sorted((abs(coef), sym.extent) for coef, sym in own):
        done = 1
        while done < count:
            step = min(done, count - done)
            met |= met << coef * step
            done += step
    wanted = (1 << size) - 1
    return met >> -(others[0] + low) & wanted == wanted
