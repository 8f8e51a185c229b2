"""A leaf that is stretched to an axis computed from another axis was sized together with it, not after it."""

OPEN = ""


def replay(net):
    whole, leaf = net.x("?", "whole"), net.x("?", "leaf")
    part = net.einsum("i+1 => i", whole)
    net.add(leaf, part, result=whole)
    assert net.shapes(part, whole, leaf) == ["1", "2", "2"]

    whole, leaf = net.x("?", "whole"), net.x("?", "leaf")
    tail = net.einsum("2^x => x", net.einsum("2*i => i", whole))
    net.add(tail, leaf, result=whole)
    assert net.shapes(tail, whole, leaf) == ["1", "6", "6"]
