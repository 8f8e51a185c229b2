"""What is claimed about the cells that pieces touch is true; and enough of it is claimed."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod
from random import Random

import pytest

from ocannl.ir.affine import TRUE, Affine, Cond, Sym, SymKind
from ocannl.ir.assign import Number, Piece, Read, assigns
from ocannl.lower.coverage import is_injective, is_surjective
from ocannl.testing.evaluate import Arrays
from ocannl.testing.random_programs import generate


def touched(piece: Piece, statics: dict[Sym, int], arrays: Arrays) -> Counter[tuple[int, ...]]:
    cells: Counter[tuple[int, ...]] = Counter()
    for point in product(*(range(s.lo, s.hi + 1) for s in piece.loops)):
        values = dict(zip(piece.loops, point, strict=True)) | statics
        for pick in piece.indirect:
            assert isinstance(pick.value, Read)
            values[pick.sym] = int(arrays[pick.value.node][tuple(a.evaluate(values) for a in pick.value.indices)])
        if any(not pick.sym.lo <= values[pick.sym] <= pick.sym.hi for pick in piece.indirect):
            continue
        holds = all(a.evaluate(values) >= 0 for a in piece.when.ge0)
        if holds and all(a.evaluate(values) == 0 for a in piece.when.eq0):
            cells[tuple(a.evaluate(values) for a in piece.indices)] += 1
    return cells


@pytest.mark.slow
def test_coverage_of_random_statements() -> None:
    claims: Counter[tuple[bool, bool, bool, bool]] = Counter()
    for seed in range(1500):
        program = generate(Random(seed))
        for assign in assigns(program.code):
            cells: Counter[tuple[int, ...]] = Counter()
            for piece in assign.pieces:
                cells += touched(piece, program.symbols, program.arrays)
            injective = all(n == 1 for n in cells.values())
            surjective = len(cells) == prod(assign.lhs.dims)
            says_injective, says_surjective = is_injective(assign.pieces), is_surjective(assign.pieces, assign.lhs.dims)
            assert injective or not says_injective
            assert surjective or not says_surjective
            if not any(piece.indirect for piece in assign.pieces):  # which nobody can know beforehand
                claims[injective, says_injective, surjective, says_surjective] += 1
    missed_once = sum(n for (injective, says, _, _), n in claims.items() if injective and not says)
    missed_surjective = sum(n for (_, _, surjective, says), n in claims.items() if surjective and not says)
    assert missed_once < 0.06 * claims.total()
    assert missed_surjective < 0.15 * claims.total()  # masks may hold everywhere, and windows cover


I, J, K, SINGLE, NONE = Sym("i", 0, 2), Sym("j", 0, 3), Sym("k", 0, 1), Sym("one", 0, 0), Sym("none", 0, -1)
N = Sym("n", 0, 1, SymKind.STATIC)


def piece(at: tuple[Affine | Sym | int, ...], *loops: Sym, when: Cond = TRUE) -> Piece:
    return Piece(loops, tuple(map(Affine.of, at)), Number(0), when)


i, j, k, n = map(Affine.of, (I, J, K, N))

CASES = [  # pieces, dims, injective, surjective
    ([piece((I, J), I, J)], (3, 4), True, True),
    ([piece((J, I), I, J)], (4, 3), True, True),
    ([piece((I,), I, J)], (3,), False, True),  # a reduction
    ([piece((I,), I, SINGLE)], (3,), True, True),  # over one value
    ([piece((), SINGLE)], (), True, True),
    ([piece((), I)], (), False, True),
    ([piece((-i + 2,), I)], (3,), True, True),
    ([piece((I, I), I)], (3, 3), True, False),  # a diagonal
    ([piece((i * 4 + j,), I, J)], (12,), True, True),  # digits
    ([piece((j * 3 + i,), I, J)], (12,), True, True),
    ([piece((i * 3 + j,), I, J)], (10,), False, False),  # they touch
    ([piece((i * 2 + k,), I, K)], (6,), True, True),
    ([piece((i * 2,), I)], (6,), True, False),
    ([piece((i + k,), I, K)], (4,), False, False),  # a window; that it covers is not seen
    ([piece((i + k, K), I, K)], (4, 2), True, False),  # the second axis tells k
    ([piece((0, I), I)], (1, 3), True, True),
    ([piece((0, I), I)], (2, 3), True, False),
    ([piece((N, I), I)], (2, 3), True, False),
    ([piece((n * 0 + 0, I), I)], (1, 3), True, True),
    ([piece((I,), I, NONE)], (3,), True, False),
    ([piece((I,), I)], (3,), True, True),
    ([piece((I,), I, when=Cond((i - 1,)))], (3,), True, False),
    ([piece((I,), I), piece((j + 3,), J)], (7,), True, True),  # a concatenation
    ([piece((I,), I), piece((j + 2,), J)], (6,), False, False),
    ([piece((I, J), I, J), piece((i, j), I, J)], (3, 4), False, True),
    ([piece((N, I), I), piece((-n + 1, I), I)], (2, 3), False, False),  # disjoint, though not seen
    ([piece((n + 1, I), I), piece((N, I), I)], (3, 3), True, False),  # apart by one, whatever n is
    ([], (0,), True, True),
    ([], (2,), True, False),
]


@pytest.mark.parametrize(("pieces", "dims", "injective", "surjective"), CASES)
def test_case(pieces: list[Piece], dims: tuple[int, ...], injective: bool, surjective: bool) -> None:
    assert (is_injective(pieces), is_surjective(pieces, dims)) == (injective, surjective)
