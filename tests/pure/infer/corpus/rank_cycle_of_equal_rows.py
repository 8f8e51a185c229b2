"""A row that would be shorter than itself has no end."""

OPEN = ""


def replay(net):
    x = net.x("?", "x")
    rest = net.einsum("i, ... => ...", x)
    net.refuses("axes", net.einsum, "..., i => ..., i", rest, result=x)
