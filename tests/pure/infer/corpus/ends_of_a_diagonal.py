"""A diagonal at the end of a row with leading sizes: the ends were compared by one equality and one pair at a time."""

from itertools import permutations

OPEN = ""


def replay(net):
    outcomes = set()
    says = (("..., i, i => i", {}), ("i, ... => i", {"i": 3}), ("i, j, ... => i", {"j": 1}))
    for order in permutations(says):
        x = net.x("?", "x")
        for spec, sizes in order:
            net.einsum(spec, x, **sizes)
        outcomes.add(str(x))
    assert outcomes == {"3,1,1"}, outcomes
