"""Solutions of affine equations, compared with an exhaustive search over all iterations."""

from __future__ import annotations

from itertools import product
from random import Random

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.loops import loop
from ocannl.opt.analysis.affine_equations import solve_affine_equations


def value(index: Affine, at: dict[Sym, int]) -> int:
    return index.const + sum(coef * at[sym] for coef, sym in index.terms)


def holds(cond: Cond, at: dict[Sym, int]) -> bool:
    return all(value(f, at) >= 0 for f in cond.ge0) and all(value(f, at) == 0 for f in cond.eq0)


def random_index(syms: list[Sym], random: Random) -> Affine:
    terms = [(random.choice([-2, -1, 1, 1, 1, 2]), sym) for sym in syms if random.random() < 0.6]
    return Affine.sum(terms, random.randrange(3))


def test_a_shifted_diagonal() -> None:
    i, j = Sym("i", 0, 2), Sym("j", 0, 4)
    a, b, c = (Sym(name, 0, 4) for name in "abc")
    indices, cell = (Affine.of(i) + 2, Affine.of(j), Affine.of(i)), tuple(map(Affine.of, (a, b, c)))
    solution = solve_affine_equations(indices, cell, (loop(i, ()), loop(j, ())))
    assert solution is not None
    values, cond = solution
    assert values == {i: Affine.of(a) - 2, j: Affine.of(b)} and cond.eq0 == (Affine.of(a) - c - 2,)


def test_solutions_are_unique_and_complete() -> None:
    solved = 0
    for seed in range(400):
        random = Random(seed)
        lows = [random.randrange(2) for _ in range(random.randrange(3))]
        syms = [Sym(f"s{n}", low, low + random.randrange(3)) for n, low in enumerate(lows)]
        cells = [Sym(f"c{n}", 0, 3) for n in range(random.randrange(1, 4))]
        indices = [random_index(syms, random) for _ in cells]
        solution = solve_affine_equations(indices, [Affine.of(c) for c in cells], [loop(sym, ()) for sym in syms])
        points = [dict(zip(syms, at, strict=True)) for at in product(*(range(s.lo, s.hi + 1) for s in syms))]
        if solution is None:
            continue
        solved += 1
        values, cond = solution
        for cell in product(range(4), repeat=len(cells)):
            at = dict(zip(cells, cell, strict=True))
            hits = [p for p in points if all(value(at, p) == c for at, c in zip(indices, cell, strict=True))]
            assert len(hits) <= 1 and holds(cond, at) is bool(hits)
            if hits:
                assert {sym: value(index, at) for sym, index in values.items()} == hits[0]
    assert solved > 100
