"""A leaf whose growth makes its use longer only by way of a row that equals it: it does not grow."""

OPEN = ""


def replay(net):
    x = net.param("x", "?")
    ends = net.einsum("i, ... => ..., i", x, i=3)
    both = net.add(ends, x)
    rest = net.einsum("i, ... => ...", both)
    none = net.einsum("i, ...; i, ... => ...", x, rest)
    assert net.shapes(x, ends, both, rest, none) == ["3", "3", "1,3", "3", ""]
