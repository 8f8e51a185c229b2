"""A diagonal of unknown size at the end of a row with leading sizes: the overlap is ambiguous."""

from itertools import permutations

OPEN = "the solution depends on the order; refusals suggest the axes of the leaf"


def replay(net):
    outcomes = set()
    says = (("..., i, i => i", {}), ("i, ... => i", {"i": 3}), ("i, j, ... => i", {"j": 1}))
    for order in permutations(says):
        x = net.x("?", "x")
        for spec, sizes in order:
            net.einsum(spec, x, **sizes)
        try:
            outcomes.add(str(x))
        except Exception:
            outcomes.add("refused")
    assert len(outcomes) == 1, outcomes
