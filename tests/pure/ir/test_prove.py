"""What is proved about affine forms is true, on random regions counted out; and ordinary facts are proved."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import product
from random import Random

import pytest

from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.prove import Region, cond_facts, negated_facts


def holds(cond: Cond, values: dict[Sym, int]) -> bool:
    return all(a.evaluate(values) >= 0 for a in cond.ge0) and all(a.evaluate(values) == 0 for a in cond.eq0)


def random_index(random: Random, syms: list[Sym]) -> Affine:
    parts = [(random.choice((-3, -2, -1, -1, 1, 1, 2, 3)), random.choice(syms)) for _ in range(random.randint(0, 2))]
    return Affine.sum(parts if syms else [], random.randint(-3, 3))


def random_bound(random: Random, outer: Sym, more: int) -> Bound:
    parts = [(random_index(random, [outer]) + more, random.randint(1, 3)) for _ in range(random.randint(1, 2))]
    return Bound(tuple(parts))


def test_claims_hold_in_random_regions() -> None:
    claims: Counter[tuple[bool, bool]] = Counter()
    for seed in range(1500):
        random = Random(seed)
        lows = [random.randint(-2, 1) for _ in range(random.randint(1, 3))]
        syms = [Sym(name, low, low + random.randint(-1, 4)) for name, low in zip("abc", lows, strict=False)]
        facts = [random_index(random, syms) for _ in range(random.randint(0, 3))]
        equal = random_index(random, syms) if random.random() < 0.3 else Affine()
        index, size = random_index(random, syms), random.randint(1, 6)
        cond = Cond(tuple(facts), (equal,))
        region = Region(syms)
        with region.where(cond_facts(cond)):
            inside, nonnegative = region.is_inside(index, size), region.is_nonnegative(index)
        points = [dict(zip(syms, p, strict=True)) for p in product(*(range(s.lo, s.hi + 1) for s in syms))]
        values = [index.evaluate(p) for p in points if holds(cond, p)]
        for says, true in ((inside, all(0 <= v < size for v in values)), (nonnegative, all(v >= 0 for v in values))):
            assert true or not says
            claims[true, says] += 1
    assert claims[True, False] < 0.02 * claims.total()  # only rounding and large systems are given up


def test_claims_hold_in_random_loops() -> None:
    claims: Counter[tuple[bool, bool]] = Counter()
    for seed in range(1500):
        random = Random(seed)
        outer, inner = Sym("o", 0, random.randint(0, 4)), Sym("i", -20, 20)
        lo, hi = random_bound(random, outer, 0), random_bound(random, outer, 3)
        index, size = random_index(random, [outer, inner]), random.randint(1, 8)
        region = Region([outer])
        with region.loop(inner, lo, hi):
            says = region.is_inside(index, size)
        values = []
        for o in range(outer.hi + 1):
            low = max(-(-a.evaluate({outer: o}) // d) for a, d in lo.quotients)
            high = min(a.evaluate({outer: o}) // d for a, d in hi.quotients)
            values += [index.evaluate({outer: o, inner: n}) for n in range(max(low, -20), min(high, 20) + 1)]
        true = all(0 <= v < size for v in values)
        assert true or not says
        claims[true, says] += 1
    assert claims[True, False] < 0.04 * claims.total()


I, J, K = Sym("i", 0, 7), Sym("j", 0, 7), Sym("k", 0, 7)
i, j, k = map(Affine.of, (I, J, K))


@pytest.mark.parametrize(
    ("facts", "index", "size", "inside"),
    [
        ([], i, 8, True),
        ([], i, 7, False),
        ([], 2 * i + j, 22, True),
        ([i - j], i - j, 8, True),
        ([i - j - 1], i - j - 1, 7, True),
        ([i - j, j - k], i - k, 8, True),
        ([i - j, j - i], i - j, 1, True),
        ([2 * i - 2 * j - 1], i - j - 1, 7, True),  # from i - j >= 1/2
        ([i + j - 7, -i - j + 7], i + j, 8, True),
        ([-i - 1], i + 100, 1, True),  # nowhere
        ([i - j], j - i, 8, False),
    ],
)
def test_fact(facts: list[Affine], index: Affine, size: int, inside: bool) -> None:
    region = Region([I, J, K])
    with region.where(facts):
        assert region.is_inside(index, size) is inside


def test_what_does_not_hold_helps_where_it_is_one_inequality() -> None:
    assert negated_facts(Cond((i - 3,))) == [-i + 2]
    assert negated_facts(Cond((i - 3, j))) == negated_facts(Cond((), (i,))) == []


def test_scopes_end() -> None:
    region = Region([I])
    with ExitStack() as scopes:
        scopes.enter_context(region.loop(J, Bound.lower(i), Bound.upper(8)))
        scopes.enter_context(region.where([j - 7]))
        assert region.is_inside(j - i, 8)
    assert not region.facts and list(region.ranges) == [I]


def test_large_systems_are_given_up() -> None:
    syms = [Sym(f"s{n}", 0, 9) for n in range(12)]
    random = Random(7)
    facts = [Affine.sum([(random.choice((-3, -2, 2, 3)), s) for s in syms], 20) for _ in range(24)]
    region = Region(syms)
    with region.where(facts):
        assert not region.is_inside(Affine.sum([(1, s) for s in syms]) - 60, 2)
