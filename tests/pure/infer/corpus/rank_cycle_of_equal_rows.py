"""A row that would be shorter than itself has no end."""

OPEN = ""


def replay(net):
    x = net.x("?", "x")
    contracted = net.einsum("i, ... => ...", x)
    net.refuses("axes", net.einsum, "..., i => ..., i", contracted, result=x)
