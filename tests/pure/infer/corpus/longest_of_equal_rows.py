"""Of several equal rows, the shorter was defaulted first, so that the result depended on the order."""

from itertools import permutations

OPEN = ""


def replay(net):
    outcomes = set()
    for order in permutations(("i, ... => ..., i", "i, j, ... => ..., i, j", "... => ...")):
        x, y = net.x("?", "x"), net.x("?", "y")
        try:
            for spec in order:
                net.einsum(spec, x, result=y)
            outcomes.add((str(x), str(y)))
        except Exception:
            outcomes.add("refused")
    assert len(outcomes) == 1, outcomes
