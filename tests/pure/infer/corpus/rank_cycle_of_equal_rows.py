"""A cyclic rank constraint: a row shorter than itself."""

OPEN = ""


def replay(net):
    x = net.x("?", "x")
    contracted = net.einsum("i, ... => ...", x)
    net.refuses("axes", net.einsum, "..., i => ..., i", contracted, result=x)
