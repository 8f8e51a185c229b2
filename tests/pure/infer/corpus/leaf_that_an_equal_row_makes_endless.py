"""A result that must be one axis longer than either operand, for any rank of their common leaf."""

OPEN = ""


def replay(net):
    x = net.param("x", "?")
    ends = net.einsum("i, ... => ..., i", x, i=3)
    both = net.add(ends, x)
    contracted = net.einsum("i, ... => ...", both)
    net.einsum("i, ...; i, ... => ...", x, contracted)
    net.refuses("a result cannot have more axes than the broadcast of its operands", lambda: x.dims)
