"""Axes at either end of a row, told one after another: two that end it were compared in some orders only."""

from itertools import permutations

OPEN = ""


def replay(net):
    for told in ({1: 3, 2: 2}, {0: 2, 1: 3, 2: 1}):
        found = set()
        for order in permutations((("i, ... => i", 0), ("..., i => i", 1), ("..., i, j => i", 2))):
            x = net.x("?", "x")
            try:
                for spec, n in order:
                    net.einsum(spec, x, **({"j" if n == 2 else "i": told[n]} if n in told else {}))
                found.add("decided")
            except Exception:
                found.add("refused at once")
        assert found == {"refused at once"}, found
