"""Projections: the iteration space of an operation, and its mapping to the cells of each tensor.

Projections are derived for one operation at a time, with fresh symbols. A loop that does not occur in the indices of
the result is a reduction; there is no other declaration of reductions.
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
    """One rectangular iteration space. Operands that are not read in it (other parts of a concatenation) are None.

    Indices are in memory order. They may be out of bounds in padded windows; see `Read.outside`.
    """

    loops: tuple[Sym, ...]
    result: Indices
    operands: tuple[Indices | None, ...]

    def at(self, slot: int) -> Indices | None:
        """The indices of a tensor of the operation: slot 0 is the result, slot n the n-th operand."""
        return self.result if slot == 0 else self.operands[slot - 1]


@dataclass(frozen=True, slots=True)
class Projections:
    """The iteration spaces of an operation: one, or one for each part of a concatenation, in order.

    Gradients permute the roles of the tensors and keep the loops.
    """

    pieces: tuple[Projection, ...]
    result_dims: tuple[int, ...]
    operand_dims: tuple[tuple[int, ...], ...]

    def dims(self, slot: int) -> tuple[int, ...]:
        """The sizes of a tensor of the operation: slot 0 is the result, slot n the n-th operand."""
        return self.result_dims if slot == 0 else self.operand_dims[slot - 1]


# --- injectivity and surjectivity -------------------------------------------------------------------------------------

MAX_SEARCHED_CASES = 1 << 16
"""Bound of the exhaustive search where no rule decides. Beyond it the tests return False, which is conservative."""

Digits = list[tuple[int, int]]
"""The absolute coefficients of an index, each with the number of values of its symbol."""


def is_injective(indices: Sequence[Affine], loops: Sequence[Sym]) -> bool:
    """Whether no two iterations map to the same cell. Symbols other than `loops` are constants.

    Two iterations map to the same cell if their difference solves the homogeneous equations. The search for such a
    difference is exhaustive; indices in the form of a mixed-radix number, the common case, need no search.
    """
    if any(loop.extent == 0 for loop in loops):
        return True
    free = {loop: loop.extent - 1 for loop in loops if loop.extent > 1}
    rows = [[(coef, sym) for coef, sym in index.terms if sym in free] for index in indices]
    while True:
        determined = {sym for row in rows if is_radix([(abs(c), free[s] + 1) for c, s in row]) for _, sym in row}
        if not determined:
            break
        free = {sym: reach for sym, reach in free.items() if sym not in determined}
        rows = [[(coef, sym) for coef, sym in row if sym in free] for row in rows]
    rows = [row for row in rows if row]
    return not free or ({sym for row in rows for _, sym in row} == set(free) and not may_collide(rows, free))


def is_radix(digits: Digits) -> bool:
    """Whether a weighted sum determines its digits: each coefficient exceeds the maximum of all smaller terms."""
    reach = 0
    for coef, count in sorted(digits):
        if coef <= reach:
            return False
        reach += coef * (count - 1)
    return True


def may_collide(rows: list[list[tuple[int, Sym]]], free: Mapping[Sym, int]) -> bool:
    """Whether a nonzero difference makes all rows zero, or the search exceeds its bound."""
    order = sorted(free, key=lambda sym: -max(abs(coef) for row in rows for coef, s in row if s is sym))
    table = [[sum(coef for coef, s in row if s is sym) for sym in order] for row in rows]
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
        first, last = (0 if is_zero else -free[order[n]]), free[order[n]]  # up to the sign of the difference
        for t, total, remaining in zip(table, sums, reach, strict=True):
            if coef := t[n]:
                low, high = -total - remaining[n + 1], -total + remaining[n + 1]
                if coef < 0:
                    low, high, coef = -high, -low, -coef
                first, last = max(first, -(-low // coef)), min(last, high // coef)
        work += max(0, last - first + 1)
        if work > MAX_SEARCHED_CASES:
            return True
        for value in range(first, last + 1):
            now = tuple(total + t[n] * value for t, total in zip(table, sums, strict=True))
            if all(total % g[n + 1] == 0 if g[n + 1] else total == 0 for g, total in zip(divisor, now, strict=True)):
                todo.append((n + 1, now, is_zero and value == 0))
    return False


def is_surjective(indices: Sequence[Affine], loops: Sequence[Sym], dims: Sequence[int]) -> bool:
    """Whether the iterations cover every cell of an array, for all values of the symbols other than `loops`."""
    if 0 in dims:
        return True
    if any(loop.extent == 0 for loop in loops):
        return False
    moving = {loop for loop in loops if loop.extent > 1}
    groups: list[tuple[set[Sym], list[int]]] = []
    for n, index in enumerate(indices):
        syms, axes = {sym for sym in index.syms if sym in moving}, [n]
        for group in [g for g in groups if not syms.isdisjoint(g[0])]:
            groups.remove(group)
            syms, axes = syms | group[0], group[1] + axes
        groups.append((syms, axes))
    return all(covers([indices[n] for n in axes], syms, [dims[n] for n in axes]) for syms, axes in groups)


def covers(indices: list[Affine], loops: set[Sym], dims: list[int]) -> bool:
    """Whether the loops cover the axes, which share no loops with other axes."""
    if len(indices) == 1:
        return covers_axis(indices[0], loops, dims[0])
    if prod(loop.extent for loop in loops) < prod(dims) or prod(loop.extent for loop in loops) > MAX_SEARCHED_CASES:
        return False
    if any(sym not in loops and sym.extent > 1 for index in indices for sym in index.syms):
        return False
    order = sorted(loops, key=lambda sym: sym.name)
    fixed = {sym: sym.lo for index in indices for sym in index.syms if sym not in loops}
    covered = set()
    for values in product(*(range(sym.lo, sym.hi + 1) for sym in order)):
        at = {**fixed, **dict(zip(order, values, strict=True))}
        cell = tuple(index.evaluate(at) for index in indices)
        if all(0 <= position < size for position, size in zip(cell, dims, strict=True)):
            covered.add(cell)
    return len(covered) == prod(dims)


def covers_axis(index: Affine, loops: set[Sym], size: int) -> bool:
    """Whether the values of an index include all of `0 .. size - 1`."""
    terms = [(coef, sym) for coef, sym in index.terms if sym in loops]
    base_low, base_high = Affine(tuple(term for term in index.terms if term[1] not in loops), index.const).range()
    low, high = Affine(tuple(terms)).range()
    if base_high + low > 0 or base_low + high < size - 1:
        return False
    reach = 0
    for coef, count in sorted((abs(coef), sym.extent) for coef, sym in terms):
        if coef > reach + 1:
            break
        reach += coef * (count - 1)
    else:
        return True
    if base_low != base_high or high - low > MAX_SEARCHED_CASES * 64:
        return False
    covered = 1  # bit n: the value low + n is covered
    for coef, count in sorted((abs(coef), sym.extent) for coef, sym in terms):
        done = 1
        while done < count:
            step = min(done, count - done)
            covered |= covered << coef * step
            done += step
    required = (1 << size) - 1
    return covered >> -(base_low + low) & required == required
