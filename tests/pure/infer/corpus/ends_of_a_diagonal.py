"""A diagonal of unknown size at the end of a row that begins with other sizes: it may lie over these in two ways."""

from itertools import permutations

OPEN = "whether a way is found depends on the order; what is refused asks for the axes of the leaf"


def replay(net):
    found = set()
    says = (("..., i, i => i", {}), ("i, ... => i", {"i": 3}), ("i, j, ... => i", {"j": 1}))
    for order in permutations(says):
        x = net.x("?", "x")
        for spec, sizes in order:
            net.einsum(spec, x, **sizes)
        try:
            found.add(str(x))
        except Exception:
            found.add("refused")
    assert len(found) == 1, found
