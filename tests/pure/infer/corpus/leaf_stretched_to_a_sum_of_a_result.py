"""A leaf that is stretched to an axis computed from another axis was sized together with it, not after it."""

OPEN = ""


def replay(net):
    total, leaf = net.x("?", "total"), net.x("?", "leaf")
    part = net.einsum("i+1 => i", total)
    net.add(leaf, part, result=total)
    assert net.shapes(part, total, leaf) == ["1", "2", "2"]

    total, leaf = net.x("?", "total"), net.x("?", "leaf")
    tail = net.einsum("2^x => x", net.einsum("2*i => i", total))
    net.add(tail, leaf, result=total)
    assert net.shapes(tail, total, leaf) == ["1", "6", "6"]
