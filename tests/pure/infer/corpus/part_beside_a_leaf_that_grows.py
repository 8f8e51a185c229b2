"""The unused part of a concatenation was dropped before the leaf that it is a part of grew to its use."""

OPEN = ""


def replay(net):
    leaf, x = net.x("?", "leaf"), net.x("?", "x")
    double = net.einsum("i => 2*i", x)
    net.einsum("x^y => y", leaf, result=x)
    net.add(leaf, double)
    assert net.shapes(leaf, x, double) == ["2", "1", "2"]
