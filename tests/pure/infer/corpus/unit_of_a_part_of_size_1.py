"""A part of size 1 of a concatenation had the unit of the whole only if the unit was known before the size."""

from itertools import permutations

OPEN = ""


def replay(net):
    outcomes = set()
    for order in permutations(range(3)):
        one, pair, whole = net.x("1", "one"), net.x("2 b", "pair"), net.x("1", "whole")
        parts = {}
        for n in order:
            if n == 0:
                net.einsum("i+1 => i", pair, result=one)
            elif n == 1:
                parts["y"] = net.einsum("x^y => y", one)
            else:
                parts["z"] = net.einsum("x^y; x => y", one, whole)
        outcomes.add(tuple(map(str, (one, whole, parts["y"], parts["z"]))))
    assert outcomes == {("b=1", "1", "b=1", "b=0")}, outcomes
