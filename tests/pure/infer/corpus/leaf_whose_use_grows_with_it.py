"""A leaf whose growth lengthens one of its uses: it did not grow to the axes that the use had anyway."""

OPEN = ""


def replay(net):
    x, w = net.x("?", "x"), net.x("3", "w")
    both = net.add(x, w)
    net.add(net.einsum("..., i => ...", both), both)
    assert net.shapes(x, both) == ["3", "3"]
