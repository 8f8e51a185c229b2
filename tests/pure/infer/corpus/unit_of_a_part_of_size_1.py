"""A part of size 1 of a concatenation had the unit of the whole only if the unit was known before the size."""

from itertools import permutations

OPEN = ""


def replay(net):
    outcomes = set()
    for order in permutations(range(3)):
        single, pair, total = net.x("1", "single"), net.x("2 b", "pair"), net.x("1", "total")
        parts = {}
        for n in order:
            if n == 0:
                net.einsum("i+1 => i", pair, result=single)
            elif n == 1:
                parts["y"] = net.einsum("x^y => y", single)
            else:
                parts["z"] = net.einsum("x^y; x => y", single, total)
        outcomes.add(tuple(map(str, (single, total, parts["y"], parts["z"]))))
    assert outcomes == {("b=1", "1", "b=1", "b=0")}, outcomes
