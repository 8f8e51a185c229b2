"""A concatenation gave its unit to a result of unknown size, which then had size 1 and a unit that no operand has."""

OPEN = ""


def replay(net):
    x, y, z = net.x("?", "x"), net.x("4 b", "y"), net.x("?", "z")
    sum_ = net.add(x, z)
    net.einsum("i; j => i, j", sum_, z)
    net.einsum("x; y => x^y", sum_, y)
    assert net.shapes(sum_, x, z) == ["1", "1", "1"]
