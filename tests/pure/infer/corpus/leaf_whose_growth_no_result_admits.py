"""A leaf grew to a use, although a result that is longer than the leaf must be as long as a known operand."""

OPEN = ""


def replay(net):
    three, leaf, copy = net.x("3", "three"), net.param("leaf"), net.x("?", "copy")
    total = net.add(three, leaf)
    net.einsum("i, ... => i, ...", three, result=copy)
    net.add(copy, leaf)
    net.einsum("... => ..., 2", leaf, result=total)
    assert net.shapes(leaf, copy, total) == ["", "3", "3"]
