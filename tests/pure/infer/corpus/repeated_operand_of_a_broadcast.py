"""A parameter that was added to itself counted as broadcast with an axis of size 1, in some orders."""

from itertools import permutations

OPEN = ""


def replay(net):
    for order in permutations(range(2)):
        x, w = net.param("x", "2"), net.param("w", "?")
        t = net.add(x, x, w)
        for n in order:
            net.add(w, w, t) if n else net.einsum("i, j => j, i", w)
        net.refuses("forgot a hidden dimension", lambda t=t: t.dims)
