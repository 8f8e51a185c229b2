"""A leaf was 1 before the arithmetic that gives the size of its use was decided."""

OPEN = ""


def replay(net):
    x = net.x("?", "x")
    taps = net.add(x)
    net.einsum("2*o<+k; k => o", net.x("6", "signal"), taps, result=net.x("?", "y"))
    assert net.shapes(x, taps) == ["6", "6"]
