"""Of several equal rows, the shorter decided first, so that the answer depended on the order."""

from itertools import permutations

OPEN = ""


def replay(net):
    found = set()
    for order in permutations(("i, ... => ..., i", "i, j, ... => ..., i, j", "... => ...")):
        x, y = net.x("?", "x"), net.x("?", "y")
        try:
            for spec in order:
                net.einsum(spec, x, result=y)
            found.add((str(x), str(y)))
        except Exception:
            found.add("refused")
    assert len(found) == 1, found
