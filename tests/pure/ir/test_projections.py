"""Which cells affine indices reach: exact against counting, and quick where counting would not be."""

from __future__ import annotations

import itertools
from math import prod
from random import Random

import pytest

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.projections import is_injective, is_surjective


def sym(name, extent, lo=0):
    return Sym(name, lo, lo + extent - 1)


def index(*terms, const=0):
    return Affine.sum(terms, const)


def count(indices, loops, dims):
    """The definitions: no cell twice, every cell at least once."""
    boxes = itertools.product(*(range(loop.lo, loop.hi + 1) for loop in loops))
    cells = [tuple(i.evaluate(dict(zip(loops, at, strict=True))) for i in indices) for at in boxes]
    inside = {cell for cell in cells if all(0 <= index < size for index, size in zip(cell, dims, strict=True))}
    return len(set(cells)) == len(cells), len(inside) == prod(dims)


i, j, o, k = sym("i", 3), sym("j", 4), sym("o", 4), sym("k", 2)

CASES = [
    ([index((2, o), (1, k))], [o, k], (8,), True, True),  # PJ-01, PJ-07
    ([index((3, o), (1, i))], [o, i], (12,), True, True),  # PJ-03
    ([index((1, i), (1, j))], [i, j], (6,), False, True),  # PJ-05
    ([index((2, o), (1, i))], [o, i], (9,), False, True),  # PJ-05
    ([index((3, i), (4, k))], [i, k], (11,), True, False),  # PJ-05: injective, whatever a radix says
    ([index((1, i)), index((1, i))], [i], (3, 3), True, False),  # PJ-11
    ([index((1, j)), index((1, i))], [i, j], (4, 3), True, True),  # PJ-13
    ([index((1, i))], [i, j], (3,), False, True),
    ([index((2, i))], [i], (6,), True, False),
    ([index((2, i))], [i], (5,), True, False),
    ([index((1, i), const=-1)], [i], (2,), True, True),
    ([index((-1, i), const=2)], [i], (3,), True, True),
    ([index((1, i)), index(const=0)], [i], (3, 1), True, True),
    ([index((1, i)), index(const=2)], [i], (3, 3), True, False),
    ([index((1, i), (1, k)), index((1, k))], [i, k], (4, 2), True, False),
    ([index((1, i), (1, k)), index((1, i), (-1, k), const=1)], [i, k], (4, 4), True, False),
    ([index((6, i), (10, k), (15, o))], [i, k, o], (68,), True, False),
    ([index((6, i), (10, k), (15, k))], [i, k], (38,), True, False),
    ([], [], (), True, True),
    ([], [i], (), False, True),
]


@pytest.mark.parametrize(("indices", "loops", "dims", "injective", "surjective"), CASES, ids=str)
def test_cases(indices, loops, dims, injective, surjective):
    assert count(indices, loops, dims) == (injective, surjective)
    assert is_injective(indices, loops) is injective
    assert is_surjective(indices, loops, dims) is surjective


@pytest.mark.parametrize("start", range(0, 20_000, 5_000))
def test_counting_agrees(start):
    for seed in range(start, start + 5_000):
        random = Random(seed)
        loops = [sym(name, random.choice((1, 2, 3, 4, 5, 0)), random.choice((0, 0, 0, 1, -2))) for name in "abcd"]
        loops = loops[: random.randint(0, 4)]
        indices = [
            index(
                *((random.choice((1, 1, 1, 2, 3, 4, 5, 6, -1, -2)), loop) for loop in loops if random.random() < 0.5),
                const=random.choice((0, 0, 0, 1, -1)),
            )
            for _ in range(random.randint(1, 3))
        ]
        dims = [random.randint(0, 6) for _ in indices]
        if random.random() < 0.5 and all(loop.extent for loop in loops):
            dims = [min(8, max(0, index.range()[1] + 1)) for index in indices]
        answers = is_injective(indices, loops), is_surjective(indices, loops, dims)
        assert answers == count(indices, loops, dims), f"{seed}: {[str(n) for n in indices]} {loops} {dims}"


def test_large_boxes_take_no_counting():
    big, more, taps = sym("big", 10**9), sym("more", 10**9), sym("taps", 10**5)
    assert is_injective([index((10**9, big), (1, more))], [big, more])
    assert is_surjective([index((10**9, big), (1, more))], [big, more], [10**18])
    assert not is_injective([index((1, big), (1, more))], [big, more])
    assert not is_injective([index((2, big), (1, taps))], [big, taps])
    assert is_injective([index((10**5, big), (1, taps))], [big, taps])
    assert is_surjective([index((1, big), (1, taps))], [big, taps], [10**9 + 10**5 - 1])
    assert not is_surjective([index((2, big))], [big], [2 * 10**9])
    assert is_injective([index((3 * 10**8, i), (4 * 10**8, k))], [i, k])


def test_what_would_take_too_long_is_not_claimed():
    loops = [sym(f"s{n}", 50) for n in range(12)]
    row = index(*((3**n + 7 * n + 1, loop) for n, loop in enumerate(loops)))
    assert is_injective([row], loops) is False


def test_symbols_that_are_no_loops_stand_for_one_number():
    n = Sym("n", 0, 9, SymKind.STATIC)
    assert is_injective([index((1, n)), index((1, i))], [i])
    assert not is_surjective([index((1, n)), index((1, i))], [i], [10, 3])
    assert is_surjective([index((1, Sym("one", 0, 0, SymKind.STATIC))), index((1, i))], [i], [1, 3])
    shifted = index((1, sym("wide", 30)), (1, n), const=-9)
    assert is_surjective([shifted], [s for _, s in shifted.terms if s is not n], [12])
    assert not is_surjective([shifted], [s for _, s in shifted.terms if s is not n], [30])


def test_an_empty_box_meets_nothing_twice_and_covers_only_nothing():
    empty = sym("empty", 0)
    assert is_injective([index((1, empty))], [empty, i])
    assert is_surjective([index((1, empty))], [empty], [0]) and not is_surjective([index((1, empty))], [empty], [1])
