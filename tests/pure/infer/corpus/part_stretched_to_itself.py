"""A part of a concatenation that is stretched to a copy of itself waited for itself, in some orders."""

from itertools import permutations

OPEN = ""


def replay(net):
    outcomes = set()
    for order in permutations(range(3)):
        x, y, z, total, copy = net.x("2"), net.x("?", "y"), net.x("?", "z"), net.x("?", "whole"), net.x("?", "copy")
        for n in order:
            if n == 0:
                net.einsum("x; y; z => x^y^z", x, y, z, result=total)
            elif n == 1:
                net.add(net.x("", "one"), y, result=copy)
            else:
                net.einsum("... => ...", y, result=copy)
        outcomes.add((str(y), str(z), str(total)))
    assert outcomes == {("1", "1", "4")}, outcomes
