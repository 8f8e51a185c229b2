"""The point of some loops at which a place is a cell, against trying all points."""

from __future__ import annotations

from itertools import product
from random import Random

from ocannl.ir.index import Affine, Cond, Sym
from ocannl.ir.loops import loop
from ocannl.opt.analysis.affine_equations import solve_affine_equations


def value(index: Affine, at: dict[Sym, int]) -> int:
    return index.const + sum(coef * at[sym] for coef, sym in index.terms)


def holds(cond: Cond, at: dict[Sym, int]) -> bool:
    return all(value(f, at) >= 0 for f in cond.ge0) and all(value(f, at) == 0 for f in cond.eq0)


def place(syms: list[Sym], random: Random) -> Affine:
    terms = [(random.choice([-2, -1, 1, 1, 1, 2]), sym) for sym in syms if random.random() < 0.6]
    return Affine.sum(terms, random.randrange(3))


def test_a_diagonal_that_is_shifted() -> None:
    i, j = Sym("i", 0, 2), Sym("j", 0, 4)
    a, b, c = (Sym(name, 0, 4) for name in "abc")
    places, cell = (Affine.of(i) + 2, Affine.of(j), Affine.of(i)), tuple(map(Affine.of, (a, b, c)))
    found = solve_affine_equations(places, cell, (loop(i, ()), loop(j, ())))
    assert found is not None
    values, there = found
    assert values == {i: Affine.of(a) - 2, j: Affine.of(b)} and there.eq0 == (Affine.of(a) - c - 2,)


def test_what_is_found_is_the_only_point() -> None:
    found = 0
    for seed in range(400):
        random = Random(seed)
        lows = [random.randrange(2) for _ in range(random.randrange(3))]
        syms = [Sym(f"s{n}", low, low + random.randrange(3)) for n, low in enumerate(lows)]
        cells = [Sym(f"c{n}", 0, 3) for n in range(random.randrange(1, 4))]
        places = [place(syms, random) for _ in cells]
        solution = solve_affine_equations(places, [Affine.of(c) for c in cells], [loop(sym, ()) for sym in syms])
        points = [dict(zip(syms, at, strict=True)) for at in product(*(range(s.lo, s.hi + 1) for s in syms))]
        if solution is None:
            continue
        found += 1
        values, there = solution
        for cell in product(range(4), repeat=len(cells)):
            at = dict(zip(cells, cell, strict=True))
            hits = [p for p in points if all(value(at, p) == c for at, c in zip(places, cell, strict=True))]
            assert len(hits) <= 1 and holds(there, at) is bool(hits)
            if hits:
                assert {sym: value(index, at) for sym, index in values.items()} == hits[0]
    assert found > 100
