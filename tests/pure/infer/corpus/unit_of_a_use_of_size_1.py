"""A leaf that is stretched to an axis of size 1 had the unit of this axis only if the unit was known before the use."""

OPEN = ""


def replay(net):
    outcomes = set()
    for is_first in (True, False):
        picture, one, leaf = net.x("3 b", "picture"), net.x("1", "one"), net.x("?", "leaf")
        tail = net.einsum("2^x => x", leaf)
        if is_first:
            net.add(tail, result=one)
        net.einsum("o=+k; k => o", one, picture, result=one)
        net.einsum("i+1 => i", net.x("2 b", "pair"), result=one)
        if not is_first:
            net.add(tail, result=one)
        outcomes.add(tuple(net.shapes(one, leaf, tail)))
    assert outcomes == {("b=1", "3", "1")}, outcomes
