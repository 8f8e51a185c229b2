"""A leaf that is stretched to an axis of size 1 had the unit of this axis only if the unit was known before the use."""

OPEN = ""


def replay(net):
    outcomes = set()
    for is_first in (True, False):
        picture, single, leaf = net.x("3 b", "picture"), net.x("1", "single"), net.x("?", "leaf")
        tail = net.einsum("2^x => x", leaf)
        if is_first:
            net.add(tail, result=single)
        net.einsum("o=+k; k => o", single, picture, result=single)
        net.einsum("i+1 => i", net.x("2 b", "pair"), result=single)
        if not is_first:
            net.add(tail, result=single)
        outcomes.add(tuple(net.shapes(single, leaf, tail)))
    assert outcomes == {("b=1", "3", "1")}, outcomes
