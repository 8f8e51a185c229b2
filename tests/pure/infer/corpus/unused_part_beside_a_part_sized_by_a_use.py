"""The size of an unused part depended on whether a use had sized the other part before the total was known."""

OPEN = ""


def replay(net):
    x, three = net.x("?", "x"), net.x("1", "a")
    part = net.einsum("x^y => y", x)
    net.einsum("i => 2*i", three, result=part)
    assert net.shapes(x, part) == ["2", "2"]
