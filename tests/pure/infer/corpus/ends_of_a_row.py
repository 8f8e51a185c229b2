"""Axes at both ends of a row, constrained one after another: trailing axes were compared in some orders only."""

from itertools import permutations

OPEN = ""


def replay(net):
    for sizes in ({1: 3, 2: 2}, {0: 2, 1: 3, 2: 1}):
        outcomes = set()
        for order in permutations((("i, ... => i", 0), ("..., i => i", 1), ("..., i, j => i", 2))):
            x = net.x("?", "x")
            try:
                for spec, n in order:
                    net.einsum(spec, x, **({"j" if n == 2 else "i": sizes[n]} if n in sizes else {}))
                outcomes.add("decided")
            except Exception:
                outcomes.add("refused at once")
        assert outcomes == {"refused at once"}, outcomes
